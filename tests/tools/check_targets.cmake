# SPDX-License-Identifier: MIT
#
# `intq targets` on models and images of other kinds than the shipped ones, and where a configuration refuses the model.
#   cmake -D INTQ=... -D INPUTS=... -P check_targets.cmake

# Standard output of a run that must end well.
function(run_demo result)
    execute_process(COMMAND "${INTQ}" targets ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE message)
    if(NOT status STREQUAL "0")
        message(SEND_ERROR "arguments: ${ARGN}\nexpected status 0, given ${status}: ${message}")
    endif()
    set(${result} "${output}" PARENT_SCOPE)
endfunction()

function(require_match what output expected)
    if(NOT output MATCHES "${expected}")
        message(SEND_ERROR "${what}: expected a match of ${expected} in\n${output}")
    endif()
endfunction()

# The rows of a table without the path above it and without the time, which is the last column.
function(without_times result output)
    string(FIND "${output}" "\n" end)
    string(SUBSTRING "${output}" ${end} -1 output)
    string(REGEX REPLACE " +[0-9.]+(\n|$)" "\\1" output "${output}")
    set(${result} "${output}" PARENT_SCOPE)
endfunction()

# One configuration refuses, the others go on.
set(large --images "${INPUTS}/large.npy" --calibration "${INPUTS}/large.npy" --labels none)
run_demo(output --model "${INPUTS}/large.onnx" ${large} --layers none)
require_match("a refused row" "${output}"
              "bayes +int16 +symmetric( +-)+ +refused: [^\n]*accumulator could reach[^\n]*\nmeta +int16 +symmetric +- +- +[0-9]+[.]00 %")
run_demo(output --model "${INPUTS}/large.onnx" ${large} --layers bayes --dtype int8)

# Labels of the shipped images are not those of others, and outputs that are images have no classes.
run_demo(output --images "${INPUTS}/normalized.npy" --target fp32 --layers none)
require_match("no labels" "${output}" "\nfp32 +int16 +symmetric +- +- +[0-9.]+ %")

# Samples that are no images.
set(flat --model "${INPUTS}/flat.onnx" --images "${INPUTS}/flat.npy" --calibration "${INPUTS}/flat.npy" --labels none)
run_demo(output ${flat} --layers fp32)
foreach(row IN ITEMS "fp32 +int8 +affine" "tflite +int8 +symmetric" "bernoulli2 +int8 +symmetric" "meta +int16 +symmetric")
    require_match("a model of rank 2" "${output}" "\n${row} +- +- +[0-9.]+ % +[0-9.]+ ")
endforeach()
require_match("its layers" "${output}" "layers of fp32, int8, affine.*Linear[A-Za-z]* +int8 +[0-9.]+ +[0-9.]+ ")

# uint8 images are the float images that mean and deviation make of them.
set(pixels --labels none --layers none --target tflite --calibration "${INPUTS}/pixels.npy" --images "${INPUTS}/pixels.npy")
set(normalized --labels none --layers none --target tflite --calibration "${INPUTS}/normalized.npy" --images
               "${INPUTS}/normalized.npy")
run_demo(from_pixels ${pixels} --mean 0.5 --deviation 0.25)
run_demo(from_values ${normalized})
run_demo(otherwise ${pixels} --mean 0.25 --deviation 0.25)
foreach(name IN ITEMS from_pixels from_values otherwise)
    without_times(${name} "${${name}}")
endforeach()
if(NOT from_pixels STREQUAL from_values)
    message(SEND_ERROR "uint8 images: expected the rows of the float images\n${from_values}\ngiven\n${from_pixels}")
endif()
if(otherwise STREQUAL from_values)
    message(SEND_ERROR "another mean changes nothing:\n${otherwise}")
endif()

# The arena is that of one image, whatever the batch.
foreach(batch IN ITEMS 1 4)
    run_demo(output ${normalized} --batch ${batch})
    require_match("its title" "${output}" "arena bytes, 1 image")
    without_times(arena_${batch} "${output}")
endforeach()
if(NOT arena_1 STREQUAL arena_4)
    message(SEND_ERROR "the arena depends on the batch:\n${arena_1}\n${arena_4}")
endif()
