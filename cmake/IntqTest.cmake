# SPDX-License-Identifier: MIT
#
# How tests are declared.
#
#   intq_add_test(<source> [BACKENDS <level>...] [VARIANT <word>] [SOURCES <file>...] [FLAGS <flag>...]
#                 [DEFINES <macro=value>...] [LIBRARIES <target>...] [TIMEOUT <seconds>] [NO_SANITIZE])
#
# builds one program from <source> (relative to tests/) and registers it with ctest as, say, core/status. Without
# BACKENDS it is built once, at the default level of cmake/IntqIsa.cmake, where the tags of all weaker backends are
# usable too; with BACKENDS once for each level, as kernels/conv[avx2]. A level that this CPU cannot execute is neither
# built nor run, and is reported as skipped. VARIANT tells apart two declarations of the same source. NO_SANITIZE leaves
# the test out of the sanitizer build.
#
#   intq_add_skipped(<name> <reason>)   a ctest entry that reports itself as skipped

include_guard(GLOBAL)

find_package(Catch2 REQUIRED)
find_path(INTQ_JSON_INCLUDE_DIR nlohmann/json.hpp REQUIRED)

add_library(intq_test_support STATIC "${PROJECT_SOURCE_DIR}/tests/support/main.cpp")
target_include_directories(intq_test_support PUBLIC "${PROJECT_SOURCE_DIR}/tests")
target_include_directories(intq_test_support SYSTEM PUBLIC "${INTQ_JSON_INCLUDE_DIR}")
target_compile_features(intq_test_support PUBLIC cxx_std_20)
target_compile_definitions(
    intq_test_support PUBLIC "INTQ_TESTS_DIR=\"${PROJECT_SOURCE_DIR}/tests\""
                             "INTQ_DOCS_DIR=\"${PROJECT_SOURCE_DIR}/docs\""
                             "INTQ_EXAMPLES_DIR=\"${PROJECT_SOURCE_DIR}/examples\"")
# Catch2's runner takes 11 s to optimise (40 s with sanitizers) and spends no time when it runs.
target_compile_options(intq_test_support PRIVATE -O0 $<$<BOOL:${INTQ_SANITIZE}>:-fno-sanitize=all>)
target_link_libraries(intq_test_support PUBLIC Catch2::Catch2)

function(intq_add_skipped name reason)
    add_test(NAME "${name}" COMMAND "${CMAKE_COMMAND}" -E echo "SKIPPED: ${name}: ${reason}")
    set_tests_properties("${name}" PROPERTIES SKIP_REGULAR_EXPRESSION "^SKIPPED: ")
endfunction()

function(intq_add_test source)
    cmake_parse_arguments(PARSE_ARGV 1 arg "NO_SANITIZE" "VARIANT;TIMEOUT" "BACKENDS;SOURCES;FLAGS;DEFINES;LIBRARIES")
    if(arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "intq_add_test(${source}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
    endif()
    set_property(GLOBAL APPEND PROPERTY INTQ_TEST_SOURCES "${source}")
    if(arg_NO_SANITIZE AND INTQ_SANITIZE)
        return()
    endif()

    string(REGEX REPLACE "(_test)?\\.cpp$" "" base "${source}")
    if(arg_VARIANT)
        string(APPEND base "-${arg_VARIANT}")
    endif()
    set(levels default)
    if(arg_BACKENDS)
        set(levels ${arg_BACKENDS})
    endif()
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 900)
    endif()

    foreach(level IN LISTS levels)
        set(name "${base}")
        if(NOT level STREQUAL "default")
            string(APPEND name "[${level}]")
        endif()
        intq_isa_runs(${level} runs)
        if(NOT runs)
            intq_add_skipped("${name}" "this CPU does not execute ${level}")
            continue()
        endif()

        string(MAKE_C_IDENTIFIER "test_${base}_${level}" target)
        list(TRANSFORM arg_SOURCES PREPEND "${PROJECT_SOURCE_DIR}/tests/" OUTPUT_VARIABLE more_sources)
        add_executable(${target} "${PROJECT_SOURCE_DIR}/tests/${source}" ${more_sources})
        target_link_libraries(${target} PRIVATE intq::hosted intq_test_support intq_developer_warnings ${arg_LIBRARIES})
        target_compile_definitions(${target} PRIVATE ${arg_DEFINES} $<$<BOOL:${INTQ_SANITIZE}>:INTQ_TEST_FEW_BACKENDS>)
        intq_target_isa(${target} ${level})
        target_compile_options(${target} PRIVATE ${arg_FLAGS})
        add_test(NAME "${name}" COMMAND ${target})
        set_tests_properties("${name}" PROPERTIES TIMEOUT ${arg_TIMEOUT})
    endforeach()
endfunction()
