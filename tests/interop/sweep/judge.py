# SPDX-License-Identifier: MIT
"""Judges a sweep: what make_sweep.py and sweep_test.cpp wrote into a folder.

    python judge.py <folder>

It fails where

- a graph in float is imported as another function, or an operator is refused for a reason that no page documents;
- what lowering_report() says of a graph before any data is not what quantizing it says;
- on fp32 a graph loses more than 3 dB beside ONNX Runtime (QDQ, s8, per channel, extremes, the same samples) and no
  report names an operator that keeps a grid at a cost, or more than 2 % of the cases are of that kind and named;
- a code of exact simulation is not the program's;
- a fragment of a file that ONNX Runtime's tool wrote gives other codes. What computes each code from one code, what
  the operator form computes on codes, and a linear resize is equal in every code. Sums and averages in float differ by
  one code at ties alone, and so does QLinearAdd, which ONNX Runtime rounds once less where the processor has fused
  multiply-add (arithmetic.md, add and sub). Targets other than fp32 are within one code;
- a file of the tool is refused for a reason that no page documents, or loses more than 1.5 dB beside ONNX Runtime.
"""
import collections
import json
import pathlib
import re
import sys

import numpy

LOSS, NAMED_SHARE = 3.0, 0.02  # dB, of cases
FILE_LOSS = 1.5  # dB
ENOUGH = 60.0  # dB, above which no difference counts
# Reasons for which an operator may be refused or left in float, and the page that says so.
DOCUMENTED = [
    (r"avg_pool2d: count_include_pad = (true|false) with padding is not supported by the target",
     "arithmetic.md, mean and avg_pool"),
    (r"the accumulator could reach", "workflow.md section 4, Refusals"),
]
# Operators that compute each code from one code, and linear resizes: QuantizeLinear(op(DequantizeLinear(code))) in
# float32. Not Sigmoid, Tanh and Elu, which ONNX Runtime approximates: a value at a tie may become another code (onnx.md).
FUNCTIONS = {"Pad", "Clip", "Relu", "Min", "Max", "Resize_nearest", "Resize_linear", "HardSigmoid", "HardSwish",
             "LeakyRelu", "Requantize", "MaxPool", "Concat", "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze",
             "Add_constant", "Sub_constant", "Mul_constant", "Div_constant"}


class Judge:
    def __init__(self, folder):
        self.folder, self.failures, self.lines = folder, [], []
        self.manifest = json.loads((folder / "manifest.json").read_text())
        self.results = json.loads((folder / "results.json").read_text())
        self.cases = {case["name"]: case for case in self.manifest["cases"]}

    def load(self, name):
        path = self.folder / f"{name}.npy"
        return numpy.load(path).astype(numpy.float64) if path.exists() else None

    def fail(self, rule, name, text):
        self.failures.append((rule, name, text))

    def undocumented(self, text):
        return not any(re.search(pattern, text) for pattern, _ in DOCUMENTED)


def sqnr(expected, given):
    if expected.shape != given.shape or not numpy.isfinite(given).all():
        return -999.0
    noise = ((expected - given) ** 2).sum()
    return 999.0 if noise == 0 else float(10 * numpy.log10(max((expected ** 2).sum(), 1e-60) / noise))


def reason(text):
    """A refusal without the names and numbers that differ between graphs."""
    text = re.sub(r"[^ ]*\.onnx: ", "", text)
    return re.sub(r"[0-9.e+-]*[0-9]", "#", text)[:230]


def table(rows, header):
    widths = [max(len(str(row[i])) for row in [header, *rows]) for i in range(len(header))]
    for row in [header, *rows]:
        print("  " + "  ".join(str(cell).ljust(width) for cell, width in zip(row, widths)).rstrip())


def judge_simulation(j):
    for what in ("graphs", "peers", "fragments"):
        run = [result for result in j.results[what] if "values" in result]
        for result in run:
            if result["differ"]:
                j.fail("simulation", result["name"], f"{result['target']} {result.get('dtype', '')}: {result['differ']} "
                       f"values differ in {result.get('differs_in')}")
        print(f"exact simulation of {len(run)} programs of {what}: {sum(one['values'] for one in run)} values, "
              f"{sum(one['differ'] for one in run)} differ from the program's")


# --- from float -----------------------------------------------------------------------------------------------------

