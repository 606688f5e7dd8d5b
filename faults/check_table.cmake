# docs/mutants.md is what the headers of the patches say: PROGRAM table FOLDER > PAGE writes it.
execute_process(COMMAND "${PROGRAM}" table "${FOLDER}" OUTPUT_VARIABLE _table COMMAND_ERROR_IS_FATAL ANY)
file(READ "${PAGE}" _page)
if(NOT _page STREQUAL _table)
  message(FATAL_ERROR "${PAGE} is not up to date; write it with\n  ${PROGRAM} table ${FOLDER} > ${PAGE}")
endif()
