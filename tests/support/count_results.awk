# SPDX-License-Identifier: MIT
#
# Reads a ctest result file (--output-junit), prints the number of passed, failed and skipped tests, and to standard
# error every skipped item with its reason. A test program that ends with the line `N passed, N failed, N skipped`
# counts as that many; any other test as one; a test that could not be started as failed.

function attribute(name) {
    if (!match($0, " " name "=\"[^\"]*\"")) return ""
    return substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 4)
}
function plain(text) {
    gsub(/&lt;/, "<", text); gsub(/&gt;/, ">", text); gsub(/&quot;/, "\"", text); gsub(/&apos;/, "'", text)
    gsub(/&amp;/, "\\&", text)
    return text
}
/<testcase / {
    name = attribute("name"); status = attribute("status")
    p = 0; f = 0; s = 0; counted = 0; reasons = 0; why = ""
}
/<skipped / { why = attribute("message") }
{ line = $0; sub(/^[ \t]*<system-out>/, "", line); sub(/<\/system-out>.*$/, "", line) }
line ~ /^SKIPPED: / { print plain(line) > "/dev/stderr"; reasons++ }
line ~ /^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ {
    split(line, n, " "); p = n[1]; f = n[3]; s = n[5]; counted = 1
}
/<\/testcase>/ {
    if (status == "fail") { passed += p; failed += (f > 0 ? f : 1); skipped += s }
    else if (status == "run") { if (counted) { passed += p; skipped += s } else passed++ }
    else if (reasons > 0) skipped++
    else { failed++; print "NOT RUN: " name ": " why > "/dev/stderr" }
}
END { print passed + 0, failed + 0, skipped + 0 }
