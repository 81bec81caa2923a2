# SPDX-License-Identifier: MIT
#
# How tests are declared.
#
#   intq_test_group(<name> [FLAGS <flag>...] [DEFINES <macro=value>...] [LIBRARIES <target>...] [NO_SANITIZE]
#                   [FORM <part>] [SANITIZE_LONG] [UNITS <number>])
#
# makes a program of several test files that share their flags. With INTQ_TEST_UNITY, which is on, up to eight files are
# one unit for the compiler, each in a namespace of its own; UNITS says into how many units the files go instead. A unit
# should compile in half a minute, and in less than 2 GB. The program is header-only, or links a part of the compiled
# form (cmake/IntqCompiled.cmake): FORM base, model, quantization, interop or training. NO_SANITIZE leaves the group out
# of the sanitizer build, SANITIZE_LONG out of the one that ./dev test makes without --all.
#
#   intq_add_test(<source> GROUP <name> [LONG])
#
# puts <source> (relative to tests/) into the group's program and registers it with ctest as, say, graph/tracer, which
# runs the test cases of that file alone. LONG tests run with ./dev test --all only.
#
#   intq_add_test(<source> [BACKENDS <level>...] [VARIANT <word>] [FLAGS <flag>...] [DEFINES <macro=value>...]
#                 [LIBRARIES <target>...] [NO_SANITIZE] [LONG])
#
# builds a program of its own, header-only. With BACKENDS it is built once for each level of cmake/IntqIsa.cmake, as
# simd/base/primitives[avx2]; without, at the default level, where the tags of all weaker backends are usable too. A
# level that this CPU cannot execute is neither built nor run, and is reported as skipped. VARIANT tells apart two
# declarations of the same source.
#
#   intq_add_skipped(<name> <reason>)   a ctest entry that reports itself as skipped
#   intq_long_test(<name>)              marks a ctest entry as LONG
#   intq_start_early(<name>...)         ctest entries of this folder that run for long, which must not be left to the end
#   intq_label_tests(<label> <regex>...)
#
# gives a label to the ctest entries of this folder that match; each regex must find one. `rest` is what ./dev test leaves
# to ./dev test --rest, `every_backend` what runs in both, there with the kernels of every backend, and `conformance` what
# ./dev conformance runs. Entries without a label run in ./dev test alone.

include_guard(GLOBAL)
set(intq_make_unit "${PROJECT_SOURCE_DIR}/tests/support/make_unit.cmake")

find_package(Catch2 REQUIRED)
find_path(INTQ_JSON_INCLUDE_DIR nlohmann/json.hpp REQUIRED)
option(INTQ_TEST_ALL "Also build and run the long tests (./dev test --all)" OFF)
option(INTQ_TEST_UNITY "Compile the files of a group of tests together, up to eight at once" ON)

add_library(intq_test_support STATIC "${PROJECT_SOURCE_DIR}/tests/support/main.cpp")
target_include_directories(intq_test_support PUBLIC "${PROJECT_SOURCE_DIR}/tests")
target_include_directories(intq_test_support SYSTEM PUBLIC "${INTQ_JSON_INCLUDE_DIR}")
target_compile_features(intq_test_support PUBLIC cxx_std_20)
# Preconditions are checked in every build type.
target_compile_definitions(intq_test_support PUBLIC INTQ_ASSERT_LEVEL=1
                                                    $<$<BOOL:${INTQ_SANITIZE}>:INTQ_TEST_FEW_BACKENDS>)
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

function(intq_long_test name)
    set_property(TEST "${name}" APPEND PROPERTY LABELS long)
endfunction()

# Entries that this build lacks are passed over.
function(intq_start_early)
    get_property(tests DIRECTORY PROPERTY TESTS)
    foreach(name IN LISTS ARGN)
        if(name IN_LIST tests)
            set_property(TEST "${name}" PROPERTY COST 1000)
        endif()
    endforeach()
