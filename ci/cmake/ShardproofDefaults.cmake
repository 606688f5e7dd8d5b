# Language, warnings, ccache, sanitizers, rpath: the same for every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# Contraction would fuse a*b+c on machines that can and not on others: bits first.
add_compile_options(-Wall -Wextra -Werror=return-type -ffp-contract=off)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# A check that vanishes in release proves nothing; -O2 keeps symbols interposable for mutants.
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
set(CMAKE_C_FLAGS_RELEASE "-O2")

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
endif()

if(SHARDPROOF_SANITIZE)
  # -O1 and without the checks that AddressSanitizer makes as well: a file compiles three times
  # faster.
  set(CMAKE_CXX_FLAGS_RELEASE "-O1")
  add_compile_options(-fsanitize=${SHARDPROOF_SANITIZE} -fno-omit-frame-pointer -g1)
  if(SHARDPROOF_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize=null,vptr,object-size,pointer-overflow)
  endif()
  add_link_options(-fsanitize=${SHARDPROOF_SANITIZE})
endif()
