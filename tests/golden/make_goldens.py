# SPDX-License-Identifier: MIT
"""Write JSON golden vectors for the C++ quantization / numeric-suite library.

Needs PyTorch (1.13 or 2.x) and numpy.  Usage:

    python3 make_goldens.py --out DIR [--only NAME ...]

Every float is stored as the C99 hexadecimal text of its exact value ("nan",
"inf" and "-inf" for the rest), so a reader that uses strtof/strtod gets the
same bits back.  Inputs are stored too: nothing depends on a random generator
of the reader.  One file per topic, each {"meta": {...}, "cases": [...]}.
"""
import argparse
import copy
import json
import math
import os
import warnings

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import operator

warnings.filterwarnings("ignore")

import torch.ao.quantization as tq
from torch.ao.quantization import observer as ob
from torch.ao.quantization import fake_quantize as fq
from torch.ao.quantization._learnable_fake_quantize import _LearnableFakeQuantize

f32 = np.float32
MAJOR = int(torch.__version__.split(".")[0])

QSCHEME = {
    "per_tensor_affine": torch.per_tensor_affine,
    "per_tensor_symmetric": torch.per_tensor_symmetric,
    "per_channel_affine": torch.per_channel_affine,
    "per_channel_symmetric": torch.per_channel_symmetric,
    "per_channel_affine_float_qparams": torch.per_channel_affine_float_qparams,
}
DTYPE = {"qint8": torch.qint8, "quint8": torch.quint8, "qint32": torch.qint32}


# ---------------------------------------------------------------- encoding
def hx(v):
    v = float(v)
    if math.isnan(v):
        return "nan"
    if math.isinf(v):
        return "inf" if v > 0 else "-inf"
    return v.hex()


def floats(t):
    if isinstance(t, torch.Tensor):
        t = t.detach().cpu().double().numpy()
    return [hx(v) for v in np.asarray(t, dtype=np.float64).ravel()]


def ints(t):
    if isinstance(t, torch.Tensor):
        t = t.detach().cpu().numpy()
    return [int(v) for v in np.asarray(t).ravel()]


def tens(t):
    return {"shape": list(t.shape), "data": floats(t)}


def err(e):
    return {"type": type(e).__name__, "text": str(e).split("\n")[0][:160]}


def arr(a):
    return torch.from_numpy(np.ascontiguousarray(a, dtype=f32))


# ---------------------------------------------------------------- observers
def make_observer(kind, kw):
    cls = {
        "MinMax": ob.MinMaxObserver,
        "MovingAverageMinMax": ob.MovingAverageMinMaxObserver,
        "PerChannelMinMax": ob.PerChannelMinMaxObserver,
        "MovingAveragePerChannelMinMax": ob.MovingAveragePerChannelMinMaxObserver,
        "Histogram": ob.HistogramObserver,
    }[kind]
    k = dict(kw)
    k["dtype"] = DTYPE[k["dtype"]]
    k["qscheme"] = QSCHEME[k["qscheme"]]
    return cls(**k)


def observer_case(name, kind, kw, batches):
    case = {"name": name, "observer": kind, "args": kw, "batches": [tens(b) for b in batches]}
    try:
        o = make_observer(kind, kw)
        case["quant_min"], case["quant_max"] = o.quant_min, o.quant_max
        for b in batches:
            o(b)
        case["min_val"] = floats(o.min_val)
        case["max_val"] = floats(o.max_val)
        if kind == "Histogram":
            case["histogram"] = floats(o.histogram)
            if math.isfinite(float(o.min_val)):
                lo, hi = o._non_linear_param_search()
                case["search_min"], case["search_max"] = hx(lo), hx(hi)
        s, z = o.calculate_qparams()
        case["scale"] = floats(s)
        if z.is_floating_point():
            case["zero_point_float"] = floats(z)
        else:
            case["zero_point"] = ints(z)
    except Exception as e:  # the error itself is part of the contract
        case["error"] = err(e)
    return case


T = torch.tensor
AFF = dict(dtype="quint8", qscheme="per_tensor_affine")
SYM = dict(dtype="qint8", qscheme="per_tensor_symmetric")
I16 = dict(dtype="qint32", qscheme="per_tensor_symmetric", quant_min=-32768, quant_max=32767)
I16N = dict(dtype="qint32", qscheme="per_tensor_symmetric", quant_min=-32767, quant_max=32767)
PCS = dict(dtype="qint8", qscheme="per_channel_symmetric")
PCA = dict(dtype="quint8", qscheme="per_channel_affine")
PC16 = dict(dtype="qint32", qscheme="per_channel_symmetric", quant_min=-32768, quant_max=32767)
NAN, INF = float("nan"), float("inf")


