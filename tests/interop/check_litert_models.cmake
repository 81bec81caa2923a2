# SPDX-License-Identifier: MIT
#
# New TFLite files, answered by LiteRT's reference kernels where its Python package is installed, as programs for
# target::litert.
#   cmake -D PYTHON=… -D SCRIPT=… -D PROGRAM=… -D SCRATCH=… [-D SEED=…] -P check_litert_models.cmake

execute_process(COMMAND "${PYTHON}" -c "import numpy, flatbuffers, ai_edge_litert.interpreter, ai_edge_litert.schema_py_generated" RESULT_VARIABLE missing
                OUTPUT_QUIET ERROR_QUIET)
if(NOT missing STREQUAL "0")
    message("SKIPPED: interop/litert_models: ${PYTHON} has not all of the packages ai-edge-litert, flatbuffers and numpy; INTQ_PYTHON names another interpreter")
    return()
endif()
if(NOT DEFINED SEED)
    string(TIMESTAMP SEED "%s" UTC)
endif()
file(REMOVE_RECURSE "${SCRATCH}")
file(MAKE_DIRECTORY "${SCRATCH}")
execute_process(COMMAND "${PYTHON}" "${SCRIPT}" "${SCRATCH}" ${SEED} RESULT_VARIABLE status OUTPUT_QUIET
                ERROR_VARIABLE message)
if(NOT status STREQUAL "0")
    message(FATAL_ERROR "seed ${SEED}: ${message}")
endif()
set(ENV{INTQ_TFLITE_MODELS} "${SCRATCH}")
execute_process(COMMAND "${PROGRAM}" "TFLite models that LiteRT was asked about now give its bytes" RESULT_VARIABLE status
                OUTPUT_VARIABLE output ERROR_VARIABLE output)
message("seed ${SEED}\n${output}")
string(REGEX REPLACE "[ \n]+" " " output "${output}")  # the test program breaks lines
if(NOT status STREQUAL "0" OR NOT output MATCHES "LiteRT [^,]*: [0-9]+ models, [0-9]+ tensors, [0-9]+ bytes, 0 differ")
    message(FATAL_ERROR "models of seed ${SEED} differ from LiteRT")
endif()
