# SPDX-License-Identifier: MIT
#
# quantize --state, and what reads its programs; names of inputs, and masks that a model compares.
#
#   cmake -D INTQ=<program> -D INPUTS=<of write_inputs> -D WORK=<scratch> -P check_state.cmake

include("${CMAKE_CURRENT_LIST_DIR}/expect.cmake")
set(steps --data "${INPUTS}/steps.npz")
set(tokens --data "${INPUTS}/tokens.npz")

expect(0 "states\n.*keys" quantize "${INPUTS}/cache.onnx" ${steps} --state -o cache.intq)
expect(0 "shape: .6, 1, 4.\n.*samples: steps of one sequence" run cache.intq ${tokens} -o y.npy)

# A cache that is the only output.
expect(1 "only_cache.onnx: --state leaves no output: .*; add an output" quantize "${INPUTS}/only_cache.onnx" ${steps}
       --state -o none.intq)
expect(0 "written" quantize "${INPUTS}/only_cache.onnx" ${steps} -o only_cache.intq)

# Caches that cannot be state are named with the reason.
expect(1 "old_read.onnx: .*it has none: \"keys\": \".*old.*\" .* reads it as it was before the row is copied" quantize
       "${INPUTS}/old_read.onnx" ${steps} --state -o none.intq)
expect(1 "\"keys\": it is an output as it comes" quantize "${INPUTS}/old_output.onnx" ${steps} --state -o none.intq)
expect(1 "\"keys\": rows are copied into it twice, also by \".*other_keys.*copy\"" quantize
       "${INPUTS}/two_copies.onnx" ${steps} --state -o none.intq)
expect(1 "\"keys\": the result of \".*copy\" .* is no output" quantize "${INPUTS}/no_output.onnx" ${steps} --state -o
       none.intq)
expect(1 "no input takes rows by index_copy" quantize "${INPUTS}/flat.onnx" --data "${INPUTS}/flat.npy" --state -o
       none.intq)
expect(0 "states\n.*\nvalues .*caches that stay inputs\n.*\nkeys +.* reads it as it was" quantize
       "${INPUTS}/one_of_two.onnx" --data "${INPUTS}/two_steps.npz" --state -o one_of_two.intq)

# What reads a program with state.
expect(1 "cache.intq: it keeps state, .*without --state" compare "${INPUTS}/cache.onnx" cache.intq ${steps})
expect(0 "written" quantize "${INPUTS}/cache.onnx" ${steps} -o whole.intq)
expect(0 "SQNR: [1-9]" compare "${INPUTS}/cache.onnx" whole.intq ${steps})
expect(0 "written" quantize "${INPUTS}/cache.onnx" ${steps} --state -o cache.json)
file(READ "${WORK}/cache.json" program)
string(JSON input GET "${program}" states 0 input)
string(JSON name GET "${program}" tensors ${input} name)
string(JSON more LENGTH "${program}" states)
if(NOT name STREQUAL "keys" OR NOT more EQUAL 1)
    message(SEND_ERROR "${more} states, the first is ${name}")
endif()
expect(0 "\ninputs.*\nx +(copied into the arena|read where)" codegen cache.intq -o cache.hpp)
if(output MATCHES "\nkeys +")
    message(SEND_ERROR "the state is listed as an input of a run: ${output}")
endif()
file(READ "${WORK}/cache.hpp" header)
if(NOT header MATCHES "@param x0  \"x\": .*@param x1  \"pos\": 1\n.*@param y0  \"y\": ")
    message(SEND_ERROR "the header does not name its arguments")
endif()
expect(0 "\ninput +dtype.*\nx +float32 .*\npos +int32 .*\nkeys +int8 .* state" info cache.intq)
expect(1 "--arena asks for 10 bytes, and the smallest arena that was found, row by row, takes [1-9][0-9]+" pack
       cache.intq --cpu cortex-m4 --arena 10 -o none.intq)
expect(1 "empty.npz: \"pos\": it is empty; give at least one sample" run cache.intq --data "${INPUTS}/empty.npz" -o
       none.npy)
expect(1 "it is empty; give at least one sample" run cache.intq --data "x=${INPUTS}/empty.npy" --data
       "pos=${INPUTS}/empty.npy" -o none.npy)

# The names of inputs are those of the file, in programs too.
set(odd --data "${INPUTS}/odd_names.npz")
expect(0 "written" quantize "${INPUTS}/odd_names.onnx" ${odd} -o odd_names.intq)
expect(0 "\ninput +float32.*\nx:0 +float32.*\ninput[.]1 +float32.*\nmax +float32" info odd_names.intq)
expect(0 "written" run odd_names.intq ${odd} -o y.npy)
expect(0 "written" codegen odd_names.intq ${odd} -o odd_names.hpp)
expect(0 "SQNR: [1-9]" compare "${INPUTS}/odd_names.onnx" odd_names.intq ${odd})
expect(1 "no array for the input \"input\"; the inputs are \"input\", \"x:0\", \"input.1\", \"max\"" run
       odd_names.intq --data "${INPUTS}/renamed.npz" -o none.npy)

# A mask that the model compares holds 0 and 1.
expect(0 "written" quantize "${INPUTS}/compared.onnx" --data "${INPUTS}/compared.npz" -o compared.intq)
expect(0 "SQNR: [2-9]" compare "${INPUTS}/compared.onnx" compared.intq --data "${INPUTS}/compared.npz")
expect(1 "the input \"attention_mask\", which the model compares, takes 0 and 1 alone; given 2" quantize
       "${INPUTS}/compared.onnx" --data "${INPUTS}/not_compared.npz" -o none.intq)

# A pole of the model.
expect(1 "NaN or infinite, which no grid holds; clamp the tensor in the model" quantize "${INPUTS}/pole.onnx" --data
       "${INPUTS}/zeros.npy" -o none.intq)