def observers():
    out = []

    def add(name, kind, kw, *b):
        out.append(observer_case(name, kind, kw, [x if isinstance(x, torch.Tensor) else T(x) for x in b]))

    basic = [-1.0, 2.0, 3.5]
    for tag, kw in (
        ("affine_u8", AFF), ("affine_s8", dict(AFF, dtype="qint8")), ("sym_s8", SYM),
        ("sym_u8", dict(SYM, dtype="quint8")), ("sym_s16", I16), ("sym_s16_narrow", I16N),
        ("affine_u8_reduce", dict(AFF, reduce_range=True)), ("sym_s8_reduce", dict(SYM, reduce_range=True)),
        ("affine_u7", dict(AFF, quant_min=0, quant_max=127)),
        ("sym_u7", dict(SYM, dtype="quint8", quant_min=0, quant_max=127)),
        ("sym_s8_narrow", dict(SYM, quant_min=-127, quant_max=127)),
        ("sym_s8_narrow_reduce", dict(SYM, quant_min=-127, quant_max=127, reduce_range=True)),
        ("sym_s8_narrow_eps", dict(SYM, quant_min=-127, quant_max=127, eps=2.0 ** -12)),
        ("sym_s4", dict(SYM, quant_min=-8, quant_max=7)),
        ("sym_s32_default", dict(dtype="qint32", qscheme="per_tensor_symmetric")),
        ("affine_s32_default", dict(dtype="qint32", qscheme="per_tensor_affine")),
    ):
        add(tag + ":basic", "MinMax", kw, basic)
        add(tag + ":positive_only", "MinMax", kw, [1.0, 2.0, 3.5])
        add(tag + ":negative_only", "MinMax", kw, [-1.0, -2.0, -3.5])
        add(tag + ":zeros", "MinMax", kw, [0.0, 0.0])
        add(tag + ":constant", "MinMax", kw, [5.0, 5.0])
        add(tag + ":tiny", "MinMax", kw, [1e-9, -2e-9])
    add("sym_u8_reduce:constructor_error", "MinMax", dict(SYM, dtype="quint8", reduce_range=True), basic)
    add("range_without_zero:constructor_error", "MinMax", dict(AFF, quant_min=1, quant_max=5), basic)
    add("empty_range:constructor_error", "MinMax", dict(AFF, quant_min=0, quant_max=0), basic)
    add("s8_range_too_wide:constructor_error", "MinMax", dict(AFF, dtype="qint8", quant_min=-10, quant_max=300), basic)
    add("only_quant_min_given_is_ignored", "MinMax", dict(AFF, quant_min=0), basic)
    add("never_run", "MinMax", AFF)
    add("empty_tensor", "MinMax", AFF, torch.empty(0))
    add("two_batches", "MinMax", AFF, basic, [-4.0, 0.5])
    add("nan", "MinMax", AFF, [1.0, NAN, 2.0])
    add("nan_sticks", "MinMax", AFF, [NAN], [1.0, 2.0])
    add("plus_inf_sym", "MinMax", SYM, [1.0, INF, 2.0])
    add("plus_inf_affine", "MinMax", AFF, [1.0, INF, 2.0])
    add("half_way_zero_point", "MinMax", AFF, [-1.0, 1.0])
    # moving average
    seq = ([-1.0, 1.0], [-3.0, 5.0], [0.25, 0.5])
    for c in (0.01, 0.1, 0.5, 1, 0):
        for tag, kw in (("affine_u8", AFF), ("sym_s8", SYM), ("sym_s16", I16)):
            add(f"ma:{tag}:c={c}", "MovingAverageMinMax", dict(kw, averaging_constant=c), *seq)
    add("ma:empty_batches_skipped", "MovingAverageMinMax", AFF, torch.empty(0), [-1.0, 1.0], torch.empty(0), [-3.0, 5.0])
    add("ma:nan", "MovingAverageMinMax", AFF, [-1.0, 1.0], [NAN])
    add("ma:first_batch_inf", "MovingAverageMinMax", AFF, [INF], [1.0])
    # per channel
    x = T([[1.0, -2.0, 3.0], [0.5, 0.25, -0.125], [0.0, 0.0, 0.0], [5.0, 6.0, 7.0]])
    x4 = torch.arange(24.0).reshape(2, 3, 2, 2) - 10
    for tag, kw in (("sym_s8", PCS), ("affine_u8", PCA), ("sym_s16", PC16),
                    ("sym_s8_narrow_eps", dict(PCS, quant_min=-127, quant_max=127, eps=2.0 ** -12)),
                    ("float_qparams", dict(dtype="quint8", qscheme="per_channel_affine_float_qparams"))):
        add(f"pc:{tag}:axis0", "PerChannelMinMax", dict(kw, ch_axis=0), x)
        add(f"pc:{tag}:axis1", "PerChannelMinMax", dict(kw, ch_axis=1), x)
        add(f"pc:{tag}:4d_axis1", "PerChannelMinMax", dict(kw, ch_axis=1), x4)
        add(f"pc:{tag}:4d_axis3", "PerChannelMinMax", dict(kw, ch_axis=3), x4)
        add(f"pc:{tag}:two", "PerChannelMinMax", dict(kw, ch_axis=0), x, x * 0.5 - 1)
        add(f"pcma:{tag}:two", "MovingAveragePerChannelMinMax", dict(kw, ch_axis=0), x, x * 0.5 - 1)
        add(f"pcma:{tag}:three_c=0.25", "MovingAveragePerChannelMinMax",
            dict(kw, ch_axis=0, averaging_constant=0.25), x, x * 0.5 - 1, -x)
    add("pc:never_run", "PerChannelMinMax", dict(PCS, ch_axis=0))
    add("pc:empty", "PerChannelMinMax", dict(PCS, ch_axis=0), torch.empty(3, 0))
    add("pc:channel_count_changes", "PerChannelMinMax", dict(PCS, ch_axis=0), x, x[:2])
    add("pc:nan", "PerChannelMinMax", dict(PCS, ch_axis=0), [[1.0, NAN], [1.0, 2.0]])
    # random
    rng = np.random.default_rng(20240)
    for i in range(180):
        kw = (AFF, SYM, I16, dict(SYM, quant_min=-127, quant_max=127), dict(AFF, quant_min=0, quant_max=127), dict(AFF, dtype="qint8"))[i % 6]
        a = rng.standard_normal(6) * 10.0 ** rng.uniform(-5, 4) + rng.choice([0, 0, 1, -1]) * 10.0 ** rng.uniform(-3, 3)
        add(f"fuzz:{i}", "MinMax", kw, arr(a))
    for i in range(40):
        kw = (AFF, SYM, I16)[i % 3]
        c = float(rng.choice([0.01, 0.003, 0.1, 0.9]))
        bs = [arr(rng.standard_normal(5) * 10.0 ** rng.uniform(-2, 2)) for _ in range(4)]
        add(f"fuzz_ma:{i}", "MovingAverageMinMax", dict(kw, averaging_constant=c), *bs)
    for i in range(18):
        kw = (PCS, PCA, PC16)[i % 3]
        a = rng.standard_normal((5, 4)) * 10.0 ** rng.uniform(-4, 3, (5, 1))
        add(f"fuzz_pc:{i}", "PerChannelMinMax", dict(kw, ch_axis=0), arr(a))
    return out


def histogram():
    out = []

    def add(name, kw, *b):
        out.append(observer_case(name, "Histogram", kw, [x if isinstance(x, torch.Tensor) else T(x) for x in b]))

    small = dict(AFF, bins=8)
    add("fractional", small, [-0.5, 0.1, 0.2, 0.9])
    add("wide", small, [-3.7, 0.0, 1.0, 2.0, 4.2])
    add("constant", small, [5.0, 5.0, 5.0])
    add("zeros", small, [0.0, 0.0])
    add("constant_then_wider", small, [5.0, 5.0], [1.0, 9.0])
    add("constant_twice", small, [5.0, 5.0], [5.0, 5.0])
    add("constant_then_other_constant", small, [5.0, 5.0, 5.0], [7.0])
    add("grows", small, [0.0, 1.0, 2.0, 3.0], [4.0, 8.0, -1.0])
    add("stays_inside", small, [0.0, 8.0], [1.0, 2.0, 3.0])
    add("empty", small, torch.empty(0))
    add("never_run", small)
    add("nan", small, [1.0, NAN])
    add("inf", small, [1.0, 2.0, INF])
    add("only_inf", small, [INF])
    add("symmetric", dict(SYM, bins=8), [-3.0, 0.0, 1.0, 2.0, 4.0])
    rng = np.random.default_rng(7)
    for i in range(24):
        bins = (16, 64, 256)[i % 3]
        kw = dict((AFF, SYM)[i % 2], bins=bins)
        n = 60
        gen = (lambda: rng.standard_normal(n), lambda: np.abs(rng.standard_normal(n)), lambda: rng.uniform(-1, 1, n),
               lambda: rng.laplace(size=n), lambda: rng.exponential(size=n), lambda: np.concatenate([rng.standard_normal(n - 1), [20.0]]))[i % 6]
        k = 10.0 ** rng.uniform(-1, 1)
        add(f"fuzz:{i}", kw, *[arr(gen() * k + rng.uniform(-0.5, 0.5)) for _ in range(1 + i % 3)])
    big = dict(AFF, bins=2048)
    for i in range(3):
        c = observer_case(f"bins2048:{i}", "Histogram", big, [arr(rng.standard_normal(400) * (i + 1)), arr(rng.standard_normal(400) * (i + 2))][: 1 + i % 2])
        h = c.pop("histogram")
        c["histogram_nonzero"] = {str(j): v for j, v in enumerate(h) if v != "0x0.0p+0"}
        out.append(c)
    return out


