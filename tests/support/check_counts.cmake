# SPDX-License-Identifier: MIT
#
# Demands that the test programs count what passes, fails and is skipped, and print the reasons.
#
#   cmake -D PROGRAM=<test_support_counts> -P check_counts.cmake
cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND "${PROGRAM}" "[counts]" RESULT_VARIABLE status OUTPUT_VARIABLE output)
if(status EQUAL 0)
    message(FATAL_ERROR "a program with failing test cases ended with status 0")
endif()
foreach(expected IN ITEMS "2 passed, 2 failed, 2 skipped\n"
                          "SKIPPED: a case that is left early is skipped: the reason of the case\n"
                          "SKIPPED: an item that is skipped twice counts once, beside its case: the reason of the item\n")
    string(FIND "${output}" "${expected}" place)
    if(place EQUAL -1)
        string(REPLACE "\n" "\n> " output "> ${output}")
        message(FATAL_ERROR "the output lacks: ${expected}${output}")
    endif()
endforeach()
