# SPDX-License-Identifier: MIT
#
# Cycles by layer on an emulated Cortex-M4 (examples/firmware/cycles.cpp): each layer has its line, the last line is
# their sum, and where an instruction takes 1,024 times as long, SysTick runs down and the sum is 1,024 times as large.
#
#   cmake -D COMPILER=<g++> -D FLAGS=<word|word> -D HEADER=<generated header> -D MODEL=<its namespace>
#         -D SOURCE=<repository> -D WORK=<scratch> [-D REPLACE=<text> -D BY=<text>] -P check_cycles.cmake -- <emulator>...
# REPLACE plants a fault in cycles.hpp.

cmake_minimum_required(VERSION 3.25)
string(REPLACE "|" ";" FLAGS "${FLAGS}")
include("${CMAKE_CURRENT_LIST_DIR}/../structure/command_words.cmake")
set(emulator ${command})
file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}")
file(WRITE "${WORK}/model.hpp" "#include \"${HEADER}\"\nnamespace model = ${MODEL};\n")
file(COPY "${SOURCE}/examples/firmware/" DESTINATION "${WORK}")
if(REPLACE)
    file(READ "${WORK}/cycles.hpp" text)
    string(FIND "${text}" "${REPLACE}" at)
    if(at EQUAL -1)
        message(FATAL_ERROR "cycles.hpp has no text ${REPLACE}")
    endif()
    string(REPLACE "${REPLACE}" "${BY}" text "${text}")
    file(WRITE "${WORK}/cycles.hpp" "${text}")
endif()
execute_process(
    COMMAND "${COMPILER}" ${FLAGS} "-I${SOURCE}/include" cycles.cpp start.cpp -nostartfiles -Wl,--gc-sections -T board.ld
            -o cycles.elf
    WORKING_DIRECTORY "${WORK}"
    RESULT_VARIABLE status ERROR_VARIABLE errors)
if(NOT status EQUAL 0 OR errors)
    message(FATAL_ERROR "exit code ${status} of the compiler\n${errors}")
endif()

# sum_of_layers(<result> <shift>): checks the table of one run
function(sum_of_layers result shift)
    execute_process(COMMAND ${emulator} -icount shift=${shift} -kernel "${WORK}/cycles.elf" OUTPUT_VARIABLE output
                    ERROR_VARIABLE output RESULT_VARIABLE status TIMEOUT 120)
    if(NOT status EQUAL 0 OR NOT output MATCHES "self test passed\ncounter: SysTick\n +cycles  layer\n(.*)")
        message(FATAL_ERROR "exit code ${status}\n${output}")
    endif()
    string(REGEX MATCHALL "[0-9]+  [^\n]+" lines "${CMAKE_MATCH_1}")
    file(STRINGS "${HEADER}" instructions REGEX "^    \\{intq::OpKind::")
    list(LENGTH instructions expected)
    list(LENGTH lines count)
    math(EXPR expected "${expected} + 1")
    if(NOT count EQUAL expected)
        message(FATAL_ERROR "${count} lines, not ${expected}:\n${output}")
    endif()
    list(POP_BACK lines all)
    set(sum 0)
    foreach(line IN LISTS lines)
        string(REGEX MATCH "^[0-9]+" cycles "${line}")
        math(EXPR sum "${sum} + ${cycles}")
    endforeach()
    if(NOT all STREQUAL "${sum}  all")
        message(FATAL_ERROR "the layers sum to ${sum}:\n${output}")
    endif()
    set(${result} ${sum} PARENT_SCOPE)
endfunction()

sum_of_layers(short 0)
sum_of_layers(long 10)
math(EXPR percent "(${long} * 100) / (${short} * 1024)")
if(long LESS 16777216)
    message(FATAL_ERROR "SysTick did not run down: ${long} cycles")
elseif(percent LESS 99 OR percent GREATER 100)
    message(FATAL_ERROR "${short} cycles, and 1,024 times as long ${long}, which are ${percent} %")
endif()
message("${short} cycles; 1,024 times as long: ${long}")
