# SPDX-License-Identifier: MIT
#
# Uses intq as a stranger would, in one of the ways that the README names, and runs the result.
#
#   cmake -D WAY=<find_package|find_package_hosted|find_package_compiled|add_subdirectory|fetch_content|copy|copy_compiled|
#         pkg_config|install|without_protozero|single_file|single_file_hosted> -D SOURCE=<checkout>
#         -D BUILD=<build tree of intq> -D WORK=<scratch> -D CXX=<compiler> -D VERSION=<x.y.z> [-D PKG_CONFIG=<program>]
#         [-D AMALGAMATE=<program>]
#         [-D REMOVE=<path below the prefix>] -P check_package.cmake
#
# install: by someone who types nothing but `cmake -B` and `cmake --install`, and has none of the packages that a
# developer has. without_protozero: find_package_hosted where INTQ_WITH_PROTOZERO is OFF.
#
# REMOVE plants a fault: the file is missing from what was installed or copied.

cmake_minimum_required(VERSION 3.25)

function(run_or_fail what)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
    if(NOT status EQUAL 0)
        message(FATAL_ERROR "${WAY}: ${what} failed (${status}):\n${output}")
    endif()
    set(output "${output}" PARENT_SCOPE)
endfunction()

# What is installed are the headers of the checkout. Those that use protozero are behind the door that the programs open.
function(demand_every_header)
    file(GLOB_RECURSE shipped RELATIVE "${SOURCE}/include" "${SOURCE}/include/*")
    file(GLOB_RECURSE installed RELATIVE "${prefix}/include" "${prefix}/include/*")
    if(NOT installed STREQUAL shipped)
        set(missing ${shipped})
        list(REMOVE_ITEM missing ${installed} "")
        list(REMOVE_ITEM installed ${shipped} "")
        message(FATAL_ERROR "${WAY}: not installed: '${missing}'; installed beside the headers: '${installed}'")
    endif()
    foreach(header IN LISTS shipped)
        file(STRINGS "${SOURCE}/include/${header}" uses REGEX "include <protozero")
        if(uses AND NOT header MATCHES "^intq/(interop/onnx/|io/protobuf[.]hpp$)")
            message(FATAL_ERROR "${header} includes protozero, and the programs of tests/package do not include it")
        endif()
    endforeach()
endfunction()

set(consumers "${SOURCE}/tests/package")
set(prefix "${WORK}/prefix")
file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}")

# The tree is installed and then moved: nothing in it may know where it was.
set(folder "${WAY}")
set(more "")
if(WAY STREQUAL "without_protozero")
    # A use of protozero would find this one.
    file(WRITE "${WORK}/refused/protozero/pbf_reader.hpp" "#error used\n")
    file(WRITE "${WORK}/refused/protozero/exception.hpp" "#error used\n")
    set(more -DINTQ_WITH_PROTOZERO=OFF "-DCMAKE_CXX_FLAGS=-I${WORK}/refused")
elseif(WAY STREQUAL "install")
    set(folder find_package)
    run_or_fail("configure" "${CMAKE_COMMAND}" -S "${SOURCE}" -B "${WORK}/of_intq" "-DCMAKE_CXX_COMPILER=${CXX}"
                -DCMAKE_DISABLE_FIND_PACKAGE_Catch2=ON -DCMAKE_DISABLE_FIND_PACKAGE_benchmark=ON
                -DINTQ_JSON_INCLUDE_DIR=NOTFOUND -DINTQ_FMT_INCLUDE_DIR=NOTFOUND -DINTQ_CLI11_INCLUDE_DIR=NOTFOUND
                -DCMAKE_FIND_ROOT_PATH=/nowhere -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY)
    run_or_fail("install" "${CMAKE_COMMAND}" --install "${WORK}/of_intq" --prefix "${prefix}")
endif()
if(WAY MATCHES "find_package|pkg_config|without")
    run_or_fail("install" "${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${WORK}/first_prefix")
    file(RENAME "${WORK}/first_prefix" "${prefix}")
    file(GLOB_RECURSE installed "${prefix}/share/*.cmake" "${prefix}/share/*.pc")
    foreach(file IN LISTS installed)
        file(STRINGS "${file}" leaks REGEX "${SOURCE}|${BUILD}|first_prefix")
        if(leaks)
            message(FATAL_ERROR "${file} holds a path of the machine that built it: ${leaks}")
        endif()
    endforeach()
    demand_every_header()
