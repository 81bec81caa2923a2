# SPDX-License-Identifier: MIT
#
# Prints where the instructions of a network go, by the kind of its instructions, from the counts of
# count_instructions.c:
#
#     awk -v names=<output of networks.cpp> -v counts=<file> -f networks.awk <disassembly>
#
# What lies between two branches is a block. One with a multiply-add is of the sums, another one with a conversion to
# integers or a saturating narrowing of the codes; functions that stage or copy are of staging, and the rest is calls,
# addresses and the starts of tiles.

function end_block(    part, i, m) {
    part = stages ? "staging" : multiplies ? "sums" : narrows ? "codes" : "rest"
    for (i = 1; i <= length_of_block; ++i) part_of[block[i]] = part
    length_of_block = multiplies = narrows = 0
}
/^[0-9a-f]+ <.*>:$/ {
    end_block()
    stages = $0 ~ /Stager|stage_|Stage|memcpy|memset|memmove|InputCopy/
    next
}
/^ *[0-9a-f]+:\t/ {
    address = $1
    sub(/:$/, "", address)
    block[++length_of_block] = address
    if ($2 ~ /^(sdot|smmla|smlal2?|smull2?|mla)$/) multiplies = 1
    if ($2 ~ /^(fcvtns|sqxtn2?|sqrdmulh)$/) narrows = 1
    if ($2 ~ /^(b|b\..*|bl|br|blr|ret|cbz|cbnz|tbz|tbnz)$/) end_block()
}
END {
    end_block()
    while ((getline line <names) > 0) {
        split(line, field, " ")
        kind[++instructions] = field[1]
        if (!(field[1] in products)) order[++kinds] = field[1]
        products[field[1]] += field[2]
        ++calls[field[1]]
    }
    while ((getline line <counts) > 0) {
        if (line ~ /^mark/) { ++marks; continue }
        if (marks < 2) continue  # before the run
        split(line, field, " ")
        what = kind[marks - 1]
        executed[what] += field[2]
        all += field[2]
        of[what, part_of[field[1]]] += field[2]
    }
    printf "%-16s %5s %13s %13s %7s %8s %7s %7s %8s %7s\n", "kind", "times", "products", "instructions", "share",
        "each", "sums", "codes", "staging", "rest"
    for (i = 1; i <= kinds; ++i) {
        what = order[i]
        printf "%-16s %5d %13.0f %13.0f %6.1f%% ", what, calls[what], products[what], executed[what],
            100 * executed[what] / all
        if (products[what] > 0)
            printf "%8.4f %6.1f%% %6.1f%% %7.1f%% %6.1f%%\n", executed[what] / products[what],
                100 * of[what, "sums"] / all, 100 * of[what, "codes"] / all, 100 * of[what, "staging"] / all,
                100 * of[what, "rest"] / all
        else
            printf "%8s %7s %7s %8s %7s\n", "-", "-", "-", "-", "-"
    }
    printf "%-16s %5s %13s %13.0f\n", "all", "", "", all
}
