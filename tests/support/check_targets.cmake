# SPDX-License-Identifier: MIT
#
# A tree in which nothing is built yet: targets_of_tests.cmake must say what a test's program is called.
#
#   cmake -D NINJA=<ninja> -D SCRATCH=<folder> -P check_targets.cmake
cmake_minimum_required(VERSION 3.25)

file(WRITE "${SCRATCH}/CTestTestfile.cmake" "add_test([=[room/chosen]=] \"${SCRATCH}/tests/unbuilt\" \"[#chosen]\")\n\
set_tests_properties([=[room/chosen]=] PROPERTIES LABELS rest)\n\
add_test([=[room/other]=] \"${SCRATCH}/tests/other\")\n")
file(WRITE "${SCRATCH}/build.ninja" "rule touch\n  command = touch $out\nbuild tests/unbuilt: touch\nbuild tests/other: touch\n")
foreach(arguments IN ITEMS "-R;chosen" "-L;^rest$" "-E;other")
    execute_process(COMMAND "${CMAKE_COMMAND}" -D "BUILD=${SCRATCH}" -D "NINJA=${NINJA}" -D "ARGUMENTS=${arguments};" -P
                            "${CMAKE_CURRENT_LIST_DIR}/targets_of_tests.cmake"
                    OUTPUT_VARIABLE targets COMMAND_ERROR_IS_FATAL ANY)
    if(NOT targets STREQUAL "tests/unbuilt\n")
        message(FATAL_ERROR "the targets of room/chosen are \"${targets}\" by ${arguments}, expected tests/unbuilt")
    endif()
endforeach()