def choose_qparams():
    out = []
    rng = np.random.default_rng(11)
    fixed = [[0.0], [1e-30], [1.0, 2.0], [-1.0, -2.0], [-1.0, 1.0], [1e-6, -1e-6], [-1.0, 2.0, 3.5], [0.0, 255.0], [-0.3, 5e-5], [NAN, 1.0], [6.0e-3, 0.0]]
    vals = [np.array(a, f32) for a in fixed] + [
        (rng.standard_normal(5) * 10.0 ** rng.uniform(-7, 4) + rng.choice([0, 0, 1, -1]) * 10.0 ** rng.uniform(-3, 3)).astype(f32) for _ in range(60)]
    for a in vals:
        for red in (False, True):
            c = {"kind": "dynamic_u8", "reduce_range": red, "x": floats(a)}
            try:
                s, z = torch._choose_qparams_per_tensor(torch.from_numpy(a), red)
                c["scale"], c["zero_point"] = hx(f32(s)), int(z)
            except Exception as e:
                c["error"] = err(e)
            out.append(c)

    def fused(name, batches, lo, hi, sym, perch=False, c=0.01):
        scheme = {(0, 0): "per_tensor_affine", (0, 1): "per_channel_affine", (1, 0): "per_tensor_symmetric", (1, 1): "per_channel_symmetric"}[(int(sym), int(perch))]
        m = fq.FusedMovingAvgObsFakeQuantize(
            observer=ob.MovingAveragePerChannelMinMaxObserver if perch else ob.MovingAverageMinMaxObserver,
            quant_min=lo, quant_max=hi, dtype=torch.qint8 if lo < 0 else torch.quint8, qscheme=QSCHEME[scheme], averaging_constant=c)
        case = {"kind": "fused_moving_avg_fake_quant", "name": name, "quant_min": lo, "quant_max": hi, "qscheme": scheme,
                "averaging_constant": c, "steps": []}
        for b in batches:
            y = m(b)
            a = m.activation_post_process
            st = {"x": tens(b), "y": floats(y), "min_val": floats(a.min_val), "max_val": floats(a.max_val), "scale": floats(m.scale), "zero_point": ints(m.zero_point)}
            s, z = m.calculate_qparams()
            st["observer_scale"], st["observer_zero_point"] = floats(s), ints(z)
            case["steps"].append(st)
        out.append(case)

    fused("sym_mixed", [T([-1.0, 2.0, 3.5]), T([-3.5, 2.0, 1.0])], -128, 127, True)
    fused("sym_positive_only", [T([1.0, 2.0, 3.5])], -128, 127, True)
    fused("sym_negative_only", [T([-1.0, -2.0, -3.5])], -128, 127, True)
    fused("sym_zero", [T([0.0, 0.0])], -128, 127, True)
    fused("affine_half_way", [T([-1.0, 1.0])], 0, 255, False)
    fused("sym_per_channel", [T([[-1.0, 1.0, 3.0], [0.5, 0.25, 0.125], [0.0, 0.0, 0.0], [-0.5, -0.25, -2.0]])], -128, 127, True, True)
    for i in range(12):
        lo, hi, sym = ((0, 255, False), (-128, 127, True), (-127, 127, True), (-128, 127, False))[i % 4]
        fused(f"fuzz:{i}", [arr(rng.standard_normal(6) * 10.0 ** rng.uniform(-1, 2)) for _ in range(3)], lo, hi, sym, c=float((0.01, 0.1, 1.0)[i % 3]))
    return out


