# SPDX-License-Identifier: MIT
#
# Runs a program of another machine and demands the output that is expected.
#
#   cmake -D PROGRAM=<program> -D EXPECTED=<program of this machine, or text files joined by |> -D MACHINE=<name>
#         -D COMPILER=<words> -D EMULATOR_NAME=<name> -D ROW=<file> [-D EXPECTED_BACKEND=<name>] [-D SAYS=<regex>]
#         [-D SECONDS=<number>] -P check_machine.cmake -- [<emulator> <word>...]
#
# SAYS is what its messages must hold, besides the output. SECONDS is when a program that hangs is ended.
# The row of the table that ./dev conformance prints goes to ROW: machine, compiler, emulator, and each line's checksum.

cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/../structure/command_words.cmake")

file(REMOVE "${ROW}")
if(EXPECTED MATCHES "\\.txt$")
    string(REPLACE "|" ";" files "${EXPECTED}")
    set(expected "")
    foreach(file IN LISTS files)
        file(READ "${file}" text)
        string(APPEND expected "${text}")
    endforeach()
else()
    execute_process(COMMAND "${CMAKE_COMMAND}" -E env "INTQ_BACKEND=${EXPECTED_BACKEND}" "${EXPECTED}" OUTPUT_VARIABLE expected COMMAND_ERROR_IS_FATAL ANY)
endif()
if(NOT SECONDS)
    set(SECONDS 240)
endif()
execute_process(COMMAND ${command} "${PROGRAM}" RESULT_VARIABLE status OUTPUT_VARIABLE printed ERROR_VARIABLE errors
                TIMEOUT ${SECONDS})
# A board's console ends its lines as terminals do.
string(REPLACE "\r\n" "\n" printed "${printed}")
message("${printed}${errors}")
if(NOT status EQUAL 0)
    message(FATAL_ERROR "${MACHINE}: the program ended with status ${status}")
endif()
if(expected STREQUAL "" OR NOT printed STREQUAL expected)
    message(FATAL_ERROR "${MACHINE}: DIFFERENT; expected\n${expected}")
endif()

if(SAYS AND NOT errors MATCHES "${SAYS}")
    message(FATAL_ERROR "${MACHINE}: its messages do not hold: ${SAYS}")
endif()

if(NOT EMULATOR_NAME)
    set(EMULATOR_NAME "-")
endif()
set(row "${MACHINE}|${COMPILER}|${EMULATOR_NAME}")
string(REGEX MATCHALL "[^\n]+" lines "${printed}")
foreach(line IN LISTS lines)
    string(REGEX REPLACE ".* " "" checksum "${line}")
    string(APPEND row "|${checksum}")
endforeach()
file(WRITE "${ROW}" "${row}\n")
