# SPDX-License-Identifier: MIT
#
# New networks, answered by LiteRT's reference kernels where its Python package is installed, against target::litert.
#   cmake -D PYTHON=… -D SCRIPT=… -D PROGRAM=… -D SCRATCH=… [-D SEED=…] -P check_litert.cmake

execute_process(COMMAND "${PYTHON}" -c "import numpy, flatbuffers, ai_edge_litert.interpreter, ai_edge_litert.schema_py_generated" RESULT_VARIABLE missing OUTPUT_QUIET
                ERROR_QUIET)
if(NOT missing STREQUAL "0")
    message("SKIPPED: interop/litert_networks: ${PYTHON} has not all of the packages ai-edge-litert, flatbuffers and numpy; INTQ_PYTHON names another interpreter")
    return()
endif()
if(NOT DEFINED SEED)
    string(TIMESTAMP SEED "%s" UTC)
endif()
file(MAKE_DIRECTORY "${SCRATCH}")
execute_process(COMMAND "${PYTHON}" "${SCRIPT}" "${SCRATCH}/networks.json" ${SEED} RESULT_VARIABLE status OUTPUT_QUIET
                ERROR_VARIABLE message)
if(NOT status STREQUAL "0")
    message(FATAL_ERROR "seed ${SEED}: ${message}")
endif()
set(ENV{INTQ_LITERT_NETWORKS} "${SCRATCH}/networks.json")
execute_process(COMMAND "${PROGRAM}" "Networks that LiteRT was asked about now give its bytes" RESULT_VARIABLE status
                OUTPUT_VARIABLE output ERROR_VARIABLE output)
message("seed ${SEED}\n${output}")
string(REGEX REPLACE "[ \n]+" " " output "${output}")  # the test program breaks lines
if(NOT status STREQUAL "0" OR NOT output MATCHES "networks.json, LiteRT [^,]*, [0-9]+ bytes, 0 layers differ")
    message(FATAL_ERROR "networks of seed ${SEED} differ from LiteRT")
endif()
