# SPDX-License-Identifier: MIT
#
# Runs two programs and demands that both end well and print the same lines.
#
#   cmake -D FIRST=<program> -D SECOND=<program> -P compare_outputs.cmake
cmake_minimum_required(VERSION 3.25)

foreach(name IN ITEMS FIRST SECOND)
    execute_process(COMMAND "${${name}}" OUTPUT_VARIABLE output_${name} ERROR_VARIABLE log RESULT_VARIABLE status)
    message("${${name}}\n${log}${output_${name}}")
    if(NOT status EQUAL 0)
        message(FATAL_ERROR "it ended with status ${status}")
    endif()
endforeach()
if(output_FIRST STREQUAL "")
    message(FATAL_ERROR "the first program printed nothing; nothing was compared")
elseif(NOT output_FIRST STREQUAL output_SECOND)
    message(FATAL_ERROR "the outputs differ")
endif()
