#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/golden/training.json: losses, optimizers, schedules and the gradients of a small network by PyTorch.

    python tests/golden/make_training_goldens.py tests/golden/training.json

Weights and inputs are float32 numbers; PyTorch computes on them in float64. Floats are C99 hexadecimal text.
"""
import json
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(8)


def numbers(tensor):
    return [float(x).hex() for x in tensor.detach().double().flatten()]


def random(*shape):
    return torch.randn(*shape).float().double()


def tensor(t):
    return {"shape": list(t.shape), "data": numbers(t)}


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.depthwise = nn.Conv2d(4, 4, 3, stride=2, padding=1, groups=4, bias=False)
        self.skip = nn.Conv2d(4, 4, 1, stride=2)
        self.grouped = nn.Conv2d(8, 6, 2, groups=2, dilation=2)
        self.hidden = nn.Linear(6, 5)
        self.norm1 = nn.BatchNorm1d(5)
        self.last = nn.Linear(5, 3)

    def forward(self, x):
        y = F.relu(self.norm(self.first(x)))
        a = F.relu6(self.depthwise(y)) + self.skip(y)
        b = F.max_pool2d(y, 2)
        z = F.avg_pool2d(torch.cat([a, b], 1), 3, stride=1, padding=1)
        z = F.adaptive_avg_pool2d(self.grouped(z), (1, 1))
        z = self.norm1(self.hidden(torch.flatten(z, 1)))
        return torch.softmax(self.last(z), 1)


def network():
    model = Network()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5)
    model = model.double()
    x = random(4, 2, 8, 8).requires_grad_()
    y = model(x)
    dy = random(4, 3)
    y.backward(dy)
    return {
        "x": tensor(x), "y": tensor(y), "dy": tensor(dy), "dx": tensor(x.grad),
        "parameters": {name: tensor(p) for name, p in model.named_parameters()},
        "gradients": {name: tensor(p.grad) for name, p in model.named_parameters()},
        "running": {name: tensor(b) for name, b in model.named_buffers() if b.dtype != torch.int64},
    }


def losses():
    logits, labels = (random(5, 4) * 2).requires_grad_(), torch.tensor([3, 0, 1, 1, 2])
    target, teacher = random(5, 4), random(5, 4) * 4
    rows = []
    for name, f in (
            ("cross_entropy", lambda: F.cross_entropy(logits, labels)),
            ("cross_entropy_smoothed", lambda: F.cross_entropy(logits, labels, label_smoothing=0.1)),
            ("mse", lambda: F.mse_loss(logits, target)),
            ("distillation", lambda: 4 * F.kl_div(F.log_softmax(logits / 2, 1), F.softmax(teacher / 2, 1),
                                                  reduction="batchmean"))):
        logits.grad = None
        value = f()
        value.backward()
        rows.append({"name": name, "value": float(value.detach()).hex(), "gradient": numbers(logits.grad)})
    return {"logits": tensor(logits), "labels": labels.tolist(), "target": tensor(target), "teacher": tensor(teacher),
            "rows": rows}


def optimizers():
    start = [random(3, 2), random(4)]
    gradients = [[random(3, 2), random(4)] for _ in range(6)]
    rates = [0.1, 0.1, 0.05, 0.05, 0.02, 0.02]
    rows = []
    for name, make in (
            ("sgd", lambda p: torch.optim.SGD(p, lr=1)),
            ("sgd_momentum", lambda p: torch.optim.SGD(p, lr=1, momentum=0.9, weight_decay=0.01)),
            ("sgd_dampening", lambda p: torch.optim.SGD(p, lr=1, momentum=0.8, dampening=0.3)),
            ("sgd_nesterov", lambda p: torch.optim.SGD(p, lr=1, momentum=0.9, nesterov=True, weight_decay=0.1)),
            ("adam", lambda p: torch.optim.Adam(p, lr=1)),
            ("adam_decay", lambda p: torch.optim.Adam(p, lr=1, betas=(0.8, 0.99), eps=1e-4, weight_decay=0.1)),
            ("adamw", lambda p: torch.optim.AdamW(p, lr=1, weight_decay=0.1))):
        parameters = [nn.Parameter(p.clone()) for p in start]
        optimizer = make(parameters)
        steps = []
        for rate, step in zip(rates, gradients):
            for group in optimizer.param_groups:
                group["lr"] = rate
            for parameter, gradient in zip(parameters, step):
                parameter.grad = gradient.clone()
            optimizer.step()
            steps.append([numbers(p) for p in parameters])
        rows.append({"name": name, "steps": steps})
    return {"start": [tensor(p) for p in start], "gradients": [[numbers(g) for g in step] for step in gradients],
            "rates": [float(r).hex() for r in rates], "rows": rows}


def schedules():
    def rates(make, count):
        optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.4)
        schedule = make(optimizer)
        result = []
        for _ in range(count):
            result.append(float(optimizer.param_groups[0]["lr"]).hex())
            optimizer.step()
            schedule.step()
        return result

    return {"step": rates(lambda o: torch.optim.lr_scheduler.StepLR(o, 4, 0.3), 14),
            "cosine": rates(lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 10, 0.05), 11)}


def main():
    cases = {"network": network(), "losses": losses(), "optimizers": optimizers(), "schedules": schedules()}
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump({"meta": {"topic": "training", "torch": torch.__version__, "floats": "C99 hex"}, "cases": cases}, file,
                  separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
