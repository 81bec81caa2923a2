# SPDX-License-Identifier: MIT
#
# The command line on the shipped model, as a user types it: each step reads what the one before wrote, failures say
# why and leave nothing behind.
#
#   cmake -D INTQ=<program> -D DATA=<the shipped model> -D INPUTS=<of write_inputs> -D WORK=<scratch> -D CXX=<compiler>
#         -P check_intq.cmake

include("${CMAKE_CURRENT_LIST_DIR}/expect.cmake")
set(model "${DATA}/digits_resnet.onnx")
set(calibration "${DATA}/calibration_images.npy")
set(images "${DATA}/test_images.npy")
cmake_path(SET repository NORMALIZE "${CMAKE_CURRENT_LIST_DIR}/../..")

# json(<variable> <key>...): a member of what the last command printed, or of the text in `output`.
function(json variable)
    string(JSON value ERROR_VARIABLE error GET "${output}" ${ARGN})
    if(error)
        message(SEND_ERROR "no member ${ARGN}: ${error}\n${output}")
    endif()
    set(${variable} "${value}" PARENT_SCOPE)
endfunction()

function(expect_equal what given expected)
    if(NOT given STREQUAL expected)
        message(SEND_ERROR "${what}: given '${given}', expected '${expected}'")
    endif()
endfunction()

# expect_text(<file> <regular expression>): below WORK.
function(expect_text name pattern)
    set(text "")
    if(EXISTS "${WORK}/${name}")
        file(READ "${WORK}/${name}" text)
    endif()
    if(NOT text MATCHES "${pattern}")
        message(SEND_ERROR "${name} does not hold ${pattern}")
    endif()
endfunction()

# --- help -------------------------------------------------------------------------------------------------------------
expect(0 "^[0-9]+[.][0-9]+[.][0-9]+\n$" --version)
set(page "^NAME\n.*SYNOPSIS\n    intq.*OPTIONS\n.*EXAMPLES\n.*EXIT STATUS\n    0   done\n    1 .*\n    2   wrong usage\n$")
expect(0 "${page}" --help)
set(commands quantize codegen pack run check compare profile info targets)
foreach(command IN LISTS commands)
    if(NOT output MATCHES "\n    ${command}\n")
        message(SEND_ERROR "the help does not name the command ${command}")
    endif()
endforeach()
foreach(command IN LISTS commands)
    expect(0 "${page}" ${command} --help)
    if(NOT output MATCHES "--json\n")
        message(SEND_ERROR "${command} has no --json")
    endif()
    string(REGEX REPLACE "[;\\]" "," lines "${output}")
    string(REPLACE "\n" ";" lines "${lines}")
    foreach(line IN LISTS lines)
        string(LENGTH "${line}" width)
        if(width GREATER 80)
            message(SEND_ERROR "the help of ${command} has a line of ${width} columns: ${line}")
        endif()
    endforeach()
endforeach()

# --- the road ---------------------------------------------------------------------------------------------------------
expect(0 "fp32: all operators lower" check "${model}" --shape 1 1 16 16)
foreach(target IN ITEMS fp32 litert bayes)
    expect(0 "^written: ${target}.intq" quantize "${model}" --data "${calibration}" --target ${target} -o
           ${target}.intq)
    if(output MATCHES "\r|calibration .[#-]")
        message(SEND_ERROR "progress is shown where there is no terminal: ${output}")
    endif()
    expect(0 "self test: passed" info ${target}.intq --instructions)
    expect(0 "\"SQNR\"" compare "${model}" ${target}.intq --data "${images}" --json)
    json(sqnr "SQNR")
    json(same "same class")
    if(sqnr LESS 20 OR same LESS 570)
        message(SEND_ERROR "${target}: SQNR ${sqnr} dB, ${same} of the same class")
    endif()
endforeach()
expect(0 "written: again.intq" quantize "${model}" --data "${calibration}" -o again.intq)
expect_same(fp32.intq again.intq)
# Weights of 16 bits halve what int16 loses, at the least, and the output says what they take.
foreach(weights IN ITEMS int8 int16)
    expect(0 "written" quantize "${model}" --data "${calibration}" --dtype int16 --weight-dtype ${weights} -o
           ${weights}_weights.intq)
    string(REGEX MATCHALL "layers with int16 weights: [0-9]+\ncodes of int16 weights: [0-9]+ bytes, twice those of int8"
           said "${output}")
    list(LENGTH said said)
    expect(0 "\"SQNR\"" compare "${model}" ${weights}_weights.intq --data "${images}" --json)
    json(${weights}_weights "SQNR")
    set(${weights}_said ${said})
endforeach()
math(EXPR said "10 * ${int8_said} + ${int16_said}")
expect_equal("the outputs that say so" "${said}" "1")
string(REGEX REPLACE "[.].*" "" whole "${int8_weights}")
math(EXPR least "${whole} + 6")
if(int16_weights LESS least)
    message(SEND_ERROR "int16 weights: ${int16_weights} dB, and ${int8_weights} dB with int8 weights")
endif()
expect(1 "the rows of tflite for conv2d: .*int16 by int8 -> int16" quantize "${model}" --data "${calibration}" --target
       tflite --dtype int16 --weight-dtype int16 -o none.intq)
expect(2 "--weight-dtype: is for layers in int16" quantize "${model}" --data "${calibration}" --weight-dtype int16 -o
       none.intq)
# What became of each improvement is said, and is a string of JSON.
set(choice "(kept|left out): [-0-9.]+ dB on the samples that judge, [-0-9.]+ dB without")
expect(0 "equalization: ${choice}\nadaround: ${choice}\nbias correction: ${choice}\n" quantize "${INPUTS}/flat.onnx"
       --data "${INPUTS}/flat.npy" --equalize --adaround --adaround-iterations 20 --bias-correction -o three.intq)
