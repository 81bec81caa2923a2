# SPDX-License-Identifier: MIT
#
# Compiles the programs of the README and of docs/kernels_in_your_engine.md as a user does who has all warnings on and
# takes them as errors. What includes the whole hosted half, and what stands in the other page, is read and instantiated;
# with OPTIMISE=ON it is compiled as well, which takes minutes. HOSTED=OFF leaves both out, HOSTED=page what includes
# the whole hosted half: the test of that page has compiled it with these warnings (tests/structure/check_page.cmake).
#
#   cmake -D SOURCE=<checkout> -D WORK=<scratch> [-D HOSTED=<OFF|page>] [-D OPTIMISE=ON] -P check_warnings.cmake
#         -- <compiler> <flag>...

cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/../structure/command_words.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/../structure/page_blocks.cmake")

file(MAKE_DIRECTORY "${WORK}")
set(programs 0)
foreach(page IN ITEMS README.md docs/kernels_in_your_engine.md)
    file(READ "${SOURCE}/${page}" text)
    set(in_page 0)
    while(TRUE)
        take_block(cpp program)
        if(NOT found)
            break()
        elseif(NOT program MATCHES "int main")
            continue()
        endif()
        math(EXPR in_page "${in_page} + 1")
        set(last_step -c)
        if(program MATCHES "intq/(intq|first)[.]hpp" OR NOT page STREQUAL "README.md")
            if(NOT HOSTED OR (HOSTED STREQUAL "page" AND page STREQUAL "README.md"))
                continue()
            elseif(NOT OPTIMISE)
                set(last_step -fsyntax-only)
            endif()
        endif()
        math(EXPR programs "${programs} + 1")
        set(source "${WORK}/program_${programs}.cpp")
        file(WRITE "${source}" "${program}")
        execute_process(COMMAND ${command} -std=c++20 -O2 ${page_warnings} "-I${SOURCE}/include" ${last_step} "${source}" -o
                                "${source}.o" RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
        if(NOT status EQUAL 0 OR output)
            string(SUBSTRING "${output}" 0 4000 output)
            message(FATAL_ERROR "program ${in_page} of ${page} has warnings:\n${output}")
        endif()
    endwhile()
    if(in_page EQUAL 0)
        message(FATAL_ERROR "${page} has no program")
    endif()
endforeach()
message("${programs} programs without a warning")
