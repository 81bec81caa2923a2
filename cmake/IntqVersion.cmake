# SPDX-License-Identifier: MIT
#
# The version stands in one header (INTQ_VERSION_MAJOR, _MINOR, _PATCH); CMake reads it from there.

function(intq_read_version header result)
    file(STRINGS "${header}" lines REGEX "^#define INTQ_VERSION_(MAJOR|MINOR|PATCH) [0-9]+$")
    foreach(part IN ITEMS MAJOR MINOR PATCH)
        if(NOT "${lines}" MATCHES "INTQ_VERSION_${part} ([0-9]+)")
            message(FATAL_ERROR "${header} does not define INTQ_VERSION_${part} as a plain number")
        endif()
        set(${part} "${CMAKE_MATCH_1}")
    endforeach()
    set(${result} "${MAJOR}.${MINOR}.${PATCH}" PARENT_SCOPE)
endfunction()
