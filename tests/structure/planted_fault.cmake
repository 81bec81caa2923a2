# SPDX-License-Identifier: MIT
#
# Proves that a check bites: copies a tree, plants a file, or all files of a folder, in the copy, runs the check on it
# and demands that it fails with the expected message.
#
#   cmake -D TREE=<folder> -D SCRATCH=<folder> -D FAULT=<file or folder> -D AT=<path in the copy> -D EXPECT=<regex>
#         [-D CONTROL=ON] -P planted_fault.cmake -- <command>...      {TREE} in the command stands for the copy
#
# Without TREE the command runs as it is: its own arguments carry the fault. With CONTROL the check must pass.

cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/command_words.cmake")
string(REPLACE "{TREE}" "${SCRATCH}" command "${command}")

if(TREE)
    file(REMOVE_RECURSE "${SCRATCH}")
    file(COPY "${TREE}/" DESTINATION "${SCRATCH}")
    if(IS_DIRECTORY "${FAULT}")
        file(COPY "${FAULT}/" DESTINATION "${SCRATCH}/${AT}")
    else()
        get_filename_component(folder "${SCRATCH}/${AT}" DIRECTORY)
        file(MAKE_DIRECTORY "${folder}")
        configure_file("${FAULT}" "${SCRATCH}/${AT}" COPYONLY)
    endif()
endif()

execute_process(COMMAND ${command} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
message("${output}")
if(CONTROL)
    if(NOT status EQUAL 0 OR NOT output MATCHES "${EXPECT}")
        message(FATAL_ERROR "the check failed though what was planted is right")
    endif()
    return()
elseif(status EQUAL 0)
    message(FATAL_ERROR "the planted fault was not noticed")
elseif(NOT output MATCHES "${EXPECT}")
    message(FATAL_ERROR "the check failed, but its message does not match: ${EXPECT}")
endif()
message("The planted fault was caught.")
