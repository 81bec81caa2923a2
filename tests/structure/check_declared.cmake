# SPDX-License-Identifier: MIT
#
# Writes the syntax tree of a unit and the symbols of libraries, and hands both to check_declared.
#
#   cmake -D SOURCE=<file> -D SCRATCH=<file> -D NM=<nm> -D PROGRAM=<check_declared> -D COMPILE=<clang>,<flag>,...
#         -P check_declared.cmake -- <library>...
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/command_words.cmake")
string(REPLACE "," ";" COMPILE "${COMPILE}")

execute_process(COMMAND ${COMPILE} -fsyntax-only -Xclang -ast-dump=json -Xclang -ast-dump-filter=intq "${SOURCE}"
                OUTPUT_FILE "${SCRATCH}.json" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${NM}" --defined-only --format=posix ${command} OUTPUT_FILE "${SCRATCH}.symbols"
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${PROGRAM}" "${SCRATCH}.json" "${SCRATCH}.symbols" RESULT_VARIABLE status)
file(REMOVE "${SCRATCH}.json" "${SCRATCH}.symbols")
if(NOT status EQUAL 0)
    message(FATAL_ERROR "check_declared ended with ${status}")
endif()
