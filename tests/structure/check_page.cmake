# SPDX-License-Identifier: MIT
#
# Compiles each program of a page, runs it, and compares its output with what the page says. A program is a block of
# code marked cpp that holds `int main(`; its output is the block marked text that follows it. It compiles without a
# warning.
#
#   cmake -D PAGE=<page> -D CXX=<compiler> -D INCLUDE=<folder> -D SCRATCH=<folder> -P check_page.cmake -- <flag>...

cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/command_words.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/page_blocks.cmake")
cmake_path(GET PAGE FILENAME page_name)
file(READ "${PAGE}" text)
file(MAKE_DIRECTORY "${SCRATCH}")

set(programs 0)
while(TRUE)
    take_block(cpp program)
    if(NOT found)
        break()
    endif()
    string(FIND "${program}" "int main(" main)
    if(main EQUAL -1)
        continue()
    endif()
    math(EXPR programs "${programs} + 1")
    string(FIND "${text}" "```cpp\n" next_program)
    string(FIND "${text}" "```text\n" output)
    if(output EQUAL -1 OR (NOT next_program EQUAL -1 AND next_program LESS output))
        message(FATAL_ERROR "${page_name}: program ${programs} has no block of its output")
    endif()
    take_block(text expected)

    set(source "${SCRATCH}/program_${programs}.cpp")
    file(WRITE "${source}" "${program}")
    # What includes the whole hosted half is not optimised, because its test waits for the compiler.
    set(optimise -O2)
    if(program MATCHES "intq/(intq|first)[.]hpp")
        set(optimise -O0)
    endif()
    execute_process(COMMAND "${CXX}" -std=c++20 ${optimise} ${page_warnings} "-I${INCLUDE}" ${command} "${source}" -o
                            "${SCRATCH}/program_${programs}" COMMAND_ERROR_IS_FATAL ANY)
    execute_process(COMMAND "${SCRATCH}/program_${programs}" WORKING_DIRECTORY "${CMAKE_CURRENT_LIST_DIR}/../.."
                    OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
    if(NOT printed STREQUAL expected)
        message(FATAL_ERROR "${page_name} says\n${expected}\nprogram ${programs} prints\n${printed}")
    endif()
endwhile()
if(programs EQUAL 0)
    message(FATAL_ERROR "${page_name} has no program")
endif()
message("${page_name}: ${programs} programs")
