# SPDX-License-Identifier: MIT
"""PyTorch's numeric suites on the tutorial's two models: schemas and metrics, for ns_tutorial.json.

The models are a quantizable residual network (BasicBlock with FloatFunctional.add_relu and a downsample) and Embedding,
an LSTM of two layers with dropout, Linear. Weights and inputs are a formula, fill(), that the test repeats. Activations
have all 256 codes, so that those of intq are the same numbers less 128.

    make_numeric_suite_goldens.py --out DIR
"""
import argparse
import copy
import json
import os
import warnings

import torch
import torch.ao.ns._numeric_suite as ns
import torch.ao.ns._numeric_suite_fx as nsx
import torch.ao.quantization as tq
import torch.ao.quantization.quantize_fx as qfx
from torch import nn
from torch.ao.ns.fx.qconfig_multi_mapping import QConfigMultiMapping
from torch.ao.ns.fx.utils import compute_cosine_similarity, compute_normalized_l2_error, compute_sqnr
from torch.ao.quantization.backend_config import get_qnnpack_backend_config

warnings.filterwarnings("ignore")
torch.backends.quantized.engine = "qnnpack"

OBSERVER = tq.MinMaxObserver.with_args(dtype=torch.quint8, qscheme=torch.per_tensor_affine)
STATIC = tq.QConfig(activation=OBSERVER, weight=tq.default_weight_observer)


def fill(name, shape, limit):
    seed = 0
    for c in name:
        seed = (seed * 31 + ord(c)) % 1000003
    count = 1
    for n in shape:
        count *= n
    values = []
    for _ in range(count):
        seed = (seed * 48271) % 2147483647
        values.append((seed % 2001 - 1000) / 1000 * limit)
    return torch.tensor(values, dtype=torch.float64).to(torch.float32).reshape(shape)


def filled(model):
    for name, p in model.named_parameters():
        limit = 0.5 if p.dim() > 1 else 0.25
        norm = "bn" in name or "downsample.1" in name
        p.data = fill(name, list(p.shape), limit) + (1.0 if norm and name.endswith("weight") else 0.0)
    for name, b in model.named_buffers():
        if name.endswith("running_mean"):
            b.copy_(fill(name, list(b.shape), 0.25))
        if name.endswith("running_var"):
            b.copy_(fill(name, list(b.shape), 0.25) + 1.0)
    return model.eval()