endfunction()

function(intq_label_tests label)
    get_property(tests DIRECTORY PROPERTY TESTS)
    foreach(regex IN LISTS ARGN)
        set(found ${tests})
        list(FILTER found INCLUDE REGEX "${regex}")
        if(NOT found)
            message(FATAL_ERROR "intq_label_tests(${label}): no test of this folder matches ${regex}")
        endif()
        set_property(TEST ${found} APPEND PROPERTY LABELS ${label})
    endforeach()
endfunction()

# The precompiled header of the groups that link the compiled form at -O0.
file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/precompiled.cpp" "")
add_library(intq_test_precompiled OBJECT EXCLUDE_FROM_ALL "${CMAKE_CURRENT_BINARY_DIR}/precompiled.cpp")
target_link_libraries(intq_test_precompiled PRIVATE intq::hosted intq_test_support intq_developer_warnings)
target_compile_definitions(intq_test_precompiled PRIVATE INTQ_COMPILED=1)
intq_target_isa(intq_test_precompiled default)
target_compile_options(intq_test_precompiled PRIVATE -O0)
target_precompile_headers(intq_test_precompiled PRIVATE "${PROJECT_SOURCE_DIR}/tests/support/precompiled.hpp")

# --- programs of several files ----------------------------------------------------------------------------------------
function(intq_test_group name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "NO_SANITIZE;SANITIZE_LONG" "FORM;UNITS" "FLAGS;DEFINES;LIBRARIES")
    if(arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "intq_test_group(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
    endif()
    if(INTQ_SANITIZE AND (arg_NO_SANITIZE OR (arg_SANITIZE_LONG AND NOT INTQ_TEST_ALL)))
        set_property(GLOBAL PROPERTY INTQ_TEST_GROUP_${name} LEFT_OUT)
        return()
    endif()
    set_property(GLOBAL PROPERTY INTQ_TEST_GROUP_${name} THERE)
    set(form intq::hosted)
    if(arg_FORM)
        set(form intq_compiled_${arg_FORM})
    endif()
    add_executable(test_${name})
    target_link_libraries(test_${name} PRIVATE ${form} intq_test_support intq_developer_warnings ${arg_LIBRARIES})
    target_compile_definitions(test_${name} PRIVATE ${arg_DEFINES})
    intq_target_isa(test_${name} default)
    target_compile_options(test_${name} PRIVATE ${arg_FLAGS})
    if(arg_FORM AND arg_FLAGS STREQUAL "-O0")
        target_precompile_headers(test_${name} REUSE_FROM intq_test_precompiled)
    endif()
    if(INTQ_TEST_UNITY)
        # When the folder has named all files, and what is special about some.
        cmake_language(EVAL CODE "cmake_language(DEFER CALL intq_unite_group ${name} ${arg_UNITS})")
    endif()
endfunction()

# intq_unite_group(<name> [<number of units>])
#
# Replaces the files of a group by units (tests/support/make_unit.cmake). A file with flags or macros of its own, or
# with SKIP_UNITY_BUILD_INCLUSION, stays alone.
function(intq_unite_group name)
    get_target_property(files test_${name} SOURCES)
    set(alone "")
    foreach(file IN LISTS files)
        foreach(property IN ITEMS COMPILE_OPTIONS COMPILE_DEFINITIONS SKIP_UNITY_BUILD_INCLUSION)
            get_source_file_property(is_special "${file}" ${property})
            if(is_special)
                list(APPEND alone "${file}")
                break()
            endif()
        endforeach()
    endforeach()
    list(REMOVE_ITEM files ${alone})
    list(LENGTH files count)
    math(EXPR units "(${count} + 7) / 8")
    if(ARGN)
        set(units ${ARGN})
    endif()
    set(unit 0)
    set(paths "")
    while(unit LESS units)
        math(EXPR begin "${unit} * ${count} / ${units}")
        math(EXPR length "(${unit} + 1) * ${count} / ${units} - ${begin}")
        math(EXPR unit "${unit} + 1")
        list(SUBLIST files ${begin} ${length} together)
        if(length EQUAL 1)
            list(APPEND alone ${together})
            continue()
        endif()
        set(path "${CMAKE_CURRENT_BINARY_DIR}/units/${name}_${unit}.cpp")
        add_custom_command(OUTPUT "${path}"
                           COMMAND "${CMAKE_COMMAND}" -D "UNIT=${path}" -P "${intq_make_unit}" -- ${together}
                           DEPENDS ${together} "${intq_make_unit}"
                           COMMENT "Uniting test files as ${name}_${unit}.cpp" VERBATIM)
        list(APPEND alone "${path}")
        list(APPEND paths "${path}")
    endwhile()
    # The command of a target that depends on nothing, so that compiling a unit waits for no library.
    add_custom_target(test_${name}_units DEPENDS ${paths})
    add_dependencies(test_${name} test_${name}_units)
    set_property(TARGET test_${name} PROPERTY SOURCES ${alone})
endfunction()

# The name that ctest shows.
function(intq_test_name source variant result)
    string(REGEX REPLACE "(_test)?\\.cpp$" "" name "${source}")
    if(variant)
        string(APPEND name "-${variant}")
    endif()
    set(${result} "${name}" PARENT_SCOPE)
endfunction()

function(intq_add_to_group source group is_long)
    get_property(state GLOBAL PROPERTY INTQ_TEST_GROUP_${group})
    if(NOT state)
        message(FATAL_ERROR "intq_add_test(${source}): there is no group ${group}; declare it by intq_test_group")
    elseif(state STREQUAL "LEFT_OUT" OR (is_long AND NOT INTQ_TEST_ALL))
        return()
    endif()
    target_sources(test_${group} PRIVATE "${PROJECT_SOURCE_DIR}/tests/${source}")
    intq_test_name("${source}" "" name)
    cmake_path(GET source STEM file)
    # Catch2 gives every test case the name of its file as a tag.
    add_test(NAME "${name}" COMMAND test_${group} --filenames-as-tags "[#${file}]")
    set_tests_properties("${name}" PROPERTIES TIMEOUT 900)
    if(is_long)
        intq_long_test("${name}")
    endif()
endfunction()

# --- one test ---------------------------------------------------------------------------------------------------------
function(intq_add_test source)
    cmake_parse_arguments(PARSE_ARGV 1 arg "NO_SANITIZE;LONG" "GROUP;VARIANT" "BACKENDS;FLAGS;DEFINES;LIBRARIES")
    if(arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "intq_add_test(${source}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
    endif()
    set_property(GLOBAL APPEND PROPERTY INTQ_TEST_SOURCES "${source}")
    if(arg_GROUP)
        intq_add_to_group("${source}" ${arg_GROUP} ${arg_LONG})
        return()
    endif()
    if((arg_NO_SANITIZE AND INTQ_SANITIZE) OR (arg_LONG AND NOT INTQ_TEST_ALL))
        return()
    endif()

    intq_test_name("${source}" "${arg_VARIANT}" base)
    set(levels default)
    if(arg_BACKENDS)
        set(levels ${arg_BACKENDS})
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
        add_executable(${target} "${PROJECT_SOURCE_DIR}/tests/${source}")
        target_link_libraries(${target} PRIVATE intq::hosted intq_test_support intq_developer_warnings ${arg_LIBRARIES})
        target_compile_definitions(${target} PRIVATE ${arg_DEFINES})
        intq_target_isa(${target} ${level})
        target_compile_options(${target} PRIVATE ${arg_FLAGS})
        add_test(NAME "${name}" COMMAND ${target})
        set_tests_properties("${name}" PROPERTIES TIMEOUT 900)
        if(arg_LONG)
            intq_long_test("${name}")
        endif()
    endforeach()
endfunction()
