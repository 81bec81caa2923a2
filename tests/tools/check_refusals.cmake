# SPDX-License-Identifier: MIT
#
# Each wrong input of `intq targets`: one sentence on standard error that names what and where, and exit status 1.
#   cmake -D INTQ=... -D DATA=... -D MODELS=... -D INPUTS=... -P check_refusals.cmake

function(check_refusal expected)
    execute_process(COMMAND "${INTQ}" targets ${ARGN} RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE message)
    string(REGEX MATCHALL "\n" lines "${message}")
    list(LENGTH lines lines)
    if(NOT status STREQUAL "1" OR NOT lines EQUAL 1 OR NOT message MATCHES "${expected}")
        message(SEND_ERROR "arguments: ${ARGN}\nexpected status 1 and one line that matches: ${expected}\nstatus ${status}: ${message}")
    endif()
endfunction()

file(MAKE_DIRECTORY "${INPUTS}")
file(WRITE "${INPUTS}/text.npy" "not an array")

check_refusal("nothing_here.onnx.*No such file" --model "${INPUTS}/nothing_here.onnx")
check_refusal("truncated.onnx" --model "${MODELS}/truncated.onnx")
check_refusal("not_onnx.onnx" --model "${MODELS}/not_onnx.onnx")
check_refusal("Cos.*strange.*node [0-9]+ of [0-9]+|node [0-9]+ of [0-9]+.*Cos|Cos.*node" --model "${MODELS}/unsupported_op.onnx")
check_refusal("wrong_rank.onnx" --model "${MODELS}/wrong_rank.onnx")
check_refusal("missing_initializer.onnx" --model "${MODELS}/missing_initializer.onnx")
check_refusal("short.npy" --images "${INPUTS}/short.npy")
check_refusal("text.npy" --calibration "${INPUTS}/text.npy")
check_refusal("images must be float32 or uint8" --images "${DATA}/test_labels.npy")
check_refusal("images are uint8: give --mean" --images "${INPUTS}/pixels.npy")
check_refusal("expected --deviation with one number, or 1, one for each channel, given 3" --images "${INPUTS}/pixels.npy"
              --calibration "${INPUTS}/pixels.npy" --mean 0.5 --deviation 1 2 3)
check_refusal("these are float32" --mean 0.5 --deviation 0.5)
check_refusal("no configuration here.*bayes.*affine" --target bayes --scheme affine)
check_refusal("expected one label for each" --labels "${DATA}/calibration_labels.npy")
check_refusal("does not fit" --calibration "${MODELS}/small_cnn_input.npy")
check_refusal("NaN" --calibration "${INPUTS}/nan.npy")
check_refusal("empty" --calibration "${INPUTS}/empty.npy")
check_refusal("accumulator could reach" --model "${INPUTS}/large.onnx" --images "${INPUTS}/large.npy" --calibration
              "${INPUTS}/large.npy" --labels none --target bayes --dtype int16)
