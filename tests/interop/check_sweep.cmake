# SPDX-License-Identifier: MIT
#
# The sweep: small float graphs around pads, clips, means, resizes, constants and concats, quantized here and by ONNX
# Runtime's tool where its Python packages are installed, and the tool's files imported.
#   cmake -D PYTHON=… -D SCRIPTS=… -D PROGRAM=… -D SCRATCH=… -D GRAPHS=… [-D SEED=…] -P check_sweep.cmake

execute_process(COMMAND "${PYTHON}" -c "import numpy, onnx, onnxruntime" RESULT_VARIABLE missing OUTPUT_QUIET ERROR_QUIET)
if(NOT missing STREQUAL "0")
    message("SKIPPED: interop/sweep: ${PYTHON} has no packages onnx, onnxruntime and numpy; INTQ_PYTHON names another interpreter")
    return()
endif()
if(NOT DEFINED SEED)
    set(SEED 1)
endif()

# Runs a command and fails with what it printed.
function(run_or_fail what)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
    message("${output}")
    if(NOT status STREQUAL "0")
        message(FATAL_ERROR "${what} failed, with seed ${SEED}")
    endif()
endfunction()

file(REMOVE_RECURSE "${SCRATCH}")
set(ENV{INTQ_SWEEP} "${SCRATCH}")
run_or_fail("making the graphs" "${PYTHON}" "${SCRIPTS}/make_sweep.py" "${SCRATCH}" "${GRAPHS}" "${SEED}")
run_or_fail("the sweep" "${PROGRAM}" "The graphs of a sweep and the files of ONNX Runtime's tool become programs")
run_or_fail("the judgement" "${PYTHON}" "${SCRIPTS}/judge.py" "${SCRATCH}")
