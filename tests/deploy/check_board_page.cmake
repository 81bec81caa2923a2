# SPDX-License-Identifier: MIT
#
# Runs the commands of a page in docs/ word for word, to firmware in the emulator.
#
#   cmake -D PAGE=<name> -D PROGRAM=<program> [-D AT=<path>] -D BLOCKS=<number> -D IMAGES=<number> -D SOURCE=<repository>
#         -D WORK=<scratch> [-D REPLACE=<text> -D BY=<text>] -P check_board_page.cmake
# The commands find the program by its name, or at a path in the folder of the library. The page has as many blocks of
# commands at least, and as many images that pass their self test. Where it quotes what they take of RAM, they must say
# so. REPLACE plants a fault in the page.

cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/../structure/page_blocks.cmake")
set(most_seconds 120)  # beside compiling

file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}")
foreach(folder IN ITEMS examples include)
    file(CREATE_LINK "${SOURCE}/${folder}" "${WORK}/${folder}" SYMBOLIC)
endforeach()
if(AT)
    cmake_path(GET AT PARENT_PATH folder)
    file(MAKE_DIRECTORY "${WORK}/${folder}")
    file(CREATE_LINK "${PROGRAM}" "${WORK}/${AT}" SYMBOLIC)
endif()
file(READ "${SOURCE}/docs/${PAGE}" text)
if(REPLACE)
    string(FIND "${text}" "${REPLACE}" at)
    if(at EQUAL -1)
        message(FATAL_ERROR "the page has no text ${REPLACE}")
    endif()
    string(REPLACE "${REPLACE}" "${BY}" text "${text}")
endif()

string(REGEX MATCHALL "\n(arena|image and logits): [0-9]+ bytes" quoted "${text}")

# One shell runs all blocks; behind each it notes the time, and whether it was a compiler's.
set(script "set -eu\nspent=0\n")
set(blocks 0)
while(TRUE)
    take_block(sh block)
    if(NOT found)
        break()
    endif()
    math(EXPR blocks "${blocks} + 1")
    string(APPEND script "start=$(date +%s)\n${block}")
    if(NOT block MATCHES "g\\+\\+")
        string(APPEND script "spent=$((spent + $(date +%s) - start))\n")
    endif()
endwhile()
if(blocks LESS BLOCKS)
    message(FATAL_ERROR "the page has ${blocks} blocks of commands")
endif()
string(APPEND script "echo \"seconds: $spent\"\n")
file(WRITE "${WORK}/commands.sh" "${script}")
cmake_path(GET PROGRAM PARENT_PATH folder)
execute_process(
    COMMAND "${CMAKE_COMMAND}" -E env "PATH=${folder}:$ENV{PATH}" sh commands.sh WORKING_DIRECTORY "${WORK}"
    RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT status EQUAL 0)
    message(FATAL_ERROR "the page's commands end with ${status}:\n${output}")
endif()
string(REGEX MATCHALL "self test passed" passed "${output}")
list(LENGTH passed passed)
if(NOT passed EQUAL IMAGES)
    message(FATAL_ERROR "${passed} of ${IMAGES} images pass their self test:\n${output}")
endif()
foreach(line IN LISTS quoted)
    string(FIND "${output}" "${line}" at)
    if(at EQUAL -1)
        message(FATAL_ERROR "no image prints what the page quotes:${line}\n${output}")
    endif()
endforeach()
string(REGEX MATCH "seconds: ([0-9]+)" match "${output}")
if(CMAKE_MATCH_1 GREATER most_seconds)
    message(FATAL_ERROR "${CMAKE_MATCH_1} s beside compiling, at most ${most_seconds}")
endif()
message("${blocks} blocks, ${IMAGES} images pass their self test, ${CMAKE_MATCH_1} s beside compiling")