# ---------------------------------------------------------------- quantize / dequantize
def quantize():
    out = []
    rng = np.random.default_rng(3)

    def pt(name, x, s, z, dt, note=None):
        c = {"kind": "per_tensor", "name": name, "dtype": dt, "scale": hx(s), "zero_point": z, "x": floats(x)}
        if note:
            c["note"] = note
        try:
            q = torch.quantize_per_tensor(x, s, z, DTYPE[dt])
            c["q"], c["dequantized"] = ints(q.int_repr()), floats(q.dequantize())
        except Exception as e:
            c["error"] = err(e)
        out.append(c)

    ties = T([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3.5, 126.5, 127.5, -128.5, -129.5])
    pt("ties", ties, 1.0, 0, "qint8")
    pt("ties_zero_point_added_after_rounding", ties, 1.0, 3, "quint8")
    pt("multiply_by_reciprocal_not_divide", T([0.273939937]), float(f32(0.00214854861)), 0, "quint8")
    pt("saturation", T([1e3, -1e3, 300.0, 255.4, 255.5, 255.6]), 1.0, 0, "quint8")
    pt("special_values_x86", T([NAN, INF, -INF, 1e30, -1e30, 1e10, -1e10]), 1.0, 0, "quint8", "float to int64 overflow: platform defined")
    pt("special_values_x86", T([NAN, INF, -INF, 1e30, -1e30, 1e10, -1e10]), 1.0, 0, "qint8", "float to int64 overflow: platform defined")
    pt("zero_point_too_low", T([1.0]), 1.0, -1, "quint8")
    pt("zero_point_too_high", T([1.0]), 1.0, 256, "quint8")
    for i in range(14):
        dt = ("quint8", "qint8", "qint32")[i % 3]
        s = float(f32(10.0 ** rng.uniform(-4, 2)))
        z = int(rng.integers(0, 200)) if dt == "quint8" else int(rng.integers(-100, 100))
        a = (rng.standard_normal(24) * s * 60).astype(f32)
        a[:12] = ((rng.integers(-150, 150, 12) + 0.5) * f32(s)).astype(f32)
        pt(f"fuzz:{i}", arr(a), s, z, dt)

    def pc(name, x, s, z, ax, dt):
        c = {"kind": "per_channel", "name": name, "dtype": dt, "axis": ax, "scale": floats(s), "x": tens(x)}
        c["zero_point_float" if z.is_floating_point() else "zero_point"] = floats(z) if z.is_floating_point() else ints(z)
        q = torch.quantize_per_channel(x, s, z, ax, DTYPE[dt])
        c["q"], c["dequantized"] = ints(q.int_repr()), floats(q.dequantize())
        out.append(c)

    for i in range(9):
        ax = i % 3
        dt = ("qint8", "quint8", "qint32")[i // 3]
        sh = (3, 4, 2)
        s = (10.0 ** rng.uniform(-3, 1, sh[ax])).astype(f32)
        z = rng.integers(0 if dt == "quint8" else -20, 50, sh[ax])
        shp = [-1 if k == ax else 1 for k in range(3)]
        x = (rng.standard_normal(sh) * 50).astype(f32) * s.reshape(shp)
        x.reshape(-1)[:6] = ((rng.integers(-50, 50, 6) + 0.5)).astype(f32) * np.broadcast_to(s.reshape(shp), sh).reshape(-1)[:6]
        pc(f"fuzz:{i}", arr(x), torch.from_numpy(s).double(), torch.from_numpy(z), ax, dt)
    s = (10.0 ** rng.uniform(-3, 0, 3)).astype(f32)
    z = rng.uniform(0, 200, 3).astype(f32)
    pc("float_zero_point", arr((rng.standard_normal((3, 6)) * 60) * s[:, None]), torch.from_numpy(s), torch.from_numpy(z), 0, "quint8")
    return out


def fake_quantize():
    out = []
    rng = np.random.default_rng(4)

    def pt(name, x, s, z, lo, hi, note=None):
        c = {"kind": "per_tensor", "name": name, "scale": hx(s), "zero_point": z, "quant_min": lo, "quant_max": hi, "x": floats(x)}
        if note:
            c["note"] = note
        try:
            t = x.clone().requires_grad_(True)
            y = torch.fake_quantize_per_tensor_affine(t, float(s), z, lo, hi)
            g = arr(rng.standard_normal(x.numel()).reshape(x.shape))
            y.backward(g)
            c["y"], c["grad_y"], c["grad_x"] = floats(y), floats(g), floats(t.grad)
        except Exception as e:
            c["error"] = err(e)
        out.append(c)

    pt("mask_edges", T([126.4, 126.5, 127.4, 127.5, 127.6, -128.4, -128.5, -128.6]), 1.0, 0, -128, 127)
    pt("multiply_by_reciprocal", T([0.273939937, -0.273939937]), float(f32(0.00214854861)), 0, -128, 255)
    pt("special_values_x86", T([NAN, INF, -INF, 1e30, -1e30, 1e12, 200.0, -200.0]), 1.0, 0, -128, 127, "float to int64 overflow: platform defined")
    pt("zero_point_outside", T([1.0]), 1.0, 200, -128, 127)
    pt("inverted_range", T([1.0]), 1.0, 0, 5, 1)
    pt("range_without_zero_point", T([1.0]), 1.0, 0, 5, 10)
    pt("int16_edges", T([32767.4, 32767.5, -32768.5, -32768.6, 0.5, 1.5]), 1.0, 0, -32768, 32767)
    for i in range(20):
        lo, hi = ((-128, 127), (0, 255), (-32768, 32767), (-8, 7), (0, 127))[i % 5]
        s = float(f32(10.0 ** rng.uniform(-4, 1)))
        z = 0 if lo < -1000 or i % 2 else int(rng.integers(lo, hi + 1))
        a = (rng.standard_normal(20) * (hi - lo) * 0.4 * s).astype(f32)
        a[:8] = ((rng.integers(lo - 3, hi + 3, 8) - z + 0.5) * f32(s)).astype(f32)
        pt(f"fuzz:{i}", arr(a), s, z, lo, hi)

    def pc(name, x, s, z, ax, lo, hi):
        t = x.clone().requires_grad_(True)
        y = torch.fake_quantize_per_channel_affine(t, s, z, ax, lo, hi)
        g = arr(rng.standard_normal(tuple(x.shape)))
        y.backward(g)
        c = {"kind": "per_channel", "name": name, "axis": ax, "scale": floats(s), "quant_min": lo, "quant_max": hi, "x": tens(x), "y": floats(y), "grad_y": floats(g), "grad_x": floats(t.grad)}
        c["zero_point_float" if z.is_floating_point() else "zero_point"] = floats(z) if z.is_floating_point() else ints(z)
        out.append(c)

    for i in range(9):
        ax, (lo, hi) = i % 3, ((-128, 127), (0, 255), (-32768, 32767))[i // 3]
        sh = (3, 4, 2)
        s = (10.0 ** rng.uniform(-3, 1, sh[ax])).astype(f32)
        z = (np.zeros(sh[ax]) if lo < -1000 else rng.integers(lo + 5, hi - 5, sh[ax])).astype(np.int32)
        shp = [-1 if k == ax else 1 for k in range(3)]
        x = (rng.standard_normal(sh) * (hi - lo) * 0.5).astype(f32) * s.reshape(shp)
        pc(f"fuzz:{i}", arr(x), torch.from_numpy(s), torch.from_numpy(z), ax, lo, hi)
    s = (10.0 ** rng.uniform(-3, 0, 3)).astype(f32)
    z = rng.uniform(0, 200, 3).astype(f32)
    pc("float_zero_point", arr((rng.standard_normal((3, 8)) * 90) * s[:, None]), torch.from_numpy(s), torch.from_numpy(z), 0, 0, 255)
    return out


def learnable():
    out = []
    rng = np.random.default_rng(6)

    def pt(name, x, s, zp, lo, hi, gf, g=None):
        t = x.clone().requires_grad_(True)
        S, Z = T([s]).requires_grad_(True), T([zp]).requires_grad_(True)
        y = torch._fake_quantize_learnable_per_tensor_affine(t, S, Z, lo, hi, gf)
        g = arr(rng.standard_normal(x.numel())) if g is None else g
        y.backward(g)
        out.append({"kind": "per_tensor", "name": name, "scale": hx(S), "zero_point": hx(Z), "quant_min": lo, "quant_max": hi, "grad_factor": hx(f32(gf)),
                    "x": floats(x), "y": floats(y), "grad_y": floats(g), "grad_x": floats(t.grad), "grad_scale": hx(S.grad), "grad_zero_point": hx(Z.grad)})

    five = T([-5.3, 0.2, 1.7, 1000.0, -1000.0])
    for zp in (0.0, 2.4, 2.5, 2.6, 3.5, -0.4, -1.3, -1.5, -1.6, -2.5, 126.7, 300.0, -300.0):
        pt(f"zero_point_rounding:{zp}", five, 0.5, zp, -128, 127, 1.0, torch.ones(5))
    pt("negative_scale_is_not_rejected_by_the_op", T([1.3]), -0.5, 0.0, -128, 127, 1.0, torch.ones(1))
    for i in range(24):
        lo, hi = ((-128, 127), (-32768, 32767), (0, 255), (-8, 7))[i % 4]
        s = float(f32(10.0 ** rng.uniform(-2, 1)))
        zp = 0.0 if i % 2 == 0 else float(f32(rng.uniform(lo, hi)))
        n = 1 if i < 12 else 16
        pt(f"fuzz:{i}", arr(rng.standard_normal(n) * (hi - lo) * 0.4 * s), s, zp, lo, hi, float(f32(rng.uniform(0.01, 1))))

    def pc(name, x, s, z, ax, lo, hi, gf):
        t = x.clone().requires_grad_(True)
        S, Z = s.clone().requires_grad_(True), z.clone().requires_grad_(True)
        y = torch._fake_quantize_learnable_per_channel_affine(t, S, Z, ax, lo, hi, gf)
        g = arr(rng.standard_normal(tuple(x.shape)))
        y.backward(g)
        out.append({"kind": "per_channel", "name": name, "axis": ax, "scale": floats(S), "zero_point": floats(Z), "quant_min": lo, "quant_max": hi, "grad_factor": hx(f32(gf)),
                    "x": tens(x), "y": floats(y), "grad_y": floats(g), "grad_x": floats(t.grad), "grad_scale": floats(S.grad), "grad_zero_point": floats(Z.grad)})

    for i, z in enumerate(([0.0, 0.0, 0.0], [2.5, -1.5, -1.3], [0.4, 300.0, -2.5])):
        s = (10.0 ** rng.uniform(-1, 0, 3)).astype(f32)
        pc(f"axis1:{i}", arr(rng.standard_normal((2, 3, 2)) * 40), torch.from_numpy(s), T(z), 1, -128, 127, 0.3)
    # module: initialisation by the observer, then learning
    for tag, kw in (("s8", dict(dtype=torch.qint8, quant_min=-128, quant_max=127)), ("s16", dict(dtype=torch.qint32, quant_min=-32768, quant_max=32767))):
        for scaling in (False, True):
            m = _LearnableFakeQuantize(ob.MinMaxObserver, qscheme=torch.per_tensor_symmetric, use_grad_scaling=scaling, **kw)
            x = T([-1.0, 2.0, 3.5, 0.3])
            y0 = m(x)
            s0 = hx(m.scale)
            m.enable_param_learning()
            t = x.clone().requires_grad_(True)
            y1 = m(t)
            y1.sum().backward()
            out.append({"kind": "module", "name": f"{tag}:grad_scaling={scaling}", "x": floats(x), "observed_scale": s0, "y_static": floats(y0), "y_learning": floats(y1),
                        "grad_x": floats(t.grad), "grad_scale": hx(m.scale.grad), "grad_factor": hx(1.0 / (x.numel() * m.quant_max) ** 0.5 if scaling else 1.0)})
    return out


def fake_quant_module():
    """State machine of the FakeQuantize module."""
    out = []

    def snap(m, x, note):
        y = m(x)
        a = m.activation_post_process
        return {"note": note, "x": tens(x), "y": floats(y), "scale": floats(m.scale), "zero_point": ints(m.zero_point), "min_val": floats(a.min_val), "max_val": floats(a.max_val)}

    for tag, cls, kw in (
        ("affine_u8", ob.MovingAverageMinMaxObserver, dict(dtype=torch.quint8, qscheme=torch.per_tensor_affine, quant_min=0, quant_max=255)),
        ("sym_s8", ob.MovingAverageMinMaxObserver, dict(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric, quant_min=-128, quant_max=127)),
        ("sym_s16", ob.MovingAverageMinMaxObserver, dict(dtype=torch.qint32, qscheme=torch.per_tensor_symmetric, quant_min=-32768, quant_max=32767)),
        ("affine_u8_reduce", ob.MovingAverageMinMaxObserver, dict(dtype=torch.quint8, qscheme=torch.per_tensor_affine, quant_min=0, quant_max=255, reduce_range=True)),
        ("pc_sym_s8", ob.MovingAveragePerChannelMinMaxObserver, dict(dtype=torch.qint8, qscheme=torch.per_channel_symmetric, quant_min=-128, quant_max=127, ch_axis=0)),
    ):
        m = fq.FakeQuantize(observer=cls, **kw)
        x1, x2 = T([[-1.0, 0.3, 2.0], [0.5, -0.25, 0.125]]), T([[-3.0, 0.7, 1.0], [4.5, -0.5, 2.0]])
        steps = [snap(m, x1, "observe and quantize")]
        steps.append(snap(m, x2, "observe and quantize"))
        m.disable_observer()
        steps.append(snap(m, x2 * 2, "observer off: qparams frozen"))
        m.disable_fake_quant()
        steps.append(snap(m, x2 * 2, "both off: identity"))
        m.enable_observer()
        steps.append(snap(m, x2 * 2, "observer only: output untouched, qparams move"))
        m.eval()
        m.enable_fake_quant()
        steps.append(snap(m, x1, "eval() does not stop observation"))
        out.append({"name": tag, "quant_min": m.quant_min, "quant_max": m.quant_max, "steps": steps})
    return out


# ---------------------------------------------------------------- metrics
def metrics():
    from torch.ao.ns.fx.utils import compute_cosine_similarity, compute_normalized_l2_error, compute_sqnr

    out = []

    def val(v):
        return None if v is None else ([hx(e) for e in v.flatten()] if isinstance(v, torch.Tensor) and v.dim() else hx(v))

    def horizon(a, b):
        # formulas of the accuracy tool: first argument is the baseline
        fa, fb = a.flatten().float(), b.flatten().float()
        dim = 1 if a.dim() > 2 else -1
        kl = nn.KLDivLoss()(F.log_softmax(b.double(), dim=dim), F.softmax(a.double(), dim=dim))
        r = {"Cosine": nn.CosineSimilarity(dim=0)(fa, fb), "MSE": nn.MSELoss()(a, b), "L1": nn.L1Loss()(a, b), "KL": kl,
             "SQNR": 20 * torch.log10(torch.norm(a) / torch.norm(a - b)), "Atol": (a - b).abs().max(),
             "Rtol": torch.nan_to_num((a - b) / a, 0).abs().max()}
        return {k: hx(v) for k, v in r.items()}

    def add(name, a, b):
        out.append({"name": name, "a": tens(a), "b": tens(b), "sqnr": val(compute_sqnr(a, b)), "normalized_l2": val(compute_normalized_l2_error(a, b)),
                    "cosine": val(compute_cosine_similarity(a, b)), "horizon": horizon(a, b),
                    "stats_b": {"min": hx(b.min()), "max": hx(b.max()), "mean": hx(b.mean()), "var_unbiased": hx(b.var()) if b.numel() > 1 else "nan"}})

    add("equal", T([1.0, 2.0]), T([1.0, 2.0]))
    add("zero_reference", T([0.0, 0.0]), T([1.0, 1.0]))
    add("both_zero", T([0.0, 0.0]), T([0.0, 0.0]))
    add("zero_result", T([1.0, 2.0]), T([0.0, 0.0]))
    add("simple", T([1.0, 2.0]), T([1.5, 2.0]))
    add("opposite", T([1.0, 0.0]), T([-1.0, 0.0]))
    add("orthogonal", T([1.0, 0.0]), T([0.0, 1.0]))
    add("nan", T([1.0, NAN]), T([1.0, 1.0]))
    rng = np.random.default_rng(8)
    for i in range(12):
        sh = ((7,), (3, 5), (2, 3, 4), (1, 3, 2, 2))[i % 4]
        a = (rng.standard_normal(sh) * 10.0 ** rng.uniform(-2, 2)).astype(f32)
        s = f32(np.abs(a).max() / 127.5)
        b = (np.clip(np.rint(a / s), -128, 127) * s).astype(f32)
        add(f"int8_error:{i}", arr(a), arr(b))
    return out


# ---------------------------------------------------------------- folding, qat, integer ops
def folding():
    out = []
    rng = np.random.default_rng(9)
    for i, bias in enumerate((True, False)):
        conv, bn = nn.Conv2d(2, 3, 2, bias=bias), nn.BatchNorm2d(3)
        with torch.no_grad():
            conv.weight.copy_(arr(rng.standard_normal(conv.weight.shape)))
            if bias:
                conv.bias.copy_(arr(rng.standard_normal(3)))
            bn.weight.copy_(T([1.5, 0.5, -0.7]))
            bn.bias.copy_(arr(rng.standard_normal(3)))
            bn.running_mean.copy_(arr(rng.standard_normal(3)))
            bn.running_var.copy_(arr(rng.uniform(0.1, 3, 3)))
        base = {"weight": tens(conv.weight), "bias": floats(conv.bias) if bias else None, "gamma": floats(bn.weight), "beta": floats(bn.bias),
                "running_mean": floats(bn.running_mean), "running_var": floats(bn.running_var), "eps": hx(bn.eps), "momentum": hx(bn.momentum)}
        f = torch.nn.utils.fusion.fuse_conv_bn_eval(copy.deepcopy(conv).eval(), copy.deepcopy(bn).eval())
        out.append(dict(base, kind="conv_bn_fold", name=f"bias={bias}", folded_weight=floats(f.weight), folded_bias=floats(f.bias)))
        # one training step of the fused QAT module
        import torch.nn.intrinsic as nni
        import torch.nn.intrinsic.qat as nniqat
        qc = tq.QConfig(activation=fq.FakeQuantize.with_args(observer=ob.MovingAverageMinMaxObserver, quant_min=0, quant_max=255),
                        weight=fq.FakeQuantize.with_args(observer=ob.MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=torch.qint8, qscheme=torch.per_tensor_symmetric))
        fm = nni.ConvBn2d(copy.deepcopy(conv), copy.deepcopy(bn))
        fm.qconfig = qc
        q = nniqat.ConvBn2d.from_float(fm)
        q.train()
        x = arr(rng.standard_normal((2, 2, 3, 3)))
        y = q(x)
        step = {"x": tens(x), "y_train": tens(y), "weight_scale": hx(q.weight_fake_quant.scale), "running_mean_after": floats(q.bn.running_mean), "running_var_after": floats(q.bn.running_var)}
        q.eval()
        step["y_eval"] = tens(q(x))
        fl = q.to_float()
        step["folded_weight_after"], step["folded_bias_after"] = floats(fl.weight), floats(fl.bias)
        out.append(dict(base, kind="qat_conv_bn", name=f"bias={bias}", tolerance="1e-5 relative", **step))
        lin, b1 = nn.Linear(3, 4, bias=bias), nn.BatchNorm1d(4)
        with torch.no_grad():
            for p in list(lin.parameters()) + list(b1.parameters()):
                p.copy_(arr(rng.standard_normal(tuple(p.shape))))
            b1.running_mean.copy_(arr(rng.standard_normal(4)))
            b1.running_var.copy_(arr(rng.uniform(0.1, 3, 4)))
        g = torch.nn.utils.fusion.fuse_linear_bn_eval(lin.eval(), b1.eval())
        out.append({"kind": "linear_bn_fold", "name": f"bias={bias}", "weight": tens(lin.weight), "bias": floats(lin.bias) if bias else None, "gamma": floats(b1.weight), "beta": floats(b1.bias),
                    "running_mean": floats(b1.running_mean), "running_var": floats(b1.running_var), "eps": hx(b1.eps), "folded_weight": floats(g.weight), "folded_bias": floats(g.bias)})
    return out


def quantized_ops():
    import torch.ao.nn.quantized as nnq
    import torch.ao.nn.quantized.dynamic as nnqd

    out = []
    torch.backends.quantized.engine = "qnnpack"
    rng = np.random.default_rng(10)

    def w_qparams(w, per_channel):
        o = make_observer("PerChannelMinMax", dict(PCS, ch_axis=0)) if per_channel else make_observer("MinMax", SYM)
        o(w)
        s, z = o.calculate_qparams()
        return (torch.quantize_per_channel(w, s.double(), z, 0, torch.qint8) if per_channel else torch.quantize_per_tensor(w, float(s), 0, torch.qint8)), s

    for per_channel in (False, True):
        w, b, x = arr(rng.standard_normal((4, 6))), arr(rng.standard_normal(4)), arr(rng.standard_normal((5, 6)))
        wq, ws = w_qparams(w, per_channel)
        o = make_observer("MinMax", AFF)
        o(x)
        sx, zx = o.calculate_qparams()
        xq = torch.quantize_per_tensor(x, float(sx), int(zx), torch.quint8)
        yf = F.linear(xq.dequantize(), wq.dequantize(), b)
        o = make_observer("MinMax", AFF)
        o(yf)
        sy, zy = o.calculate_qparams()
        m = nnq.Linear(6, 4)
        m.set_weight_bias(wq, b)
        m.scale, m.zero_point = float(sy), int(zy)
        out.append({"kind": "linear_static", "per_channel": per_channel, "x_q": ints(xq.int_repr()), "x_scale": hx(sx), "x_zero_point": int(zx), "w_q": ints(wq.int_repr()), "w_scale": floats(ws), "bias": floats(b),
                    "y_scale": hx(sy), "y_zero_point": int(zy), "y_q_engine": ints(m(xq).int_repr()), "y_q_reference": ints(torch.quantize_per_tensor(yf, float(sy), int(zy), torch.quint8).int_repr()),
                    "note": "engine and reference may differ by one step at a tie"})
    a = torch.quantize_per_tensor(arr(rng.standard_normal(40)), 0.02, 120, torch.quint8)
    b = torch.quantize_per_tensor(arr(rng.standard_normal(40)), 0.031, 100, torch.quint8)
    for nm in ("add", "add_relu", "mul", "mul_relu"):
        y = getattr(torch.ops.quantized, nm)(a, b, 0.045, 110)
        out.append({"kind": nm, "a_q": ints(a.int_repr()), "a_scale": hx(0.02), "a_zero_point": 120, "b_q": ints(b.int_repr()), "b_scale": hx(0.031), "b_zero_point": 100, "y_scale": hx(0.045), "y_zero_point": 110, "y_q": ints(y.int_repr())})
    for nm, v in (("add", 2.0), ("add", -1.0), ("add", 3.0), ("mul", 0.5), ("mul", -0.5), ("mul", 0.0)):
        y = getattr(torch.ops.quantized, nm)(a, v)
        out.append({"kind": nm + "_scalar", "scalar": hx(v), "a_q": ints(a.int_repr()), "a_scale": hx(0.02), "a_zero_point": 120, "y_scale": hx(y.q_scale()), "y_zero_point": y.q_zero_point(), "y_q": ints(y.int_repr())})
    w, bb, x = arr(rng.standard_normal((3, 4))), arr(rng.standard_normal(3)), arr(rng.standard_normal((2, 4)))
    wq, ws = w_qparams(w, False)
    d = nnqd.Linear(4, 3)
    d.set_weight_bias(wq, bb)
    out.append({"kind": "linear_dynamic", "x": tens(x), "w_q": ints(wq.int_repr()), "w_scale": floats(ws), "bias": floats(bb), "y": floats(d(x)), "tolerance": "1e-6"})

    class L(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.LSTM(3, 2, 2)

        def forward(self, x, h):
            return self.rnn(x, h)

    fm = L().eval()
    with torch.no_grad():
        for p in fm.parameters():
            p.copy_(arr(rng.standard_normal(tuple(p.shape))))
    qm = tq.quantize_dynamic(fm, {nn.LSTM}, dtype=torch.qint8)
    x, h, c = arr(rng.standard_normal((4, 2, 3))), arr(rng.standard_normal((2, 2, 2))), arr(rng.standard_normal((2, 2, 2)))
    y, (hn, cn) = qm(x, (h, c))
    yf, (hf, cf) = fm(x, (h, c))
    out.append({"kind": "lstm_dynamic", "weights": {k: tens(v) for k, v in fm.state_dict().items()}, "x": tens(x), "h0": tens(h), "c0": tens(c), "y": tens(y), "hn": tens(hn), "cn": tens(cn), "y_float_model": tens(yf), "tolerance": "1e-6"})
    return out


# ---------------------------------------------------------------- graphs
class Fn(nn.Module):
    def __init__(self, f, **kids):
        super().__init__()
        self._f = f
        for k, v in kids.items():
            setattr(self, k, v)

    def forward(self, x):
        return self._f(self, x)


def C(i=3, o=3):
    return nn.Conv2d(i, o, 1)


IMG, VEC = (1, 3, 4, 4), (2, 3)
P = nn.Parameter
GRAPHS = {
    "conv": (lambda: nn.Sequential(C()), IMG),
    "conv_relu": (lambda: nn.Sequential(C(), nn.ReLU()), IMG),
    "conv_frelu": (lambda: Fn(lambda s, x: F.relu(s.conv(x)), conv=C()), IMG),
    "conv_torch_relu": (lambda: Fn(lambda s, x: torch.relu(s.conv(x)), conv=C()), IMG),
    "conv_method_relu": (lambda: Fn(lambda s, x: s.conv(x).relu(), conv=C()), IMG),
    "conv_relu6": (lambda: nn.Sequential(C(), nn.ReLU6()), IMG),
    "conv_bn": (lambda: nn.Sequential(C(), nn.BatchNorm2d(3)), IMG),
    "conv_bn_relu": (lambda: nn.Sequential(C(), nn.BatchNorm2d(3), nn.ReLU()), IMG),
    "conv_relu_bn": (lambda: nn.Sequential(C(), nn.ReLU(), nn.BatchNorm2d(3)), IMG),
    "bn": (lambda: nn.Sequential(nn.BatchNorm2d(3)), IMG),
    "bn_relu": (lambda: nn.Sequential(nn.BatchNorm2d(3), nn.ReLU()), IMG),
    "linear": (lambda: nn.Sequential(nn.Linear(3, 3)), VEC),
    "linear_relu": (lambda: nn.Sequential(nn.Linear(3, 3), nn.ReLU()), VEC),
    "linear_bn": (lambda: nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), VEC),
    "linear_bn_relu": (lambda: nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.ReLU()), VEC),
    "functional_linear": (lambda: Fn(lambda s, x: F.linear(x, s.w, s.b), w=P(torch.randn(3, 3)), b=P(torch.randn(3))), VEC),
    "functional_linear_relu": (lambda: Fn(lambda s, x: F.relu(F.linear(x, s.w, s.b)), w=P(torch.randn(3, 3)), b=P(torch.randn(3))), VEC),
    "conv_transpose": (lambda: nn.Sequential(nn.ConvTranspose2d(3, 3, 1)), IMG),
    "relu": (lambda: nn.Sequential(nn.ReLU()), IMG),
    "conv_maxpool_conv": (lambda: nn.Sequential(C(), nn.MaxPool2d(2), C()), IMG),
    "conv_avgpool": (lambda: nn.Sequential(C(), nn.AdaptiveAvgPool2d(1)), IMG),
    "maxpool_first": (lambda: nn.Sequential(nn.MaxPool2d(2), C()), IMG),
    "conv_flatten_linear": (lambda: Fn(lambda s, x: s.fc(torch.flatten(s.conv(x), 1)), conv=C(), fc=nn.Linear(48, 2)), IMG),
    "conv_reshape_linear": (lambda: Fn(lambda s, x: s.fc(s.conv(x).reshape(1, -1)), conv=C(), fc=nn.Linear(48, 2)), IMG),
    "conv_permute_linear": (lambda: Fn(lambda s, x: s.fc(s.c1(x).permute(0, 2, 3, 1)), c1=C(), fc=nn.Linear(3, 2)), IMG),
    "add": (lambda: Fn(lambda s, x: s.c1(x) + s.c2(x), c1=C(), c2=C()), IMG),
    "add_relu": (lambda: Fn(lambda s, x: F.relu(s.c1(x) + s.c2(x)), c1=C(), c2=C()), IMG),
    "add_residual": (lambda: Fn(lambda s, x: s.c1(x) + x, c1=C()), IMG),
    "add_scalar": (lambda: Fn(lambda s, x: s.c1(x) + 2.0, c1=C()), IMG),
    "mul": (lambda: Fn(lambda s, x: s.c1(x) * s.c2(x), c1=C(), c2=C()), IMG),
    "sub_is_not_quantized": (lambda: Fn(lambda s, x: s.c1(x) - s.c2(x), c1=C(), c2=C()), IMG),
    "matmul": (lambda: Fn(lambda s, x: torch.matmul(s.c1(x), s.c2(x)), c1=C(), c2=C()), IMG),
    "cat": (lambda: Fn(lambda s, x: torch.cat([s.c1(x), s.c2(x)], 1), c1=C(), c2=C()), IMG),
    "cat_conv": (lambda: Fn(lambda s, x: s.c3(torch.cat([s.c1(x), s.c2(x)], 1)), c1=C(), c2=C(), c3=C(6, 3)), IMG),
    "cat_with_model_input": (lambda: Fn(lambda s, x: torch.cat([x, s.c1(x)], 1), c1=C()), IMG),
    "conv_sigmoid": (lambda: nn.Sequential(C(), nn.Sigmoid()), IMG),
    "conv_tanh": (lambda: nn.Sequential(C(), nn.Tanh()), IMG),
    "conv_softmax": (lambda: nn.Sequential(C(), nn.Softmax(1)), IMG),
    "conv_hardswish": (lambda: nn.Sequential(C(), nn.Hardswish()), IMG),
    "conv_dropout_conv": (lambda: nn.Sequential(C(), nn.Dropout(), C()), IMG),
    "linear_layernorm": (lambda: nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3)), VEC),
    "conv_interpolate": (lambda: Fn(lambda s, x: F.interpolate(s.c1(x), scale_factor=2), c1=C()), IMG),
    "conv_mean": (lambda: Fn(lambda s, x: s.c1(x).mean([2, 3]), c1=C()), IMG),
    "conv_chunk_add": (lambda: Fn(lambda s, x: (lambda t: t[0] + t[1])(torch.chunk(s.c1(x), 2, 1)), c1=C(3, 4)), IMG),
    "two_users": (lambda: Fn(lambda s, x: (s.c1(x), s.c2(x)), c1=C(), c2=C()), IMG),
    "shared_module": (lambda: Fn(lambda s, x: s.c1(s.c1(x)), c1=C()), IMG),
    "float_op_between": (lambda: Fn(lambda s, x: s.c2(torch.sin(s.c1(x))), c1=C(), c2=C()), IMG),
    "residual_block": (lambda: Fn(lambda s, x: s.fc(torch.flatten(s.pool(F.relu(s.b2(s.c2(s.r(s.b1(s.c1(x))))) + x)), 1)),
                                  c1=C(), b1=nn.BatchNorm2d(3), r=nn.ReLU(), c2=C(), b2=nn.BatchNorm2d(3), pool=nn.AdaptiveAvgPool2d(1), fc=nn.Linear(3, 2)), IMG),
    "identity": (lambda: nn.Sequential(C(), nn.Identity(), C()), IMG),
    "clamp": (lambda: Fn(lambda s, x: torch.clamp(s.c1(x), 0, 1), c1=C()), IMG),
}