elseif(WAY MATCHES "^copy")
    file(COPY "${SOURCE}/include" DESTINATION "${prefix}")
endif()
if(REMOVE)
    file(REMOVE "${prefix}/${REMOVE}")
endif()

set(program "${WORK}/build/consumer")
if(WAY STREQUAL "copy")
    file(MAKE_DIRECTORY "${WORK}/build")
    run_or_fail("compile" "${CXX}" -std=c++20 "-I${prefix}/include" "${consumers}/core_main.cpp" -o "${program}")
elseif(WAY MATCHES "^single_file")
    # Nothing but the one file is on the path; beside the headers that it is made of it adds nothing.
    set(header embedded)
    set(main core_main)
    set(flags -O1 -fno-exceptions -fno-rtti)
    if(WAY STREQUAL "single_file_hosted")
        set(header intq)
        set(main hosted_main)
        set(flags -O0)
    endif()
    file(MAKE_DIRECTORY "${WORK}/build" "${WORK}/one")
    run_or_fail("amalgamate" "${AMALGAMATE}" "intq/${header}.hpp" "${SOURCE}/include" "${SOURCE}/LICENSE"
                "${WORK}/one/single.hpp")
    file(WRITE "${WORK}/twice.cpp" "#include \"single.hpp\"\n#include \"intq/${header}.hpp\"\n")
    run_or_fail("compile beside the headers" "${CXX}" -std=c++20 -fsyntax-only "-I${WORK}/one" "-I${SOURCE}/include"
                "${WORK}/twice.cpp")
    file(READ "${consumers}/${main}.cpp" program_text)
    string(REGEX REPLACE "\"intq/[^\"]*\"" "\"single.hpp\"" program_text "${program_text}")
    file(WRITE "${WORK}/main.cpp" "${program_text}")
    run_or_fail("compile" "${CXX}" -std=c++20 ${flags} -Wall -Wextra -Wconversion -Werror "-I${WORK}/one"
                "${WORK}/main.cpp" -o "${program}")
elseif(WAY STREQUAL "copy_compiled")
    file(MAKE_DIRECTORY "${WORK}/build")
    run_or_fail("compile" "${CXX}" -std=c++20 -O0 -DINTQ_COMPILED=1 "-DINTQ_WITH_PROTOZERO=1"
                "-I${prefix}/include" "${consumers}/compiled_definitions.cpp" "${consumers}/compiled_main.cpp" -o
                "${program}")
elseif(WAY STREQUAL "pkg_config")
    file(MAKE_DIRECTORY "${WORK}/build")
    set(ENV{PKG_CONFIG_PATH} "${prefix}/share/pkgconfig")
    run_or_fail("pkg-config --modversion" "${PKG_CONFIG}" --modversion intq)
    string(STRIP "${output}" output)
    if(NOT output STREQUAL VERSION)
        message(FATAL_ERROR "pkg-config says version ${output}, the header says ${VERSION}")
    endif()
    run_or_fail("pkg-config --cflags" "${PKG_CONFIG}" --cflags intq)
    separate_arguments(flags UNIX_COMMAND "${output}")
    run_or_fail("compile" "${CXX}" ${flags} "${consumers}/core_main.cpp" -o "${program}")
else()
    run_or_fail("configure" "${CMAKE_COMMAND}" -S "${consumers}/${folder}" -B "${WORK}/build" -G Ninja
                "-DCMAKE_CXX_COMPILER=${CXX}" "-DCMAKE_PREFIX_PATH=${prefix}" "-DINTQ_SOURCE=${SOURCE}"
                "-DINTQ_EXPECTED_VERSION=${VERSION}" ${more})
    run_or_fail("build" "${CMAKE_COMMAND}" --build "${WORK}/build")
endif()

run_or_fail("run" "${program}")
if(NOT output STREQUAL "intq ${VERSION}: 4\n")
    message(FATAL_ERROR "${WAY}: the program printed '${output}' instead of 'intq ${VERSION}: 4'")
endif()
message("${WAY}: ${output}")
