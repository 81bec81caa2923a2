# SPDX-License-Identifier: MIT
#
# Demands that a page lists the compiler flags of every backend of the table that has a level, in rows of the form
# "| `<flags>` | `<backend>` |", and no others.
#
#   cmake -D PAGE=<page> -D INCLUDE=<folder> -D MODULES=<cmake/> -P check_flags_page.cmake
cmake_minimum_required(VERSION 3.25)
include("${MODULES}/IntqBackends.cmake")

file(STRINGS "${PAGE}" rows REGEX "^\\| `-m[^`]*` \\| `[^`]*` \\|$")
intq_read_backend_rows("${INCLUDE}" backends)
set(faults "")
foreach(backend IN LISTS backends)
    intq_backend_field(${backend} flags flags)
    list(JOIN flags " " flags)
    if(flags STREQUAL "")
        continue()
    endif()
    set(row "| `${flags}` | `${backend}` |")
    if(NOT row IN_LIST rows)
        string(APPEND faults "  there is no row ${row}\n")
    endif()
    list(REMOVE_ITEM rows "${row}")
endforeach()
foreach(row IN LISTS rows)
    string(APPEND faults "  no backend has the flags of the row ${row}\n")
endforeach()
if(faults)
    message(FATAL_ERROR "${PAGE} and intq/simd/base/backends.hpp differ:\n${faults}")
endif()
list(LENGTH backends count)
message("${count} backends with their flags")
