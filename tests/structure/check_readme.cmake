# SPDX-License-Identifier: MIT
#
# Compiles the README's program, runs it, and compares its output with the block below it.
#   cmake -D README=… -D CXX=… -D INCLUDE=… -D SCRATCH=… -P check_readme.cmake

file(READ "${README}" text)
string(FIND "${text}" "```cpp\n" begin)
if(begin LESS 0)
    message(FATAL_ERROR "the README has no program")
endif()
math(EXPR begin "${begin} + 7")
string(SUBSTRING "${text}" ${begin} -1 text)
string(FIND "${text}" "```" end)
string(SUBSTRING "${text}" 0 ${end} program)
string(FIND "${text}" "```text\n" begin)
math(EXPR begin "${begin} + 8")
string(SUBSTRING "${text}" ${begin} -1 text)
string(FIND "${text}" "```" end)
string(SUBSTRING "${text}" 0 ${end} expected)

file(WRITE "${SCRATCH}/main.cpp" "${program}")
execute_process(COMMAND "${CXX}" -std=c++20 -O2 -Wall -Wextra "-I${INCLUDE}" "${SCRATCH}/main.cpp" -o "${SCRATCH}/program"
                        COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${SCRATCH}/program" OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
if(NOT output STREQUAL expected)
    message(FATAL_ERROR "the README says\n${expected}\nthe program prints\n${output}")
endif()
