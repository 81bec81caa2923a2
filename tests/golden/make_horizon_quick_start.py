#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Computes what examples/horizon_quick_start must find, with PyTorch's float operators and numpy.

    pip install torch numpy
    python tests/golden/make_horizon_quick_start.py --out tests/golden

horizon_quick_start.json holds for each layer the numbers of compare_per_layer_out.csv, and the sensitivity list by L1.
Fake quantization is rint(x · (1/s)) · s, clamped to the codes -128 … 127; scales are max|x| / 127.5 of the calibration data,
per channel for the weight.  Metrics are computed in double.
"""
import argparse
import json
from pathlib import Path

import numpy as np
import torch

f32 = np.float32
# Images of four rows, so that no interpolated code lies in the middle between two.
SHAPE = (2, 3, 4, 4)


def ramp(count, step, modulus, divisor):
    return (((np.arange(count) * step) % modulus - modulus // 2) / divisor).astype(f32)


def scale_of(x):
    return f32(np.abs(x).max() / f32(127.5))


def fake_quantize(x, scale):
    """As PyTorch does: by the reciprocal of the scale, in float32."""
    return (np.clip(np.rint(x * (f32(1) / scale)), -128, 127) * scale).astype(f32)


def interpolate(x):
    y = torch.nn.functional.interpolate(torch.from_numpy(x), scale_factor=1.3, mode="bilinear", align_corners=False)
    return y.numpy()


class Net:
    """quantx, quanty, add, conv, interpolate, dequant, with a quantizer behind each that is given a scale."""

    weight = ramp(9, 29, 31, 16.0).reshape(3, 3, 1, 1)
    bias = np.array([0.125, -0.25, 0.0625], dtype=f32)

    def run(self, x, y, scales):
        q = lambda name, value: fake_quantize(value, scales[name]) if name in scales else value
        values = {"quantx": q("quantx", x), "quanty": q("quanty", y)}
        values["add"] = q("add", values["quantx"] + values["quanty"])
        weight = self.weight
        if "weight" in scales:
            weight = np.stack([fake_quantize(w, s) for w, s in zip(weight, scales["weight"])])
        conv = torch.nn.functional.conv2d(torch.from_numpy(values["add"]), torch.from_numpy(weight),
                                          torch.from_numpy(self.bias)).numpy()
        values["conv"] = q("conv", conv)
        values["interpolate"] = interpolate(values["conv"])
        if "conv" in scales:  # the operator keeps the scale of its input
            values["interpolate"] = fake_quantize(values["interpolate"], scales["conv"])
        values["dequant"] = values["interpolate"]
        return values


def softmax(v):
    e = np.exp(v - v.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def compare(x, y):
    a, b = x.astype(np.float64), y.astype(np.float64)
    p, r = softmax(a), softmax(b)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.abs((x - y) / x)
    relative = np.minimum(np.nan_to_num(relative, nan=0.0, posinf=np.inf), np.finfo(f32).max)
    row = {
        "Cosine": (a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()),
        "MSE": ((a - b)**2).mean(),
        "L1": np.abs(a - b).mean(),
        "KL": (p * (np.log(p) - np.log(r))).mean(),
        "SQNR": 10 * np.log10((a * a).sum() / ((a - b)**2).sum()),
        "Atol": float(np.abs(x - y).max()),
        "Rtol": float(relative.max()),
    }
    for name, v in (("base_model", a), ("analy_model", b)):
        row |= {f"{name}_min": v.min(), f"{name}_max": v.max(), f"{name}_mean": v.mean(), f"{name}_var": v.var(ddof=1)}
    return {key: float(value) for key, value in row.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    net = Net()
    count = int(np.prod(SHAPE))
    x, y = ramp(count, 37, 101, 50.0).reshape(SHAPE), ramp(count, 53, 97, 32.0).reshape(SHAPE)

    seen = net.run(x, y, {})
    scales = {name: scale_of(seen[name]) for name in ("quantx", "quanty", "add", "conv")}
    scales["weight"] = [scale_of(w) for w in net.weight]

    cases = [(x * f32(k), y * f32(k)) for k in (1.0, 1.5, 2.0)]
    errors = [np.abs(net.run(*c, {})["dequant"] - net.run(*c, scales)["dequant"]).mean() for c in cases]
    bad = int(np.argmax(errors))
    base, analysis = net.run(*cases[bad], {}), net.run(*cases[bad], scales)
    layers = []
    for name in ("quantx", "quanty", "add", "conv", "interpolate", "dequant"):
        row = {"mod_name": name} | compare(base[name], analysis[name])
        scale = scales.get("conv" if name == "interpolate" else name)
        layers.append(row | {"qscale": None if scale is None else float(scale)})

    sensitivity = []
    for name in ("quantx", "quanty", "add", "conv"):
        kinds = {"activation": [name]}
        if name == "conv":
            kinds |= {"weight": ["weight"], "both": ["conv", "weight"]}
        for kind, on in kinds.items():
            given = net.run(*cases[bad], {key: scales[key] for key in on})
            l1 = np.abs(base["dequant"].astype(np.float64) - given["dequant"]).mean()
            sensitivity.append({"op_name": name, "sensitive_type": kind, "L1": float(l1)})
    sensitivity.sort(key=lambda row: -row["L1"])
    meta = {"torch": torch.__version__, "numpy": np.__version__,
            "command": "python tests/golden/make_horizon_quick_start.py --out tests/golden"}
    text = json.dumps({"meta": meta, "bad_case": bad, "layers": layers, "sensitivity": sensitivity}, indent=1)
    (out / "horizon_quick_start.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
