# SPDX-License-Identifier: MIT
#
# What a generated model takes on a board, as firmware of examples/firmware: code, RAM and stack, within the bounds of
# docs/to_a_microcontroller.md. The firmware passes its self test in the emulator.
#
#   cmake -D COMPILER=<g++> -D FLAGS=<word|word> -D LINK=<word|word> -D HEADER=<generated header>
#         -D MODEL=<its namespace> -D SOURCE=<repository> -D WORK=<scratch> -D CODE=<bound> -P check_size.cmake
#         -- <emulator>...

cmake_minimum_required(VERSION 3.25)
string(REPLACE "|" ";" FLAGS "${FLAGS}")
string(REPLACE "|" ";" LINK "${LINK}")
include("${CMAKE_CURRENT_LIST_DIR}/../structure/command_words.cmake")
set(emulator ${command})
file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}")
set(firmware "${SOURCE}/examples/firmware")
set(code_bound ${CODE})
set(ram_bound 2048)    # beside the arena, the image and the logits
set(stack_bound 2048)

function(run)
    execute_process(COMMAND ${ARGN} WORKING_DIRECTORY "${WORK}" RESULT_VARIABLE status OUTPUT_VARIABLE output
                    ERROR_VARIABLE errors)
    if(NOT status EQUAL 0)
        list(JOIN ARGN " " line)
        message(FATAL_ERROR "${line}\nexit code ${status}\n${output}${errors}")
    endif()
    set(output "${output}" PARENT_SCOPE)
endfunction()

# The words of the page's command line, -Os among them.
set(flags -std=c++20 -Os -mthumb -DNDEBUG -fno-exceptions -fno-rtti -fno-threadsafe-statics -ffunction-sections
          -fdata-sections -Wall -Wextra -Werror -Wno-psabi ${FLAGS} "-I${SOURCE}/include" "-I${firmware}" "-I${WORK}")
set(link -nostartfiles -Wl,--gc-sections -T "${firmware}/board.ld" ${LINK})

file(WRITE "${WORK}/model.hpp" "#include \"${HEADER}\"\nnamespace model = ${MODEL};\n")
file(WRITE "${WORK}/nothing.cpp" "#include \"board.hpp\"\n#include <cstring>\nchar from[64], to[64];\nunsigned long count;\n"
                                 "int main() { std::memcpy(to, from, count); board::print(to); board::print(count); return 0; }\n")
run("${COMPILER}" ${flags} -c "${firmware}/start.cpp" -o start.o)
run("${COMPILER}" ${flags} -c nothing.cpp -o nothing.o)
run("${COMPILER}" ${flags} -fcallgraph-info=su -c "${firmware}/firmware.cpp" -o firmware.o)
run("${COMPILER}" ${flags} nothing.o start.o ${link} -o nothing.elf)
run("${COMPILER}" ${flags} firmware.o start.o ${link} -o firmware.elf)

# --- what the linker took ----------------------------------------------------------------------------------------------
string(REGEX REPLACE "g\\+\\+$" "nm" nm "${COMPILER}")
# sizes(<image> <prefix>): bytes of functions, constants, tables and RAM
function(sizes image prefix)
    run("${nm}" --demangle --print-size "${image}")
    string(REPLACE ";" "," output "${output}")
    string(REPLACE "\n" ";" lines "${output}")
    set(seen "")
    foreach(kind IN ITEMS functions constants tables ram)
        set(${kind} 0)
    endforeach()
    foreach(line IN LISTS lines)
        if(NOT line MATCHES "^([0-9a-f]+) ([0-9a-f]+) ([A-Za-z]) (.*)$")
            continue()
        endif()
        set(address "${CMAKE_MATCH_1}")
        set(type "${CMAKE_MATCH_3}")
        set(name "${CMAKE_MATCH_4}")
        math(EXPR bytes "0x${CMAKE_MATCH_2}")
        if(address IN_LIST seen)  # a constructor has two names
            continue()
        endif()
        list(APPEND seen "${address}")
        if(address MATCHES "^2[01]")
            set(kind ram)
        elseif(type MATCHES "[tTwW]")
            set(kind functions)
        elseif(name MATCHES "^${MODEL}::data::([ct][0-9]+|golden_[a-z]+)$")
            set(kind constants)
        else()
            set(kind tables)
        endif()
        math(EXPR ${kind} "${${kind}} + ${bytes}")
    endforeach()
    foreach(kind IN ITEMS functions constants tables ram)
        set(${prefix}_${kind} ${${kind}} PARENT_SCOPE)
    endforeach()
    set(${prefix}_symbols "${output}" PARENT_SCOPE)
endfunction()
sizes(nothing.elf nothing)
sizes(firmware.elf model)
math(EXPR code "${model_functions} - ${nothing_functions}")
math(EXPR tables "${model_tables} - ${nothing_tables}")

set(forbidden "malloc|calloc|realloc|free|sbrk|operator new|operator delete|__cxa_|_Unwind|printf|fopen|fwrite|puts|abort")
string(REGEX MATCHALL "[^\n]* [tTwW] (_*(${forbidden})[^\n]*)" found "${model_symbols}")
if(found)
    message(SEND_ERROR "the image has symbols of heap, exceptions or stdio: ${found}")
endif()

# --- what it does in the emulator --------------------------------------------------------------------------------------
execute_process(COMMAND ${emulator} firmware.elf WORKING_DIRECTORY "${WORK}" RESULT_VARIABLE status
                OUTPUT_VARIABLE printed ERROR_VARIABLE printed TIMEOUT 240)
if(NOT status EQUAL 0 OR NOT printed MATCHES "self test passed")
    message(FATAL_ERROR "the firmware ends with ${status}:\n${printed}")
endif()
string(REGEX MATCH "arena: ([0-9]+) bytes" match "${printed}")
set(arena ${CMAKE_MATCH_1})
string(REGEX MATCH "image and logits: ([0-9]+) bytes" match "${printed}")
set(buffers ${CMAKE_MATCH_1})
string(REGEX MATCH "stack: ([0-9]+) bytes" match "${printed}")
set(painted ${CMAKE_MATCH_1})
run(awk -f "${CMAKE_CURRENT_LIST_DIR}/stack_of.awk" firmware.ci)
string(STRIP "${output}" stated)
math(EXPR ram "${model_ram} - ${arena} - ${buffers}")

message("${MODEL}: code ${code} bytes (at most ${code_bound}), tables of the model ${tables}, weights and golden runs "
        "${model_constants}; RAM: arena ${arena} and ${ram} (at most ${ram_bound}); stack: painted ${painted}, stated "
        "${stated} (at most ${stack_bound})")
foreach(pair IN ITEMS "code;${code};${code_bound}" "ram;${ram};${ram_bound}" "painted;${painted};${stack_bound}"
                      "stated;${stated};${stack_bound}")
    list(GET pair 0 what)
    list(GET pair 1 given)
    list(GET pair 2 most)
    if(given GREATER most)
        message(SEND_ERROR "${what}: ${given} bytes, at most ${most}")
    endif()
endforeach()