def judge_graphs(j):
    losses, refused, in_float = [], collections.defaultdict(list), collections.defaultdict(list)
    for result in j.results["graphs"]:
        name, kind = result["name"], f"{result['target']} {result['dtype']}"
        if "fault" in result:
            j.fail("fault", name, f"{kind}: {result['fault']}")
        for text in result.get("in_float", []):
            in_float[reason(text)].append(f"{name} {kind}")
            if j.undocumented(text):
                j.fail("left in float", name, f"{kind}: {text}")
        if "disagreement" in result:
            j.fail("said before any data", name, f"{kind}: {result['disagreement']}")
        if "refused" in result:
            refused[reason(result["refused"])].append(f"{name} {kind}")
            if j.undocumented(result["refused"]):
                j.fail("refused", name, f"{kind}: {result['refused']}")
        given = j.load(f"{name}_{result['target']}_{result['dtype']}")
        if given is not None:
            losses.append(loss_of(j, result, given))
    for name in j.cases:
        imported, expected = j.load(f"{name}_imported"), j.load(f"{name}_float")
        if imported is not None and sqnr(expected, imported) < 90:
            j.fail("float", name, f"{sqnr(expected, imported):.1f} dB between the imported graph and ONNX Runtime's")
    print(f"from float: {len(j.cases)} graphs, {len(j.results['graphs'])} cases, {len(losses)} programs, "
          f"{losses.count(None)} of them of graphs that ONNX Runtime's tool fails on")
    print_reasons("refused", refused)
    print_reasons("left in float", in_float)
    judge_losses(j, [row for row in losses if row])


def loss_of(j, result, given):
    """(loss beside the peer, target, dtype, ours, theirs, case, what is named), None where there is no peer."""
    case = j.cases[result["name"]]
    peer = case["peers"]["qdq"]
    if "sqnr" not in peer:
        return None
    ours = sqnr(j.load(f"{case['name']}_float"), given)
    theirs = 999.0 if peer["sqnr"] is None else peer["sqnr"]
    return (min(theirs, ENOUGH) - min(ours, ENOUGH), result["target"], result["dtype"], ours, theirs, case,
            "; ".join(result.get("kept", [])))


def judge_losses(j, losses):
    print("dB beside ONNX Runtime's int8 (positive: better):")
    rows = []
    for target in dict.fromkeys(row[1] for row in losses):
        for dtype in ("int8", "int16"):
            gains = numpy.array([-row[0] for row in losses if row[1:3] == (target, dtype)])
            rows.append([target, dtype, len(gains), f"{numpy.median(gains):+.2f}", f"{gains.min():+.2f}",
                         *(int((gains < -dB).sum()) for dB in (1, LOSS, 10)),
                         sum(bool(row[6]) for row in losses if row[1:3] == (target, dtype))])
    table(rows, ["target", "type", "cases", "median", "worst", "> 1 below", f"> {LOSS:g} below", "> 10 below", "named"])
    on_fp32 = [row for row in losses if row[1] == "fp32"]
    below = [row for row in on_fp32 if row[0] > LOSS]
    named = [row for row in below if row[6]]
    print(f"fp32: {len(below)} of {len(on_fp32)} cases more than {LOSS:g} dB below, {len(named)} of them named")
    if len(named) > NAMED_SHARE * len(on_fp32):
        j.fail("named", "fp32", f"{len(named)} of {len(on_fp32)} cases are named, more than {NAMED_SHARE:.0%}")
    for loss, target, dtype, ours, theirs, case, names in below:
        text = f"{target} {dtype}: {ours:.1f} dB, ONNX Runtime {theirs:.1f} | {case['label']}"
        if names:
            print(f"  {case['name']}: {text} | {names}")
        else:
            j.fail("loss", case["name"], text)
    for target in dict.fromkeys(row[1] for row in losses):
        worst = sorted((row for row in losses if row[1] == target), key=lambda row: -row[0])[:20 if target == "fp32" else 8]
        print(f"worst of {target}:")
        table([[case["name"], case["family"], dtype, f"{ours:.1f}", f"{theirs:.1f}", f"{-loss:+.1f}",
                "named" if names else "", case["label"]] for loss, _, dtype, ours, theirs, case, names in worst],
              ["graph", "family", "type", "dB", "peer", "gain", "", "operators"])


def print_reasons(what, reasons):
    for text, names in sorted(reasons.items(), key=lambda item: -len(item[1])):
        print(f"{what} {len(names)} times, as {names[0]}: {text}")


# --- files of ONNX Runtime's tool -----------------------------------------------------------------------------------

def is_exact(kind):
    """Whether the codes of a fragment must be equal."""
    return all(one in FUNCTIONS or (one.startswith("Q") and one != "QLinearAdd") for one in kind.split("+"))


