# SPDX-License-Identifier: MIT
#
# The programs that ./dev count counts, one for each machine, compiler and network, and `counted.txt`, which
# bench/count/count reads. tests/conformance includes this file behind its machines, whose compilers and start-up it
# uses.
#
#   intq_add_counted(<machine> COMPILER <program> [LINKER <program>] DISASSEMBLER <program> [START <object>]
#                    [FLAGS <word>...] [COMPILE <word>...] [LINK <word>...] EMULATOR <program> [<word>...]
#                    [PACKED <backend>] [CHECKED <network>...])
#
# COMPILE are words that the linker does not get. PACKED is the backend, where it is not scalar. CHECKED makes a test for
# each of these networks, which fails where a layer executes over 2 % more instructions than its record; the programs of
# these tests are built with others. Large networks have none, and are only built where they are named.

set(intq_counted_networks ds_cnn resnet_8 mobilenet_v1 autoencoder ds_cnn_int16 resnet_8_int16)
set(intq_large_networks mobilenet_v2 mobilenet_v2_rows)
set(intq_count_folder "${CMAKE_CURRENT_LIST_DIR}")
set(intq_count_plugin "${CMAKE_CURRENT_BINARY_DIR}/count_instructions.so")
set(intq_count_list "${CMAKE_CURRENT_BINARY_DIR}/counted.txt")
list(JOIN intq_counted_networks "|" networks)
list(JOIN intq_large_networks "|" large)
set(intq_counted "networks|${networks}\nlarge|${large}\n")

set(files "")
foreach(suffix IN ITEMS "" _dsp _helium _dotprod)
    foreach(network IN LISTS intq_large_networks)
        list(APPEND files "${intq_deployed_folder}${suffix}/${network}.hpp")
    endforeach()
endforeach()
add_custom_command(OUTPUT ${files} COMMAND make_deployed "${intq_deployed_folder}" mobilenet_v2 DEPENDS make_deployed
                   COMMENT "Writing MobileNetV2 as headers" VERBATIM)
add_custom_target(large_networks DEPENDS ${files})

add_custom_command(
    OUTPUT "${intq_count_plugin}"
    COMMAND "${CMAKE_CXX_COMPILER}" -x c -std=c11 -O2 -Wall -Wextra -Werror -shared -fPIC
            "${intq_count_folder}/count_instructions.c" -o "${intq_count_plugin}"
    DEPENDS "${intq_count_folder}/count_instructions.c" VERBATIM)

