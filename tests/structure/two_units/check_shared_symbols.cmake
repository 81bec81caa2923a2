# SPDX-License-Identifier: MIT
#
# Demands that two objects share no function or variable of intq that the linker would merge, except, where CORE is ON,
# those of core's own inline namespace (same version and assert level).
#
#   cmake -D NM=<nm> -D FIRST=<object> -D SECOND=<object> -D CORE=<ON|OFF> -P check_shared_symbols.cmake
cmake_minimum_required(VERSION 3.25)

# Weak and unique definitions whose mangled name speaks of namespace intq.
function(mergeable object result)
    execute_process(COMMAND "${NM}" --defined-only "${object}" OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCHALL "[^\n]* [WVu] [^\n]*4intq[^\n]*" lines "${output}")
    list(TRANSFORM lines REPLACE ".* [WVu] " "")
    set(${result} "${lines}" PARENT_SCOPE)
endfunction()

mergeable("${FIRST}" first)
mergeable("${SECOND}" second)
list(LENGTH first first_count)
list(LENGTH second second_count)
if(first_count EQUAL 0 OR second_count EQUAL 0)
    message(FATAL_ERROR "an object defines no mergeable symbol of intq; nothing was checked")
endif()

set(shared "")
foreach(symbol IN LISTS first)
    if(symbol IN_LIST second)
        set(rest "${symbol}")
        if(CORE)
            string(REGEX REPLACE "4intq[0-9]+core_v" "" rest "${symbol}")
        endif()
        if(rest MATCHES "4intq")
            string(APPEND shared "  ${symbol}\n")
        endif()
    endif()
endforeach()
if(shared)
    message(FATAL_ERROR "the linker would merge, across units that were built differently:\n${shared}")
endif()
message("${first_count} and ${second_count} mergeable symbols of intq, none shared that must not be")
