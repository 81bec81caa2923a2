# SPDX-License-Identifier: MIT
#
# Proves that a check bites: copies a tree, plants one file in the copy, runs the check on it and demands that it fails
# with the expected message.
#
#   cmake -D TREE=<folder> -D SCRATCH=<folder> -D FAULT=<file> -D AT=<path in the copy> -D EXPECT=<regex>
#         -P planted_fault.cmake -- <command>...      {TREE} in the command stands for the copy
#
# Without TREE the command runs as it is: its own arguments carry the fault.

cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/command_words.cmake")
string(REPLACE "{TREE}" "${SCRATCH}" command "${command}")

if(TREE)
    file(REMOVE_RECURSE "${SCRATCH}")
    file(COPY "${TREE}/" DESTINATION "${SCRATCH}")
    get_filename_component(folder "${SCRATCH}/${AT}" DIRECTORY)
    file(MAKE_DIRECTORY "${folder}")
    configure_file("${FAULT}" "${SCRATCH}/${AT}" COPYONLY)
endif()

execute_process(COMMAND ${command} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
message("${output}")
if(status EQUAL 0)
    message(FATAL_ERROR "the planted fault was not noticed")
elseif(NOT output MATCHES "${EXPECT}")
    message(FATAL_ERROR "the check failed, but its message does not match: ${EXPECT}")
endif()
message("The planted fault was caught.")
