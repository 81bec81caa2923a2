# SPDX-License-Identifier: MIT
#
# Demands that no function is defined by units of the compiled form that have different flags.
#
#   cmake -D NM=<nm> -D SCRIPT=<library_symbols.awk> -P check_library_symbols.cmake -- <object>...
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/command_words.cmake")

execute_process(COMMAND "${NM}" --defined-only --print-file-name ${command} COMMAND awk -f "${SCRIPT}"
                RESULTS_VARIABLE statuses OUTPUT_VARIABLE output)
message("${output}")
if(NOT statuses STREQUAL "0;0")
    message(FATAL_ERROR "the linker would merge functions of different instruction sets, or nm failed (${statuses})")
endif()
