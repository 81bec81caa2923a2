# SPDX-License-Identifier: MIT
#
# How examples and benches are declared.
#
#   intq_add_example(<name> SOURCES <file>... [LEVEL <level>] [LIBRARIES <target>...] [HEADER_ONLY | PART <part>])
#   intq_add_bench(<name> SOURCES <file>... [LEVEL <level>] [LIBRARIES <target>...] [HEADER_ONLY | PART <part>])
#
# build a program that links the compiled form, or includes all of the library with HEADER_ONLY, at an instruction-set
# level of cmake/IntqIsa.cmake, by default the best that this CPU executes. With PART it links that part of the compiled
# form (cmake/IntqCompiled.cmake), the parts before it, and the kernels, so that nothing else is built for it.
# A bench is run by ./dev bench.

include_guard(GLOBAL)

function(intq_add_program name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "HEADER_ONLY" "LEVEL;PART" "SOURCES;LIBRARIES")
    if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
        message(FATAL_ERROR "${name}: SOURCES missing, or unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
    endif()
    if(NOT arg_LEVEL)
        set(arg_LEVEL default)
    endif()
    add_executable(${name} ${arg_SOURCES})
    set(form intq::compiled)
    if(arg_HEADER_ONLY)
        set(form intq::hosted)
    endif()
    if(arg_PART)
        set(form intq_compiled_${arg_PART} intq_compiled_kernels)
    endif()
    target_link_libraries(${name} PRIVATE ${form} intq_developer_warnings intq_fmt ${arg_LIBRARIES})
    intq_target_isa(${name} ${arg_LEVEL})
endfunction()

function(intq_add_example name)
    intq_add_program(${name} ${ARGN})
    # Where the program finds the files that it ships with.
    target_compile_definitions(${name} PRIVATE "INTQ_EXAMPLES_DIR=\"${PROJECT_SOURCE_DIR}/examples\"")
endfunction()

function(intq_add_bench name)
    intq_add_program(${name} ${ARGN})
    target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/bench")
    target_compile_definitions(${name} PRIVATE "INTQ_BENCH_DIR=\"${PROJECT_SOURCE_DIR}/bench\"")
    set_property(GLOBAL APPEND PROPERTY INTQ_BENCHES "$<TARGET_FILE:${name}>")
endfunction()