expect(0 "\"equalization\": \"(kept|left out): " quantize "${INPUTS}/flat.onnx" --data "${INPUTS}/flat.npy"
       --equalize --json -o three.intq)
expect(0 "written: portable.intq" quantize "${model}" --data "${calibration}" --portable --equalize
       --bias-correction --observer percentile --memory-svg arena.svg -o portable.intq)
expect(0 "runs on: scalar" info portable.intq --memory-svg again.svg)
expect_same(arena.svg again.svg)
expect_text(arena.svg "^<svg .*block1[.]conv2")
expect(0 "shape: .3, 10." run portable.intq --data "${images}" --count 3 -o logits.npy)
expect(0 "\"operators\": .*\"type\": \"Conv2d\"" info "${model}" --json)
# AdaRound changes weights, and so the bytes; of a small model, because it takes minutes of a large one.
expect(0 "written" quantize "${INPUTS}/flat.onnx" --data "${INPUTS}/flat.npy" --adaround -o adaround.intq)
expect(0 "written" quantize "${INPUTS}/flat.onnx" --data "${INPUTS}/flat.npy" -o nearest.intq)
file(SHA256 "${WORK}/adaround.intq" adaround)
file(SHA256 "${WORK}/nearest.intq" nearest)
if(adaround STREQUAL nearest)
    message(SEND_ERROR "--adaround changes nothing")
endif()
expect(0 "written" quantize "${INPUTS}/flat.onnx" --data "${INPUTS}/flat.npy" --adaround --adaround-iterations 1 -o
       short.intq)
file(SHA256 "${WORK}/short.intq" short)
if(short STREQUAL adaround)
    message(SEND_ERROR "--adaround-iterations changes nothing")
endif()
expect(2 "--adaround-iterations" quantize "${model}" --data "${calibration}" --adaround-iterations 9 -o none.intq)
if(EXISTS /dev/full)
    execute_process(COMMAND "${INTQ}" info fp32.intq WORKING_DIRECTORY "${WORK}" OUTPUT_FILE /dev/full RESULT_VARIABLE
                            status ERROR_VARIABLE output)
    if(NOT status EQUAL 1 OR NOT output MATCHES "standard output")
        message(SEND_ERROR "nobody read the result: ${status} ${output}")
    endif()
endif()

# --- profile, and mixed types out of its list -------------------------------------------------------------------------
expect(0 "\"worst layers\".*\"sensitivity\"" profile "${model}" --data "${calibration}" --count 20 --target bayes
       --sensitivity -o profile --json)
json(first sensitivity 0 layer)
foreach(row RANGE 4)  # layers that were compared, and not the parts of a fused one
    json(cosine "worst layers" ${row} cosine)
    if(NOT cosine MATCHES "^0[.]99")
        message(SEND_ERROR "worst layer ${row}: cosine ${cosine}")
    endif()
endforeach()
expect_files(profile/compare_per_layer_out.csv profile/sensitive_ops.txt)
foreach(of IN ITEMS float quantized)
    expect_text(profile/model_profiler/${of}/statistic.txt "Op Name.*stem")
endforeach()
expect(0 "written" quantize "${model}" --data "${calibration}" --target bayes --sensitive-ops profile/sensitive_ops.txt
       --top-k 1 -o top.json)
expect(0 "written" quantize "${model}" --data "${calibration}" --target bayes --int16 ${first} -o named.json)
expect_same(top.json named.json)
expect_text(top.json "\"name\": \"${first}\", \"dtype\": \"int16\"")

# Types within a budget. The layers' times are this machine's, so the choice is made from a list of our own: int16 wins
# back the most for its time in the first two, and costs nothing in the third: the last layer, whose output stays its
# accumulator.
expect(0 "loss of int8: [0-9.]+\ntime of int8: [0-9.e-]+ s\ntime of int16: [0-9.e-]+ s\n$" profile "${model}" --data
       "${calibration}" --count 20 --target bayes --layer-costs -o profile)
expect_text(profile/layer_costs.txt "^# layer .*\nblock3[.]conv2 [0-9.e-]+ 0 [0-9.e-]+ [0-9.e-]+\n")
set(mixed quantize "${model}" --data "${calibration}" --target bayes)
expect(0 "written" ${mixed} --costs profile/layer_costs.txt --max-seconds 1 -o whole.json)
file(WRITE "${WORK}/costs" "block1.conv2 9 0 3 4\nblock2.conv2 8 0 3 4\nfc 1 0 1 1\nblock3.conv2 2 0 3 4\n")
foreach(budget IN ITEMS --max-seconds=12 --max-loss=2)
    expect(0 "written" ${mixed} --costs costs ${budget} -o chosen.json)
    expect(0 "written" ${mixed} --int16 block1.conv2 block2.conv2 -o listed.json)
    expect_same(chosen.json listed.json)
endforeach()
expect(1 "no assignment has a time in seconds of 9 or less; the least is 10" ${mixed} --costs costs --max-seconds 9 -o none.json)
expect(1 "nowhere" ${mixed} --costs nowhere --max-seconds 9 -o none.json)
file(WRITE "${WORK}/no_costs" "# layer int8_loss int16_loss int8_seconds int16_seconds\n")
expect(1 "no_costs: no line of it holds the costs of a layer" ${mixed} --costs no_costs --max-loss 1 -o none.json)
file(WRITE "${WORK}/other_costs" "elsewhere 1 0 3 4\n")
expect(1 "elsewhere" ${mixed} --costs other_costs --max-loss 0 -o none.json)
file(WRITE "${WORK}/huge_costs" "block1.conv2 1e308 0 3 4\n")
expect(1 "an item has weight .*1e[+]308.*; both must be" ${mixed} --costs huge_costs --max-loss 1 -o none.json)
expect(2 "--costs: needs a budget" ${mixed} --costs costs -o none.json)
expect(2 "--max-loss" ${mixed} --max-loss 1 -o none.json)
expect(2 "--max-seconds" ${mixed} --costs costs --max-seconds 1 --max-loss 1 -o none.json)
expect(2 "--costs" ${mixed} --costs costs --max-loss 1 --sensitive-ops profile/sensitive_ops.txt --top-k 1 -o none.json)

