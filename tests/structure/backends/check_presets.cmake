# SPDX-License-Identifier: MIT
#
# Demands that CMakePresets.json has a configure, a build and a test preset for every backend of the table that has a
# level, and a configure preset that is built at that level. (The file cannot be made from the table: CMake reads it
# first.)
#
#   cmake -D PRESETS=<CMakePresets.json> -D INCLUDE=<folder> -D MODULES=<cmake/> -P check_presets.cmake
cmake_minimum_required(VERSION 3.25)
include("${MODULES}/IntqBackends.cmake")

file(READ "${PRESETS}" json)
intq_read_backend_rows("${INCLUDE}" backends)
set(faults "")
foreach(kind IN ITEMS configurePresets buildPresets testPresets)
    set(names "")
    string(JSON count LENGTH "${json}" ${kind})
    math(EXPR last "${count} - 1")
    foreach(i RANGE ${last})
        string(JSON name GET "${json}" ${kind} ${i} name)
        list(APPEND names ${name})
        string(JSON level ERROR_VARIABLE none GET "${json}" ${kind} ${i} cacheVariables INTQ_ISA)
        if(name IN_LIST backends AND kind STREQUAL "configurePresets" AND NOT level STREQUAL name)
            string(APPEND faults "  the configure preset ${name} is built at the level ${level}\n")
        endif()
    endforeach()
    foreach(backend IN LISTS backends)
        if(NOT backend IN_LIST names)
            string(APPEND faults "  ${kind} has none for the backend ${backend}\n")
        endif()
    endforeach()
endforeach()
if(faults)
    message(FATAL_ERROR "CMakePresets.json and intq/simd/base/backends.hpp differ:\n${faults}")
endif()
list(LENGTH backends count)
message("${count} backends with their presets")
