# SPDX-License-Identifier: MIT
#
# An upper bound of a program's stack, from the call graphs that gcc writes (-fcallgraph-info=su): the deepest chain of
# frames that begins at main. A call through a pointer may reach each function that nothing calls by name. Such calls
# nest at most four deep: a row of kernels, an executor, its task, and the hook behind a step.
#
#   awk -f stack_of.awk firmware.ci      prints bytes; of a frame of unknown size it prints its function, and fails
function title(key) {
    if (!match($0, key ": \"[^\"]*\"")) return ""
    return substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 4)
}
/^node:/ && match($0, /[0-9]+ bytes \([a-z,]*\)/) {
    bytes = substr($0, RSTART, RLENGTH) + 0
    name = title("title")
    frame[name] = bytes
    if ($0 !~ /bytes \(static\)/) unknown = name
    if (name ~ /^main$|:main$/) start = name
}
/^edge:/ {
    from = title("sourcename"); to = title("targetname")
    calls[from] = calls[from] to "\n"
    if (to != "__indirect_call") is_called[to] = 1
}
function deepest(name, hops,    list, count, i, most, depth, root) {
    if ((name, hops) in memo) return memo[name, hops]
    memo[name, hops] = 0  # a recursive call adds nothing here; the library has none
    count = split(calls[name], list, "\n")
    for (i = 1; i < count; ++i) {
        depth = 0
        if (list[i] != "__indirect_call") depth = deepest(list[i], hops)
        else if (hops > 0)
            for (root in frame)
                if (!(root in is_called) && root != start && deepest(root, hops - 1) > depth)
                    depth = deepest(root, hops - 1)
        if (depth > most) most = depth
    }
    return memo[name, hops] = frame[name] + most
}
END { if (unknown != "" || start == "") { print "unknown frame: " unknown; exit 1 } print deepest(start, 4) }