def short_type(t):
    if isinstance(t, str):
        return t
    if isinstance(t, type):
        p = t.__module__.replace("torch.ao.", "").replace("torch.", "")
        for a, b in (("nn.quantized.reference", "reference."), ("nn.intrinsic.quantized", "quantized."), ("nn.quantized.dynamic", "dynamic."), ("nn.quantized", "quantized."), ("nn.intrinsic.qat", "qat."), ("nn.qat", "qat."), ("nn.intrinsic", "fused."), ("nn.modules", ""), ("quantization", "")):
            if p.startswith(a):
                return b + t.__name__
        return t.__name__
    name = torch.typename(t).replace("_VariableFunctionsClass.", "").replace("PyCapsule.", "")
    for a, b in (("torch._ops.quantized.", "quantized::"), ("torch.ops.quantized.", "quantized::"), ("torch.nn.functional.", "F."), ("torch._C._nn.", "F."), ("_operator.", "operator.")):
        name = name.replace(a, b)
    return name


def dump(gm):
    mods = dict(gm.named_modules(remove_duplicate=False))
    ids, rows = {}, []

    def ref(a):
        if isinstance(a, torch.fx.Node):
            return "%" + a.name
        if isinstance(a, (list, tuple)):
            return [ref(v) for v in a]
        if isinstance(a, torch.dtype):
            return str(a).replace("torch.", "")
        return a if isinstance(a, (int, float, str, bool, type(None))) else str(a)

    for n in gm.graph.nodes:
        row = {"op": n.op, "name": n.name, "args": ref(list(n.args))}
        if n.op == "call_module":
            m = mods[n.target]
            row["target"], row["type"] = n.target, short_type(type(m))
            if "activation_post_process" in n.target:
                row["observer_instance"] = ids.setdefault(id(m), len(ids))
        elif n.op == "call_function":
            row["target"] = short_type(n.target)
        else:
            row["target"] = str(n.target)
        rows.append(row)
    return rows


