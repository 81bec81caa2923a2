# SPDX-License-Identifier: MIT
#
# Demands of two objects that were built differently that the linker has nothing to choose between: no function that
# both define, and of intq no variable but the constants of core's own inline namespaces.
#
#   cmake -D NM=<nm> -D FIRST=<object> -D SECOND=<object> -D STD=<ON|OFF> -P check_shared_symbols.cmake
#
# With STD=ON functions of the standard library count as well: what an optimised unit still emits of it has that unit's
# instructions. Without optimisation every unit emits them, and only those of intq are looked at.
cmake_minimum_required(VERSION 3.25)

# Mangled names of namespace intq: entities, what is local to its functions, guard variables.
set(of_intq "_Z(GV|TW|TH)?Z*N[VKRO]*4intq")

# Weak definitions: W is a function, V and u are variables. clang's __clang_call_terminate calls std::terminate and has
# no instruction of any set.
function(weak_symbols object letters result)
    execute_process(COMMAND "${NM}" --defined-only "${object}" OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCHALL "[^\n]* [${letters}] [^\n]*" lines "${output}")
    list(TRANSFORM lines REPLACE ".* [${letters}] " "")
    list(REMOVE_ITEM lines __clang_call_terminate)
    set(${result} "${lines}" PARENT_SCOPE)
endfunction()

function(require_some)
    foreach(object IN ITEMS "${FIRST}" "${SECOND}")
        weak_symbols("${object}" "WVu" all)
        list(FILTER all INCLUDE REGEX "${of_intq}")
        if(NOT all)
            message(FATAL_ERROR "${object} defines no weak symbol of intq; nothing was checked")
        endif()
    endforeach()
endfunction()

require_some()
weak_symbols("${FIRST}" "W" first_functions)
weak_symbols("${SECOND}" "W" second_functions)
weak_symbols("${FIRST}" "Vu" first_variables)
weak_symbols("${SECOND}" "Vu" second_variables)

set(shared "")
set(constants 0)
foreach(symbol IN LISTS first_functions)
    if(symbol IN_LIST second_functions AND (STD OR symbol MATCHES "^${of_intq}"))
        string(APPEND shared "  ${symbol}\n")
    endif()
endforeach()
foreach(symbol IN LISTS first_variables)
    if(symbol IN_LIST second_variables AND symbol MATCHES "^${of_intq}")
        math(EXPR constants "${constants} + 1")
        if(NOT symbol MATCHES "^_ZN4intq([0-9]+[a-z]+)?[0-9]+core_v")
            string(APPEND shared "  ${symbol}\n")
        endif()
    endif()
endforeach()
if(shared)
    message(FATAL_ERROR "the linker would merge, across units that were built differently:\n${shared}")
endif()
list(LENGTH first_functions first_count)
list(LENGTH second_functions second_count)
message("${first_count} and ${second_count} weak functions, none shared that must not be; ${constants} shared constants")
