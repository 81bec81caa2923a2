# SPDX-License-Identifier: MIT
#
# Instruction-set levels at which our tests, examples and benches are compiled. A level is a set of compiler flags;
# the tags of all backends at and below it are usable in a unit that is built at that level.
#
#   intq_target_isa(<target> <level>)         compiles the target at a level, or at the default one: `default`
#   intq_isa_flags(<level> <result>)          the flags of a level
#   intq_isa_runs(<level> <result>)           whether this CPU can execute it
#
# INTQ_ISA chooses the default level: `auto` is the best that this CPU executes, `none` adds no flags at all (the ones
# in CMAKE_CXX_FLAGS then decide), anything else is a level.

include_guard(GLOBAL)
include("${CMAKE_CURRENT_LIST_DIR}/IntqBackends.cmake")

set(INTQ_ISA auto CACHE STRING "Level of tests, examples and benches: auto, none, or one of INTQ_ISA_LEVELS")

# A backend's row in include/intq/simd/base/backends.hpp is a level; weakest first. `native` is what this CPU has.
intq_read_backend_rows("${PROJECT_SOURCE_DIR}/include" intq_isa_rows)
list(REVERSE intq_isa_rows)
set(INTQ_ISA_LEVELS ${intq_isa_rows} native)
foreach(level IN LISTS intq_isa_rows)
    intq_backend_field(${level} flags INTQ_ISA_FLAGS_${level})
endforeach()
set(INTQ_ISA_FLAGS_native -march=native)
# Where a CPU has AVX10, clang 19 warns at each function of a unit that it takes the wider of two levels.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 19 AND
   CMAKE_CXX_COMPILER_VERSION VERSION_LESS 20 AND CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
    list(APPEND INTQ_ISA_FLAGS_native -mno-avx10.1-256)
endif()

# --- what this CPU executes -------------------------------------------------------------------------------------------
# INTQ_ISA_RUNS lists the levels, weakest first.
intq_runnable_backends("${PROJECT_SOURCE_DIR}/include" INTQ_ISA_RUNS)
list(GET INTQ_ISA_RUNS 0 intq_isa_best)
list(REVERSE INTQ_ISA_RUNS)
if(NOT CMAKE_CROSSCOMPILING)
    list(APPEND INTQ_ISA_RUNS native)
endif()
list(JOIN INTQ_ISA_RUNS " " intq_isa_text)

function(intq_default_isa result)
    if(INTQ_ISA STREQUAL "auto")
        set(${result} ${intq_isa_best} PARENT_SCOPE)
    else()
        set(${result} ${INTQ_ISA} PARENT_SCOPE)
    endif()
endfunction()

intq_default_isa(intq_isa_default)
message(STATUS "intq: this CPU executes ${intq_isa_text}; tests are built for: ${intq_isa_default}")

# --- what the rest calls ----------------------------------------------------------------------------------------------
function(intq_isa_flags level result)
    if(level STREQUAL "default")
        intq_default_isa(level)
    endif()
    if(level STREQUAL "none")
        set(${result} "" PARENT_SCOPE)
    elseif(level IN_LIST INTQ_ISA_LEVELS)
        set(flags ${INTQ_ISA_FLAGS_${level}})
        set(${result} "${flags}" PARENT_SCOPE)
    else()
        message(FATAL_ERROR "'${level}' is not an instruction-set level; known: default none ${INTQ_ISA_LEVELS}")
    endif()
endfunction()

function(intq_isa_runs level result)
    if(level STREQUAL "default")
        intq_default_isa(level)
    endif()
    if(level STREQUAL "none" OR level IN_LIST INTQ_ISA_RUNS)
        set(${result} TRUE PARENT_SCOPE)
    else()
        set(${result} FALSE PARENT_SCOPE)
    endif()
endfunction()

function(intq_target_isa target level)
    intq_isa_flags(${level} flags)
    target_compile_options(${target} PRIVATE ${flags})
endfunction()
