# SPDX-License-Identifier: MIT
#
# What the scripts beside it share: whether the Python packages are there, and running a command.

# Whether PYTHON has the packages onnx, onnxruntime and numpy; says so of test `name` where it has not.
function(find_onnx_packages name found)
    execute_process(COMMAND "${PYTHON}" -c "import numpy, onnx, onnxruntime" RESULT_VARIABLE missing OUTPUT_QUIET
                    ERROR_QUIET)
    if(missing STREQUAL "0")
        set(${found} ON PARENT_SCOPE)
    else()
        set(${found} OFF PARENT_SCOPE)
        message("SKIPPED: ${name}: ${PYTHON} has no packages onnx, onnxruntime and numpy; INTQ_PYTHON names another interpreter")
    endif()
endfunction()

# Runs a command and fails with what it printed.
function(run_or_fail what)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
    message("${output}")
    if(NOT status STREQUAL "0")
        message(FATAL_ERROR "${what} failed")
    endif()
endfunction()