# --- the forms --------------------------------------------------------------------------------------------------------
set(tflite quantize "${model}" --data "${calibration}" --target tflite)
expect(0 "form: json" ${tflite} -o model.json)
file(READ "${WORK}/model.json" output)
json(target target)
expect_equal("the target of the JSON" "${target}" tflite)
json(name instructions 1 name)
expect_equal("the second instruction" "${name}" stem.conv)
json(tensor instructions 1 output)
json(dtype tensors ${tensor} dtype)
json(extents tensors ${tensor} shape)
string(REGEX REPLACE "[ \n]" "" extents "${extents}")
expect_equal("its output" "${dtype} ${extents}" "int8 [1,16,8,8]")
json(zero_point tensors ${tensor} zero_point 0)
expect_equal("the zero point behind a relu" "${zero_point}" -128)
# --emit wins over the extension.
expect(0 "form: json" ${tflite} --emit json -o model.txt)
expect_same(model.txt model.json)

# What ONNX holds reads back to the results of the program.
expect(0 "shape: .580, 10." run fp32.intq --data "${images}" -o of_program.npy)
foreach(form IN ITEMS qdq operators)
    expect(0 "form: onnx" quantize "${model}" --data "${calibration}" --onnx-form ${form} -o ${form}.onnx)
    expect(0 "shape: .580, 10." run ${form}.onnx --data "${images}" -o of_${form}.npy)
    expect_same(of_${form}.npy of_program.npy)
    expect(0 "same class: 580" compare "${model}" ${form}.onnx --data "${images}")
endforeach()
expect_text(operators.onnx "QLinearConv")
foreach(layers IN ITEMS fc stem.conv "block1.conv2;fc")
    expect(0 "form: onnx" quantize "${model}" --data "${calibration}" --target tflite --float ${layers} -o float.onnx)
endforeach()
# The batch is open, and the names are those of the model.
file(STRINGS "${WORK}/operators.onnx" names REGEX "^(input|logits|batch)")
list(REMOVE_DUPLICATES names)
list(SORT names)
expect_equal("inputs, outputs and open axes" "${names}" "batch;input;logits")

# A program of pixels takes them as they are stored, in both orders, and its header too.
set(pixels --data "${INPUTS}/pixels.npy")
set(normalize --mean 0.5 --deviation 0.25)
expect(0 "written" quantize "${model}" ${pixels} ${normalize} -o of_real.intq)
expect(0 "shape: .4, 10." run of_real.intq ${pixels} ${normalize} -o of_real.npy)
foreach(layout IN ITEMS chw hwc)
    expect(0 "written" quantize "${model}" ${pixels} ${normalize} --image-input ${layout} --portable -o ${layout}.intq)
    expect(0 "self test: passed" info ${layout}.intq)
    expect(0 "shape: .4, 10." run ${layout}.intq ${pixels} -o of_${layout}.npy)
    expect_same(of_${layout}.npy of_real.npy)
    expect(0 "same class: 4" compare "${model}" ${layout}.intq ${pixels} ${normalize})
    expect(0 "golden runs: 2" codegen ${layout}.intq ${pixels} --golden 2 -o ${layout}.hpp)
    expect_text(${layout}.hpp "const (std::)?uint8_t")
endforeach()
expect(1 "pixels.npy: the program takes pixels, and holds their mean" run chw.intq ${pixels} ${normalize} -o none.npy)
expect(1 "flat.npy: .*does not fit" run chw.intq --data "${INPUTS}/flat.npy" -o none.npy)
expect(1 "test_images.npy: the program takes pixels, uint8 images .N, C, H, W.; given float32" run chw.intq --data
       "${images}" -o none.npy)
expect(1 "calibration_images.npy: .*given float32" quantize "${model}" --data "${calibration}" --image-input chw -o
       none.intq)
expect(2 "--image-input: an ONNX model holds no program" quantize "${model}" ${pixels} ${normalize} --image-input chw -o
       none.onnx)
expect(2 "--image-input" quantize "${model}" ${pixels} ${normalize} --image-input rgb -o none.intq)

# A header by either way is the same, and a compiler makes a program of it that passes its self test.
expect(0 "form: header.*packed for: scalar" ${tflite} --name digits -o direct.hpp)
expect(0 "written" ${tflite} --portable -o tflite.intq)
expect(0 "packed for: scalar" codegen tflite.intq --name digits -o generated.hpp)
expect_same(direct.hpp generated.hpp)
expect_text(direct.hpp "namespace digits {")
expect(0 "golden runs: 3" codegen tflite.intq --data "${images}" --golden 3 -o golden.hpp)
expect(0 "runs on" info fp32.intq --json)
json(best "runs on")
expect(0 "packed for: ${best}" codegen fp32.intq --backend ${best} -o other.hpp)

# The text is that of the installation which the program belongs to, or of the folder that is named.
foreach(prefix IN ITEMS prefix elsewhere)
    file(WRITE "${WORK}/${prefix}/include/intq/embedded.hpp" "#ifndef E_HPP\n#define E_HPP\n// of ${prefix}\n#endif\n")
