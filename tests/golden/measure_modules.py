#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Exports modules behind a convolution as PyTorch does by default, quantizes them, and prints their distance to float.

    pip install torch onnx onnxscript onnxruntime numpy
    python tests/golden/measure_modules.py --intq build/release/tools/intq [--only NAME ...] [--folder FOLDER]

Each model is Conv2d(3, 8, 3) and the module, with random weights. It becomes a program four times: int8 and int16 with
int16 weights on fp32, and int8 on bayes and meta. A program has no operator in float. The table is of signal to noise
in dB, |x|^2 / |x - y|^2 against ONNX Runtime in float, on the samples of the calibration, so that it judges the
arithmetic and not the ranges.

The exit status is 1 where a module that shall be refused is not refused with its reason, where another one is refused,
and where a figure is below its bound. --folder keeps the exports. AdaptiveMaxPool to a size that does not divide the
input's is missing: PyTorch 2.15 has no ONNX form of it.
"""
import argparse
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from torch import nn
from torch.nn import functional as F

from measure_transformers import decibels, output_of, outputs

SEED = 7
SAMPLES = 16
FORMS = {"int8": [], "int16": ["--dtype", "int16", "--weight-dtype", "int16"], "bayes": ["--target", "bayes"],
         "meta": ["--target", "meta"]}
LEAST = {"int8": 30.0, "int16": 60.0, "bayes": 30.0, "meta": 30.0}  # dB
# dB below LEAST: x - tanh(x) is smaller than x, and its noise is not; squares leave half of bpu's symmetric codes unused.
SMALL = {"Tanhshrink": 3.0, "square": 3.0}


class Function(nn.Module):
    """A function of one value as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Einsum(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 8) * 0.3)

    def forward(self, x):
        return torch.einsum("nchw,kc->nkhw", x, self.weight)


def chunk(x):
    a, b, c = x.chunk(3, 1)
    return torch.cat([c, a, b], 1)


def stack(x):
    a, b = x.chunk(2, 1)
    return torch.stack([a, b], 2)


MODULES = {
    "GLU": lambda: nn.GLU(1),
    "Hardtanh": lambda: nn.Hardtanh(-0.3, 0.8),
    "ELU": nn.ELU,
    "SiLU": nn.SiLU,
    "Tanhshrink": nn.Tanhshrink,
    "Hardsigmoid": nn.Hardsigmoid,
    "clamp": lambda: Function(lambda x: x.clamp(-0.5, 0.7)),
    "chunk": lambda: Function(chunk),
    "roll": lambda: Function(lambda x: torch.roll(x, (2, -3), (2, 3))),
    "stack": lambda: Function(stack),
    "GroupNorm": lambda: nn.GroupNorm(2, 8),
    "InstanceNorm": lambda: nn.InstanceNorm2d(8, affine=True),
    "PReLU": lambda: nn.PReLU(8, 0.1),
    "PReLU of one slope": nn.PReLU,
    "Softplus": nn.Softplus,
    "Mish": nn.Mish,
    "CELU": nn.CELU,
    "SELU": nn.SELU,
    "LogSoftmax": lambda: nn.LogSoftmax(1),
    "PixelShuffle": lambda: nn.PixelShuffle(2),
    "Softsign": nn.Softsign,
    "LPPool": lambda: nn.LPPool2d(2, 2),
    "square": lambda: Function(torch.square),
    "bicubic": lambda: nn.Upsample(scale_factor=2, mode="bicubic"),
    "ReflectionPad": lambda: nn.ReflectionPad2d(2),
    "AdaptiveMaxPool": lambda: nn.AdaptiveMaxPool2d(4),
    "AdaptiveAvgPool to 5x7": lambda: nn.AdaptiveAvgPool2d((5, 7)),
    "Unfold": lambda: nn.Unfold(2, stride=2),
    "Unfold that overlaps": lambda: nn.Unfold(3, padding=1),
    "cumsum": lambda: Function(lambda x: x.cumsum(-1)),
    "argmax": lambda: Function(lambda x: x.argmax(1)),
    "argmin": lambda: Function(lambda x: x.argmin(1)),
    "abs": lambda: Function(torch.abs),
    "normalize of channels": lambda: Function(lambda x: F.normalize(x, dim=1)),
    "normalize of the last axis": lambda: Function(lambda x: F.normalize(x, dim=-1)),
    "where": lambda: Function(lambda x: torch.where(x > 0, x, 0.1 * x)),
    "einsum": Einsum,
    "expand": lambda: Function(lambda x: x.mean((2, 3), keepdim=True).expand(-1, -1, 16, 16)),
}
INDICES = {"argmax": 90.0}  # the least share of them that is as in float, in percent
REFUSED = {"argmin": "ArgMax of the negated numbers"}  # a part of the reason


def export(name, path):
    """Writes the model and its samples; returns what ONNX Runtime computes of them, by the name of the output."""
    torch.manual_seed(SEED)
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), MODULES[name]()).eval()
    for norm in model.modules():
        if getattr(norm, "weight", None) is not None and isinstance(norm, (nn.GroupNorm, nn.InstanceNorm2d)):
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.normal_(norm.bias, 0, 0.2)
    samples = torch.randn(SAMPLES, 3, 16, 16)
    torch.onnx.export(model, (samples[:1],), path, output_names=["result"], external_data=False, verbose=False)
    np.save(path.with_suffix(".npy"), samples.numpy())
    session = onnxruntime.InferenceSession(path)
    feeds = [{session.get_inputs()[0].name: samples[i:i + 1].numpy()} for i in range(SAMPLES)]
    return {"result": np.concatenate([session.run(None, feed)[0].reshape(1, -1) for feed in feeds])}


def measure(intq, name, place):
    """What the table says of each form, and whether it is what it shall be."""
    path = place / f"{name.replace(' ', '_')}.onnx"
    expected = export(name, path)
    cells, good = [], True
    for form, options in FORMS.items():
        program, result = place / "program.intq", place / "result.npy"
        try:
            output_of(intq, "quantize", path, "--data", path.with_suffix(".npy"), "-o", program, *options)
            output_of(intq, "run", program, "--data", path.with_suffix(".npy"), "-o", result)
        except RuntimeError as error:
            cells.append(" ".join(str(error).split()))
            good = good and name in REFUSED and REFUSED[name] in cells[-1]
            continue
        given = outputs(result, ["result"])
        if name in INDICES:
            equal = given["result"].reshape(expected["result"].shape) == expected["result"]
            figure, least = 100 * float(np.mean(equal)), INDICES[name]
        else:
            figure, least = decibels(expected, given), LEAST[form] - SMALL.get(name, 0.0)
        cells.append(f"{figure:.1f}" + (" %" if name in INDICES else ""))
        good = good and name not in REFUSED and figure >= least
    return cells, good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--intq", type=Path, required=True)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--only", nargs="+", choices=list(MODULES), default=list(MODULES), metavar="NAME")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    print("| module |", " | ".join(FORMS), "|\n| --- |", " | ".join("---:" for _ in FORMS), "|")
    failed = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for name in arguments.only:
            cells, good = measure(arguments.intq, name, folder)
            print(f"| {name} |", " | ".join(cells), "|", flush=True)
            failed += [] if good else [name]
    if failed:
        print("not as expected:", ", ".join(failed))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