def example(shape):
    return torch.randn(*shape)


def fx_graphs():
    import torch.ao.quantization.quantize_fx as qfx

    torch.backends.quantized.engine = "qnnpack"
    out = []
    for name, (mk, shape) in GRAPHS.items():
        torch.manual_seed(0)
        m, x = mk().eval(), example(shape)
        c = {"name": name, "mode": "static"}
        p = qfx.prepare_fx(m, tq.get_default_qconfig_mapping("qnnpack"), (x,))
        c["prepared"] = dump(p)
        p(x)
        r = qfx.convert_to_reference_fx(copy.deepcopy(p))
        c["reference"] = dump(r)
        c["converted"] = dump(qfx.convert_fx(p))
        out.append(c)
    for name in ("conv", "conv_relu", "conv_bn", "conv_bn_relu", "linear_relu", "linear_bn", "add_relu", "cat", "conv_sigmoid", "conv_maxpool_conv", "functional_linear", "bn", "bn_relu", "conv_relu_bn"):
        mk, shape = GRAPHS[name]
        torch.manual_seed(0)
        m, x = mk().train(), torch.cat([example(shape)] * 2)
        p = qfx.prepare_qat_fx(m, tq.get_default_qat_qconfig_mapping("qnnpack"), (x,))
        c = {"name": name, "mode": "qat", "prepared": dump(p)}
        p(x)
        p.eval()
        c["converted"] = dump(qfx.convert_fx(p))
        out.append(c)
    for name in ("linear", "linear_relu", "functional_linear_relu", "conv_relu", "add"):
        mk, shape = GRAPHS[name]
        m, x = mk().eval(), example(shape)
        p = qfx.prepare_fx(m, tq.QConfigMapping().set_global(tq.default_dynamic_qconfig), (x,))
        c = {"name": name, "mode": "dynamic", "prepared": dump(p)}
        p(x)
        c["converted"] = dump(qfx.convert_fx(p))
        out.append(c)
    return out


