# SPDX-License-Identifier: MIT
#
# Writes a unit that compiles several test files together: what they include, once, and then each file in a namespace
# of its own, where its #include lines find their guards set. So the files may give different things one name.
#
#   cmake -D UNIT=<file to write> -P make_unit.cmake -- <test file>...
cmake_minimum_required(VERSION 3.25)

include("${CMAKE_CURRENT_LIST_DIR}/../structure/command_words.cmake")

set(includes "")
set(files "")
foreach(file IN LISTS command)
    file(STRINGS "${file}" lines REGEX "^#include ")
    list(APPEND includes ${lines})
    cmake_path(GET file STEM name)
    string(APPEND files "namespace file_${name} {\n#include \"${file}\"\n}\n")
endforeach()
list(REMOVE_DUPLICATES includes)
list(JOIN includes "\n" includes)
file(CONFIGURE OUTPUT "${UNIT}" CONTENT "// Made by make_unit.cmake.\n${includes}\n\n${files}" @ONLY)
