# SPDX-License-Identifier: MIT
#
# The tables of the tools, read by pandas and by Python's csv, where pandas is installed.
#   cmake -D PYTHON=… -D SCRIPT=… -D PROGRAM=… -D SCRATCH=… -P check_tables.cmake

execute_process(COMMAND "${PYTHON}" -c "import pandas" RESULT_VARIABLE missing OUTPUT_QUIET ERROR_QUIET)
if(NOT missing STREQUAL "0")
    message("SKIPPED: analysis/tables: ${PYTHON} has no package pandas; INTQ_PYTHON names another interpreter")
    return()
endif()
file(REMOVE_RECURSE "${SCRATCH}")
file(MAKE_DIRECTORY "${SCRATCH}")
set(ENV{INTQ_TABLES} "${SCRATCH}")
execute_process(COMMAND "${PROGRAM}" "Every table is written as CSV that an RFC 4180 reader takes" RESULT_VARIABLE status
                OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT status STREQUAL "0")
    message(FATAL_ERROR "${output}")
endif()
execute_process(COMMAND "${PYTHON}" "${SCRIPT}" "${SCRATCH}" RESULT_VARIABLE status OUTPUT_VARIABLE output
                ERROR_VARIABLE output)
message("${output}")
if(NOT status STREQUAL "0" OR NOT output MATCHES "5 tables, [0-9][0-9]+ numbers, [0-9]+ shapes")
    message(FATAL_ERROR "the tables are read as something else")
endif()
