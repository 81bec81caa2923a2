# SPDX-License-Identifier: MIT
#
# Prints the rows of check_machine.cmake as a table: machine, compiler, emulator, the checksums of the targets, and the
# one of all.
BEGIN {
    FS = "|"
    targets = "fp32 tflite tflite_sr bernoulli2 bayes meta"
    printf "%-16s %-32s %-16s", "machine", "compiler", "emulator"
    count = split(targets, names, " ")
    for (i = 1; i <= count; ++i) printf " %-10s", names[i]
    printf " %s\n", "all"
}
{
    printf "%-16s %-32s %-16s", $1, $2, $3
    for (i = 1; i <= count; ++i) printf " %-10s", $(3 + i)
    printf " %s\n", $NF
}
