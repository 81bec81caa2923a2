# SPDX-License-Identifier: MIT
#
# The optional dependencies of the headers. Used in the build tree and, installed beside the package config, by those
# who find_package(intq): what is there is decided where the headers are compiled.
#
# Each dependency has an option INTQ_WITH_<NAME> (AUTO, ON, OFF) and ends up as a macro INTQ_WITH_<NAME> that is always
# defined, to 0 or 1. Only include directories are taken: Debian 12's xsimd target, for one, links a library that
# Debian does not have.

include_guard(GLOBAL)

# Sets INTQ_HAVE_<name> to 0 or 1 and INTQ_<name>_INCLUDE_DIR, from INTQ_WITH_<name>.
macro(intq_find_headers name header package)
    set(INTQ_WITH_${name} AUTO CACHE STRING "Use ${package}: AUTO (where it is found), ON or OFF")
    set_property(CACHE INTQ_WITH_${name} PROPERTY STRINGS AUTO ON OFF)
    set(INTQ_HAVE_${name} 0)
    if(INTQ_WITH_${name} STREQUAL "AUTO" OR INTQ_WITH_${name})
        find_path(INTQ_${name}_INCLUDE_DIR "${header}" DOC "The folder that holds <${header}>")
        mark_as_advanced(INTQ_${name}_INCLUDE_DIR)
        if(INTQ_${name}_INCLUDE_DIR)
            set(INTQ_HAVE_${name} 1)
        elseif(NOT INTQ_WITH_${name} STREQUAL "AUTO")
            message(FATAL_ERROR "INTQ_WITH_${name} is ${INTQ_WITH_${name}} but <${header}> was not found; "
                                "install it (Debian: ${package}), set INTQ_${name}_INCLUDE_DIR, or switch it OFF")
        endif()
    endif()
endmacro()

intq_find_headers(XSIMD xsimd/xsimd.hpp libxsimd-dev)
intq_find_headers(PROTOZERO protozero/pbf_reader.hpp libprotozero-dev)

# Gives the target that stands for the embeddable half its switches, and the hosted one its include directories.
# BUILD_INTERFACE keeps the paths of this machine out of the installed files.
function(intq_use_dependencies embeddable hosted)
    target_compile_definitions(${embeddable} INTERFACE "$<BUILD_INTERFACE:INTQ_WITH_XSIMD=${INTQ_HAVE_XSIMD}>")
    if(INTQ_HAVE_XSIMD)
        target_include_directories(${embeddable} SYSTEM INTERFACE "$<BUILD_INTERFACE:${INTQ_XSIMD_INCLUDE_DIR}>")
    endif()

    target_compile_definitions(${hosted} INTERFACE "$<BUILD_INTERFACE:INTQ_WITH_PROTOZERO=${INTQ_HAVE_PROTOZERO}>")
    if(INTQ_HAVE_PROTOZERO)
        target_include_directories(${hosted} SYSTEM INTERFACE "$<BUILD_INTERFACE:${INTQ_PROTOZERO_INCLUDE_DIR}>")
    endif()
endfunction()
