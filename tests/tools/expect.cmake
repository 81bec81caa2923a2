# SPDX-License-Identifier: MIT
#
# expect() for the scripts of this folder: runs the program INTQ in the folder WORK, which begins empty.

cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}")

# expect(<exit code> <regular expression of what is printed> <argument>...)
function(expect code pattern)
    execute_process(COMMAND "${INTQ}" ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output
                    WORKING_DIRECTORY "${WORK}")
    list(JOIN ARGN " " line)
    if(NOT status EQUAL code)
        message(SEND_ERROR "intq ${line}\nexit code ${status}, expected ${code}:\n${output}")
    elseif(NOT output MATCHES "${pattern}")
        message(SEND_ERROR "intq ${line}\ndoes not print ${pattern}:\n${output}")
    endif()
    set(output "${output}" PARENT_SCOPE)
endfunction()

# expect_same(<file> <file>): their bytes, below WORK.
function(expect_same first second)
    file(SHA256 "${WORK}/${first}" a)
    file(SHA256 "${WORK}/${second}" b)
    if(NOT a STREQUAL b)
        message(SEND_ERROR "${first} and ${second} differ")
    endif()
endfunction()

function(expect_files)
    foreach(name IN LISTS ARGN)
        if(NOT EXISTS "${WORK}/${name}")
            message(SEND_ERROR "${name} was not written")
        endif()
    endforeach()
endfunction()
