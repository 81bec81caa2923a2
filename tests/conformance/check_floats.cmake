# SPDX-License-Identifier: MIT
#
# A generated model on a core without a floating-point unit: of its functions, those of quantize and dequantize alone call
# the compiler's functions of float and double, or the library's of floats.
#
#   cmake -D COMPILER=<g++> -D FLAGS=<word|word> -D HEADER=<generated header> -D MODEL=<its namespace>
#         -D INCLUDE=<folder> -D OBJECT=<file> -P check_floats.cmake

cmake_minimum_required(VERSION 3.25)
string(REPLACE "|" ";" FLAGS "${FLAGS}")
string(REGEX REPLACE "g\\+\\+$" "readelf" readelf "${COMPILER}")
# The planted faults compute a float, and round one by a function that quantize calls.
file(WRITE "${OBJECT}.cpp" "#include \"${HEADER}\"
void run_model(const float* x, float* y);
void run_model(const float* x, float* y) {
    ${MODEL}::run(x, y);
#if INTQ_FAULT == 1
    y[0] *= x[1];
#elif INTQ_FAULT == 2
    y[0] = intq::arith::round_half_even(x[1]);
#endif
}
")
# A section for each function (-ffunction-sections), so that relocations say who calls whom.
execute_process(COMMAND "${COMPILER}" -std=c++20 -Os -DNDEBUG ${FLAGS} "-I${INCLUDE}" -c "${OBJECT}.cpp" -o "${OBJECT}"
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${readelf}" -rW "${OBJECT}" OUTPUT_VARIABLE relocations COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" relocations "${relocations}")

set(compiler "__aeabi_(f|d|cf|cd)[a-z0-9]+|__aeabi_(u?i|u?l)2[fd]")
set(of_floats "15round_half_evenIfE|5floorIfE|12scalar_lanes[0-9]+[a-z_]+E[if]*f[if]*")
set(quantizes "10QuantizeOpI|12DequantizeOpI")
set(section "")
set(calls 0)
foreach(line IN LISTS relocations)
    if(line MATCHES "^Relocation section '\\.rel\\.text\\.([^']+)'")
        set(section "${CMAKE_MATCH_1}")
    elseif(line MATCHES "^Relocation section")
        set(section "")
    elseif(section AND line MATCHES "([^ ]+)$")
        set(called "${CMAKE_MATCH_1}")
        if(called MATCHES "^(${compiler})$|${of_floats}")
            math(EXPR calls "${calls} + 1")
            if(NOT section MATCHES "${quantizes}|${of_floats}")
                message(FATAL_ERROR "${MODEL}: ${section} calls ${called}")
            endif()
        endif()
    endif()
endforeach()
if(calls EQUAL 0)
    message(FATAL_ERROR "${MODEL}: no call of float arithmetic, which quantize has here")
endif()
message(STATUS "${MODEL}: ${calls} calls of float arithmetic, all in quantize and dequantize")
