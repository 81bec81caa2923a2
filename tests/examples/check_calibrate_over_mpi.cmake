# SPDX-License-Identifier: MIT
#
# The example calibrates over one rank and over two, and both print the same scales.
#   cmake -D MPIEXEC=<mpirun> -D COUNT=<its option -n> -D PROGRAM=<calibrate_over_mpi> -P check_calibrate_over_mpi.cmake

foreach(ranks IN ITEMS 1 2)
    execute_process(COMMAND "${MPIEXEC}" ${COUNT} ${ranks} "${PROGRAM}" RESULT_VARIABLE status OUTPUT_VARIABLE of_${ranks}
                    ERROR_VARIABLE message TIMEOUT 120)
    if(NOT status STREQUAL "0" OR NOT of_${ranks} MATCHES "scales, the first 0x1")
        message(FATAL_ERROR "${ranks} ranks ended with ${status}: ${message}${of_${ranks}}")
    endif()
endforeach()
if(NOT of_1 STREQUAL of_2)
    message(FATAL_ERROR "one rank prints\n${of_1}\nand two print\n${of_2}")
endif()
