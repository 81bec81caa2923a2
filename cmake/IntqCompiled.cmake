# SPDX-License-Identifier: MIT
#
# The compiled form: static libraries that hold the definitions of the hosted half and the kernel tables of every backend
# of the architecture. Used in the build tree and, installed beside the package config, by those who
# find_package(intq COMPONENTS compiled).
#
#   intq_add_compiled(<target> INCLUDE <folder of intq's headers> HOSTED <target>)
#
# makes <target>_base, <target>_model, <target>_quantization, <target>_interop and <target>_training, each linking those
# before it, <target>_kernels, which links the first, and <target>, which links all, from units that it writes into the
# build tree. They are built where something links them.
#
# INTQ_COMPILED_BACKENDS says whose kernels they hold: `all` backends of the architecture, `native` for scalar and the
# best one that this CPU executes, `best` for that one alone, or a list such as "avx2;scalar". Every unit of kernels is
# compiled with the flags of its backend, and the program asks the CPU before it enters one.
#
# With INTQ_COMPILED_QUICK a library is one unit, which parses the headers that its rooms share once, and what prepares,
# converts and reads models is not optimised. On two processors that takes about two thirds of the time.

include_guard(GLOBAL)
include("${CMAKE_CURRENT_LIST_DIR}/IntqBackends.cmake")

set(INTQ_COMPILED_BACKENDS all CACHE STRING "Backends of intq::compiled: all, native, best, or a list of tags")
option(INTQ_COMPILED_QUICK "intq::compiled is built quickly rather than to run quickly" OFF)

# A row is a unit: the library that it goes into, its name, and the rooms (folders below include/intq) that it defines.
# Rooms that share headers stand together, and the units take about as long as each other. What asks for the backends
# that are held stands apart: it alone is compiled anew when INTQ_COMPILED_BACKENDS changes.
set(intq_compiled_units
    "base basics io tensor program numeric_suite/metrics deploy"
    "base float program/float"
    "kernels tables program/backends"
    "model nn nn/model nn/float_operators nn/layers"
    "model graph graph"
    "model onnx interop/onnx interop/onnx/read interop/onnx/write interop/onnx/nodes interop/onnx/operators interop/onnx/export"
    "quantization quantizers quantization/observers quantization/fake_quantize quantization/qconfig quantization/modules"
    "quantization operators quantization/operators quantization/fuse"
    "quantization prepare quantization/prepare quantization/check"
    "quantization convert quantization/convert quantization/dynamic quantization/eager"
    "interop tflite interop/tflite interop/tflite/read interop/tflite/nodes interop/tflite/operators interop/tflite/float_model"
    "interop quantized_onnx interop/quantized_onnx"
    "training training training training/gradients"
    "training improve improve"
    "training numeric_suite numeric_suite/loggers numeric_suite/eager numeric_suite/fx"
    "training analysis analysis analysis/report analysis/models analysis/compare analysis/causes"
    "training distributed distributed distributed/ranks")
set(intq_embeddable_rooms core arith simd kernels observers runtime)
# Rooms that are header-only in both forms, because they include headers of a library that few have.
set(intq_foreign_rooms distributed/mpi)

# Sets <result> to the rows of the units: those above, or with INTQ_COMPILED_QUICK one a library.
function(intq_rows_of_units result)
    if(NOT INTQ_COMPILED_QUICK)
        set(${result} "${intq_compiled_units}" PARENT_SCOPE)
        return()
    endif()
    set(parts "")
    foreach(row IN LISTS intq_compiled_units)
        string(REPLACE " " ";" row "${row}")
        list(POP_FRONT row part unit)
        list(APPEND parts ${part})
        list(APPEND rooms_of_${part} ${row})
    endforeach()
    list(REMOVE_DUPLICATES parts)
    set(rows "")
    foreach(part IN LISTS parts)
        list(JOIN rooms_of_${part} " " rooms)
        list(APPEND rows "${part} ${part} ${rooms}")
    endforeach()
    set(${result} "${rows}" PARENT_SCOPE)
endfunction()

# Writes a file only when its text changes, so that configuring again compiles nothing.
function(intq_write_unit path text)
    if(EXISTS "${path}")
        file(READ "${path}" old)
        if(old STREQUAL text)
            return()
        endif()
    endif()
    file(WRITE "${path}" "${text}")
endfunction()

