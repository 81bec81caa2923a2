# SPDX-License-Identifier: MIT
#
# Compares what INTQ_ABI says of the instruction set with a list of flags and words, and demands that within one
# architecture no two lines of it agree.
#
#   cmake -D LIST=<abi_words.txt> -D SOURCE=<abi_word.cpp> -D INCLUDE=<folder> -D CLANG=<clang++> -P check_abi_words.cmake
cmake_minimum_required(VERSION 3.25)

file(STRINGS "${LIST}" rows REGEX "^[^#]")
set(faults "")
set(seen "")
set(checked 0)
execute_process(COMMAND "${CLANG}" -dumpversion OUTPUT_VARIABLE version COMMAND_ERROR_IS_FATAL ANY)
foreach(row IN LISTS rows)
    string(REGEX MATCH "^([^|]*)\\|([^|]*)\\|(.*)$" row "${row}")
    set(target "${CMAKE_MATCH_1}")
    set(flags "${CMAKE_MATCH_2}")
    set(words "${CMAKE_MATCH_3}")
    if(flags MATCHES "^newer " AND version VERSION_LESS 19)
        continue()
    endif()
    string(REGEX REPLACE "^newer " "" flags "${flags}")
    if("${target}${words}" IN_LIST seen)
        string(APPEND faults "  ${target} ${flags}: ${words} is listed twice\n")
    endif()
    list(APPEND seen "${target}${words}")
    separate_arguments(options UNIX_COMMAND "${flags}")
    execute_process(COMMAND "${CLANG}" "--target=${target}" ${options} -DINTQ_ASSERT_LEVEL=0 "-I${INCLUDE}" -E -P
                            "${SOURCE}" OUTPUT_VARIABLE output ERROR_VARIABLE error RESULT_VARIABLE status)
    string(REGEX MATCH "abi_word v[0-9]+_[0-9]+_assert0(.*)_native" found "${output}")
    if(NOT status EQUAL 0 OR NOT "${CMAKE_MATCH_1}" STREQUAL words)
        string(APPEND faults "  ${target} ${flags}: ${words} expected, ${CMAKE_MATCH_1} found ${error}\n")
    endif()
    math(EXPR checked "${checked} + 1")
endforeach()
if(faults OR checked EQUAL 0)
    message(FATAL_ERROR "of ${checked} lines these differ:\n${faults}")
endif()
message("${checked} lines of flags, each with its words")
