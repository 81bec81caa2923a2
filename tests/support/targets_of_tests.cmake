# SPDX-License-Identifier: MIT
#
# Prints what ninja must build for some tests: every file of the build tree that their commands name and ninja makes.
#
#   cmake -D BUILD=<build tree> -D NINJA=<ninja> -P targets_of_tests.cmake -- <ctest argument>...
cmake_minimum_required(VERSION 3.25)

set(arguments "")
set(is_argument FALSE)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})
    if(is_argument)
        list(APPEND arguments "${CMAKE_ARGV${i}}")
    elseif(CMAKE_ARGV${i} STREQUAL "--")
        set(is_argument TRUE)
    endif()
endforeach()

execute_process(COMMAND "${CMAKE_CTEST_COMMAND}" --test-dir "${BUILD}" --show-only=json-v1 ${arguments}
                OUTPUT_VARIABLE json COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${NINJA}" -C "${BUILD}" -t targets all OUTPUT_VARIABLE made COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE ": [^\n]*" "" made "${made}")
string(REPLACE "\n" ";" made "${made}")

string(JSON count LENGTH "${json}" tests)
set(targets "")
if(count GREATER 0)
    math(EXPR last "${count} - 1")
    foreach(test RANGE ${last})
        string(JSON command ERROR_VARIABLE none GET "${json}" tests ${test} command)
        if(none)
            continue()
        endif()
        string(REGEX MATCHALL "${BUILD}/[^\"]*" paths "${command}")
        foreach(path IN LISTS paths)
            file(RELATIVE_PATH path "${BUILD}" "${path}")
            if(path IN_LIST made)
                list(APPEND targets "${path}")
            endif()
        endforeach()
        string(JSON properties ERROR_VARIABLE none GET "${json}" tests ${test} properties)
    endforeach()
endif()
list(REMOVE_DUPLICATES targets)
foreach(target IN LISTS targets)
    execute_process(COMMAND "${CMAKE_COMMAND}" -E echo "${target}")
endforeach()
