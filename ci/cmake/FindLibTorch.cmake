# LibTorch for the CPU from any install (a PyPI wheel's site-packages, or a libtorch archive), without
# the CUDA toolchain that the wheel's own TorchConfig.cmake insists on. Target: LibTorch::cpu.
# libtorch_cpu.so of the wheel needs libcudart and libcupti: from a CUDA Toolkit on the loader's path,
# or from the nvidia wheels beside it (nvidia/cu13/lib), which go into the rpath.
find_path(LibTorch_INCLUDE_DIR ATen/ATen.h PATH_SUFFIXES torch/include include)
find_library(LibTorch_CPU torch_cpu PATH_SUFFIXES torch/lib lib)
find_library(LibTorch_C10 c10 PATH_SUFFIXES torch/lib lib)
if(LibTorch_INCLUDE_DIR AND EXISTS "${LibTorch_INCLUDE_DIR}/torch/headeronly/version.h")
  file(STRINGS "${LibTorch_INCLUDE_DIR}/torch/headeronly/version.h" _version
       REGEX "define TORCH_VERSION ")
  string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" LibTorch_VERSION "${_version}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_CPU LibTorch_C10 LibTorch_INCLUDE_DIR VERSION_VAR LibTorch_VERSION)
if(LibTorch_FOUND AND LibTorch_VERSION VERSION_LESS 2.11)
  message(WARNING "LibTorch ${LibTorch_VERSION} at ${LibTorch_CPU} is too old; >= 2.11 is needed")
  set(LibTorch_FOUND FALSE)
endif()
if(LibTorch_FOUND AND NOT TARGET LibTorch::cpu)
  get_filename_component(_lib "${LibTorch_CPU}" DIRECTORY)
  add_library(LibTorch::cpu INTERFACE IMPORTED)
  target_include_directories(LibTorch::cpu SYSTEM INTERFACE "${LibTorch_INCLUDE_DIR}")
  target_link_libraries(LibTorch::cpu INTERFACE "${LibTorch_CPU}" "${LibTorch_C10}")
  target_link_directories(LibTorch::cpu INTERFACE "${_lib}")
  # The wheel's library finds its own siblings, but not always the nvidia wheels beside it.
  file(GLOB _nvidia "${_lib}/../../nvidia/*/lib")
  foreach(_dir IN LISTS _nvidia)
    target_link_options(LibTorch::cpu INTERFACE "-Wl,-rpath,${_dir}" "-Wl,-rpath-link,${_dir}")
  endforeach()
  target_link_options(LibTorch::cpu INTERFACE "-Wl,-rpath,${_lib}" "-Wl,--disable-new-dtags")
endif()
mark_as_advanced(LibTorch_INCLUDE_DIR LibTorch_CPU LibTorch_C10)
