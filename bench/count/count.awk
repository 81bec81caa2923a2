# SPDX-License-Identifier: MIT
#
# Prints what the layers of a network execute, from the counts of count_instructions.c:
#
#     awk -v machine=<name> -v compiler=<name> -v version=<version> -v network=<name> -v check=<0 or 1>
#         -v layers=<file> -v counts=<file> -v disassembly=<file> -v peer=<file> -v cycles=<file, or empty>
#         -v records=<file> -v now=<file> -f count.awk
#
# `now` gets the counts as lines of `records`. With check it ends with status 1 where a layer executes over 2 % more
# instructions than its record, or has none.

function fail(message) {
    print "count: " message > "/dev/stderr"
    failed = 1
    exit 1
}

# The cycles of `base` and for each register, of the first line of the table that fits.
function classify(text, behind_load,    i, registers) {
    for (i = 1; i <= rules && text !~ expression[i]; ++i) {}
    if (i > rules) fail("no line of " cycles " fits: " text)
    taken_cycles = taken_cost[i]
    registers = per_register[i] ? registers_of(text) : 0
    return (behind_load && short_cost[i] != "-" ? short_cost[i] : base_cost[i]) + registers * per_register[i]
}
# How many words the list in braces has: {r4, r5, lr} 3, {d8-d9} 4.
function registers_of(text,    items, count, i, ends, words) {
    sub(/^[^{]*{/, "", text)
    sub(/}.*/, "", text)
    count = split(text, items, ", *")
    for (i = 1; i <= count; ++i) {
        split(items[i], ends, "-")
        words += ((ends[2] == "" ? 0 : substr(ends[2], 2) - substr(ends[1], 2)) + 1) * (items[i] ~ /^d/ ? 2 : 1)
    }
    return words
}
# The register that a load of one register writes, or nothing.
function loaded_register(text) {
    if (text !~ /^ldr[a-ce-z.]* /) return ""
    sub(/^[^ ]* /, "", text)
    sub(/,.*/, "", text)
    return text
}

function read_cycles(    words) {
    while ((getline line < cycles) > 0) {
        if (line ~ /^#/ || line == "") continue
        split(line, words, / +/)
        ++rules
        base_cost[rules] = words[1]
        per_register[rules] = words[2]
        taken_cost[rules] = words[3]
        short_cost[rules] = words[4]
        sub(/^[^ ]+ +[^ ]+ +[^ ]+ +[^ ]+ +/, "", line)
        expression[rules] = line
    }
    if (rules == 0) fail(cycles " has no line")
}
# cost_of[address] and branch_cost_of[address] of what was executed.
function read_disassembly(    fields, address, text, loaded, addresses) {
    while ((getline line < disassembly) > 0) {
        if (split(line, fields, "\t") < 2 || fields[1] !~ /^ *[0-9a-f]+:$/) continue
        address = fields[1]
        gsub(/[ :]/, "", address)
        text = fields[2] " " fields[3]
        if (address in is_executed) {
            addresses = text
            sub(/^[^[]*/, "", addresses)
            cost_of[address] = classify(text, loaded != "" && addresses !~ ("[^a-z0-9]" loaded "[^a-z0-9]"))
            branch_cost_of[address] = taken_cycles
        }
        loaded = loaded_register(text)
    }
}
# region 0 is what went before the first mark, 1 the whole run, 2 between the runs, 3 and the further the layers.
function read_counts(    words, region) {
    region = -1
    while ((getline line < counts) > 0) {
        if (line == "mark") {
            ++region
            continue
        }
        if (region == 0 || region == 2) continue
        split(line, words, " ")
        executed[region] += words[2]
        is_executed[words[1]] = 1
        ++places
        place_region[places] = region
        place_address[places] = words[1]
        place_executed[places] = words[2]
        place_taken[places] = words[3]
    }
    regions = region + 1
}
function add_cycles(    i, address) {
    for (i = 1; i <= places; ++i) {
        address = place_address[i]
        if (!(address in cost_of)) fail("the disassembly lacks address " address)
        estimate[place_region[i]] += place_executed[i] * cost_of[address] + place_taken[i] * branch_cost_of[address]
    }
}
function number_or_dash(value,    digits, grouped) {
    if (value == "") return "-"
    for (digits = sprintf("%.0f", value); length(digits) > 3; digits = substr(digits, 1, length(digits) - 3))
        grouped = "," substr(digits, length(digits) - 2) grouped
    return digits grouped
}
function ratio_or_dash(a, b) { return b + 0 == 0 ? "-" : sprintf("%.2f", a / b) }
function row_of_words(name, products, count, each, peers, ratio, estimated, remark) {
    printf "  %-36s %15s %12s %8s %10s %6s %16s%s\n", name, products, count, each, peers, ratio, estimated, remark
}
function row(name, products, count, peers, estimated, remark) {
    row_of_words(name, number_or_dash(products + 0 == 0 ? "" : products), number_or_dash(count),
        ratio_or_dash(count, products), number_or_dash(peers), ratio_or_dash(count, peers), number_or_dash(estimated),
        remark)
}

BEGIN {
    read_counts()
    while ((getline line < layers) > 0) {
        split(line, words, " ")
        ++layer_count
        name_of[layer_count] = words[1]
        products_of[layer_count] = words[2]
    }
    if (layer_count == 0 || regions != layer_count + 3)
        fail(network " has " layer_count " layers, and the run has marks for " regions - 3)
    # The column of the machine, which the last comment of the file names.
    # Its figures are those of int8 activations.
    while (network !~ /_int16$/ && (getline line < peer) > 0) {
        count = split(line, words, " ")
        if (line ~ /^# layer /) {
            for (i = 3; i <= count; ++i)
                if (words[i] == machine) column = i - 1
        } else if (line !~ /^#/ && column > 0)
            peer_of[words[1]] = words[column]
    }
    if (cycles != "") {
        read_cycles()
        read_disassembly()
        add_cycles()
    }
    while ((getline line < records) > 0) {
        split(line, words, " ")
        if (line ~ /^#/ || words[1] != machine || words[2] != compiler || words[4] != network) continue
        if (words[3] == version)
            record_of[words[5]] = words[7]
        else
            other_version = words[3]
    }
    is_compared = check && other_version == ""
    if (check && !is_compared)  # as ctest reads it
        printf "SKIPPED: %s %s is not compared, because the records are those of %s\n", compiler, version, other_version

    printf "\n%s on %s, %s %s\n", network, machine, compiler, version
    row_of_words("layer", "multiplications", "instructions", "for each", "CMSIS-NN", "ratio", "estimated cycles", "")
    printf "" > now
    for (i = 1; i <= layer_count; ++i) {
        count = executed[i + 2]
        remark = ""
        if (is_compared && !(i in record_of)) {
            remark = "  NO RECORD"
            ++faults
        } else if (is_compared && count > record_of[i] * 1.02) {
            remark = "  ABOVE ITS RECORD of " number_or_dash(record_of[i]) " by more than 2 %"
            ++faults
        } else if (is_compared && count < record_of[i] * 0.98)
            remark = "  record " number_or_dash(record_of[i])
        peers = name_of[i] in peer_of ? peer_of[name_of[i]] : ""
        row(name_of[i], products_of[i], count, peers, estimate[i + 2], remark)
        printf "%s %s %s %s %d %s %.0f\n", machine, compiler, version, network, i, name_of[i], count > now
        all_products += products_of[i]
        all_count += count
        if (cycles != "") all_estimate += estimate[i + 2]
        if (peers != "") {
            both_products += products_of[i]
            both_count += count
            both_peer += peers
            if (cycles != "") both_estimate += estimate[i + 2]
        }
    }
    row("all layers", all_products, all_count, "", all_estimate, "")
    if (both_peer > 0)
        row("those that CMSIS-NN has a figure for", both_products, both_count, both_peer, both_estimate, "")
    row("run() of one image, without marks", all_products, executed[1], "", estimate[1], "")
    if (is_compared) {
        if (faults > 0) {
            print "  DIFFERENT: " faults " layers; ./dev count --record writes what they are now"
            exit 1
        }
        print "  no layer is above its record by more than 2 %"
    }
}
END { if (failed) exit 1 }
