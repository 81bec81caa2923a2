# SPDX-License-Identifier: MIT
#
# What ONNX and ONNX Runtime say, where their Python packages are installed: exported files run there, ONNX's own node
# tests pass the import, and small quantized models have the same codes here and there.
#   cmake -D PYTHON=… -D SCRIPTS=… -D MODELS=… -D PROGRAM=… -D SCRATCH=… -D WHAT=runtime|node_tests|own_grids
#         -P check_onnx.cmake

include("${CMAKE_CURRENT_LIST_DIR}/onnx_python.cmake")
find_onnx_packages("interop/onnx_${WHAT}" has_packages)
if(NOT has_packages)
    return()
endif()

file(REMOVE_RECURSE "${SCRATCH}")
file(MAKE_DIRECTORY "${SCRATCH}")
if(WHAT STREQUAL "runtime")
    set(ENV{INTQ_ONNX_EXPORTS} "${SCRATCH}")
    run_or_fail("writing the files" "${PROGRAM}" "Files are written for ONNX Runtime to run")
    run_or_fail("the comparison" "${PYTHON}" "${SCRIPTS}/check_exports.py" "${SCRATCH}")
elseif(WHAT STREQUAL "own_grids")
    foreach(kind IN ITEMS "" --symmetric --int16)
        set(ENV{INTQ_QUANTIZED_MODELS} "${SCRATCH}/models${kind}")
        run_or_fail("making the models" "${PYTHON}" "${MODELS}" "${SCRATCH}/models${kind}" 40 --seed 2 ${kind})
        run_or_fail("the comparison" "${PROGRAM}" "Many quantized models have the codes of ONNX Runtime")
    endforeach()
else()
    set(ENV{INTQ_ONNX_NODE_TESTS} "${SCRATCH}")
    run_or_fail("making the tests" "${PYTHON}" "${SCRIPTS}/make_node_tests.py" "${SCRATCH}")
    run_or_fail("the import" "${PROGRAM}" "ONNX's own node tests pass or are refused by name")
endif()
