# SPDX-License-Identifier: MIT
#
# Copies a header with one place changed, which must be there once: a planted fault, outside of the library's headers.
#
#   cmake -D FROM=<header> -D TO=<copy> -D OLD=<text> -D NEW=<text> -P spoil_header.cmake

cmake_minimum_required(VERSION 3.25)
file(READ "${FROM}" text)
string(FIND "${text}" "${OLD}" first)
string(FIND "${text}" "${OLD}" last REVERSE)
if(first EQUAL -1 OR NOT first EQUAL last)
    message(FATAL_ERROR "${FROM}: the place of the fault is not there, or not once: ${OLD}")
endif()
string(REPLACE "${OLD}" "${NEW}" text "${text}")
file(WRITE "${TO}" "${text}")