# ---------------------------------------------------------------- numeric suite structure
def res_tree(r):
    def one(e):
        d = {k: v for k, v in e.items() if k not in ("values", "qconfig_str")}
        d["values"] = [{"shape": list(v.shape), "dtype": str(v.dtype).replace("torch.", "")} if isinstance(v, torch.Tensor) else type(v).__name__ for v in e["values"]]
        for k in ("comparisons", "sqnr"):
            if k in d:
                d[k] = len(d[k])
        for k in ("prev_node_target_type", "ref_node_target_type"):
            if k in d:
                d[k] = d[k].replace("_VariableFunctionsClass.", "").replace("PyCapsule.", "").replace("torch._ops.", "torch.ops.")
        return d

    return {layer: {t: {mn: [one(e) for e in lst] for mn, lst in v.items()} for t, v in kinds.items()} for layer, kinds in r.items()}


def ns_fx():
    import torch.ao.quantization.quantize_fx as qfx
    import torch.ao.ns._numeric_suite_fx as ns
    from torch.ao.ns.fx.utils import compute_sqnr

    torch.backends.quantized.engine = "qnnpack"
    out = []
    for name, inputs in (("conv", False), ("residual_block", False), ("functional_linear_relu", False), ("cat_conv", True), ("add_relu", True), ("conv_maxpool_conv", False), ("shared_module", False)):
        mk, shape = GRAPHS[name]
        torch.manual_seed(0)
        m, x = mk().eval(), example(shape)
        p = qfx.prepare_fx(m, tq.QConfigMapping().set_global(tq.default_qconfig), (x,))
        p(x)
        q = qfx.convert_fx(copy.deepcopy(p))
        c = {"name": name, "should_log_inputs": inputs}
        w = ns.extract_weights("a", p, "b", q)
        ns.extend_logger_results_with_comparison(w, "a", "b", compute_sqnr, "sqnr")
        c["weights"] = res_tree(w)
        pa, qa = ns.add_loggers("a", copy.deepcopy(p), "b", copy.deepcopy(q), ns.OutputLogger, should_log_inputs=inputs)
        pa(x), qa(x)
        r = ns.extract_logger_info(pa, qa, ns.OutputLogger, "b")
        ns.extend_logger_results_with_comparison(r, "a", "b", compute_sqnr, "sqnr")
        c["loggers"] = res_tree(r)
        c["graph_a"], c["graph_b"] = dump(pa), dump(qa)
        sh = ns.add_shadow_loggers("a", copy.deepcopy(p), "b", copy.deepcopy(q), ns.OutputLogger, should_log_inputs=inputs)
        sh(x)
        r = ns.extract_shadow_logger_info(sh, ns.OutputLogger, "b")
        ns.extend_logger_results_with_comparison(r, "a", "b", compute_sqnr, "sqnr")
        c["shadow"] = res_tree(r)
        c["graph_shadow"] = dump(sh)
        out.append(c)
    if hasattr(ns, "prepare_n_shadows_model"):
        from torch.ao.ns.fx.qconfig_multi_mapping import QConfigMultiMapping
        from torch.ao.quantization.backend_config import get_native_backend_config

        torch.manual_seed(0)
        m, x = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2)).eval(), torch.randn(4, 3)
        qm = QConfigMultiMapping().set_global([tq.default_qconfig, tq.default_per_channel_qconfig]).set_module_name("2", [tq.default_qconfig])
        p = ns.prepare_n_shadows_model(m, (x,), qm, get_native_backend_config())
        c = {"name": "n_shadows:linear_relu_linear", "graph": dump(p), "wrappers": {k: dump(v) for k, v in p.named_children() if k.startswith("shadow_wrapper")}}
        p(x)
        q = ns.convert_n_shadows_model(p)
        ns.loggers_set_enabled(q, True)
        q(x), q(x)
        c["results"] = res_tree(ns.extract_results_n_shadows_model(q))
        out.append(c)
    return out


