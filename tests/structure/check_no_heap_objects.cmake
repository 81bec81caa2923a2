# SPDX-License-Identifier: MIT
#
# Demands that the objects of the compiled form's kernels refer to no heap, no exception and no stream. Their units may
# be compiled with exceptions on, so that the personality routine of a frame is allowed; nothing may throw.
#
#   cmake -D NM=<nm> -P check_no_heap_objects.cmake -- <object>...
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/command_words.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/refused_symbols.cmake")

set(checked 0)
foreach(object IN LISTS command)
    if(NOT object MATCHES "/kernels_[a-z0-9_]+\\.cpp")
        continue()  # the list of the backends, which is not kernels
    endif()
    math(EXPR checked "${checked} + 1")
    execute_process(COMMAND "${NM}" -u "${object}" OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCHALL "[^ \n]+" symbols "${output}")
    list(REMOVE_ITEM symbols "__gxx_personality_v0")
    foreach(symbol IN LISTS symbols)
        if(symbol MATCHES "${refused_symbols}")
            message(FATAL_ERROR "${object} refers to ${symbol}")
        endif()
    endforeach()
endforeach()
if(checked EQUAL 0)
    message(FATAL_ERROR "no object of kernels was given; nothing was checked")
endif()
message("${checked} objects of kernels refer to no heap, exception or stream")