endforeach()
file(COPY "${INTQ}" DESTINATION "${WORK}/prefix/bin")
cmake_path(GET INTQ FILENAME program)
set(built "${INTQ}")
set(INTQ "${WORK}/prefix/bin/${program}")
expect(0 "written" codegen tflite.intq --single-file -o installed.hpp)
expect_text(installed.hpp "// of prefix\n")
expect(0 "written" codegen tflite.intq --single-file --library elsewhere/include -o named.hpp)
expect_text(named.hpp "// of elsewhere\n")
expect(1 "intq/embedded.hpp" codegen tflite.intq --single-file --library nowhere -o none.hpp)
set(INTQ "${built}")

# --- the page: every command of the script, and what a board does with its header -----------------------------------------
set(page "${WORK}/page")
file(MAKE_DIRECTORY "${page}/bin")
file(COPY_FILE "${model}" "${page}/model.onnx")
file(COPY_FILE "${calibration}" "${page}/calibration.npy")
file(COPY_FILE "${images}" "${page}/test.npy")
file(CREATE_LINK "${INTQ}" "${page}/bin/intq" SYMBOLIC)
execute_process(COMMAND "${CMAKE_COMMAND}" -E env "PATH=${page}/bin:$ENV{PATH}" sh
                        "${repository}/examples/command_line/to_a_board.sh" WORKING_DIRECTORY "${page}"
                RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT status EQUAL 0)
    message(SEND_ERROR "to_a_board.sh: ${status}\n${output}")
endif()
expect_files(page/model.hpp page/direct.hpp page/model.json page/quantized.onnx page/mixed.intq)
# No -I: the header needs no other file.
execute_process(COMMAND "${CXX}" -std=c++20 -Wall -Wextra -Werror -O0 -I. -o firmware
                        "${repository}/examples/command_line/firmware.cpp" WORKING_DIRECTORY "${page}"
                RESULT_VARIABLE status ERROR_VARIABLE output)
if(NOT status EQUAL 0)
    message(SEND_ERROR "the generated header: ${output}")
endif()
execute_process(COMMAND "${page}/firmware" RESULT_VARIABLE status)
if(NOT status EQUAL 0)
    message(SEND_ERROR "the self test of the generated header: ${status}")
endif()

# --- what a command finds out before it works, and says of what it made -----------------------------------------------
# More golden runs than a file has bytes behind their number.
expect(0 "golden runs: 40" ${tflite} --portable --golden 40 -o golden.intq)
expect(0 "golden runs: 40\ngolden runs on patterns: 4\nself test: passed" info golden.intq)
expect(0 "golden runs: 40" codegen golden.intq -o golden.hpp)
expect_text(golden.hpp "/// @param x0  \"[^\"]+\": 8 x 8 x 1, one channel\n/// @param y0  \"[^\"]+\": 10\n")
expect(0 "\ninput +dtype +shape.*\n[^ ]+ +float32 +.1, 1, 8, 8. *\n.*\noutput +dtype .*\n[^ ]+ +float32 +.1, 10. *\n" info golden.intq)
# What the order of a board is, is said where there is one.
expect(0 "written" quantize "${INPUTS}/colours.onnx" --data "${INPUTS}/ten_reals.npy" -o colours.hpp)
expect_text(colours.hpp "/// @param x0  \"x\": 3 x 10 x 10, planes: .C, H, W.\n/// @param y0  \"[^\"]+\": 10 x 10 x 2, pixels with their channels: .H, W, C.\n")
expect(0 "written" quantize "${INPUTS}/colours.onnx" --data "${INPUTS}/ten_reals.npy" -o colours.intq)
expect(0 "\nx +float32 +.1, 3, 10, 10. +row_major *\n.* float32 +.1, 2, 10, 10. +channels_last *\n" info
       colours.intq)
# The model states its extents, so no --shape is needed.
expect(1 "bernoulli2: 1 do not lower.*kernel is out of range" check "${INPUTS}/ten.onnx" --target bernoulli2)
expect(1 "ten.onnx: the input \"x\" takes .*, and --shape says" check "${INPUTS}/ten.onnx" --shape 1 3 9)
expect(0 "^{\"fp32\": \"all operators lower\", \"refusals\": .., \"depends on calibration\": ..}\n$" check "${model}" --target fp32 --json)
expect(0 "\"list of instructions\"" info golden.intq --instructions --json)
json(count instructions)
json(bytes "occupants of the peak" 0 bytes)
string(JSON type TYPE "${output}" "occupants of the peak" 0 bytes)
expect_equal("the type of a number" "${type}" NUMBER)
# Nothing is exact but what is equal.
expect(0 "SQNR on these samples: inf dB" quantize "${INPUTS}/zero.onnx" --data "${INPUTS}/flat.npy" -o zero.intq)
# What samples of one number give says nothing, and passes no bound; their quantizers are named.
expect(1 "none.intq: not written: all outputs on the samples are equal .*--min-sqnr asks for one" quantize
       "${INPUTS}/flat.onnx" --data "${INPUTS}/zeros.npy" --min-sqnr 30 -o none.intq)
expect(0 "warnings.*activation_post_process_0 .after [a-z0-9_]+.: all data was the number 0" quantize "${INPUTS}/flat.onnx" --data
       "${INPUTS}/zeros.npy" -o zeros.intq)
expect(0 "\"warnings\": ..\"of the calibration\": \"activation_post_process_0 .after [a-z0-9_]+.: all data" quantize
       "${INPUTS}/flat.onnx" --data "${INPUTS}/zeros.npy" --json -o zeros.intq)
expect(1 "none.intq: not written: on these samples the outputs hold NaN or infinity" quantize
       "${INPUTS}/overflow.onnx" --data "${INPUTS}/lowest.npy" -o none.intq)
