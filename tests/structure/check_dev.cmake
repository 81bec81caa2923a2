# SPDX-License-Identifier: MIT
#
# What ./dev answers by itself, on a copy of it whose compilers and benches are stand-ins: the help of each command builds
# nothing and names each option of the programs behind it, and a bench without a chosen label does not stop the others.
#
#   cmake -D SOURCE=<checkout> -D SCRATCH=<folder> -P check_dev.cmake

cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE "${SCRATCH}")
file(MAKE_DIRECTORY "${SCRATCH}/tools" "${SCRATCH}/build/bench/bench")
file(COPY "${SOURCE}/dev" DESTINATION "${SCRATCH}")

function(write_program path text)
    file(WRITE "${path}" "#!/bin/sh\n${text}\n")
    file(CHMOD "${path}" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endfunction()

# Runs the copy with the stand-ins first on the path.
function(run_dev status pattern)
    execute_process(COMMAND "${CMAKE_COMMAND}" -E env "PATH=${SCRATCH}/tools:$ENV{PATH}" "${SCRATCH}/dev" --no-install ${ARGN}
                    RESULT_VARIABLE given OUTPUT_VARIABLE output ERROR_VARIABLE output)
    message("dev ${ARGN}: ${given}\n${output}")
    if(NOT given STREQUAL status OR NOT output MATCHES "${pattern}")
        message(FATAL_ERROR "dev ${ARGN}: status ${status} is expected, with '${pattern}'")
    endif()
    set(output "${output}" PARENT_SCOPE)
endfunction()

# --- help ------------------------------------------------------------------------------------------------------------------
set(tools g++ cmake ninja apt-get ctest clang-format-14)
foreach(tool IN LISTS tools)
    write_program("${SCRATCH}/tools/${tool}" "echo CALLED ${tool}; exit 1")
endforeach()
# Each option of a program is named in the help of its command.
function(require_options text)
    foreach(file IN LISTS ARGN)
        file(READ "${SOURCE}/${file}" code)
        string(REGEX MATCHALL "(app|command)[ \n]*[.]add_(option|flag)[(][ \n]*\"--[a-z-]+" options "${code}")
        if(NOT options)
            message(FATAL_ERROR "${file} adds no option")
        endif()
        foreach(option IN LISTS options)
            string(REGEX REPLACE ".*\"" "" option "${option}")
            if(NOT text MATCHES "${option}[ ,\n]")
                message(FATAL_ERROR "the help does not name ${option}, which ${file} adds")
            endif()
        endforeach()
    endforeach()
endfunction()
foreach(command IN ITEMS demo test conformance bench count format)
    foreach(word IN ITEMS --help -h)
        run_dev(0 "^usage: [^\n]* ${command} " ${command} ${word})
        if(output MATCHES "CALLED")
            message(FATAL_ERROR "dev ${command} ${word} runs a tool")
        endif()
    endforeach()
    if(command STREQUAL "bench")
        require_options("${output}" bench/support/arguments.cpp)
    elseif(command STREQUAL "demo")
        require_options("${output}" tools/intq/targets.cpp)
    elseif(command STREQUAL "count" AND NOT output MATCHES " --network .* --check .* --record ")
        message(FATAL_ERROR "the help of count does not name its options")
    endif()
endforeach()
run_dev(0 "--no-install.*--jobs" --help)
run_dev(1 "unknown command 'tset'; known: demo test" tset)

# --- arguments that a command does not take ----------------------------------------------------------------------------------
run_dev(1 "format takes --check or nothing, given: --chek" format --chek)
run_dev(1 "amalgamate takes one folder, given: --bogus" amalgamate --bogus)

# --- installing alone ------------------------------------------------------------------------------------------------------
run_dev(0 "^$" --only-install format)

# --- benches ---------------------------------------------------------------------------------------------------------------
foreach(tool IN LISTS tools)
    write_program("${SCRATCH}/tools/${tool}" "[ ${tool} != g++ ] || cat >/dev/null")
endforeach()
foreach(row IN ITEMS "none|echo nothing measured: $@; exit 3" "one|echo measured: $@" "broken|echo broken; exit 1")
    string(REGEX MATCH "^([a-z]+)[|](.*)" row "${row}")
    write_program("${SCRATCH}/${CMAKE_MATCH_1}_bench" "${CMAKE_MATCH_2}")
endforeach()
function(list_benches)
    list(TRANSFORM ARGN PREPEND "${SCRATCH}/" OUTPUT_VARIABLE paths)
    list(TRANSFORM paths APPEND "_bench")
    list(JOIN paths "\n" paths)
    file(WRITE "${SCRATCH}/build/bench/bench/programs.txt" "${paths}\n")
endfunction()
list_benches(none one)
run_dev(0 "nothing measured.*measured: --output build/bench --filter add" bench --filter add)
list_benches(none none)
run_dev(1 "no bench has what these arguments choose: --filter nowhere" bench --filter nowhere)
list_benches(broken one)
run_dev(1 "broken_bench failed" bench --filter add)

# --- tests -----------------------------------------------------------------------------------------------------------------
# ./dev test leaves out what --rest and ./dev conformance run; of chosen tests it leaves out nothing.
write_program("${SCRATCH}/tools/ctest" "echo \"ctest $*\"")
run_dev(1 "ctest --preset release [^\n]* -LE \\^\\(rest[|]conformance\\)\\$" test)
if(output MATCHES "asan-ubsan")
    message(FATAL_ERROR "dev test builds with sanitizers, which belong to --rest")
endif()
run_dev(1 "ctest --preset release [^\n]* -R structure" test -R structure)
if(output MATCHES "-LE")
    message(FATAL_ERROR "dev test -R leaves out tests that are chosen")
endif()