function(intq_add_counted machine)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "COMPILER;LINKER;DISASSEMBLER;START;PACKED"
                          "FLAGS;COMPILE;LINK;EMULATOR;CHECKED")
    set(deployed "${intq_deployed_folder}")
    if(arg_PACKED)
        string(APPEND deployed "_${arg_PACKED}")
    endif()
    if(NOT arg_LINKER)
        set(arg_LINKER "${arg_COMPILER}")
    endif()
    list(POP_FRONT arg_EMULATOR emulator)
    set(missing "")
    foreach(program IN ITEMS ${arg_COMPILER} ${arg_LINKER} ${arg_DISASSEMBLER} ${emulator})
        find_program(INTQ_PROGRAM_${program} ${program})
        mark_as_advanced(INTQ_PROGRAM_${program})
        if(NOT INTQ_PROGRAM_${program})
            list(APPEND missing ${program})
        endif()
    endforeach()
    set(version "")
    if(NOT missing)
        intq_probe_machine(counted_${machine}_${arg_COMPILER} version "${INTQ_PROGRAM_${arg_COMPILER}}" ${arg_FLAGS}
                           ${arg_COMPILE})
    endif()
    if(NOT version)
        list(JOIN missing ", " reason)
        set(reason "not installed: ${reason} (./dev count installs it)")
        if(NOT missing)
            set(reason "${arg_COMPILER} has no C++ library for this machine (./dev count installs it)")
        endif()
        string(APPEND intq_counted "${machine}|${arg_COMPILER}|${reason}|\n")
        set(intq_counted "${intq_counted}" PARENT_SCOPE)
        foreach(network IN LISTS arg_CHECKED)
            intq_add_skipped("conformance/${machine}/count_of_${network}" "${reason}")
        endforeach()
        return()
    endif()

    set(folder "${CMAKE_CURRENT_BINARY_DIR}/counted/${machine}_${arg_COMPILER}")
    file(MAKE_DIRECTORY "${folder}")
    set(programs "")
    set(checked "")
    foreach(network IN LISTS intq_counted_networks intq_large_networks)
        set(header "${deployed}/${network}.hpp")
        set(output "${folder}/${network}")
        add_custom_command(
            OUTPUT "${output}"
            COMMAND "${INTQ_PROGRAM_${arg_COMPILER}}" -std=c++20 -O3 -DNDEBUG -DINTQ_UNROLLED=1 ${arg_FLAGS}
                    ${arg_COMPILE} ${warnings} "-I${include_dir}" "-I${PROJECT_SOURCE_DIR}/tests"
                    "-DINTQ_MODEL=${network}" "-DINTQ_MODEL_HEADER=\"${header}\"" -MD -MF "${output}.d" -MT "${output}"
                    -c "${intq_count_folder}/counted.cpp" -o "${output}.o"
            COMMAND "${INTQ_PROGRAM_${arg_LINKER}}" ${arg_FLAGS} "${output}.o" ${arg_START} ${arg_LINK} -o "${output}"
            DEPENDS "${intq_count_folder}/counted.cpp" "${header}" "${intq_count_plugin}" ${arg_START}
            DEPFILE "${output}.d" COMMENT "Compiling ${network} to be counted on ${machine} by ${arg_COMPILER}" VERBATIM)
        if(network IN_LIST intq_large_networks)
            add_custom_target(counted_${machine}_${arg_COMPILER}_${network} DEPENDS "${output}")
        elseif(NOT network IN_LIST arg_CHECKED)
            list(APPEND programs "${output}")
        else()
            list(APPEND checked "${output}")
            add_test(NAME "conformance/${machine}/count_of_${network}" COMMAND "${intq_count_folder}/count" --check
                                                                               "${intq_count_list}" "${output}")
            set_tests_properties("conformance/${machine}/count_of_${network}"
                                 PROPERTIES TIMEOUT 300 SKIP_REGULAR_EXPRESSION "^SKIPPED: ")
        endif()
    endforeach()
    add_custom_target(counted_${machine}_${arg_COMPILER} DEPENDS ${programs} ${checked})
    if(checked)
        add_custom_target(checked_${machine}_${arg_COMPILER} ALL DEPENDS ${checked})
    endif()
    list(JOIN arg_EMULATOR "|" words)
    string(APPEND intq_counted
           "${machine}|${arg_COMPILER}|${version}|${folder}|${deployed}|${intq_count_plugin}|"
           "${INTQ_PROGRAM_${arg_DISASSEMBLER}}|${INTQ_PROGRAM_${emulator}}|${words}\n")
    set(intq_counted "${intq_counted}" PARENT_SCOPE)
endfunction()

