# SPDX-License-Identifier: MIT
#
# The backends of the library, read from the one table that describes them, include/intq/simd/base/backends.hpp.
#
#   intq_read_backend_rows(<include> <result>)  the backends that have a level of their own, best first, scalar last;
#                                               <include> is the folder of intq's headers
#   intq_read_backends(<include> <result>)      those of this architecture
#   intq_backend_field(<tag> <field> <result>)  a field of a row that was read: architecture, word, flags
#   intq_backend_flags(<tag> <result>)          the flags, and what this compiler needs besides
#   intq_runnable_backends(<include> <result>)  those of them that this CPU executes, best first; asked once
#   intq_compiled_backends(<include> <result>)  those that the compiled form holds: INTQ_COMPILED_BACKENDS, read

include_guard(GLOBAL)

# Every row that has a level, of all architectures. Works in scripts, too.
function(intq_read_backend_rows include result)
    set(table "${include}/intq/simd/base/backends.hpp")
    if(NOT CMAKE_SCRIPT_MODE_FILE)
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${table}")
    endif()
    file(READ "${table}" text)
    string(REGEX MATCH "#define INTQ_BACKENDS.*" text "${text}")
    string(REGEX REPLACE "[ \\\n]+" " " text "${text}")
    set(row_form " X\\(([a-z0-9_]+), ([a-z0-9_<>]+), ([a-z0-9]+), ([a-z0-9_]+), \"([^\"]*)\", ([^\"]*),? \"([^\"]*)\", \"")
    string(REGEX MATCHALL "${row_form}" rows "${text}")
    string(REGEX MATCHALL " X\\([a-z0-9_]+, [a-z0-9_<>]+, [a-z]" starts "${text}")
    list(LENGTH rows count)
    list(LENGTH starts expected)
    if(count EQUAL 0 OR NOT count EQUAL expected)
        message(FATAL_ERROR "${table}: ${expected} rows begin there, but ${count} have the form that CMake reads")
    endif()
    set(names "")
    foreach(row IN LISTS rows)
        string(REGEX MATCH "${row_form}" row "${row}")
        set(tag "${CMAKE_MATCH_1}")
        if(CMAKE_MATCH_4 STREQUAL "none")
            continue()
        endif()
        set_property(GLOBAL PROPERTY INTQ_BACKEND_architecture_${tag} "${CMAKE_MATCH_3}")
        set_property(GLOBAL PROPERTY INTQ_BACKEND_word_${tag} "${CMAKE_MATCH_4}")
        string(REPLACE " " ";" flags "${CMAKE_MATCH_5}")
        set_property(GLOBAL PROPERTY INTQ_BACKEND_flags_${tag} "${flags}")
        list(APPEND names ${tag})
    endforeach()
    set(${result} "${names}" PARENT_SCOPE)
endfunction()

function(intq_backend_field tag field result)
    get_property(is_known GLOBAL PROPERTY INTQ_BACKEND_${field}_${tag} SET)
    if(NOT is_known)
        message(FATAL_ERROR "'${tag}' is not a backend with a level of its own in intq/simd/base/backends.hpp")
    endif()
    get_property(value GLOBAL PROPERTY INTQ_BACKEND_${field}_${tag})
    set(${result} "${value}" PARENT_SCOPE)
endfunction()

function(intq_read_backends include result)
    set(architecture other)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64|AMD64|i.86")
        set(architecture x86)
    elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ARM64)")
        set(architecture aarch64)
    elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(arm|ARM)")
        set(architecture arm)
    elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^riscv")
        set(architecture riscv)
    elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^wasm")
        set(architecture wasm)
    endif()
    intq_read_backend_rows("${include}" names)
    set(own "")
    foreach(tag IN LISTS names)
        intq_backend_field(${tag} architecture of)
        if(of STREQUAL "any" OR of STREQUAL architecture)
            list(APPEND own ${tag})
        endif()
    endforeach()
    set(${result} "${own}" PARENT_SCOPE)
endfunction()

function(intq_backend_flags tag result)
    intq_backend_field(${tag} flags flags)
    set(${result} "${flags}" PARENT_SCOPE)
endfunction()

function(intq_runnable_backends include result)
    if(NOT DEFINED INTQ_RUNNABLE_BACKENDS)
        set(names scalar)
        if(NOT CMAKE_CROSSCOMPILING)
            set(source "${CMAKE_BINARY_DIR}/intq_backends/runnable_backends.cpp")
            file(WRITE "${source}" "// Made by IntqBackends.cmake: prints the backends that this CPU executes, best first.\n\
#include <cstdio>\n\n#include \"intq/simd/base/cpu.hpp\"\n\nint main() {\n    for (const auto& row : \
intq::simd::backend_rows)\n        if (intq::simd::cpu_runs(row)) std::printf(\"%s;\", row.name);\n}\n")
            try_run(
                exit_code compiled "${CMAKE_BINARY_DIR}/intq_backends" "${source}"
                CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${include}" CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON
                COMPILE_OUTPUT_VARIABLE compile_output
                RUN_OUTPUT_VARIABLE names)
            if(NOT compiled OR NOT exit_code EQUAL 0)
                message(FATAL_ERROR "${source} does not compile or run:\n${compile_output}")
            endif()
        endif()
        intq_read_backends("${include}" own)
        set(runnable "")
        foreach(tag IN LISTS own)
            if(tag IN_LIST names)
                list(APPEND runnable ${tag})
            endif()
        endforeach()
        set(INTQ_RUNNABLE_BACKENDS "${runnable}" CACHE INTERNAL "Backends that this CPU executes, best first")
    endif()
    set(${result} "${INTQ_RUNNABLE_BACKENDS}" PARENT_SCOPE)
endfunction()

function(intq_compiled_backends include result)
    intq_read_backends("${include}" names)
    if(INTQ_COMPILED_BACKENDS MATCHES "^(native|best)$")
        intq_runnable_backends("${include}" names)
        list(GET names 0 names)
        # What is packed for `scalar` is portable because every build has its kernels.
        if(INTQ_COMPILED_BACKENDS STREQUAL "native")
            list(APPEND names scalar)
            list(REMOVE_DUPLICATES names)
        endif()
    elseif(INTQ_COMPILED_BACKENDS STREQUAL "")
        message(FATAL_ERROR "INTQ_COMPILED_BACKENDS is empty: name a backend, or say all, native or best")
    elseif(NOT INTQ_COMPILED_BACKENDS STREQUAL "all")
        foreach(tag IN LISTS INTQ_COMPILED_BACKENDS)
            if(NOT tag IN_LIST names)
                list(JOIN names " " known)
                message(FATAL_ERROR "INTQ_COMPILED_BACKENDS: '${tag}' is not a backend of this architecture; known: all "
                                    "native best ${known}")
            endif()
        endforeach()
        set(names ${INTQ_COMPILED_BACKENDS})
    endif()
    set(${result} "${names}" PARENT_SCOPE)
endfunction()