expect(0 "SQNR: inf dB" compare "${INPUTS}/zero.onnx" zero.intq --data "${INPUTS}/flat.npy")
# JSON has no infinity and no NaN, so they are strings. NaN never passes.
expect(0 "\"SQNR\": \"inf\"" compare "${INPUTS}/zero.onnx" zero.intq --data "${INPUTS}/flat.npy" --json)
json(sqnr SQNR)
expect_equal("an infinite SQNR" "${sqnr}" inf)
expect(0 "\"SQNR on these samples\": \"inf\"" quantize "${INPUTS}/zero.onnx" --data "${INPUTS}/flat.npy" --json -o
       zero.intq)
expect(1 "zeros.intq: the SQNR is NaN.*SQNR: nan dB" compare "${INPUTS}/overflow.onnx" zeros.intq --data
       "${INPUTS}/lowest.npy")
expect(1 "zeros.intq: the SQNR is NaN.*\"SQNR\": \"nan\"" compare "${INPUTS}/overflow.onnx" zeros.intq --data
       "${INPUTS}/lowest.npy" --json)
expect(1 "SQNR is NaN" targets --model "${INPUTS}/overflow.onnx" --calibration "${INPUTS}/lowest.npy" --images
       "${INPUTS}/lowest.npy")
set(ENV{INTQ_BACKEND} no_such)
expect(1 "^intq: INTQ_BACKEND is \"no_such\"" --version)
unset(ENV{INTQ_BACKEND})
expect(1 "flat.npy: the model has 2 inputs, \"a\", \"b\"; give --data NAME=FILE for each" quantize "${INPUTS}/two.onnx"
       --data "${INPUTS}/flat.npy" -o none.intq)
expect(1 "two.onnx: it has 2 inputs" profile "${INPUTS}/two.onnx" --data "${INPUTS}/flat.npy" -o none)
expect(1 "is both --output and --memory-svg" ${tflite} -o none.intq --memory-svg none.intq)
expect(1 "/dev/full" ${tflite} -o none.intq --memory-svg /dev/full)
# What is wrong is said by the kernels that the file was made for.
file(COPY_FILE "${WORK}/golden.intq" "${WORK}/damaged.intq")
execute_process(COMMAND sh -c "printf damage | dd of=damaged.intq bs=1 seek=3000 conv=notrunc" WORKING_DIRECTORY "${WORK}"
                COMMAND_ERROR_IS_FATAL ANY ERROR_QUIET)
expect(1 "damaged.intq .for tflite on scalar, read for tflite on scalar.: .*checksum" run damaged.intq --data "${images}"
       -o none.npy)
foreach(option IN ITEMS --min-sqnr --max-loss --max-seconds --mean)
    expect(2 "${option}: expected a number, given \" \"" ${tflite} ${option} " " -o none.intq)
    expect(2 "${option}: expected a number, given \"nan\"" ${tflite} ${option}=nan -o none.intq)
endforeach()
file(WRITE "${WORK}/no_operators.txt" "")
expect(1 "no_operators.txt: no line of it names an operator" quantize "${model}" --data "${calibration}" --target bayes
       --sensitive-ops no_operators.txt --top-k 3 -o none.intq)
foreach(option IN ITEMS --golden=3 --count=3 --mean=1 --deviation=1)
    expect(2 "--data" codegen golden.intq ${option} -o none.hpp)
endforeach()
expect(2 "--golden: JSON holds no golden runs" ${tflite} --golden 3 -o none.json)
expect(1 "--instructions is for a program file" info "${model}" --instructions)
# CMake drops empty words from lists.
execute_process(COMMAND "${INTQ}" profile "${model}" --data "${calibration}" -o "" RESULT_VARIABLE status ERROR_VARIABLE
                        output)
if(NOT status EQUAL 1 OR NOT output MATCHES "--output names no folder")
    message(SEND_ERROR "a folder without a name: ${status} ${output}")
endif()
execute_process(COMMAND "${INTQ}" run "${WORK}/golden.intq" --data "${images}" -o "" RESULT_VARIABLE status
                ERROR_VARIABLE output)
if(NOT status EQUAL 1 OR NOT output MATCHES "an output has no name")
    message(SEND_ERROR "an output without a name: ${status} ${output}")
endif()
expect(1 "would have 8192000000000 bytes, at most" check "${model}" --target fp32 --shape 2000000000 1 8 8)
expect(1 "curves_int16.tflite: is a TFLite model" check "${MODELS}/../tflite/curves_int16.tflite")
expect(1 "golden.intq: is a program file" check golden.intq)
expect(1 "digits_resnet.onnx: is a model of real numbers" codegen "${model}" -o none.hpp)
expect(2 "there is no backend \"avx7\"" ${tflite} --backend avx7 -o none.intq)
foreach(name IN ITEMS main errno NULL stdout)
    expect(1 "'${name}' is no name of a namespace" ${tflite} --name ${name} -o none.hpp)
endforeach()

# --- TFLite models ----------------------------------------------------------------------------------------------------
set(codes_model "${MODELS}/../tflite/mobilenet3_int8.tflite")
expect(0 "target: litert.*self test: none.*int8 +.1, 3, 10, 10" info "${codes_model}" --instructions)
expect(0 "form: program.*target: litert.*golden runs: 0" codegen "${codes_model}" --backend ${best} -o codes.intq)
expect(0 "golden runs on patterns: 4\nself test: passed" info codes.intq)
foreach(samples IN ITEMS codes reals)
    foreach(from IN ITEMS "${codes_model}" codes.intq)
        cmake_path(GET from EXTENSION LAST_ONLY extension)
        expect(0 "shape: .4, 5.\ndtype: int8" run "${from}" --data "${INPUTS}/ten_${samples}.npy" -o
               ${samples}_of${extension}.npy)
    endforeach()
    expect_same(${samples}_of.tflite.npy ${samples}_of.intq.npy)
