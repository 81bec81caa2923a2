# SPDX-License-Identifier: MIT
#
# Prints the rows of check_machine.cmake as a table: machine, compiler, emulator, the checksums of the targets, and the
# one of all. The last line says whether each target has one checksum over all machines.
BEGIN {
    FS = "|"
    targets = "fp32 tflite tflite_sr bernoulli2 bayes meta litert"
    printf "%-16s %-32s %-16s", "machine", "compiler", "emulator"
    count = split(targets, names, " ")
    for (i = 1; i <= count; ++i) printf " %-10s", names[i]
    printf " %s\n", "all"
}
{
    printf "%-16s %-32s %-16s", $1, $2, $3
    for (i = 1; i <= count; ++i) {
        printf " %-10s", $(3 + i)
        if (!((names[i], $(3 + i)) in seen)) ++several[names[i]]
        seen[names[i], $(3 + i)] = 1
    }
    printf " %s\n", $NF
}
END {
    for (i = 1; i <= count; ++i)
        if (several[names[i]] > 1) different = different " " names[i]
    if (different) print "DIFFERENT checksums of" different
    else print "one checksum per target over " NR " rows"
}
