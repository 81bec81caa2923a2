# SPDX-License-Identifier: MIT
#
# Compares the README's table of machines with the one that machines_table.cmake wrote.
#
#   cmake -D PAGE=<README.md> -D TABLE=<file> -P check_machines_table.cmake

cmake_minimum_required(VERSION 3.25)
set(begin "<!-- machines: the rows of tests/conformance/CMakeLists.txt -->\n")
set(end "<!-- end of the machines -->\n")
file(READ "${PAGE}" page)
file(READ "${TABLE}" table)
string(FIND "${page}" "${begin}${table}${end}" at)
if(at EQUAL -1)
    message(FATAL_ERROR "${PAGE}: its table of machines is not\n${begin}${table}${end}")
endif()