endforeach()
file(SHA256 "${WORK}/codes_of.intq.npy" of_codes)
file(SHA256 "${WORK}/reals_of.intq.npy" of_reals)
if(of_codes STREQUAL of_reals)
    message(SEND_ERROR "a program of codes gives the same for any samples")
endif()
expect(0 "written" run "${codes_model}" --target tflite --data "${INPUTS}/ten_codes.npy" -o of_tflite.npy)
expect(0 "samples: 4\nSQNR.*same class" compare "${INPUTS}/ten.onnx" "${codes_model}" --data "${INPUTS}/ten_reals.npy")
expect(0 "form: header.*packed for: scalar.*golden runs: 2" codegen "${codes_model}" --data "${INPUTS}/ten_codes.npy"
       --golden 2 --target tflite -o codes.hpp)
file(WRITE "${WORK}/codes.cpp" "#include \"codes.hpp\"\nint main() { return model::self_test() ? 0 : 1; }\n")
execute_process(COMMAND "${CXX}" -std=c++20 -Wall -Wextra -Werror -O0 -I. "-I${repository}/include" -o codes codes.cpp
                WORKING_DIRECTORY "${WORK}" RESULT_VARIABLE status ERROR_VARIABLE output)
if(NOT status EQUAL 0)
    message(SEND_ERROR "the header of a TFLite model: ${output}")
endif()
execute_process(COMMAND "${WORK}/codes" RESULT_VARIABLE status)
if(NOT status EQUAL 0)
    message(SEND_ERROR "the self test of the header of a TFLite model: ${status}")
endif()
expect(0 "packed for: scalar" codegen operators.onnx -o of_onnx.hpp)
set(two_samples "${MODELS}/../tflite/convolutions_int8.tflite")
expect(1 "convolutions_int8.tflite: one run of it holds 2 samples.*first extent of 1.*-o model.intq" codegen
       "${two_samples}" -o none.hpp)
expect(0 "form: program" codegen "${two_samples}" -o two_samples.intq)
expect(1 "division.tflite: operator 1 of 1 .DIV " codegen "${MODELS}/../tflite/refused_division.tflite" -o
       none.hpp)
set(long_rows "${MODELS}/../tflite/long_rows.tflite")
expect(1 "FULLY_CONNECTED \"t1\".*could reach.*relies on the data" codegen "${long_rows}" --target tflite -o
       none.hpp)
expect(1 "0 and the zero point 0" codegen "${long_rows}" --bounds t0=4:9000 -o none.hpp)
foreach(bounds IN ITEMS t0 t0=9 =-9:9 t0=-9:9x t0=:9)
    expect(1 "--bounds: expected NAME=LOWEST:HIGHEST, given \"${bounds}\"" codegen "${long_rows}" --bounds ${bounds} -o
           none.hpp)
endforeach()
expect(0 "form: header" codegen "${long_rows}" --target tflite --bounds t0=-9000:9000 -o
       bounded.hpp)
expect_text(bounded.hpp "inline bool run.const std::int16_t. x0, std::int16_t. y0.")
file(WRITE "${WORK}/bounded.cpp"
     "#include \"bounded.hpp\"\nint main() {\n    static std::int16_t x[1152], y[3];\n    x[3] = 9000;\n"
     "    if (!model::self_test() || !model::run(x, y)) return 1;\n    x[1151] = -9001;\n"
     "    return model::run(x, y) ? 2 : 0;\n}\n")
execute_process(COMMAND "${CXX}" -std=c++20 -Wall -Wextra -Werror -O0 -I. "-I${repository}/include" -o bounded bounded.cpp
                WORKING_DIRECTORY "${WORK}" RESULT_VARIABLE status ERROR_VARIABLE output)
if(NOT status EQUAL 0)
    message(SEND_ERROR "the header of a TFLite model with bounds: ${output}")
endif()
execute_process(COMMAND "${WORK}/bounded" RESULT_VARIABLE status)
if(NOT status EQUAL 0)
    message(SEND_ERROR "a header with bounds, given codes inside and outside of them: ${status}")
endif()
expect(1 "codes.intq: --bounds is for TFLite models" codegen codes.intq --bounds x=-9:9 -o none.hpp)
expect(1 "codes.intq: --target is for TFLite models" codegen codes.intq --target tflite -o none.hpp)
expect(1 "ten_codes.npy: .*given int8" run fp32.intq --data "${INPUTS}/ten_codes.npy" -o none.npy)
expect(1 "flat.npy: the shape .8, 6. does not fit" run codes.intq --data "${INPUTS}/flat.npy" -o none.npy)
expect(2 "--target: fp32 not in" run "${codes_model}" --target fp32 --data "${INPUTS}/ten_codes.npy" -o none.npy)

# --- what lowers, before any data -------------------------------------------------------------------------------------
# Each operator by the name that other commands show, for each target, and with the samples in sight.
expect(1 "first.soft .*second.soft .*end_flat .*first.soft" check "${INPUTS}/unlowerable.onnx" --target tflite bayes)
expect(1 "\"tflite\": \"3 do not lower\"" check "${INPUTS}/unlowerable.onnx" --target tflite --json)
json(node refusals 1 node)
json(type refusals 1 type)
json(reason refusals 1 reason)
expect_equal("the second refusal" "${node} ${type}" "second.soft Softmax")
if(NOT reason MATCHES "^a softmax over the samples")
    message(SEND_ERROR "the reason of the second refusal: ${reason}")
endif()
expect(1 "first.soft .%first_soft, Softmax.: a softmax over the samples" quantize "${INPUTS}/unlowerable.onnx" --data
       "${INPUTS}/ten_reals.npy" -o none.intq)
