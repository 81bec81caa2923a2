# SPDX-License-Identifier: MIT
#
# Compiles a header as C++17. The compiler says once that the library needs C++20, and stops.
#
#   cmake -P check_cxx17.cmake -- <compiler> <flag>... <header>

cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/command_words.cmake")

execute_process(COMMAND ${command} -std=c++17 RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
string(REGEX MATCHALL "error: [^\n]*" errors "${output}")
list(LENGTH errors count)
list(POP_FRONT errors first)
if(NOT first MATCHES "intq needs C[+][+]20: compile with -std=c[+][+]20")
    message(FATAL_ERROR "the first error is not ours: ${first}")
endif()
if(status EQUAL 0 OR NOT count EQUAL 2)
    message(FATAL_ERROR "${count} errors, expected ours and the end of the compilation:\n${output}")
endif()
message("${first}")
