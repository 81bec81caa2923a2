# SPDX-License-Identifier: MIT
#
# The command line on the shipped model, as a user types it: each step reads what the one before wrote, failures say
# why and leave nothing behind.
#
#   cmake -D INTQ=<program> -D DATA=<folder of the shipped model> -D WORK=<scratch> -P check_intq.cmake

include("${CMAKE_CURRENT_LIST_DIR}/expect.cmake")
set(model "${DATA}/digits_resnet.onnx")
set(calibration "${DATA}/calibration_images.npy")
set(images "${DATA}/test_images.npy")

# json(<variable> <key>): a member of what the last command printed.
function(json variable key)
    string(JSON value ERROR_VARIABLE error GET "${output}" "${key}")
    if(error)
        message(SEND_ERROR "no member ${key}: ${error}\n${output}")
    endif()
    set(${variable} "${value}" PARENT_SCOPE)
endfunction()

# --- the road ---------------------------------------------------------------------------------------------------------
expect(0 "usage|Usage|SUBCOMMAND" --help)
foreach(command IN ITEMS quantize run check compare profile info)
    expect(0 "--json" ${command} --help)
endforeach()
expect(0 "fp32: all operators lower" check "${model}" --shape 1 1 16 16)
foreach(target IN ITEMS fp32 litert bayes)
    expect(0 "written: ${target}.intq" quantize "${model}" --data "${calibration}" --target ${target} -o
           ${target}.intq)
    expect(0 "self test: passed" info ${target}.intq --instructions)
    expect(0 "\"SQNR\"" compare "${model}" ${target}.intq --data "${images}" --json)
    json(sqnr "SQNR")
    if(sqnr LESS 20)
        message(SEND_ERROR "${target}: SQNR ${sqnr} dB")
    endif()
endforeach()
expect(0 "written: again.intq" quantize "${model}" --data "${calibration}" -o again.intq)
file(SHA256 "${WORK}/fp32.intq" first)
file(SHA256 "${WORK}/again.intq" second)
if(NOT first STREQUAL second)
    message(SEND_ERROR "the same command gives other bytes")
endif()
expect(0 "written: portable.intq" quantize "${model}" --data "${calibration}" --portable --equalize
       --bias-correction --observer percentile --memory-svg arena.svg -o portable.intq)
expect(0 "runs on: scalar" info portable.intq)
expect(0 "shape: \\(" run portable.intq --data "${images}" --count 3 -o logits.npy)
expect(0 "worst layers" profile "${model}" --data "${calibration}" --count 20 --sensitivity -o profile --json)
foreach(name IN ITEMS arena.svg logits.npy profile/compare_per_layer_out.csv profile/sensitive_ops.txt)
    if(NOT EXISTS "${WORK}/${name}")
        message(SEND_ERROR "${name} was not written")
    endif()
endforeach()

# --- wrong use --------------------------------------------------------------------------------------------------------
expect(2 "subcommand" )
expect(2 "--data" quantize "${model}" -o none.intq)
expect(2 "avx7" quantize "${model}" --data "${calibration}" --target avx7 -o none.intq)
expect(1 "no_such.onnx" quantize no_such.onnx --data "${calibration}" -o none.intq)
expect(1 "no_such.npy" quantize "${model}" --data no_such.npy -o none.intq)
expect(1 "there is no observer|nearest" quantize "${model}" --data "${calibration}" --observer minmax -o none.intq)
expect(1 "nowhere" quantize "${model}" --data "${calibration}" --int16 nowhere -o none.intq)
expect(1 "no_such_folder" quantize "${model}" --data "${calibration}" -o no_such_folder/none.intq)
expect(1 "float32" quantize "${model}" --data "${calibration}" --mean 0.5 --deviation 0.5 -o none.intq)
file(WRITE "${WORK}/broken.intq" "no program")
expect(1 "broken.intq" run broken.intq --data "${images}" -o none.npy)
expect(1 "broken.intq" info broken.intq)
expect(1 "backend" run fp32.intq --data "${images}" --backend avx7 -o none.npy)
file(GLOB left "${WORK}/none*" "${WORK}/no_such_folder")
if(left)
    message(SEND_ERROR "a failed command left ${left}")
endif()
