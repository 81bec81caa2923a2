# SPDX-License-Identifier: MIT
#
# Builds a scalable backend for each vector length and runs it on emulated machines of every length: it must equal plain
# loops where the length is its own, with the same bytes for all lengths, and must refuse every other machine.
#
#   cmake -D BACKEND=<sve|rvv> -D PACK=<scalable_pack> -D EMULATOR=<qemu> -D SCRATCH=<folder> [-D LENGTHS=<bits>]
#         -P check_scalable.cmake -- <compiler> <flag>...

cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/../command_words.cmake")

# {BITS} is the length, {QUADS} the length in units of 128 bits.
set(flags_sve -march=armv8.2-a+sve -msve-vector-bits={BITS})
set(machine_sve -cpu max,sve-max-vq={QUADS})
set(flags_rvv -march=rv64gcv_zvl{BITS}b -mabi=lp64d -mrvv-vector-bits=zvl)
set(machine_rvv -cpu rv64,v=true,vext_spec=v1.0,vlen={BITS})
set(machines 128 256 512)
if(NOT LENGTHS)
    set(LENGTHS ${machines})
endif()

function(for_length bits words result)
    math(EXPR quads "${bits} / 128")
    string(REPLACE "{BITS}" "${bits}" words "${words}")
    string(REPLACE "{QUADS}" "${quads}" words "${words}")
    set(${result} "${words}" PARENT_SCOPE)
endfunction()

function(run_program what expected_status expected_text)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output TIMEOUT 60)
    message("${what}: ${output}")
    if(NOT status STREQUAL "${expected_status}" OR NOT output MATCHES "${expected_text}")
        message("${what}: status ${status} where ${expected_status} is expected, with '${expected_text}'")
        message(FATAL_ERROR "${BACKEND} fails")
    endif()
    set(output "${output}" PARENT_SCOPE)
endfunction()

file(MAKE_DIRECTORY "${SCRATCH}")
set(packed "${SCRATCH}/layer.packed")
run_program("packing on this machine" 0 "" "${PACK}" ${BACKEND} "${packed}")

set(bytes "")
foreach(bits IN LISTS LENGTHS)
    for_length(${bits} "${flags_${BACKEND}}" flags)
    set(program "${SCRATCH}/${BACKEND}-${bits}")
    run_program("compiling for ${bits} bits" 0 "" ${command} ${flags} -static
                "${CMAKE_CURRENT_LIST_DIR}/${BACKEND}.cpp" -o "${program}")
    foreach(machine_bits IN LISTS machines)
        for_length(${machine_bits} "${machine_${BACKEND}}" machine)
        set(what "built for ${bits} bits, on a machine of ${machine_bits}")
        if(NOT machine_bits EQUAL bits)
            run_program("${what}" 3 "refused.*of ${machine_bits} bits given, ${bits} expected" "${EMULATOR}" ${machine}
                        "${program}" "${packed}")
            continue()
        endif()
        run_program("${what}" 0 "equal, 3960 sums" "${EMULATOR}" ${machine} "${program}" "${packed}")
        if(NOT bytes)
            set(bytes "${output}")
        elseif(NOT output STREQUAL bytes)
            message(FATAL_ERROR "${what}: other bytes than at the first length")
        endif()
    endforeach()
    # Linux runs a process with shorter vectors than the machine has, where the process asks for them.
    if(BACKEND STREQUAL "sve")
        for_length(512 "${machine_sve}" machine)
        run_program("built for ${bits} bits, shortened on a machine of 512" 0 "equal, 3960 sums" "${EMULATOR}"
                    ${machine} "${program}" "${packed}" shorten)
    endif()
endforeach()