def judge_fragments(j):
    kinds = {fragment["name"]: fragment for case in j.cases.values() for fragment in case["fragments"]}
    counts, refused = collections.defaultdict(collections.Counter), collections.defaultdict(list)
    for result in j.results["fragments"]:
        fragment, target = kinds[result["name"]], result["target"]
        row = counts[target, fragment["kind"]]
        row["fragments"] += 1
        for key in ("fault", "refused", "no_program"):
            if key in result:
                row[key] += 1
                refused[f"{target} {key} {reason(result[key])}"].append(result["name"])
                if key == "fault" or (fragment["is_one_operator"] and j.undocumented(result[key])):
                    j.fail(f"fragment {key}", result["name"], f"{target} {fragment['kind']}: {result[key]}")
        given = j.load(f"{result['name']}_{target}")
        if given is None:
            continue
        expected = j.load(f"{result['name']}_out")
        if given.shape != expected.shape:
            j.fail("fragment shape", result["name"], f"{target} {fragment['kind']}: {given.shape} {expected.shape}")
            continue
        steps = numpy.abs(numpy.rint((given - expected) / fragment["scale"]))
        row.update({"codes": steps.size, "one": int((steps == 1).sum()), "more": int((steps > 1).sum())})
        row["most"] = max(row["most"], int(steps.max()))
        judge_steps(j, result["name"], target, fragment, steps, row)
    print("fragments of the tool's files, by operators: codes that differ by one step and by more")
    table([[target, kind, row["fragments"], row["codes"], row["one"], row["not at a tie"], row["more"],
            row["most"], row["refused"] + row["no_program"] + row["fault"]]
           for (target, kind), row in sorted(counts.items(), key=lambda item: (item[0][0], -item[1]["fragments"]))
           if row["fragments"] > 4 or row["one"] or row["more"] or row["refused"] + row["no_program"] + row["fault"]],
          ["target", "operators", "count", "codes", "one", "not at a tie", "more", "most", "refused"])
    print_reasons("fragments", refused)


def judge_steps(j, name, target, fragment, steps, counts):
    differ = int((steps > 0).sum())
    if not differ:
        return
    text = f"{target} {fragment['kind']}: {differ} of {steps.size} codes differ, by up to {int(steps.max())}"
    if steps.max() > 1 or (target == "fp32" and is_exact(fragment["kind"])):
        j.fail("codes", name, text)
    elif target == "fp32":
        real = j.load(f"{name}_real")
        if real is None:
            j.fail("codes", name, f"{text}, and nobody kept what was rounded")
            return
        real = numpy.abs(real / fragment["scale"])[steps > 0]
        away = numpy.abs(real - numpy.floor(real) - 0.5) - 1e-5 * numpy.maximum(real, 1.0)
        counts["not at a tie"] += int((away > 2e-3).sum())
        if away.max() > 2e-3:
            j.fail("codes", name, f"{text}, {int((away > 2e-3).sum())} of them not at a tie ({away.max():.3f} away)")


def judge_peers(j):
    refused, no_program = collections.defaultdict(list), collections.defaultdict(list)
    peers = {peer["name"]: (case, form, peer) for case in j.cases.values() for form, peer in case["peers"].items()}
    rows = collections.defaultdict(collections.Counter)
    for result in j.results["peers"]:
        case, form, peer = peers[result["name"]]
        row = rows[form]
        row["files"] += 1
        for key, reasons in (("refused", refused), ("no_program", no_program), ("fault", refused)):
            if key in result:
                reasons[reason(result[key])].append(result["name"])
                row[key] += 1
                # onnx.md: an operator that is not between codes stays in float.
                is_excused = key == "no_program" and not peer["is_between_codes"]
                if key == "fault" or (not is_excused and j.undocumented(result[key])):
                    j.fail(f"file {key}", result["name"], result[key])
        given = j.load(f"{result['name']}_fp32")
        if given is None:
            continue
        theirs, expected = j.load(f"{result['name']}_out"), j.load(f"{case['name']}_float")
        ours = sqnr(expected, given)
        peer_dB = 999.0 if peer["sqnr"] is None else peer["sqnr"]
        if min(peer_dB, ENOUGH) - min(ours, ENOUGH) > FILE_LOSS:
            j.fail("file", result["name"], f"{ours:.1f} dB, in ONNX Runtime {peer_dB:.1f} | {case['label']}")
        if peer["scale"] and given.shape == theirs.shape:
            steps = numpy.abs(numpy.rint((given - theirs) / peer["scale"]))
            row.update({"codes": steps.size, "one": int((steps == 1).sum()), "more": int((steps > 1).sum())})
            row["most"] = max(row["most"], int(steps.max()))
    print("whole files of the tool on fp32, from their inputs to their outputs:")
    table([[form, row["files"], row["refused"] + row["fault"], row["no_program"], row["codes"], row["one"], row["more"],
            row["most"]] for form, row in rows.items()],
          ["form", "files", "refused", "partly in float", "codes", "one", "more", "most"])
    print_reasons("files refused", refused)
    print_reasons("files partly in float", no_program)


def main(folder):
    j = Judge(folder)
    failed = [peer["name"] for case in j.cases.values() for peer in case["peers"].values() if "failed" in peer]
    print(f"seed {j.manifest['seed']}, onnx {j.manifest['onnx']}, ONNX Runtime {j.manifest['onnxruntime']}; its tool or "
          f"its runtime fails for {len(failed)} files")
    judge_simulation(j)
    judge_graphs(j)
    judge_fragments(j)
    judge_peers(j)
    rules = collections.Counter(rule for rule, _, _ in j.failures)
    for rule in rules:
        print(f"FAILED {rule}: {rules[rule]}")
        for _, name, text in [one for one in j.failures if one[0] == rule][:25]:
            print(f"  {name}: {text}")
    print(f"{len(j.cases)} graphs, {len(j.failures)} failures {dict(rules)}")
    return 1 if j.failures or not j.cases or not j.results["graphs"] else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
