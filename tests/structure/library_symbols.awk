# SPDX-License-Identifier: MIT
#
# Reads `nm --defined-only --print-file-name` of the objects of the compiled form, and ends with status 1 where units of
# different flags define the same function: the linker keeps one copy for all, and that may hold instructions that the
# CPU lacks. A unit kernels_<backend> or float_<backend> has the flags of its backend; all others, and those of scalar,
# have none. Constants may be shared.
{
    place = index($0, ".o:")
    object = substr($0, 1, place + 1)
    count = split(substr($0, place + 3), word, " ")
    if (count < 3 || word[2] !~ /^[WwTu]$/ || word[3] ~ /^_ZTV|^_ZTI|^_ZTS|^_ZGR|^_ZGV/) next
    flags = "none"
    if (match(object, /\/(kernels|float)_[a-z0-9]+\.cpp/)) {
        flags = substr(object, RSTART + 1, RLENGTH - 5)
        sub(/^(kernels|float)_/, "", flags)
    }
    if (flags == "scalar") flags = "none"
    units[flags] = 1
    if (word[2] == "u") next
    if (!(word[3] in first)) first[word[3]] = flags
    else if (first[word[3]] != flags && !(word[3] in told)) {
        told[word[3]] = 1
        print "defined for " first[word[3]] " and for " flags ": " word[3]
        faults++
    }
}
END {
    kinds = 0
    for (flags in units) kinds++
    print kinds " kinds of flags, " faults + 0 " functions shared"
    if (kinds < 2) print "units of one kind alone: nothing was compared"
    exit (faults > 0 || kinds < 2)
}
