# SPDX-License-Identifier: MIT
#
# Compiles a source without exceptions and RTTI and demands that the object refers to no heap, no exception, no
# iostream and no math function; then links it without the C++ library and, with RUN, executes it.
#
#   cmake -D SOURCE=<file> -D OBJECT=<file> -D NM=<nm> [-D RUN=ON] -P check_no_heap.cmake -- <compiler> <flag>...

cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/command_words.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/refused_symbols.cmake")
list(GET command 0 compiler)

function(run_or_fail what)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
    if(NOT status EQUAL 0)
        message(FATAL_ERROR "${what} failed (${status}):\n${output}")
    endif()
    set(output "${output}" PARENT_SCOPE)
endfunction()

run_or_fail("compiling" ${command} -fno-exceptions -fno-rtti -fno-threadsafe-statics -c "${SOURCE}" -o "${OBJECT}")
run_or_fail("nm" "${NM}" -u "${OBJECT}")

string(REGEX MATCHALL "[^ \n]+" symbols "${output}")
set(refused "")
foreach(symbol IN LISTS symbols)
    if(symbol MATCHES "${refused_symbols}")
        list(APPEND refused "${symbol}")
    endif()
endforeach()
if(refused)
    list(JOIN refused "\n  " refused)
    message(FATAL_ERROR "the object refers to what the embeddable half must not use:\n  ${refused}")
endif()
list(REMOVE_ITEM symbols "U")
list(JOIN symbols " " symbols)
message("undefined symbols: ${symbols}")

run_or_fail("linking without the C++ library" "${compiler}" "${OBJECT}" -o "${OBJECT}.program" -nodefaultlibs -lc -lgcc)
if(RUN)
    run_or_fail("running" "${OBJECT}.program")
    message("ran: ${output}")
endif()
