# SPDX-License-Identifier: MIT
#
# A tree in which nothing is built yet: targets_of_tests.cmake must say what a test's program is called.
#
#   cmake -D NINJA=<ninja> -D SCRATCH=<folder> -P check_targets.cmake
cmake_minimum_required(VERSION 3.25)

file(WRITE "${SCRATCH}/CTestTestfile.cmake" "add_test([=[room/chosen]=] \"${SCRATCH}/tests/unbuilt\" \"[#chosen]\")\n\
add_test([=[room/other]=] \"${SCRATCH}/tests/other\")\n")
file(WRITE "${SCRATCH}/build.ninja" "rule touch\n  command = touch $out\nbuild tests/unbuilt: touch\nbuild tests/other: touch\n")
execute_process(COMMAND "${CMAKE_COMMAND}" -D "BUILD=${SCRATCH}" -D "NINJA=${NINJA}" -P
                        "${CMAKE_CURRENT_LIST_DIR}/targets_of_tests.cmake" -- -R chosen
                OUTPUT_VARIABLE targets COMMAND_ERROR_IS_FATAL ANY)
if(NOT targets STREQUAL "tests/unbuilt\n")
    message(FATAL_ERROR "the targets of room/chosen are \"${targets}\", expected tests/unbuilt")
endif()
