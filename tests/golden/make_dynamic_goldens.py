# SPDX-License-Identifier: MIT
"""Writes dynamic.json: dynamically quantized Linear and LSTM of PyTorch with their inputs, parameters and outputs, and
the scales and zero points that it makes of ranges.

    python3 make_dynamic_goldens.py --out DIR

Needs PyTorch and numpy, on x86-64: the engine x86 narrows the codes of activations to 0 … 127, qnnpack does not. Floats
are the C99 hexadecimal text of their exact value.
"""
import argparse
import json
import os
import warnings

import torch
import torch.nn as nn

warnings.simplefilter("ignore")
SEED = 43
PER_CHANNEL = torch.ao.quantization.per_channel_dynamic_qconfig
cases = []


def text(value):
    mantissa, exponent = float(value).hex().split("p")
    return (mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa) + "p" + exponent


def tensor(t):
    return {"shape": list(t.shape), "data": [text(v) for v in t.detach().double().flatten()]}


def draw(*shape):
    """Normal numbers in steps of 1/16: their text is short."""
    return torch.round(torch.randn(shape) * 16) / 16


def flat(outputs):
    return [outputs] if isinstance(outputs, torch.Tensor) else [t for item in outputs for t in flat(item)]


def randomized(module):
    for p in module.parameters():
        p.data = draw(*p.shape)
    return module.eval()


def ranges():
    ends = [(-1.0, 1.0), (0.0, 0.0), (0.0, 3.0), (-3.0, 0.0), (1.0, 3.5), (-3.5, -1.0), (-1.0, 2.0), (0.0, 1e-3),
            (-1e-3, 0.0), (-1e-3, 2e-3), (-1e-9, 1e-12), (1e-38, 2e-38), (-1e-45, 1e-45), (-3e38, 3e38), (0.0, 3.4e38)]
    ends += [sorted(pair) for pair in (torch.randn(60, 2) * 10.0 ** torch.randint(-6, 6, (60, 1))).tolist()]
    for low, high in ends:
        x = torch.tensor([low, high])
        for reduce_range in (False, True):
            scale, zero_point = torch._choose_qparams_per_tensor(x, reduce_range)
            cases.append({"kind": "range", "reduce_range": reduce_range, "x": [text(v) for v in x.double()],
                          "scale": text(torch.tensor(scale, dtype=torch.float32)), "zero_point": int(zero_point)})


def case(kind, engine, module, inputs, options, per_channel=False):
    torch.backends.quantized.engine = engine
    model = nn.Sequential(randomized(module))
    parameters = {k: tensor(v) for k, v in module.named_parameters()}
    spec = {type(module): PER_CHANNEL} if per_channel else {type(module)}
    quantized = torch.ao.quantization.quantize_dynamic(model, spec, dtype=torch.qint8)[0]
    cases.append({"kind": kind, "engine": engine, "reduce_range": engine == "x86", "per_channel": per_channel,
                  "options": options, "inputs": [tensor(t) for t in flat(inputs)], "parameters": parameters,
                  "outputs": [tensor(t) for t in flat(quantized(*inputs))]})


def linear(engine, shape, out, bias=True, per_channel=False, shift=0.0):
    options = {"in_features": shape[-1], "out_features": out, "bias": bias}
    case("linear", engine, nn.Linear(shape[-1], out, bias), (draw(*shape) + shift,), options, per_channel)


def lstm(engine, length, batch, size, hidden, layers=1, bidirectional=False, batch_first=False, state=False,
         per_channel=False):
    options = {"input_size": size, "hidden_size": hidden, "num_layers": layers, "bias": True,
               "batch_first": batch_first, "bidirectional": bidirectional}
    x = draw(batch, length, size) if batch_first else draw(length, batch, size)
    states = layers * (2 if bidirectional else 1)
    inputs = (x, (draw(states, batch, hidden), draw(states, batch, hidden))) if state else (x,)
    case("lstm", engine, nn.LSTM(size, hidden, layers, True, batch_first, 0.0, bidirectional), inputs, options,
         per_channel)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default=".")
    directory = parser.parse_args().out
    torch.manual_seed(SEED)
    ranges()
    for engine in ("x86", "qnnpack"):
        linear(engine, (1, 4), 3)
        linear(engine, (5, 17), 9)
        linear(engine, (7, 64), 33, bias=False)
        linear(engine, (2, 3, 20), 6, shift=4.0)
        linear(engine, (2, 3, 20), 6, shift=-4.0)
        lstm(engine, 6, 2, 5, 7)
        lstm(engine, 5, 3, 8, 6, layers=3, state=True)
        lstm(engine, 4, 1, 3, 4, bidirectional=True, batch_first=True)
        lstm(engine, 7, 2, 6, 5, layers=2, bidirectional=True, state=True)
    linear("x86", (6, 19), 11, per_channel=True)
    lstm("x86", 5, 2, 4, 6, layers=2, bidirectional=True, per_channel=True)
    meta = {"topic": "dynamic", "torch": torch.__version__.split("+")[0], "seed": SEED, "floats": "C99 hex, exact"}
    with open(os.path.join(directory, "dynamic.json"), "w") as file:
        json.dump({"meta": meta, "cases": cases}, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
