# SPDX-License-Identifier: MIT
#
# `check_layers --write` restores the rows of a table from the headers.
#
#   cmake -D TABLE=<rooms.txt> -D SCRATCH=<file> -P check_rooms_written.cmake -- <check_layers> <include folder>

cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/command_words.cmake")

file(READ "${TABLE}" table)
string(REGEX REPLACE "(\n[a-z_/]+:)[^\n]*" "\\1" bare "${table}")
if(bare STREQUAL table)
    message(FATAL_ERROR "${TABLE} has no arrows")
endif()
file(WRITE "${SCRATCH}" "${bare}")
execute_process(COMMAND ${command} --write "${SCRATCH}" RESULT_VARIABLE status)
file(READ "${SCRATCH}" written)
if(NOT status EQUAL 0 OR NOT written STREQUAL table)
    message(FATAL_ERROR "${SCRATCH} is not ${TABLE}")
endif()
