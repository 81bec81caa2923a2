# SPDX-License-Identifier: MIT
#
# Demands that the objects of units that include one header each define no function and no variable.
#
#   cmake -D NM=<nm> -P check_header_objects.cmake -- <object>...
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/command_words.cmake")

set(objects ${command})
list(LENGTH objects count)
if(count LESS 100)
    message(FATAL_ERROR "only ${count} objects were given; nothing was checked")
endif()
execute_process(COMMAND "${NM}" --defined-only --demangle --print-file-name ${objects} OUTPUT_VARIABLE symbols
                ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]*( [A-Zuvw] |intq::)[^\n]*" emitted "${symbols}")
if(emitted)
    list(SUBLIST emitted 0 20 emitted)
    list(JOIN emitted "\n  " emitted)
    message(FATAL_ERROR "a header emits what nobody asked for:\n  ${emitted}")
endif()
message("${count} headers compile alone and emit nothing")