# Several inputs, whose extents the file states; then those of --shape.
expect(0 "fp32: all operators lower\n$" check "${INPUTS}/detector.onnx" --target fp32)
expect(0 "fp32: all operators lower\n$" check "${INPUTS}/detector.onnx" --target fp32 --shape image=1,3,4,4 size=1,6)
expect(1 "detector.onnx: it has 2 inputs, \"image\", \"size\"; give --shape NAME=" check "${INPUTS}/detector.onnx" --shape 1 6)
expect(1 "detector.onnx: it has no input \"sise\"" check "${INPUTS}/detector.onnx" --shape sise=1,6)
expect(2 "--shape: .*given twice" check "${INPUTS}/detector.onnx" --shape size=1,6 size=1,6)
expect(2 "--shape: expected a whole number above 0, given \"size=1,x\"" check "${INPUTS}/detector.onnx" --shape size=1,x)
# What the import refuses is named as well, all of it.
expect(1 "tflite: 2 do not lower\nnot asked: .*first.floor +Floor .*last.frob +Frobnicate .*the nearest of those that are read are .*docs/onnx.md lists all" check
       "${INPUTS}/unreadable.onnx" --target tflite)

expect(0 "not asked: what depends on shapes: the file leaves extents open; give --shape" check "${INPUTS}/open.onnx"
       --target tflite)

# --- several inputs and outputs ---------------------------------------------------------------------------------------
set(detector "${INPUTS}/detector.onnx")
set(files --data "image=${INPUTS}/image.npy" --data "size=${INPUTS}/size.npy")
foreach(of IN ITEMS files archive)
    set(archive --data "${INPUTS}/both.npz")
    expect(0 "SQNR on these samples: [0-9.]+ dB\n\noutputs\noutput +SQNR\n.*\nmap +[0-9.]+\nscore +[0-9.]+\n" quantize
           "${detector}" ${${of}} --portable --min-sqnr 30 -o detector_${of}.intq)
    expect(0 "outputs\n.*map +.8, 2, 10, 10. +float32\nscore +.8, 3. +float32" run detector_${of}.intq ${${of}} -o ${of}.npz)
    expect(0 "samples: 8\nSQNR: [0-9.]+ dB.*\nmap .*\nscore " compare "${detector}" detector_${of}.intq ${${of}})
endforeach()
expect_same(detector_files.intq detector_archive.intq)
expect_same(files.npz archive.npz)
expect(0 "\"outputs\": .{\"output\": \"map\", \"SQNR\": [0-9.]+}, {\"output\": \"score\"" quantize "${detector}" ${files}
       --json -o detector.json)
expect(0 "golden runs: 2" codegen detector_files.intq ${archive} --golden 2 -o detector.hpp)
expect_text(detector.hpp "@param x1 .*@param y1 ")
expect(0 "form: onnx" quantize "${detector}" ${files} -o detector.onnx)
expect(0 "map .*score " run detector.onnx ${files} -o of_detector.npz)
expect(1 "none.npy: detector_files.intq has 2 outputs, \"map\", \"score\"; name a .npz file" run detector_files.intq
       ${files} -o none.npy)
expect(0 "shape: .4, 5." run "${codes_model}" --data "${INPUTS}/ten_codes.npy" -o one.npz)
expect(1 "--data names no file for the input \"size\"" run detector_files.intq --data "image=${INPUTS}/image.npy" -o none.npz)
expect(1 "the model has no input \"sise\"; nearest: \"size\"" run detector_files.intq --data "sise=${INPUTS}/size.npy" -o
       none.npz)
expect(1 "\"size\" has its samples already" run detector_files.intq ${files} --data "size=${INPUTS}/size.npy" -o none.npz)
expect(1 "other.npz: it holds no array for the input \"size\"" quantize "${detector}" --data "${INPUTS}/other.npz" -o none.intq)
expect(1 "fewer.npy: it has 5 samples, and .*image.npy has 8" quantize "${detector}" --data "image=${INPUTS}/image.npy"
       --data "size=${INPUTS}/fewer.npy" -o none.intq)
expect(1 "--image-input is for models of one input" quantize "${detector}" ${files} --image-input chw -o none.intq)
expect(1 "detector.onnx: it has 2 inputs" profile "${detector}" ${files} -o none)
file(COPY "${INPUTS}/both.npz" DESTINATION "${WORK}")
expect(1 "both.npz: cannot be written: it is a file that this command reads" run detector_files.intq --data both.npz -o
       both.npz)

