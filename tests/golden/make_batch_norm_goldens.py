#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/golden/batch_norm_qat.json: training of five networks with batch norms in every position by PyTorch.

    python tests/golden/make_batch_norm_goldens.py tests/golden/batch_norm_qat.json

Quantizers stand where prepare_qat_fx puts them. What computes between them is, by mode,

    with_bn_reverse_fold  PyTorch's QAT modules: ConvBn2d, ConvBnReLU2d, Conv2d, BatchNorm2d, BNReLU2d
    with_bn               a composition: batch_norm(conv(x, fake_quantize(w), b)), and the batch norms as they are
    fuse_bn               layers that hold the batch norm: of a convolution its own weight, of others a depthwise one

Two passes with other inputs; the numbers are those of the second, the statistics those behind it. A network whose
roundings, relus or maxima lie near a tie is drawn again, so that no rounding of float32 decides.
"""
import copy
import json
import sys
import warnings

import torch
import torch.ao.nn.intrinsic.qat as nniqat
import torch.ao.quantization as tq
import torch.nn.functional as F
from torch import nn
from torch.ao.quantization.backend_config import DTypeConfig, get_native_backend_config
from torch.ao.quantization.quantize_fx import fuse_fx, prepare_qat_fx
from torch.nn.utils.fusion import fuse_conv_bn_eval

warnings.filterwarnings("ignore")
CODES = {"quant_min": -127, "quant_max": 127, "dtype": torch.qint8}


class FakeQuantize(tq.FakeQuantize):
    """With the distance of its inputs from the nearest tie, in steps."""
    nearest = 1.0

    def forward(self, x):
        y = super().forward(x)
        shape = [1] * x.dim()
        shape[max(self.ch_axis, 0)] = -1
        steps = (x.detach().double() / self.scale.double().reshape(shape)).abs()
        tie = (steps - steps.floor() - 0.5).abs().min()
        FakeQuantize.nearest = min(FakeQuantize.nearest, float(tie))
        return y


ACTIVATION = FakeQuantize.with_args(observer=tq.MovingAverageMinMaxObserver, qscheme=torch.per_tensor_symmetric, **CODES)
WEIGHT = FakeQuantize.with_args(observer=tq.MovingAveragePerChannelMinMaxObserver, averaging_constant=1.0, ch_axis=0,
                                qscheme=torch.per_channel_symmetric, **CODES)


def conv(i, o, k=3, bias=True):
    return nn.Conv2d(i, o, k, padding=k // 2, bias=bias)


class Front(nn.Module):
    """In front of a convolution, with and without a relu between them; and behind two convolutions."""

    def __init__(self):
        super().__init__()
        self.norm, self.conv, self.bn = nn.BatchNorm2d(3), conv(3, 4), nn.BatchNorm2d(4)
        self.norm2, self.conv2, self.bn2 = nn.BatchNorm2d(4), conv(4, 3, 1, False), nn.BatchNorm2d(3)

    def forward(self, x):
        y = F.relu(self.bn(self.conv(self.norm(x))))
        return self.bn2(self.conv2(F.relu(self.norm2(y))))


class Pools(nn.Module):
    """Behind a max pool, behind an average and behind a relu."""

    def __init__(self):
        super().__init__()
        self.conv, self.bn = conv(2, 4, 3, False), nn.BatchNorm2d(4)
        self.norm, self.conv2, self.norm2 = nn.BatchNorm2d(4), conv(4, 4), nn.BatchNorm2d(4)
        self.norm3, self.conv3 = nn.BatchNorm2d(4), conv(4, 3, 1)

    def forward(self, x):
        y = self.norm(F.max_pool2d(F.relu(self.bn(self.conv(x))), 2))
        y = F.relu(self.norm2(F.relu(self.conv2(y))))
        return self.conv3(self.norm3(F.avg_pool2d(y, 2)))


class Adds(nn.Module):
    """Behind a sum, with and without a relu behind it; its output read twice."""

    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.norm = conv(3, 3), nn.BatchNorm2d(3), nn.BatchNorm2d(3)
        self.conv2, self.norm2, self.last = conv(3, 3, 1), nn.BatchNorm2d(3), conv(3, 2)

    def forward(self, x):
        y = F.relu(self.norm(self.bn(self.conv(x)) + x))
        return self.last(self.norm2(self.conv2(y) + y))


class Cats(nn.Module):
    """Behind a concatenation, as in DenseNet, and as one of its parts."""

    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.part = conv(3, 3, 3, False), nn.BatchNorm2d(3), nn.BatchNorm2d(3)
        self.norm, self.conv2, self.norm2 = nn.BatchNorm2d(6), conv(6, 2, 1, False), nn.BatchNorm2d(8)
        self.last = conv(8, 2, 1)

    def forward(self, x):
        y = torch.cat([self.bn(self.conv(x)), self.part(x)], 1)
        z = torch.cat([y, self.conv2(F.relu(self.norm(y)))], 1)
        return self.last(self.norm2(z))


class Twice(nn.Module):
    """Called twice: in front of a convolution, and behind a sum."""

    def __init__(self):
        super().__init__()
        self.norm, self.stem, self.bn = nn.BatchNorm2d(3), conv(3, 3, 1), nn.BatchNorm2d(3)
        self.conv, self.last = conv(3, 3), conv(3, 2, 1)

    def forward(self, x):
        y = F.relu(self.bn(self.stem(self.norm(x))))
        return self.last(self.norm(self.conv(y) + y))


class ConvBn(nn.Module):
    """with_bn: the batch norm behind the rounded weight."""

    def __init__(self, qat):
        super().__init__()
        self.weight, self.bias, self.bn = qat.weight, qat.bias, qat.bn
        self.weight_fake_quant, self.padding = qat.weight_fake_quant, qat.padding
        self.relu = isinstance(qat, nniqat.ConvBnReLU2d)

    def forward(self, x):
        y = self.bn(F.conv2d(x, self.weight_fake_quant(self.weight), self.bias, padding=self.padding))
        return F.relu(y) if self.relu else y


def depthwise(norm):
    layer = nn.Conv2d(norm.num_features, norm.num_features, 1, groups=norm.num_features, bias=False)
    nn.init.ones_(layer.weight)
    return fuse_conv_bn_eval(layer.eval(), norm)


def set_module(model, name, module):
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, module)


def prepared(model, mode, x):
    model = copy.deepcopy(model)
    if mode == "fuse_bn":
        model = fuse_fx(model.eval())
        for name, module in list(model.named_modules()):
            if type(module) is nn.BatchNorm2d and not name.endswith(".0"):
                set_module(model, name, depthwise(module))
            elif type(module).__name__ == "BNReLU2d":
                set_module(model, name, nn.Sequential(depthwise(module[0]), nn.ReLU()))
        model.requires_grad_()  # a bias that folding made has none
    config = get_native_backend_config()
    for row in config.configs:
        row.set_dtype_configs([DTypeConfig(input_dtype=torch.qint8, output_dtype=torch.qint8,
                                           weight_dtype=torch.qint8, bias_dtype=torch.float)])
    mapping = tq.QConfigMapping().set_global(tq.QConfig(activation=ACTIVATION, weight=WEIGHT))
    model = prepare_qat_fx(model.train(), mapping, (x,), backend_config=config)
    if mode == "with_bn":
        for name, module in list(model.named_modules()):
            if isinstance(module, (nniqat.ConvBn2d, nniqat.ConvBnReLU2d)):
                set_module(model, name, ConvBn(module))
    return model


def own_name(name, is_alone, mode):
    """The name that intq gives to a parameter or buffer of the prepared model."""
    layer, _, tensor = name.rpartition(".")
    layer = layer.removesuffix(".0")
    return f"{layer}.bn.{tensor}" if layer in is_alone and mode != "fuse_bn" else f"{layer}.{tensor}"


def numbers(t):
    return [float(x).hex() for x in t.detach().flatten()]


def tensor(t):
    return {"shape": list(t.shape), "data": numbers(t)}


def watch_float_ties(model, found):
    """Distances of what a relu or a maximum decides on, in units of the largest value."""
    def near(values):
        values = values.detach().abs()
        positive = values[values > 0]
        if positive.numel():
            found.append(float(positive.min() / values.max()))

    for module in model.modules():
        if isinstance(module, (nniqat.ConvBnReLU2d, ConvBn)) or type(module).__name__ in ("ConvReLU2d", "BNReLU2d"):
            module.register_forward_hook(lambda m, i, y: near(y))


def case(make, mode, seed):
    torch.manual_seed(seed)
    model = make()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5)
            if name.endswith("weight") and parameter.dim() == 1:  # no factor near 0
                parameter.copy_(parameter.sign() * (parameter.abs() + 0.3))
        for name, buffer in model.named_buffers():
            if name.endswith("running_mean"):
                buffer.copy_(torch.randn_like(buffer) * 0.3)
            if name.endswith("running_var"):
                buffer.copy_(torch.rand_like(buffer) + 0.5)
    channels = next(m.in_channels if isinstance(m, nn.Conv2d) else m.num_features for m in model.modules()
                    if isinstance(m, (nn.Conv2d, nn.BatchNorm2d)))
    inputs = [torch.randn(3, channels, 4, 4) * scale for scale in (1.0, 1.3)]
    result = {"name": make.__name__, "mode": mode, "seed": seed, "inputs": [tensor(x) for x in inputs],
              "state": {n: tensor(t) for n, t in model.state_dict().items() if t.dtype == torch.float}}
    qat = prepared(model, mode, inputs[0])
    is_alone = {name for name, module in qat.named_modules()
                if type(module).__name__ in ("BatchNorm2d", "BNReLU2d") and name.count(".") == 0}
    FakeQuantize.nearest, ties = 1.0, []
    watch_float_ties(qat, ties)
    for x in inputs:
        qat.zero_grad()
        x.requires_grad_()
        y = qat(x)
        dy = torch.randn(y.shape)
        y.backward(dy)
    result |= {"y": tensor(y), "dy": tensor(dy), "dx": tensor(inputs[-1].grad), "alone": sorted(is_alone)}
    result["gradients"] = {own_name(n, is_alone, mode): tensor(p.grad) for n, p in qat.named_parameters()}
    result["running"] = {own_name(n, is_alone, mode): tensor(b) for n, b in qat.named_buffers()
                         if n.endswith(("running_mean", "running_var"))}
    return result, FakeQuantize.nearest > 1e-4 and min(ties, default=1.0) > 1e-5


def main():
    cases = []
    for make in (Front, Pools, Adds, Cats, Twice):
        for mode in ("with_bn", "with_bn_reverse_fold", "fuse_bn"):
            for seed in range(1, 200):
                result, is_clear = case(make, mode, seed)
                if is_clear:
                    break
            assert is_clear
            print(make.__name__, mode, "seed", seed, "alone", result["alone"])
            cases.append(result)
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump({"meta": {"topic": "batch_norm_qat", "torch": torch.__version__, "floats": "C99 hex"},
                   "cases": cases}, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
