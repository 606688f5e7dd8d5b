# Installs Shardproof into a fresh prefix, builds an outside project against it and runs it.
# With TOOLS_ONLY the torch-free modules are first built by themselves, with no LibTorch or MPI in
# reach.
file(REMOVE_RECURSE "${WORK}")
string(REPLACE "," ";" _components "${COMPONENTS}")
set(ENV{CMAKE_PREFIX_PATH} "${WORK}/prefix:${DEPENDENCIES}")

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE _result)
  if(NOT _result EQUAL 0)
    message(FATAL_ERROR "failed (${_result}): ${ARGN}")
  endif()
endfunction()

set(_build "${BUILT}")
if(TOOLS_ONLY)
  set(ENV{CMAKE_PREFIX_PATH} "${WORK}/prefix")
  # As deep as the tree that is there: what was compiled for it is in the compiler cache.
  set(_build "${BUILT}.tools_only")
  file(REMOVE_RECURSE "${_build}")
  run(${CMAKE_COMMAND} -G Ninja -S "${SOURCE}" -B "${_build}" -D SHARDPROOF_TOOLS_ONLY=ON
      -D SHARDPROOF_TESTS=OFF -D CMAKE_BUILD_TYPE=Release)
  run(${CMAKE_COMMAND} --build "${_build}")
endif()
run(${CMAKE_COMMAND} --install "${_build}" --prefix "${WORK}/prefix")
foreach(_emitter shardproof_trace.py shardproof_trace.h)
  if(NOT EXISTS "${WORK}/prefix/share/shardproof/${_emitter}")
    message(FATAL_ERROR "share/shardproof/${_emitter} was not installed")
  endif()
endforeach()
# The preload finds what it needs from where it was installed.
file(GLOB_RECURSE _preload "${WORK}/prefix/*/libshardproof_mpi.so")
if(NOT TOOLS_ONLY)
  execute_process(COMMAND ldd "${_preload}" OUTPUT_VARIABLE _needs RESULT_VARIABLE _result)
  if(NOT _result EQUAL 0 OR _needs MATCHES "not found" OR NOT _needs MATCHES "prefix/[^\n]*core")
    message(FATAL_ERROR "the installed preload '${_preload}' needs:\n${_needs}")
  endif()
endif()
run(${CMAKE_COMMAND} -G Ninja -S "${SOURCE}/ci/consumer" -B "${WORK}/consumer"
    -D SHARDPROOF_COMPONENTS=${COMPONENTS})
run(${CMAKE_COMMAND} --build "${WORK}/consumer")
foreach(_component IN LISTS _components)
  run("${WORK}/consumer/consumer_${_component}")
endforeach()