# --- the boards ----------------------------------------------------------------------------------------------------------
# intq_add_counted_board(<machine> BOARD <QEMU's name> COMPILER <program> FLAGS <word>... LINK <word>...
#                        [COMPILE <word>...] [PACKED <backend>] [CHECKED])
# prints by newlib's semihosting, as the other programs of boards.
macro(intq_add_counted_board machine)
    cmake_parse_arguments(board "CHECKED" "BOARD;COMPILER;PACKED" "FLAGS;LINK;COMPILE" ${ARGN})
    set(object "${CMAKE_CURRENT_BINARY_DIR}/counted/${machine}_start.o")
    set(checked "")
    if(board_CHECKED)
        set(checked CHECKED ${intq_counted_networks})
    endif()
    set(packed "")
    if(board_PACKED)
        set(packed PACKED ${board_PACKED})
    endif()
    intq_add_counted(
        ${machine}
        ${checked}
        ${packed}
        COMPILER ${board_COMPILER}
        LINKER arm-none-eabi-g++
        DISASSEMBLER arm-none-eabi-objdump
        START "${object}"
        FLAGS ${board_FLAGS} -mthumb
        COMPILE ${board_flags} ${board_COMPILE}
        LINK ${board_LINK} ${without_runtime_link}
        EMULATOR qemu-system-arm -M ${board_BOARD} ${board_emulator})
    if(INTQ_PROGRAM_arm-none-eabi-g++ AND NOT TARGET counted_start_${machine})
        add_custom_command(
            OUTPUT "${object}"
            COMMAND "${INTQ_PROGRAM_arm-none-eabi-g++}" -std=c++20 -O1 ${board_FLAGS} ${board_flags} -c
                    "${CMAKE_CURRENT_SOURCE_DIR}/cortex_m/start.cpp" -o "${object}"
            DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/cortex_m/start.cpp" VERBATIM)
        add_custom_target(counted_start_${machine} DEPENDS "${object}")
    endif()
endmacro()

set(low_link -Wl,--defsym=intq_code=0x1000 -Wl,--defsym=intq_data=0x20000000)
set(high_link -Wl,--defsym=intq_code=0x01000000 -Wl,--defsym=intq_data=0x21000000)
# QEMU's one board with a core without Thumb-2 has 16 KB of RAM. Code of a Cortex-M0+ runs on a Cortex-M3.
intq_add_counted_board(
    cortex-m0plus
    BOARD mps2-an385
    COMPILER arm-none-eabi-g++
    FLAGS -mcpu=cortex-m0plus -mfloat-abi=soft
    LINK ${low_link})
intq_add_counted_board(
    cortex-m4
    CHECKED
    PACKED dsp
    BOARD mps2-an386
    COMPILER arm-none-eabi-g++
    FLAGS -mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16
    LINK ${low_link})
intq_add_counted_board(
    cortex-m55
    CHECKED
    PACKED helium
    BOARD mps3-an547
    COMPILER arm-none-eabi-g++
    FLAGS -mcpu=cortex-m55 -mfloat-abi=hard
    LINK ${high_link})
# clang takes the C and C++ libraries of g++, by the folders that g++ searches.
if(INTQ_PROGRAM_arm-none-eabi-g++)
    execute_process(COMMAND "${INTQ_PROGRAM_arm-none-eabi-g++}" -mthumb -mcpu=cortex-m55 -mfloat-abi=hard -E -v -x c++
                            /dev/null
                    ERROR_VARIABLE text OUTPUT_QUIET)
    string(REGEX REPLACE ".*search starts here:\n(.*)End of search list.*" "\\1" text "${text}")
    string(REGEX MATCHALL "[^ \n]+" folders "${text}")
    list(FILTER folders EXCLUDE REGEX "/lib/gcc/arm-none-eabi/[^/]*/include(-fixed)?$")
    list(TRANSFORM folders PREPEND "-isystem")
endif()
intq_add_counted_board(
    cortex-m55
    PACKED helium
    BOARD mps3-an547
    COMPILER clang++-19
    FLAGS -mcpu=cortex-m55 -mfloat-abi=hard
    LINK ${high_link} -Wl,-z,noexecstack
    # Where clang 19 predicates the tail of a loop of Helium, the first layer of ResNet-8 gets wrong codes.
    COMPILE -mllvm -tail-predication=disabled --target=arm-none-eabi -fshort-enums -nostdinc++ ${folders})

# --- programs of Linux ---------------------------------------------------------------------------------------------------
# The default level of each; AVX-512 does not run in QEMU 7.2.
intq_add_counted(aarch64 COMPILER aarch64-linux-gnu-g++ DISASSEMBLER aarch64-linux-gnu-objdump LINK -static EMULATOR
                 qemu-aarch64)
# INTQ_UNROLLED, which boards need, would take g++ a minute for each network here.
intq_add_counted(
    aarch64_dotprod
    CHECKED ds_cnn resnet_8
    PACKED dotprod
    COMPILER aarch64-linux-gnu-g++
    DISASSEMBLER aarch64-linux-gnu-objdump
    FLAGS -march=armv8.2-a+dotprod -Wno-psabi -UINTQ_UNROLLED
    LINK -static
    EMULATOR qemu-aarch64)
intq_add_counted(riscv64 COMPILER riscv64-linux-gnu-g++ DISASSEMBLER riscv64-linux-gnu-objdump LINK -static EMULATOR
                 qemu-riscv64)
intq_add_counted(x86_64 COMPILER x86_64-linux-gnu-g++ DISASSEMBLER x86_64-linux-gnu-objdump LINK -static EMULATOR
                 qemu-x86_64 -cpu max)

file(WRITE "${intq_count_list}" "${intq_counted}")

# --- planted fault: records that are 3 % too low -------------------------------------------------------------------------
if(TARGET counted_cortex-m4_arm-none-eabi-g++ AND INTQ_PROGRAM_qemu-system-arm)
    intq_probe_machine(counted_cortex-m4_arm-none-eabi-g++ version "${INTQ_PROGRAM_arm-none-eabi-g++}" -mcpu=cortex-m4
                       -mfloat-abi=hard -mfpu=fpv4-sp-d16 -mthumb ${board_flags})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${intq_count_folder}/recorded_counts.txt")
    execute_process(COMMAND awk -v "version=${version}" "!/^#/ { \$3 = version; \$7 = int(\$7 * 0.97) } 1"
                            "${intq_count_folder}/recorded_counts.txt"
                    OUTPUT_FILE "${CMAKE_CURRENT_BINARY_DIR}/counted/lowered.txt")
    intq_add_planted_fault(
        conformance_count EXPECT "ABOVE ITS RECORD of [0-9,]+ by more than 2 %"
        COMMAND "${intq_count_folder}/count" --check --records "${CMAKE_CURRENT_BINARY_DIR}/counted/lowered.txt"
                "${intq_count_list}" "${CMAKE_CURRENT_BINARY_DIR}/counted/cortex-m4_arm-none-eabi-g++/autoencoder")
else()
    intq_add_skipped(structure/planted/conformance_count "not installed (./dev conformance installs it)")
endif()
