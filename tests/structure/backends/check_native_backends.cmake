# SPDX-License-Identifier: MIT
#
# INTQ_COMPILED_BACKENDS=native holds scalar too: a program file that is packed for it is portable because every build
# has its kernels. INTQ_COMPILED_BACKENDS=best holds the best one alone.
#   cmake -D SOURCE=<the repository> -P check_native_backends.cmake

cmake_minimum_required(VERSION 3.25)
include("${SOURCE}/cmake/IntqBackends.cmake")
foreach(runnable IN ITEMS "avx2;sse41;scalar" "scalar")
    set(INTQ_RUNNABLE_BACKENDS "${runnable}")
    set(INTQ_COMPILED_BACKENDS native)
    intq_compiled_backends("${SOURCE}/include" backends)
    list(GET runnable 0 best)
    if(NOT best IN_LIST backends OR NOT scalar IN_LIST backends)
        message(FATAL_ERROR "of ${runnable}, native is ${backends}")
    endif()
    list(LENGTH backends count)
    if(count GREATER 2)
        message(FATAL_ERROR "of ${runnable}, native is ${backends}")
    endif()
    set(INTQ_COMPILED_BACKENDS best)
    intq_compiled_backends("${SOURCE}/include" backends)
    if(NOT backends STREQUAL "${best}")
        message(FATAL_ERROR "of ${runnable}, best is ${backends}, not ${best}")
    endif()
endforeach()
