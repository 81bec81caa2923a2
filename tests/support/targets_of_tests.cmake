# SPDX-License-Identifier: MIT
#
# Prints what ninja must build for some tests: every file of the build tree that their commands name and ninja makes.
#
#   cmake -D BUILD=<build tree> -D NINJA=<ninja> -D "ARGUMENTS=<ctest argument>;..." -P targets_of_tests.cmake
#
# (Behind a script's name cmake takes -L for its own option, and the script does not see it.)
cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND "${CMAKE_CTEST_COMMAND}" --test-dir "${BUILD}" --show-only=json-v1 ${ARGUMENTS}
                OUTPUT_VARIABLE json COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${NINJA}" -C "${BUILD}" -t targets all OUTPUT_VARIABLE made COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE ": [^\n]*" "" made "${made}")
string(REPLACE "\n" ";" made "${made}")

# ctest does not say the command of a test whose program is not built yet, so it is read where ctest reads it.
file(GLOB_RECURSE files "${BUILD}/CTestTestfile.cmake")
set(declared "")
foreach(file IN LISTS files)
    file(READ "${file}" text)
    string(APPEND declared "${text}")
endforeach()

string(JSON count LENGTH "${json}" tests)
set(targets "")
set(test 0)
while(test LESS count)
    string(JSON name GET "${json}" tests ${test} name)
    math(EXPR test "${test} + 1")
    string(FIND "${declared}" "add_test([=[${name}]=] " at)
    if(at EQUAL -1)
        message(FATAL_ERROR "no file of the build tree declares the test ${name}")
    endif()
    string(SUBSTRING "${declared}" ${at} -1 line)
    string(FIND "${line}" "\n" end)
    string(SUBSTRING "${line}" 0 ${end} line)
    string(REGEX MATCHALL "${BUILD}/[^\"]*" paths "${line}")
    foreach(path IN LISTS paths)
        file(RELATIVE_PATH path "${BUILD}" "${path}")
        if(path IN_LIST made)
            list(APPEND targets "${path}")
        endif()
    endforeach()
endwhile()
list(REMOVE_DUPLICATES targets)
foreach(target IN LISTS targets)
    execute_process(COMMAND "${CMAKE_COMMAND}" -E echo "${target}")
endforeach()