# Sets headers_of_<word> of each room, its path joined by underscores, to its headers. A folder `internal` belongs to the
# room that it is in. Demands that every room of the hosted half has a row.
function(intq_sort_headers include rooms)
    file(GLOB_RECURSE headers RELATIVE "${include}/intq" CONFIGURE_DEPENDS "${include}/intq/*/*.hpp")
    foreach(header IN LISTS headers)
        cmake_path(GET header PARENT_PATH room)
        string(REGEX REPLACE "/internal(/|$)" "\\1" room "${room}")
        string(REGEX REPLACE "/.*" "" layer "${room}")
        if(room IN_LIST rooms)
            string(REPLACE "/" "_" word "${room}")
            list(APPEND headers_of_${word} "intq/${header}")
            set(headers_of_${word} "${headers_of_${word}}" PARENT_SCOPE)
        elseif(NOT layer IN_LIST intq_embeddable_rooms AND NOT room IN_LIST intq_foreign_rooms)
            message(FATAL_ERROR "intq/${header}: its room ${room} has no row in intq_compiled_units "
                                "(cmake/IntqCompiled.cmake), so nobody would define what it declares")
        endif()
    endforeach()
endfunction()

# The text of a unit that defines rooms, from headers_of_<word>.
function(intq_room_unit rooms result)
    list(JOIN rooms ", " names)
    set(text "// Made by IntqCompiled.cmake: the definitions of ${names}.\n")
    set(includes "")
    foreach(room IN LISTS rooms)
        string(REPLACE "/" "_" word "${room}")
        string(APPEND text "#define INTQ_DEFINES_${word} INTQ_YES\n")
        foreach(header IN LISTS headers_of_${word})
            string(APPEND includes "#include \"${header}\"\n")
        endforeach()
    endforeach()
    set(${result} "${text}${includes}" PARENT_SCOPE)
endfunction()

function(intq_add_compiled target)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "INCLUDE;HOSTED" "")
    set(folder "${CMAKE_CURRENT_BINARY_DIR}/${target}")
    # Units for each backend, and the list from which one is chosen, best first.
    intq_compiled_backends("${arg_INCLUDE}" backends)
    set(list "")
    foreach(backend IN LISTS backends)
        string(APPEND list " X(${backend})")
        intq_backend_flags(${backend} flags)
        foreach(row IN ITEMS "base|float|float/internal/unit_of_backend.hpp|INTQ_DEFINE_FLOAT_KERNELS"
                             "kernels|kernels|backends/internal/unit_of_tables.hpp|INTQ_DEFINE_BACKEND_TABLES")
            string(REPLACE "|" ";" row "${row}")
            list(POP_FRONT row part kind header define)
            set(unit "${folder}/${kind}_${backend}.cpp")
            intq_write_unit("${unit}" "// Made by IntqCompiled.cmake: the ${kind} kernels of one backend.\n\
#include \"intq/program/${header}\"\n\n${define}(${backend})\n")
            set_source_files_properties("${unit}" PROPERTIES COMPILE_OPTIONS "${flags}")
            list(APPEND sources_${part} "${unit}")
        endforeach()
    endforeach()

    intq_rows_of_units(units)
    set(all_rooms "")
    foreach(row IN LISTS units)
        string(REPLACE " " ";" row "${row}")
        list(POP_FRONT row part unit)
        list(APPEND all_rooms ${row})
    endforeach()
    intq_sort_headers("${arg_INCLUDE}" "${all_rooms}")
    foreach(row IN LISTS units)
        string(REPLACE " " ";" row "${row}")
        list(POP_FRONT row part unit)
        intq_room_unit("${row}" text)
        set(of_backends ${row})
        list(FILTER of_backends INCLUDE REGEX "^program/(float|backends)$")
        if(of_backends)
            string(PREPEND text "#define INTQ_COMPILED_BACKENDS(X)${list}\n")
        endif()
        intq_write_unit("${folder}/${unit}.cpp" "${text}")
        list(APPEND sources_${part} "${folder}/${unit}.cpp")
    endforeach()

    # The kernels are declared first, because ninja builds in this order and their units take longest.
    set(before ${target}_base)
    foreach(part IN ITEMS kernels base model quantization interop training)
        if(part STREQUAL "base")
            set(before ${arg_HOSTED})
        endif()
        add_library(${target}_${part} STATIC EXCLUDE_FROM_ALL ${sources_${part}})
        target_link_libraries(${target}_${part} PUBLIC ${before})
        target_compile_definitions(${target}_${part} PUBLIC INTQ_COMPILED=1)
        set_target_properties(${target}_${part} PROPERTIES POSITION_INDEPENDENT_CODE ON EXPORT_NAME compiled_${part})
        set(before ${target}_${part})
    endforeach()
    if(INTQ_COMPILED_QUICK)
        target_compile_options(${target}_quantization PRIVATE -O0)
        target_compile_options(${target}_interop PRIVATE -O0)
    endif()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE ${target}_training ${target}_kernels)
endfunction()
