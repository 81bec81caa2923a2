# SPDX-License-Identifier: MIT
#
# The sweep: small float graphs around pads, clips, means, resizes, constants and concats, quantized here and by ONNX
# Runtime's tool where its Python packages are installed, and the tool's files imported.
#   cmake -D PYTHON=… -D SCRIPTS=… -D PROGRAM=… -D SCRATCH=… -D GRAPHS=… [-D SEED=…] -P check_sweep.cmake

include("${CMAKE_CURRENT_LIST_DIR}/onnx_python.cmake")
find_onnx_packages("interop/sweep" has_packages)
if(NOT has_packages)
    return()
endif()
if(NOT DEFINED SEED)
    set(SEED 1)
endif()

file(REMOVE_RECURSE "${SCRATCH}")
set(ENV{INTQ_SWEEP} "${SCRATCH}")
run_or_fail("seed ${SEED}: making the graphs" "${PYTHON}" "${SCRIPTS}/make_sweep.py" "${SCRATCH}" "${GRAPHS}" "${SEED}")
run_or_fail("seed ${SEED}: the sweep" "${PROGRAM}" "The graphs of a sweep and the files of ONNX Runtime's tool become programs")
run_or_fail("seed ${SEED}: the judgement" "${PYTHON}" "${SCRIPTS}/judge.py" "${SCRATCH}")
