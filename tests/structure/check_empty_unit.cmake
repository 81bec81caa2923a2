# SPDX-License-Identifier: MIT
#
# Compiles a unit that includes a header and calls nothing of it, and demands that the object defines main alone.
#
#   cmake -D SOURCE=<file> -D OBJECT=<file to write> -D NM=<nm> -P check_empty_unit.cmake -- <compiler> <flag>...
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/command_words.cmake")

execute_process(COMMAND ${command} -c "${SOURCE}" -o "${OBJECT}" RESULT_VARIABLE status ERROR_VARIABLE output)
# A warning that -Werror does not turn into an error is a fault as well.
if(NOT status EQUAL 0 OR output)
    message(FATAL_ERROR "the unit does not compile without a word:\n${output}")
endif()
# What other units or the linker see. Constants of the standard library that stay local (r, b, d) cost a few bytes.
execute_process(COMMAND "${NM}" --defined-only --demangle "${OBJECT}" OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]* [A-Zuvw] [^\n]*" emitted "${symbols}")
list(FILTER emitted EXCLUDE REGEX " T main$")
string(REGEX MATCHALL "[^\n]*intq::[^\n]*" ours "${symbols}")
list(APPEND emitted ${ours})
list(REMOVE_DUPLICATES emitted)
if(emitted)
    list(LENGTH emitted count)
    list(SUBLIST emitted 0 20 emitted)
    list(JOIN emitted "\n  " emitted)
    message(FATAL_ERROR "a unit that calls nothing emits ${count} symbols:\n  ${emitted}")
endif()
message("no symbol but main")
