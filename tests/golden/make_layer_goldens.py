# SPDX-License-Identifier: MIT
"""Writes layers.json: float layers and functions of PyTorch with their inputs, parameters and outputs.

    python3 make_layer_goldens.py --out DIR

Needs PyTorch and numpy. Floats are the C99 hexadecimal text of their exact value.
"""
import argparse
import json
import math
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

SEED = 41


def text(value):
    value = float(value)
    if math.isnan(value) or math.isinf(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    mantissa, exponent = value.hex().split("p")
    return (mantissa.rstrip("0") if "." in mantissa else mantissa).rstrip(".") + "p" + exponent if value else value.hex()


def tensor(t):
    t = t.detach()
    if not t.is_floating_point():
        return {"shape": list(t.shape), "integers": [int(v) for v in t.flatten()]}
    return {"shape": list(t.shape), "data": [text(v) for v in t.double().flatten()]}


def draw(*shape):
    """Normal numbers in steps of 1/16: their text is short."""
    return torch.round(torch.randn(shape) * 16) / 16


def flat(outputs):
    if isinstance(outputs, torch.Tensor):
        return [outputs]
    return [t for item in outputs for t in flat(item)]


cases = []


def case(kind, name, outputs, inputs, parameters=None, **options):
    cases.append({"kind": kind, "name": name, "options": options, "inputs": [tensor(t) for t in inputs],
                  "parameters": {k: tensor(v) for k, v in (parameters or {}).items()},
                  "outputs": [tensor(t) for t in flat(outputs)]})


def randomized(module):
    for p in module.parameters():
        p.data = draw(*p.shape)
    return module.eval()


def layer(kind, name, module, *inputs, call=None, **options):
    randomized(module)
    outputs = call(module) if call else module(*inputs)
    case(kind, name, outputs, inputs, module.state_dict(), **options)


def conv1d():
    for i, o, k, s, p, d, g, b in ((3, 5, 3, 1, 1, 1, 1, True), (4, 6, 3, 2, 0, 2, 2, False), (6, 6, 5, 1, 2, 1, 6, True)):
        layer("conv1d", f"{i}->{o} k{k} s{s} p{p} d{d} g{g}", nn.Conv1d(i, o, k, s, p, d, g, b), draw(2, i, 11),
              in_channels=i, out_channels=o, kernel=k, stride=s, padding=p, dilation=d, groups=g, bias=b)


def conv2d():
    for i, o, g in ((6, 6, 6), (6, 12, 6), (6, 9, 3)):
        layer("conv2d", f"{i}->{o} g{g}", nn.Conv2d(i, o, (3, 2), (2, 1), (1, 0), 1, g), draw(2, i, 7, 5),
              in_channels=i, out_channels=o, kernel=[3, 2], stride=[2, 1], padding=[1, 0], dilation=[1, 1], groups=g, bias=True)


def conv_transpose2d():
    #        in out kernel  stride  padding output  dilation groups bias
    rows = ((3, 5, (3, 3), (1, 1), (0, 0), (0, 0), (1, 1), 1, True), (4, 6, (3, 2), (2, 3), (1, 0), (1, 2), (1, 1), 1, True),
            (4, 6, (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), 2, True), (6, 6, (4, 4), (2, 2), (1, 1), (0, 0), (1, 1), 6, False),
            (4, 2, (3, 2), (2, 1), (2, 1), (0, 1), (2, 3), 2, True), (2, 3, (1, 1), (2, 2), (0, 0), (1, 0), (1, 1), 1, True),
            (3, 6, (2, 3), (1, 2), (1, 2), (0, 0), (1, 1), 3, True))
    for i, o, k, s, p, op, d, g, b in rows:
        layer("conv_transpose2d", f"{i}->{o} k{k} s{s} p{p} o{op} d{d} g{g}", nn.ConvTranspose2d(i, o, k, s, p, op, g, b, d),
              draw(2, i, 3, 4), in_channels=i, out_channels=o, kernel=k, stride=s, padding=p, output_padding=op,
              dilation=d, groups=g, bias=b)


def other_layers():
    layer("layer_norm", "one axis", nn.LayerNorm(5), draw(2, 3, 5), normalized_shape=[5], eps=1e-5)
    layer("layer_norm", "two axes", nn.LayerNorm((3, 4), eps=1e-3), draw(2, 3, 4), normalized_shape=[3, 4], eps=1e-3)
    layer("embedding", "ids", nn.Embedding(7, 3), torch.tensor([[0, 6, 2], [2, 5, 1]]), num_embeddings=7, embedding_dim=3)


def lstm():
    for name, options in (("one layer", dict()), ("three layers", dict(num_layers=3)), ("batch first", dict(num_layers=2, batch_first=True)),
                          ("no bias", dict(bias=False)), ("both ways", dict(num_layers=2, bidirectional=True))):
        full = dict(dict(num_layers=1, bias=True, batch_first=False, bidirectional=False), **options)
        x = draw(*((2, 5, 3) if full["batch_first"] else (5, 2, 3)))
        rows = full["num_layers"] * (2 if full["bidirectional"] else 1)
        h, c = draw(rows, 2, 4), draw(rows, 2, 4)
        module = nn.LSTM(3, 4, **full)
        layer("lstm", name + ", no state", module, x, input_size=3, hidden_size=4, **full)
        layer("lstm", name, module, x, h, c, call=lambda m: m(x, (h, c)), input_size=3, hidden_size=4, **full)


def unary():
    x = torch.cat([draw(24) * 3, torch.tensor([0.0, -0.0, 3.0, -3.0, 6.0, 1e-6, -1e-6, 40.0, -40.0, 100.0, -100.0,
                                                      math.inf, -math.inf, math.nan])])
    rows = {"sigmoid": F.sigmoid, "tanh": F.tanh, "hardsigmoid": F.hardsigmoid, "hardswish": F.hardswish, "hardtanh": F.hardtanh,
            "silu": F.silu, "exp": torch.exp, "log": lambda t: torch.log(t.abs()), "sqrt": lambda t: torch.sqrt(t.abs()),
            "rsqrt": lambda t: torch.rsqrt(t.abs()), "reciprocal": torch.reciprocal}
    for name, function in rows.items():
        absolute = name in ("log", "sqrt", "rsqrt")
        case("unary", name, function(x), [x.abs() if absolute else x])
    for slope in (0.01, 0.3):
        case("unary", "leaky_relu", F.leaky_relu(x, slope), [x], parameter=slope)
    for alpha in (1.0, 0.7):
        case("unary", "elu", F.elu(x, alpha), [x], parameter=alpha)
    finite = x[:-3]
    for mode in ("none", "tanh"):
        case("unary", "gelu", F.gelu(finite.double(), approximate=mode).float(), [finite], approximate=mode)
    case("clamp", "both", torch.clamp(x, -0.5, 1.25), [x], low=-0.5, high=1.25)
    case("clamp", "low", torch.clamp(x, min=0.1), [x], low=0.1)
    case("clamp", "high", torch.clamp(x, max=0.1), [x], high=0.1)


def binary():
    shapes = (((2, 3, 4), (2, 3, 4)), ((2, 3, 4, 5), (2, 3, 1, 1)), ((3, 1), (2, 1, 4)), ((4,), (2, 3, 4)), ((2, 3), ()))
    for a, b in shapes:
        x, y = draw(*a), draw(*b) if b else draw()
        for name, function in (("add", torch.add), ("sub", torch.sub), ("mul", torch.mul)):
            case("binary", f"{name}", function(x, y), [x, y])
    for a, b in (((2, 3), (3, 4)), ((2, 5, 2, 3), (2, 5, 3, 4)), ((5, 2, 3), (3, 4)), ((2, 1, 2, 3), (4, 3, 1))):
        x, y = draw(*a), draw(*b)
        case("binary", "matmul", torch.matmul(x, y), [x, y])
    x = draw(2, 3)
    for name, y in (("add", x + 0.3), ("sub", x - 0.3), ("mul", x * 0.3), ("rsub", 0.3 - x)):
        case("scalar", name, y, [x], scalar=0.3)


def reduce():
    x = draw(2, 3, 2, 3)
    for axes in ([], [2, 3], [1], [-1, 0]):
        for keepdim in (False, True):
            for name, function in (("sum", torch.sum), ("mean", torch.mean)):
                y = function(x, axes, keepdim) if axes else function(x)
                if not axes and keepdim:
                    continue
                case("reduce", name, y, [x], axes=axes, keepdim=keepdim)


def shape():
    x = torch.arange(120.0).reshape(1, 6, 5, 4).expand(2, 6, 5, 4)[:, :, :, :2] + torch.tensor([0.0, 0.5]).reshape(2, 1, 1, 1)
    case("reshape", "open", x.reshape(3, -1, 8), [x], shape=[3, -1, 8])
    case("reshape", "whole", x.reshape(120), [x], shape=[120])
    case("permute", "nhwc", x.permute(0, 2, 3, 1), [x], axes=[0, 2, 3, 1])
    case("permute", "negative", x.permute(-1, 1, 0, 2), [x], axes=[-1, 1, 0, 2])
    case("transpose", "1,3", x.transpose(1, 3), [x], axes=[1, 3])
    case("transpose", "-1,0", x.transpose(-1, 0), [x], axes=[-1, 0])
    case("slice", "step", x[:, 1:6:2], [x], axis=1, start=1, stop=6, step=2)
    case("slice", "negative", x[:, :, -3:-1], [x], axis=2, start=-3, stop=-1, step=1)
    case("slice", "beyond", x[:, :, 2:99], [x], axis=2, start=2, stop=99, step=1)
    case("slice", "empty", x[:, :, 3:1], [x], axis=2, start=3, stop=1, step=1)
    case("getitem", "first", x[1], [x], at=1)
    case("getitem", "last", x[-1], [x], at=-1)
    case("split", "size", torch.split(x, 4, 1), [x], size=4, axis=1)
    case("split", "sizes", torch.split(x, [1, 3, 2], 1), [x], size=[1, 3, 2], axis=1)
    case("chunk", "even", torch.chunk(x, 3, 1), [x], chunks=3, axis=1)
    case("chunk", "fewer", torch.chunk(x, 4, 2), [x], chunks=4, axis=2)
    x = x[:, :2, :3]
    for padding in ([1, 2], [1, 0, 0, 2], [-1, 2, 0, -2], [0, 0, 1, 1, 2, 0]):
        for value in (0.0, -1.5):
            case("pad", "constant", F.pad(x, padding, "constant", value), [x], padding=padding, value=value)
    for mode in ("reflect", "replicate"):
        case("pad", mode, F.pad(x, [1, 0, 1, 2], mode), [x], padding=[1, 0, 1, 2], mode=mode)
        case("pad", mode + " one axis", F.pad(x[0], [0, 1], mode), [x[0]], padding=[0, 1], mode=mode)


def interpolate():
    x = draw(1, 2, 4, 5)
    for size in ([8, 10], [3, 7], [1, 1], [4, 5], [9, 3]):
        for mode, corners in (("nearest", None), ("nearest-exact", None), ("bilinear", False), ("bilinear", True)):
            y = F.interpolate(x, size=size, mode=mode, align_corners=corners)
            case("interpolate", f"{mode} to {size}", y, [x], size=size, mode=mode, align_corners=bool(corners))
    for factor in ([2.0, 2.0], [1.7, 0.6], [3.0, 0.5]):
        for mode, corners in (("nearest", None), ("nearest-exact", None), ("bilinear", False), ("bilinear", True)):
            y = F.interpolate(x, scale_factor=factor, mode=mode, align_corners=corners)
            case("interpolate", f"{mode} by {factor}", y, [x], scale_factor=factor, mode=mode, align_corners=bool(corners))


def volumes():
    for i, o, k, s, p, op, d, g, b in ((3, 5, 3, 1, 1, 0, 1, 1, True), (4, 6, 4, 2, 1, 1, 1, 2, False), (2, 4, 3, 3, 0, 2, 2, 1, True)):
        layer("conv_transpose1d", f"{i}->{o} k{k} s{s} p{p} o{op} d{d} g{g}", nn.ConvTranspose1d(i, o, k, s, p, op, g, b, d),
              draw(2, i, 5), in_channels=i, out_channels=o, kernel=k, stride=s, padding=p, output_padding=op, dilation=d,
              groups=g, bias=b)
    #        in out kernel     stride     padding    dilation   groups bias
    rows = ((3, 4, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1, True), (4, 6, (2, 3, 1), (2, 1, 2), (1, 0, 0), (1, 2, 1), 2, True),
            (4, 4, (3, 2, 2), (1, 2, 1), (2, 0, 1), (2, 1, 1), 4, False))
    for i, o, k, s, p, d, g, b in rows:
        layer("conv3d", f"{i}->{o} k{k} s{s} p{p} d{d} g{g}", nn.Conv3d(i, o, k, s, p, d, g, b), draw(1, i, 4, 5, 3),
              in_channels=i, out_channels=o, kernel=k, stride=s, padding=p, dilation=d, groups=g, bias=b)
    #        in out kernel     stride     padding    output     dilation   groups bias
    rows = ((3, 4, (3, 3, 3), (1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 1, 1), 1, True),
            (4, 6, (2, 3, 1), (2, 1, 2), (1, 0, 0), (1, 0, 1), (1, 1, 1), 2, True),
            (4, 4, (3, 2, 2), (3, 2, 1), (2, 0, 1), (2, 1, 0), (2, 1, 1), 4, False))
    for i, o, k, s, p, op, d, g, b in rows:
        layer("conv_transpose3d", f"{i}->{o} k{k} s{s} p{p} o{op} d{d} g{g}", nn.ConvTranspose3d(i, o, k, s, p, op, g, b, d),
              draw(1, i, 3, 2, 3), in_channels=i, out_channels=o, kernel=k, stride=s, padding=p, output_padding=op,
              dilation=d, groups=g, bias=b)
    norm, x = nn.BatchNorm3d(3, eps=1e-3).eval(), draw(2, 3, 2, 2, 3)
    norm.running_mean.copy_(draw(3))
    norm.running_var.copy_(draw(3) ** 2 + 0.5)
    state = {k: v for k, v in norm.state_dict().items() if k != "num_batches_tracked"}
    case("batch_norm3d", "evaluation", norm(x), [x], state, num_features=3, eps=1e-3)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    out = parser.parse_args().out
    torch.manual_seed(SEED)
    with torch.no_grad():
        for make in (conv1d, conv2d, conv_transpose2d, other_layers, lstm, unary, binary, reduce, shape, interpolate,
                     volumes):
            make()
    meta = {"topic": "layers", "torch": torch.__version__, "seed": SEED, "floats": "C99 hexadecimal text"}
    with open(os.path.join(out, "layers.json"), "w") as file:
        file.write('{"meta": %s, "cases": [\n' % json.dumps(meta))
        file.write(",\n".join(json.dumps(c) for c in cases))
        file.write("\n]}\n")
    print(len(cases), "cases")


main()
