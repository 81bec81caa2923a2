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

set(INTQ_ISA auto CACHE STRING "Level of tests, examples and benches: auto, none, or one of INTQ_ISA_LEVELS")

set(INTQ_ISA_LEVELS scalar sse41 avx2 avxvnni avx512bw avx512vnni native)
set(INTQ_ISA_FLAGS_scalar "")
set(INTQ_ISA_FLAGS_native -march=native)
set(INTQ_ISA_FLAGS_sse41 -msse4.1)
set(INTQ_ISA_FLAGS_avx2 -mavx2 -mfma)
set(INTQ_ISA_FLAGS_avxvnni -mavx2 -mfma -mavxvnni)
set(INTQ_ISA_FLAGS_avx512bw -mavx2 -mfma -mavx512f -mavx512cd -mavx512bw -mavx512dq -mavx512vl)
set(INTQ_ISA_FLAGS_avx512vnni ${INTQ_ISA_FLAGS_avx512bw} -mavx512vnni)

# --- what this CPU executes -------------------------------------------------------------------------------------------
# INTQ_ISA_RUNS lists the levels, weakest first; asked once, when the build tree is made.
function(intq_detect_isa)
    set(levels scalar native)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64|AMD64|i.86" AND NOT CMAKE_CROSSCOMPILING)
        try_run(
            exit_code compiled "${CMAKE_BINARY_DIR}/isa" "${PROJECT_SOURCE_DIR}/cmake/detect_isa.cpp"
            COMPILE_OUTPUT_VARIABLE compile_output
            RUN_OUTPUT_VARIABLE levels)
        if(NOT compiled OR NOT exit_code EQUAL 0)
            message(FATAL_ERROR "cmake/detect_isa.cpp does not compile or run:\n${compile_output}")
        endif()
        string(STRIP "${levels}" levels)
        string(REPLACE " " ";" levels "${levels}")
    elseif(CMAKE_CROSSCOMPILING)
        set(levels scalar)
    endif()
    set(INTQ_ISA_RUNS "${levels}" CACHE INTERNAL "Levels that this CPU executes")
endfunction()

if(NOT DEFINED INTQ_ISA_RUNS)
    intq_detect_isa()
endif()
list(JOIN INTQ_ISA_RUNS " " intq_isa_text)

function(intq_default_isa result)
    if(INTQ_ISA STREQUAL "auto")
        set(best scalar)
        foreach(level IN ITEMS sse41 avx2 avxvnni avx512bw avx512vnni)
            if(level IN_LIST INTQ_ISA_RUNS)
                set(best ${level})
            endif()
        endforeach()
        set(${result} ${best} PARENT_SCOPE)
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
        # g++ 12 warns of uninitialized values inside its own AVX-512 headers; it may go with g++ 13.
        if(flags MATCHES "avx512|native" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION
                                                                                      VERSION_LESS 13)
            list(APPEND flags -Wno-uninitialized -Wno-maybe-uninitialized)
        endif()
        set(${result} "${flags}" PARENT_SCOPE)
    else()
        message(FATAL_ERROR "'${level}' is no instruction-set level; known: default none ${INTQ_ISA_LEVELS}")
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
