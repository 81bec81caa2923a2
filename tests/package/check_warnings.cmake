# SPDX-License-Identifier: MIT
#
# Compiles the README's programs as a user does who has all warnings on and takes them as errors. What includes the whole
# hosted half is read and instantiated; with OPTIMISE=ON it is compiled as well, which takes minutes.
#
#   cmake -D SOURCE=<checkout> -D WORK=<scratch> [-D HOSTED=OFF] [-D OPTIMISE=ON] -P check_warnings.cmake
#         -- <compiler> <flag>...

cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/../structure/command_words.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/../structure/page_blocks.cmake")

file(MAKE_DIRECTORY "${WORK}")
file(READ "${SOURCE}/README.md" text)
set(programs 0)
while(TRUE)
    take_block(cpp program)
    if(NOT found)
        break()
    endif()
    set(last_step -c)
    if(program MATCHES "intq/intq.hpp")
        if(NOT HOSTED)
            continue()
        elseif(NOT OPTIMISE)
            set(last_step -fsyntax-only)
        endif()
    endif()
    math(EXPR programs "${programs} + 1")
    set(source "${WORK}/program_${programs}.cpp")
    file(WRITE "${source}" "${program}")
    execute_process(COMMAND ${command} -std=c++20 -O2 -Wall -Wextra -Wconversion -Wshadow -Werror "-I${SOURCE}/include"
                            ${last_step} "${source}" -o "${source}.o" RESULT_VARIABLE status OUTPUT_VARIABLE output
                    ERROR_VARIABLE output)
    if(NOT status EQUAL 0 OR output)
        string(SUBSTRING "${output}" 0 4000 output)
        message(FATAL_ERROR "program ${programs} of README.md has warnings:\n${output}")
    endif()
endwhile()
if(programs EQUAL 0)
    message(FATAL_ERROR "README.md has no program")
endif()
message("${programs} programs without a warning")
