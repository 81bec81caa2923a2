# SPDX-License-Identifier: MIT
"""Writes fx_traces.json: what torch.fx records of the models of make_goldens.py, before anything is prepared.

    python3 make_traces.py --out DIR

One case a model: its nodes in the form of fx_graphs.json, with keyword arguments beside the others.
"""
import argparse
import json
import os

import torch
from make_goldens import GRAPHS, short_type


def rows(model):
    modules = dict(model.named_modules())

    def constant(a):
        if isinstance(a, torch.fx.Node):
            return "%" + a.name
        if isinstance(a, (list, tuple)):
            return [constant(v) for v in a]
        return a if isinstance(a, (int, float, str, bool, type(None))) else str(a)

    result = []
    for node in model.graph.nodes:
        row = {"op": node.op, "name": node.name, "args": constant(list(node.args))}
        if node.kwargs:
            row["kwargs"] = {k: constant(v) for k, v in node.kwargs.items()}
        row["target"] = short_type(node.target) if node.op == "call_function" else str(node.target)
        if node.op == "call_module":
            row["type"] = short_type(type(modules[node.target]))
        result.append(row)
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    out = parser.parse_args().out
    cases = [{"name": name, "traced": rows(torch.fx.symbolic_trace(make().eval()))} for name, (make, _) in GRAPHS.items()]
    with open(os.path.join(out, "fx_traces.json"), "w") as file:
        file.write('{"meta": %s, "cases": [\n' % json.dumps({"topic": "fx_traces", "torch": torch.__version__}))
        file.write(",\n".join(json.dumps(c) for c in cases) + "\n]}\n")
    print(len(cases), "models")


main()
