# SPDX-License-Identifier: MIT
#
# Real ranks: one, two and four processes calibrate, and find the sensitivity list, to the same bits; two train to the
# same bits in each run; and a rank that fails ends the program on all, with a message of each.
#
#     cmake -D MPIEXEC=<mpirun> -D COUNT=<its option -n> -D PROGRAM=<mpi_ranks> -D SCRATCH=<folder> -P check_mpi.cmake

file(REMOVE_RECURSE "${SCRATCH}")

function(run_ranks ranks folder)
    file(MAKE_DIRECTORY "${SCRATCH}/${folder}")
    execute_process(COMMAND "${MPIEXEC}" ${COUNT} ${ranks} "${PROGRAM}" "${SCRATCH}/${folder}" ${ARGN}
                    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE error TIMEOUT 120)
    set(result "${result}" PARENT_SCOPE)
    set(output "${output}${error}" PARENT_SCOPE)
endfunction()

function(demand_same one other)
    execute_process(COMMAND "${CMAKE_COMMAND}" -E compare_files "${SCRATCH}/${one}" "${SCRATCH}/${other}"
                    RESULT_VARIABLE differs)
    if(differs)
        message(SEND_ERROR "${one} and ${other} differ")
    endif()
endfunction()

foreach(run IN ITEMS 1 2 4 2_again)
    string(REGEX REPLACE "_.*" "" ranks "${run}")
    run_ranks(${ranks} ${run})
    if(NOT result STREQUAL "0" OR NOT output MATCHES "${ranks} ranks wrote")
        message(FATAL_ERROR "${ranks} ranks ended with ${result}: ${output}")
    endif()
endforeach()
foreach(run IN ITEMS 2 4)
    demand_same(1/calibration ${run}/calibration)
    demand_same(1/sensitivity ${run}/sensitivity)
endforeach()
demand_same(2/training 2_again/training)

foreach(failing IN ITEMS 0 1)
    math(EXPR other "1 - ${failing}")
    run_ranks(2 failed --fail ${failing})
    string(REGEX MATCHALL "rank [01] says: [^\n]*" words "${output}")
    foreach(expected IN ITEMS "rank ${failing} says: batch [0-9]: the file is cut off"
                              "rank ${other} says: rank ${failing}: batch [0-9]: the file is cut off")
        if(NOT words MATCHES "${expected}")
            message(SEND_ERROR "rank ${failing} failed, and no rank said `${expected}`: ${output}")
        endif()
    endforeach()
    if(result STREQUAL "0" OR result MATCHES "timeout")
        message(SEND_ERROR "rank ${failing} failed, and the program ended with ${result}")
    endif()
endforeach()
message(STATUS "1, 2 and 4 ranks: the same calibration and sensitivity; 2 ranks: the same training twice")
