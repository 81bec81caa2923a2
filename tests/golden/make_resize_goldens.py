#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/resize.json: which cells a resize by a factor takes, in PyTorch and in ONNX Runtime.

    pip install torch numpy onnx onnxruntime
    python tests/golden/make_resize_goldens.py --out tests/golden

Each case resizes one axis of 0, 1, 2, ...: the values of the result are the places of its cells in the input. The rules
are those of PyTorch's interpolate with a scale_factor, and those of an ONNX Resize with scales that intq imports. The
cases of PyTorch leave the other axis as it is. Those of ONNX double it, and those named `copy` leave it.
"""
import argparse
import json
import os

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from torch.nn import functional as F

EXTENTS = (2, 3, 5, 7, 10, 20)
FACTORS = (1.3, 0.6, 1.1, 0.35, 1 / 3, 2.0, 2.5, 1.9, 0.9, 3.0)
RULES = {
    "nearest": ("nearest", None, ("nearest", "asymmetric", "floor")),
    "nearest_exact": ("nearest-exact", None, ("nearest", "half_pixel", "round_prefer_ceil")),
    "half_pixel": ("bilinear", False, ("linear", "half_pixel", None)),
    "align_corners": ("bilinear", True, None),
}


def places(y):
    """The result's values: whole numbers, or floats of float32."""
    values = [float(v) for v in np.asarray(y).reshape(-1)]
    return [int(v) if v == int(v) else round(v, 7) for v in values]


def by_torch(rule, extent, factor):
    mode, corners, _ = RULES[rule]
    x = torch.arange(extent, dtype=torch.float32).reshape(1, 1, 1, extent)
    return places(F.interpolate(x, scale_factor=(1.0, factor), mode=mode, align_corners=corners))


def by_onnx(rule, extent, factor, other):
    mode, place, nearest = RULES[rule][2]
    scales = numpy_helper.from_array(np.array([1, 1, other, factor], np.float32), "scales")
    more = {"nearest_mode": nearest} if nearest else {}
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode=mode, coordinate_transformation_mode=place, **more)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 1, extent])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "resize", [x], [y], [scales])
    opsets = [helper.make_opsetid("", 13)]
    file = helper.make_model(graph, opset_imports=opsets, ir_version=helper.find_min_ir_version_for(opsets))
    session = onnxruntime.InferenceSession(file.SerializeToString(), providers=["CPUExecutionProvider"])
    return places(session.run(None, {"x": np.arange(extent, dtype=np.float32).reshape(1, 1, 1, extent)})[0][0, 0, 0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    out = parser.parse_args().out
    cases = []
    for extent in EXTENTS:
        for factor in FACTORS:
            if int(extent * factor) < 1:
                continue
            for rule in RULES:
                case = {"rule": rule, "in": extent, "factor": float(factor).hex()}
                cases.append({"origin": "torch", **case, "places": by_torch(rule, extent, factor)})
                if RULES[rule][2] is None:
                    continue
                case["factor"] = float(np.float32(factor)).hex()
                cases.append({"origin": "onnx", **case, "places": by_onnx(rule, extent, factor, 2.0)})
                if int(np.float32(extent) * np.float32(factor)) == extent:
                    cases.append({"origin": "onnx", "copy": True, **case, "places": by_onnx(rule, extent, factor, 1.0)})
    meta = {"topic": "resize", "torch": torch.__version__, "onnx": onnx.__version__,
            "onnxruntime": onnxruntime.__version__, "factors": "C99 hexadecimal text, of ONNX in float32"}
    with open(os.path.join(out, "resize.json"), "w") as file:
        file.write('{"meta": %s, "cases": [\n' % json.dumps(meta))
        file.write(",\n".join(json.dumps(c) for c in cases))
        file.write("\n]}\n")
    print(len(cases), "cases")


main()