def ns_eager():
    import torch.ao.ns._numeric_suite as ns

    torch.backends.quantized.engine = "qnnpack"

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.bn1, self.relu, self.conv2 = C(), nn.BatchNorm2d(3), nn.ReLU(), C()
            self.ff = torch.nn.quantized.FloatFunctional()

        def forward(self, x):
            return self.ff.add_relu(self.conv2(self.relu(self.bn1(self.conv1(x)))), x)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.conv, self.layer1 = tq.QuantStub(), C(), nn.Sequential(Block(), Block())
            self.pool, self.fc, self.dequant = nn.AdaptiveAvgPool2d(1), nn.Linear(3, 2), tq.DeQuantStub()

        def forward(self, x):
            x = torch.flatten(self.pool(self.layer1(self.conv(self.quant(x)))), 1)
            return self.dequant(self.fc(x))

    def pair(n):
        torch.manual_seed(0)
        m = Net().eval()
        for p in m.parameters():
            p.data.copy_(torch.randn_like(p))
        for b in m.layer1:
            tq.fuse_modules(b, ["conv1", "bn1", "relu"], inplace=True)
        m.qconfig = tq.default_qconfig
        x = torch.rand(n, 3, 4, 4)
        p = tq.prepare(m)
        p(x)
        return m, tq.convert(p), x

    def tree(d):
        def leaf(v):
            if isinstance(v, torch.Tensor):
                return {"shape": list(v.shape), "dtype": str(v.dtype).replace("torch.", "")}
            if isinstance(v, (list, tuple)):
                return [leaf(e) for e in v]
            return type(v).__name__

        return {k: {kk: leaf(vv) for kk, vv in v.items()} for k, v in d.items()}

    out = []
    m, q, x = pair(2)
    out.append({"name": "conv_net:compare_weights", "float_state": list(m.state_dict()), "quantized_state": list(q.state_dict()), "result": tree(ns.compare_weights(m.state_dict(), q.state_dict()))})
    m, q, x = pair(2)
    out.append({"name": "conv_net:compare_model_outputs", "result": tree(ns.compare_model_outputs(m, q, x))})
    m, q, x = pair(2)
    out.append({"name": "conv_net:compare_model_outputs(allow_list=Conv2d)", "result": tree(ns.compare_model_outputs(m, q, x, allow_list={nn.Conv2d, torch.nn.quantized.Conv2d}))})
    for n in (2, 1):
        m, q, x = pair(n)
        out.append({"name": f"conv_net:compare_model_stub(Block) batch={n}", "result": tree(ns.compare_model_stub(m, q, {Block}, x))})
    m, q, x = pair(2)
    out.append({"name": "conv_net:compare_model_stub(Conv2d,Linear,FloatFunctional)", "result": tree(ns.compare_model_stub(m, q, {nn.Conv2d, nn.Linear, torch.nn.quantized.FloatFunctional}, x))})

    class LM(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.rnn, self.decoder = nn.Embedding(10, 8), nn.LSTM(8, 6, 2), nn.Linear(6, 10)

        def forward(self, i, h):
            o, h = self.rnn(self.encoder(i), h)
            return self.decoder(o), h

    def lpair():
        torch.manual_seed(0)
        f = LM().eval()
        return f, tq.quantize_dynamic(f, {nn.LSTM, nn.Linear}, dtype=torch.qint8)

    i, h = torch.randint(10, (4, 3)), (torch.zeros(2, 3, 6), torch.zeros(2, 3, 6))
    f, q = lpair()
    w = ns.compare_weights(f.state_dict(), q.state_dict())
    out.append({"name": "lstm:compare_weights", "float_state": list(f.state_dict()), "quantized_state": list(q.state_dict()), "result": tree(w),
                "lstm_entry_float_is_weight_hh": bool(torch.equal(w["rnn._all_weight_values.0.param"]["float"], f.state_dict()["rnn.weight_hh_l0"]))})
    f, q = lpair()
    out.append({"name": "lstm:compare_model_outputs", "result": tree(ns.compare_model_outputs(f, q, i, h))})
    f, q = lpair()
    out.append({"name": "lstm:compare_model_stub", "result": tree(ns.compare_model_stub(f, q, [nn.Linear, nn.LSTM], i, h))})
    for keys, key, post in ((["ab.c.weight"], "a.bc.weight", "weight"), (["a.0.weight"], "a.weight", "weight"), (["a.weight"], "a.0.weight", "weight"), (["fc.weight"], "fc._packed_params._packed_params", "_packed_params"), (["conv1.0.stats"], "conv1.stats", "stats")):
        out.append({"name": "find_match", "candidates": keys, "key": key, "postfix": post, "result": ns._find_match(keys, key, post)})
    return out


TOPICS = {f.__name__: f for f in (observers, histogram, choose_qparams, quantize, fake_quantize, learnable, fake_quant_module, metrics, folding, quantized_ops, fx_graphs, ns_fx, ns_eager)}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", required=True)
    ap.add_argument("--only", nargs="*", choices=sorted(TOPICS))
    ap.add_argument("--suffix", default="")
    a = ap.parse_args()
    torch.set_num_threads(1)
    os.makedirs(a.out, exist_ok=True)
    version = ".".join(torch.__version__.split("+")[0].split("a")[0].split(".")[:2])
    for name in a.only or TOPICS:
        doc = {"meta": {"topic": name, "torch": version, "cpu_engine": "qnnpack", "floats": "C99 hex, exact"}, "cases": TOPICS[name]()}
        path = os.path.join(a.out, name + a.suffix + ".json")
        with open(path, "w") as f:
            # one case per line keeps the files small and diffable
            f.write('{"meta": ' + json.dumps(doc["meta"]) + ',\n "cases": [\n')
            f.write(",\n".join(json.dumps(c, separators=(",", ":")) for c in doc["cases"]))
            f.write("\n]}\n")
        print(f"{name}: {len(doc['cases'])} cases, {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    main()
