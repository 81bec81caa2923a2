# SPDX-License-Identifier: MIT
#
# Runs a bench on one row: with its own tables, and, unless it is to run once, as Google Benchmark prints it. Both must
# hold the row.
#
#   cmake -D BENCH=<program> -D SCRATCH=<folder> -D LABEL=<regex of one label> -D ROW=<its name in the table>
#         -D COLUMN=<a name in the heading> -D COUNTERS=<counter>... [-D ONCE=ON] -P check_bench.cmake -- <argument>...

cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/../structure/command_words.cmake")
file(REMOVE_RECURSE "${SCRATCH}")

function(run_bench)
    # Without Python, whose children take seconds.
    execute_process(COMMAND "${CMAKE_COMMAND}" -E env INTQ_PYTHON=/no_python "${BENCH}" --quick --output "${SCRATCH}" ${ARGN}
                            ${command} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE errors)
    message("${output}${errors}")
    if(status EQUAL 3)
        message("SKIPPED: ${errors}")
        set(is_skipped TRUE PARENT_SCOPE)
    elseif(NOT status EQUAL 0)
        message(FATAL_ERROR "${BENCH} ends with ${status}")
    endif()
    set(output "${output}" PARENT_SCOPE)
endfunction()

# The row of a document of Google Benchmark: `name` matches, the times are above 0, and the counters are there.
function(require_row json from at name)
    string(JSON count ERROR_VARIABLE error LENGTH "${json}" benchmarks)
    if(error OR NOT count GREATER at)
        message(FATAL_ERROR "${from} has no row ${at}: ${error}")
    endif()
    string(JSON row GET "${json}" benchmarks ${at})
    string(JSON given GET "${row}" name)
    if(NOT given MATCHES "^${name}$")
        message(FATAL_ERROR "${from}: row ${at} is ${given}, not ${name}")
    endif()
    foreach(number IN ITEMS real_time cpu_time ${COUNTERS})
        string(JSON value ERROR_VARIABLE error GET "${row}" "${number}")
        if(error OR NOT value GREATER 0)
            message(FATAL_ERROR "${from}: ${given} has ${number} ${value}, not a number above 0")
        endif()
    endforeach()
endfunction()

set(is_skipped FALSE)
run_bench(--filter "^${LABEL}$")
if(is_skipped)
    return()
endif()
if(NOT output MATCHES "${COLUMN}.*${ROW}")
    message(FATAL_ERROR "the tables have no column ${COLUMN} or no row ${ROW}")
endif()
cmake_path(GET BENCH STEM name)
file(READ "${SCRATCH}/${name}.json" json)
require_row("${json}" ${name}.json 0 "${LABEL}/manual_time")
if(ONCE)
    return()
endif()

run_bench("--benchmark_filter=^${LABEL}/manual_time$" --benchmark_repetitions=2 --benchmark_format=json)
require_row("${output}" "--benchmark_format=json" 0 "${LABEL}/manual_time")
require_row("${output}" "--benchmark_format=json" 1 "${LABEL}/manual_time")
require_row("${output}" "--benchmark_format=json" 2 "${LABEL}/manual_time_mean")
