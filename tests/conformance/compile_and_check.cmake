# SPDX-License-Identifier: MIT
#
# Compiles a program for another machine, and then runs it as check_machine.cmake does.
#
#   cmake -D COMPILE=<compiler|word|word> -D SOURCE=<file> -D PROGRAM=<file> -D EXPECTED=<...> -D MACHINE=<name>
#         -D ROW=<file> -P compile_and_check.cmake -- [<emulator> <word>...]

cmake_minimum_required(VERSION 3.25)
string(REPLACE "|" ";" words "${COMPILE}")
get_filename_component(folder "${PROGRAM}" DIRECTORY)
file(MAKE_DIRECTORY "${folder}")
execute_process(COMMAND ${words} "${SOURCE}" -o "${PROGRAM}" COMMAND_ERROR_IS_FATAL ANY)
include("${CMAKE_CURRENT_LIST_DIR}/check_machine.cmake")
