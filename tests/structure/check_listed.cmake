# SPDX-License-Identifier: MIT
#
# Demands that every file tests/**/*_test.cpp is declared in tests/CMakeLists.txt: a test that nobody builds is green.
#
#   cmake -D TESTS=<tests folder> -D LIST=<file with the declared sources, one a line> -P check_listed.cmake
cmake_minimum_required(VERSION 3.25)

file(STRINGS "${LIST}" declared)
file(GLOB_RECURSE present RELATIVE "${TESTS}" "${TESTS}/*_test.cpp")
list(LENGTH present count)
list(REMOVE_ITEM present ${declared})
if(present)
    list(JOIN present "\n  " present)
    message(FATAL_ERROR "not declared in tests/CMakeLists.txt, so never built:\n  ${present}")
endif()
message("${count} test files, all declared")
