# SPDX-License-Identifier: MIT
#
# A generated model on a core without instructions that divide and that multiply to 64 bits: its object file calls no
# integer function of the compiler. Quantize and dequantize call those of float.
#
#   cmake -D COMPILER=<g++> -D FLAGS=<word|word> -D HEADER=<generated header> -D MODEL=<its namespace>
#         -D INCLUDE=<folder> -D OBJECT=<file> -P check_helpers.cmake

cmake_minimum_required(VERSION 3.25)
string(REPLACE "|" ";" FLAGS "${FLAGS}")
string(REGEX REPLACE "g\\+\\+$" "nm" nm "${COMPILER}")
# The planted fault divides by a number that only a run knows.
file(WRITE "${OBJECT}.cpp" "#include \"${HEADER}\"
void run_model(const float* x, float* y, int* counts);
void run_model(const float* x, float* y, [[maybe_unused]] int* counts) {
    ${MODEL}::run(x, y);
#if INTQ_FAULT
    counts[0] /= counts[1];
#endif
}
")
execute_process(COMMAND "${COMPILER}" -std=c++20 -Os -DNDEBUG ${FLAGS} "-I${INCLUDE}" -c "${OBJECT}.cpp" -o "${OBJECT}"
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${nm}" --undefined-only "${OBJECT}" OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "__[a-z0-9_]+" called "${symbols}")
if(NOT "__aeabi_fmul" IN_LIST called)
    message(FATAL_ERROR "${MODEL}: no call of float arithmetic, which quantize has here:\n${symbols}")
endif()
list(FILTER called EXCLUDE REGEX "^__aeabi_(f.*|u?i2f)$")
if(called)
    list(JOIN called ", " called)
    message(FATAL_ERROR "${MODEL} calls ${called} of the compiler")
endif()