class BasicBlock(nn.Module):
    def __init__(self, inplanes, planes, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = None
        if stride != 1:
            self.downsample = nn.Sequential(nn.Conv2d(inplanes, planes, 1, stride, bias=False), nn.BatchNorm2d(planes))
        self.add_relu = torch.ao.nn.quantized.FloatFunctional()

    def forward(self, x):
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        identity = x if self.downsample is None else self.downsample(x)
        return self.add_relu.add_relu(out, identity)


class ResNet(nn.Module):
    def __init__(self, stubs=True):
        super().__init__()
        if stubs:
            self.quant = tq.QuantStub()
        self.conv1 = nn.Conv2d(3, 4, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(2)
        self.layer1 = nn.Sequential(BasicBlock(4, 4), BasicBlock(4, 6, 2))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(6, 3)
        if stubs:
            self.dequant = tq.DeQuantStub()
        self.stubs = stubs

    def forward(self, x):
        x = self.quant(x) if self.stubs else x
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.fc(torch.flatten(self.avgpool(self.layer1(x)), 1))
        return self.dequant(x) if self.stubs else x


class LSTMModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.encoder = nn.Embedding(10, 8)
        self.rnn = nn.LSTM(8, 6, 2, dropout=0.5)
        self.decoder = nn.Linear(6, 10)

    def forward(self, input, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(input)), hidden)
        return self.decoder(self.drop(output)), hidden


IMAGES = [fill(f"images{i}", [2, 3, 8, 8], 1.0) for i in range(2)]
IDS = torch.tensor([i * 7 % 10 for i in range(12)]).reshape(4, 3)
HIDDEN = (fill("h", [2, 3, 6], 0.5), fill("c", [2, 3, 6], 0.5))


def tree(v):
    if isinstance(v, torch.Tensor):
        return {"shape": list(v.shape), "dtype": str(v.dtype).replace("torch.", "")}
    if isinstance(v, (list, tuple)):
        return [tree(e) for e in v]
    if isinstance(v, dict):
        return {k: tree(e) for k, e in v.items()}
    return str(v)


def hexes(v):
    """A metric, or a list of metrics, as hexadecimal text."""
    if v is None:
        return None
    return [hexes(e) for e in v] if isinstance(v, (list, tuple)) else float(v).hex()


def sqnr(x, y):
    return hexes(compute_sqnr(x, y))


def static_pair():
    model = filled(ResNet())
    tq.fuse_modules(model, ["conv1", "bn1", "relu"], inplace=True)
    for block in model.layer1:
        tq.fuse_modules(block, [["conv1", "bn1", "relu"], ["conv2", "bn2"]], inplace=True)
        if block.downsample is not None:
            tq.fuse_modules(block.downsample, ["0", "1"], inplace=True)
    model.qconfig = STATIC
    prepared = tq.prepare(model)
    for x in IMAGES:
        prepared(x)
    return model, tq.convert(prepared)


def dynamic_pair():
    model = filled(LSTMModel())
    return model, tq.quantize_dynamic(model, {nn.LSTM, nn.Linear}, dtype=torch.qint8)


def eager_cases():
    def case(name, result):
        first = lambda v: v[0] if isinstance(v, list) else v
        numbers = {k: sqnr(first(e["float"]), first(e["quantized"])) for k, e in result.items()}
        return {"name": name, "result": tree(result), "sqnr": numbers}

    weights = lambda p: ns.compare_weights(p[0].state_dict(), p[1].state_dict())
    cases = [case("resnet:compare_weights", weights(static_pair()))]
    cases.append(case("resnet:compare_model_outputs", ns.compare_model_outputs(*static_pair(), IMAGES[0])))
    cases.append(case("resnet:compare_model_stub(BasicBlock)", ns.compare_model_stub(*static_pair(), {BasicBlock}, IMAGES[0])))
    swap = {nn.intrinsic.ConvReLU2d, nn.Linear, torch.ao.nn.quantized.FloatFunctional}
    cases.append(case("resnet:compare_model_stub(ConvReLU2d,Linear,FloatFunctional)", ns.compare_model_stub(*static_pair(), swap, IMAGES[0])))
    cases.append(case("lstm:compare_weights", weights(dynamic_pair())))
    cases.append(case("lstm:compare_model_outputs", ns.compare_model_outputs(*dynamic_pair(), IDS, HIDDEN)))
    cases.append(case("lstm:compare_model_stub(Linear,LSTM)", ns.compare_model_stub(*dynamic_pair(), {nn.Linear, nn.LSTM}, IDS, HIDDEN)))
    return cases


def results(r, a, b):
    for name, fn in (("sqnr", compute_sqnr), ("l2", compute_normalized_l2_error), ("cosine", compute_cosine_similarity)):
        nsx.extend_logger_results_with_comparison(r, a, b, fn, name)

    def entry(e):
        d = {k: v for k, v in e.items() if k not in ("values", "qconfig_str", "comparisons")}
        d["values"] = [tree(v) for v in e["values"]]
        for k in ("sqnr", "l2", "cosine"):
            if k in d:
                d[k] = hexes(d[k])
        for k in ("prev_node_target_type", "ref_node_target_type"):
            d[k] = d[k].rsplit(".", 1)[-1]
        return d

    return {layer: {t: {m: [entry(e) for e in entries] for m, entries in ms.items()} for t, ms in kinds.items()} for layer, kinds in r.items()}


def fx_case(name, prepared, converted, data, runs, inputs):
    a, b = lambda: copy.deepcopy(prepared), lambda: copy.deepcopy(converted)
    case = {"name": name, "weights": results(nsx.extract_weights("a", a(), "b", b()), "a", "b")}
    pa, pb = nsx.add_loggers("a", a(), "b", b(), nsx.OutputLogger, should_log_inputs=inputs)
    for k in range(runs):
        pa(*data[k]), pb(*data[k])
    case["loggers"] = results(nsx.extract_logger_info(pa, pb, nsx.OutputLogger, "b"), "a", "b")
    shadow = nsx.add_shadow_loggers("a", a(), "b", b(), nsx.OutputLogger, should_log_inputs=inputs)
    for k in range(runs):
        shadow(*data[k])
    case["shadow"] = results(nsx.extract_shadow_logger_info(shadow, nsx.OutputLogger, "b"), "a", "b")
    return case


def fx_cases():
    images = [(x,) for x in IMAGES]
    prepared = qfx.prepare_fx(filled(ResNet(stubs=False)), tq.QConfigMapping().set_global(STATIC), images[0])
    for x in images:
        prepared(*x)
    cases = [fx_case("resnet", prepared, qfx.convert_fx(copy.deepcopy(prepared)), images, 2, True)]

    dynamic = tq.QConfigMapping().set_object_type(nn.LSTM, tq.default_dynamic_qconfig).set_object_type(nn.Linear, tq.default_dynamic_qconfig)
    tokens = [(IDS, HIDDEN)]
    model = filled(LSTMModel())
    prepared = qfx.prepare_fx(copy.deepcopy(model), dynamic, tokens[0])
    prepared(*tokens[0])
    cases.append(fx_case("lstm", prepared, qfx.convert_fx(copy.deepcopy(prepared)), tokens, 1, False))
    return cases


def n_shadows_case():
    per_channel = tq.QConfig(activation=OBSERVER, weight=tq.default_per_channel_weight_observer)
    mapping = QConfigMultiMapping().set_global([STATIC, per_channel]).set_object_type(nn.Linear, [None, STATIC])
    model = filled(ResNet(stubs=False))
    p = nsx.prepare_n_shadows_model(model, (IMAGES[0],), mapping, get_qnnpack_backend_config())
    for x in IMAGES:
        p(x)
    q = nsx.convert_n_shadows_model(p)
    nsx.loggers_set_enabled(q, True)
    for x in IMAGES:
        q(x)
    found = nsx.extract_results_n_shadows_model(q)
    rows = {}
    for subgraph, entries in found["model"]["node_output"].items():
        e = entries[0]
        d = {k: v for k, v in e.items() if k not in ("values", "qconfig_str")}
        d["values"] = tree(e["values"])
        d["comparisons"] = hexes(e["comparisons"])
        for k in ("prev_node_target_type", "ref_node_target_type"):
            d[k] = d[k].rsplit(".", 1)[-1]
        rows[subgraph] = d
    return {"name": "n_shadows:resnet", "results": rows}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    out = parser.parse_args().out
    cases = {"torch": torch.__version__, "eager": eager_cases(), "fx": fx_cases(), "n_shadows": n_shadows_case()}
    with open(os.path.join(out, "ns_tutorial.json"), "w") as file:
        json.dump(cases, file, separators=(",", ":"))
        file.write("\n")


main()