# --- wrong use --------------------------------------------------------------------------------------------------------
set(quantize quantize "${model}" --data "${calibration}")
expect(2 "^intq: A subcommand is required" )
expect(2 "^intq: there is no command \"quantise\"; nearest: \"quantize\"" quantise)
expect(2 "^intq: check has no option \"--hlep\"; nearest: \"--help\"" check --hlep)
expect(2 "^intq: the program has no option \"--vresion\"; nearest: \"--version\"" --vresion)
expect(2 "^intq: quantize has no option \"--tagret\"; nearest: \"--target\"" quantize "${model}" --tagret=bayes)
expect(2 "^intq: --data is required" quantize "${model}" -o none.intq)
expect(2 "avx7" ${quantize} --target avx7 -o none.intq)
expect(2 "does not say what to write" ${quantize} -o none)
expect(2 "--name: is for --emit header" ${quantize} --name digits -o none.intq)
expect(2 "--onnx-form: is for --emit onnx" ${quantize} --onnx-form qdq -o none.json)
expect(2 "--golden: an ONNX model holds no program" ${quantize} --golden 2 -o none.onnx)
expect(2 "--batch: a header" ${quantize} --batch 2 -o none.hpp)
expect(2 "--top-k" ${quantize} --sensitive-ops profile/sensitive_ops.txt -o none.intq)
expect(2 "--library" ${quantize} --library . -o none.hpp)
expect(2 "--backend" ${quantize} --portable --backend scalar -o none.intq)
expect(1 "no_such.onnx" quantize no_such.onnx --data "${calibration}" -o none.intq)
expect(1 "no_such.npy" quantize "${model}" --data no_such.npy -o none.intq)
expect(1 "there is no observer|nearest" ${quantize} --observer minmax -o none.intq)
expect(1 "nowhere" ${quantize} --int16 nowhere -o none.intq)
expect(1 "no_such_list" ${quantize} --sensitive-ops no_such_list --top-k 1 -o none.intq)
expect(1 "no_such_folder" ${quantize} -o no_such_folder/none.intq)
# It is asked before the calibration, and so before the accuracy is known.
expect(1 "no_such_folder" ${quantize} --min-sqnr 90 -o no_such_folder/none.intq)
expect(1 "no_such_folder" ${quantize} --memory-svg no_such_folder/none.svg -o none.intq)
expect(1 "profile: cannot be written: it is a folder" ${quantize} --emit program -o profile)
expect(2 "no_such_backend" ${quantize} --backend no_such_backend -o none.intq)
expect(1 "'1st' is no name of a namespace" ${quantize} --name 1st -o none.hpp)
expect(1 "float32" ${quantize} --mean 0.5 --deviation 0.5 -o none.intq)
expect(1 "flat.npy: the shape .8, 6. does not fit: the model takes .N, 1, " quantize "${model}" --data
       "${INPUTS}/flat.npy" -o none.intq)
expect(1 "nan.npy.*NaN" quantize "${model}" --data "${INPUTS}/nan.npy" -o none.intq)
expect(1 "fp32.intq" quantize fp32.intq --data "${calibration}" -o none.intq)
expect(1 "flat.npy: the shape .8, 6. does not fit" run fp32.intq --data "${INPUTS}/flat.npy" -o none.npy)
# What a command reads stays.
foreach(input IN ITEMS model.onnx data.npy)
    file(COPY_FILE "${model}" "${WORK}/kept_model.onnx")
    file(COPY_FILE "${calibration}" "${WORK}/kept_data.npy")
    expect(1 "kept_${input}: cannot be written: it is a file that this command reads" quantize kept_model.onnx --data
           kept_data.npy --emit onnx -o ./kept_${input})
    expect_same(kept_model.onnx page/model.onnx)
    expect_same(kept_data.npy page/calibration.npy)
endforeach()
expect(1 "it is a file that this command reads" run fp32.intq --data "${images}" -o fp32.intq)
expect(1 "it is a file that this command reads" info fp32.intq --memory-svg fp32.intq)
expect(1 "it is a file that this command reads" codegen portable.intq -o portable.intq)
expect(0 "self test: passed" info fp32.intq)
expect(1 "operators.onnx: the model is quantized already" quantize operators.onnx --data "${calibration}" -o none.intq)
expect(1 "operators.onnx: the model is quantized already" check operators.onnx)
expect(2 "--shape" check "${model}" --shape 1 1 1 1 1 1 1 1 1 1)
expect(2 "--shape: expected a whole number above 0, given \"0\"" check "${model}" --shape 1 1 0 8)
expect(2 "--count: expected a whole number above 0, given \"-1\"" run fp32.intq --data "${images}" --count=-1 -o none.npy)
foreach(broken IN ITEMS broken.intq broken.onnx empty.intq)
    file(WRITE "${WORK}/${broken}" "no program")
    if(broken MATCHES "empty")
        file(WRITE "${WORK}/${broken}" "")
    endif()
    expect(1 "${broken}" run ${broken} --data "${images}" -o none.npy)
    expect(1 "${broken}" info ${broken})
    expect(1 "${broken}" codegen ${broken} -o none.hpp)
    expect(1 "${broken}" check ${broken})
    expect(1 "${broken}" compare "${model}" ${broken} --data "${images}")
    expect(1 "${broken}" profile ${broken} --data "${images}" -o none)
endforeach()
file(WRITE "${WORK}/a_file" "")
expect(1 "a_file" profile "${model}" --data "${images}" -o a_file)
expect(1 "no_such_folder" run fp32.intq --data "${images}" -o no_such_folder/none.npy)
expect(2 "--backend: there is no backend \"avx7\"" run fp32.intq --data "${images}" --backend avx7 -o none.npy)
expect(1 "memory-svg is for a program file" info "${model}" --memory-svg none.svg)
expect(0 "packed for: ${best}" ${quantize} --batch 4 -o batch.intq)
expect(1 "batch.intq: one run of it holds up to 4 samples.*quantize --batch 1" codegen batch.intq --backend ${best} -o none.hpp)

# What was there before stays, where the command fails early and where it fails late.
file(WRITE "${WORK}/kept.intq" "as it was")
expect(1 "not written: the SQNR is [0-9.]+ dB, and --min-sqnr asks for 90" ${quantize} --min-sqnr 90 -o kept.intq)
expect(1 "no_such.npy" quantize "${model}" --data no_such.npy -o kept.intq)
expect_text(kept.intq "^as it was$")
expect(1 "not written" ${quantize} --min-sqnr 90 -o none.onnx)
expect(0 "written" ${quantize} --min-sqnr 30 -o kept.intq)
expect_same(kept.intq fp32.intq)

file(GLOB left "${WORK}/none*" "${WORK}/no_such_folder" "${WORK}/*.tmp*")
if(left)
    message(SEND_ERROR "a failed command left ${left}")
endif()
