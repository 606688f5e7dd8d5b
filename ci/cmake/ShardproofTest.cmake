# Tests register themselves: the first line of every x_test.cpp says how it runs, and an unknown word
# or a missing line stops the configure. So no test can be left out.
#   // ctest: <label> [timeout=60] [processors=1] [mpi=1,2,3] [lock=name] [nightly]
# label: unit comm invariant fault golden mutant peer install. `nightly` replaces the label and moves
# the test out of the plain run. mpi= runs the executable under mpirun once per world size.
set(SHARDPROOF_LABELS unit comm invariant fault golden mutant peer install)
enable_testing()

function(shardproof_read_marker file)
  file(STRINGS "${file}" _lines LIMIT_COUNT 1)
  if(NOT _lines MATCHES "^// ctest: ([a-z]+)(.*)$")
    message(FATAL_ERROR "${file}:1: expected '// ctest: <label> ...' (${SHARDPROOF_LABELS})")
  endif()
  set(_label "${CMAKE_MATCH_1}")
  string(STRIP "${CMAKE_MATCH_2}" _rest)
  if(NOT _label IN_LIST SHARDPROOF_LABELS)
    message(FATAL_ERROR "${file}:1: unknown label '${_label}'; expected one of ${SHARDPROOF_LABELS}")
  endif()
  set(timeout 60)
  set(processors 1)
  set(mpi "")
  set(lock "")
  set(nightly FALSE)
  separate_arguments(_words UNIX_COMMAND "${_rest}")
  foreach(_word IN LISTS _words)
    if(_word STREQUAL "nightly")
      set(nightly TRUE)
    elseif(_word MATCHES "^(timeout|processors|mpi|lock)=([a-z0-9,]+)$")
      set(${CMAKE_MATCH_1} "${CMAKE_MATCH_2}")
    else()
      message(FATAL_ERROR "${file}:1: unknown word '${_word}'; expected timeout=, processors=, mpi=, "
                          "lock= or nightly")
    endif()
  endforeach()
  foreach(_name timeout processors mpi lock nightly)
    set(marker_${_name} "${${_name}}" PARENT_SCOPE)
  endforeach()
  set(marker_label "${_label}" PARENT_SCOPE)
endfunction()

# Fault tolerance (ULFM) has to be asked for, and Open MPI before 5 refuses the option.
if(MPIEXEC_EXECUTABLE AND NOT DEFINED SHARDPROOF_MPIRUN_FLAGS)
  execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE _version ERROR_QUIET)
  if(_version MATCHES "Open MPI\\) ([0-9]+)" AND CMAKE_MATCH_1 GREATER_EQUAL 5)
    set(SHARDPROOF_MPIRUN_FLAGS "--with-ft;ulfm")
  endif()
endif()

# The command that starts `n` MPI ranks of a program, as root or not.
function(shardproof_mpirun out n)
  set(${out} ${CMAKE_COMMAND} -E env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
      ${MPIEXEC_EXECUTABLE} -n ${n} --map-by :OVERSUBSCRIBE --bind-to none
      --mca mpi_yield_when_idle 1 ${SHARDPROOF_MPIRUN_FLAGS} PARENT_SCOPE)
endfunction()

function(shardproof_set_test_properties name)
  if(SHARDPROOF_SANITIZE)
    # UCX, which comes with Open MPI, hooks madvise: that runs after a sanitizer let a thread go.
    set_tests_properties(${name} PROPERTIES ENVIRONMENT UCX_MEM_MMAP_HOOK_MODE=none)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${marker_timeout}
    PROCESSORS ${marker_processors} SKIP_RETURN_CODE 77
    LABELS "$<IF:$<BOOL:${marker_nightly}>,nightly,${marker_label}>")
  if(marker_lock)
    set_tests_properties(${name} PROPERTIES RESOURCE_LOCK ${marker_lock})
  endif()
endfunction()

# Registers one CTest entry (or one per world size) for the executable built from `file`.
function(shardproof_register name file)
  shardproof_read_marker("${file}")
  set(_configurations "")
  if(marker_nightly)
    set(_configurations CONFIGURATIONS nightly)
  endif()
  if(marker_mpi)
    string(REPLACE "," ";" _worlds "${marker_mpi}")
    foreach(_n IN LISTS _worlds)
      shardproof_mpirun(_mpirun ${_n})
      add_test(NAME ${name}.mpi${_n} COMMAND ${_mpirun} $<TARGET_FILE:${name}> ${_configurations})
      shardproof_set_test_properties(${name}.mpi${_n})
    endforeach()
  else()
    add_test(NAME ${name} COMMAND ${name} ${_configurations})
    shardproof_set_test_properties(${name})
  endif()
endfunction()

# Builds and registers every *_test.cpp of a module against `libraries`. A test with mpi= brings its
# own main. Names are <module>.<file>.
function(shardproof_add_tests module)
  if(NOT SHARDPROOF_TESTS)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "LIBRARIES;FILES" ${ARGN})
  foreach(_file IN LISTS arg_FILES)
    get_filename_component(_stem "${_file}" NAME_WE)
    string(REPLACE "_test" "" _stem "${_stem}")
    set(_name "${module}.${_stem}")
    add_executable(${_name} "${_file}")
    target_link_libraries(${_name} PRIVATE ${arg_LIBRARIES} GTest::gtest rapidcheck::rapidcheck)
    shardproof_read_marker("${_file}")
    if(NOT marker_mpi)
      target_link_libraries(${_name} PRIVATE GTest::gtest_main)
    endif()
    set_target_properties(${_name} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
    shardproof_register(${_name} "${_file}")
    set_property(GLOBAL APPEND PROPERTY SHARDPROOF_TEST_FILES "${_file}")
  endforeach()
endfunction()
