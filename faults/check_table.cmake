# PAGE is what PROGRAM says with ARGUMENTS: a table that is written, not typed.
execute_process(COMMAND "${PROGRAM}" ${ARGUMENTS} OUTPUT_VARIABLE _table COMMAND_ERROR_IS_FATAL ANY)
file(READ "${PAGE}" _page)
if(NOT _page STREQUAL _table)
  list(JOIN ARGUMENTS " " _words)
  message(FATAL_ERROR "${PAGE} is not up to date; write it with\n  ${PROGRAM} ${_words} > ${PAGE}")
endif()
