#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains the float model that the demo and the examples start from.

    pip install torch scikit-learn onnx onnxruntime
    python examples/digits/train_digits.py [--out FOLDER]

A residual network with batch norm on 8x8 handwritten digits (UCI, through scikit-learn).  Written
to FOLDER (default: data, beside this file): the network as ONNX with its BatchNormalization nodes
kept, training, calibration and test images with labels, PyTorch's logits of the test images, and a README.md
with the numbers of this run.

The split and the recipe are fixed: the weights of the last epoch are taken, and the test images
are looked at once, after training.
"""
import argparse
import math
import platform
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import sklearn
import torch
from onnx import TensorProto, helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional as F

SEED = 20240611
TEST_SIZE = 580
CALIBRATION_SIZE = 200
EPOCHS = 90
BATCH = 64
PEAK_LEARNING_RATE = 4e-3
WEIGHT_DECAY = 2e-2
LABEL_SMOOTHING = 0.05
BACKGROUND = -1.0  # an empty pixel after normalise()


# ---- data -----------------------------------------------------------------------------------


def normalise(pixels):
    """x = pixel / 8 - 1: {0, ..., 16} -> [-1, 1].  Exact in float32, symmetric around 0."""
    return (pixels / 8.0 - 1.0).astype(np.float32).reshape(-1, 1, 8, 8)


def load_split():
    """{name: (images, labels)} for train, calibration and test; disjoint, stratified by digit."""
    digits = load_digits()
    images, labels = normalise(digits.images), digits.target.astype(np.int64)
    rest, test = train_test_split(
        np.arange(len(labels)), test_size=TEST_SIZE, stratify=labels, random_state=SEED)
    train, calibration = train_test_split(
        rest, test_size=CALIBRATION_SIZE, stratify=labels[rest], random_state=SEED)
    parts = {"train": train, "calibration": calibration, "test": test}
    assert sorted(np.concatenate(list(parts.values()))) == list(range(len(labels)))
    return {name: (images[index], labels[index]) for name, index in parts.items()}


def augment(x, generator):
    """Rotation up to 10 degrees, scale 0.9 .. 1.1, shift up to 0.7 pixel; each image its own."""
    def uniform(bound):
        return (torch.rand(len(x), generator=generator) * 2 - 1) * bound

    angle, scale = uniform(math.radians(10)), 1 + uniform(0.1)
    shift_x, shift_y = uniform(0.7 * 2 / 8), uniform(0.7 * 2 / 8)
    cos, sin = torch.cos(angle) * scale, torch.sin(angle) * scale
    rows = torch.stack([cos, -sin, shift_x, sin, cos, shift_y], dim=1).reshape(-1, 2, 3)
    grid = F.affine_grid(rows, list(x.shape), align_corners=False)
    # grid_sample pads with 0, so the background is moved to 0 and back
    return F.grid_sample(x - BACKGROUND, grid, align_corners=False) + BACKGROUND


# ---- model ----------------------------------------------------------------------------------


class ConvBnRelu(nn.Module):
    def __init__(self, inputs, outputs, kernel, groups=1):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, groups=groups, bias=False)
        self.bn = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.relu(self.bn(self.conv(x)))


class Downsample(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
        self.bn = nn.BatchNorm2d(outputs)

    def forward(self, x):
        return self.bn(self.conv(x))


class ResidualBlock(nn.Module):
    """y = relu(bn2(conv2(relu1(bn1(conv1(x))))) + shortcut(x)); no downsample: the identity."""

    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = Downsample(inputs, outputs, stride) if stride != 1 else None
        self.relu2 = nn.ReLU()

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        y = self.bn2(self.conv2(self.relu1(self.bn1(self.conv1(x)))))
        return self.relu2(y + shortcut)


class DigitsResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = ConvBnRelu(1, 16, 3)                      # 16 x 8 x 8
        self.block1 = ResidualBlock(16, 16)                   # 16 x 8 x 8
        self.block2 = ResidualBlock(16, 32, stride=2)         # 32 x 4 x 4
        self.block3 = ResidualBlock(32, 32)                   # 32 x 4 x 4
        self.depthwise = ConvBnRelu(32, 32, 3, groups=32)     # 32 x 4 x 4
        self.pointwise = ConvBnRelu(32, 64, 1)                # 64 x 4 x 4
        self.maxpool = nn.MaxPool2d(2)                        # 64 x 2 x 2
        self.avgpool = nn.AdaptiveAvgPool2d(1)                # 64 x 1 x 1
        self.flatten = nn.Flatten()
        self.fc = nn.Linear(64, 10)

    def forward(self, x):
        x = self.block3(self.block2(self.block1(self.stem(x))))
        x = self.maxpool(self.pointwise(self.depthwise(x)))
        return self.fc(self.flatten(self.avgpool(x)))


def train(model, images, labels):
    generator = torch.Generator().manual_seed(SEED)
    # weight decay reaches the batch-norm gammas too: moderate gammas quantize better
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK_LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    steps = len(images) // BATCH
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, PEAK_LEARNING_RATE, epochs=EPOCHS, steps_per_epoch=steps)
    for epoch in range(EPOCHS):
        model.train()
        order = torch.randperm(len(images), generator=generator)[: steps * BATCH]
        total = 0.0
        for index in order.split(BATCH):
            logits = model(augment(images[index], generator))
            loss = F.cross_entropy(logits, labels[index], label_smoothing=LABEL_SMOOTHING)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1:3d}  mean training loss {total / steps:.4f}", flush=True)
    return model.eval()


def evaluate(model, images, labels):
    """The logits, and how many images are right."""
    with torch.no_grad():
        logits = model(torch.from_numpy(images)).numpy()
    return logits, int((logits.argmax(axis=1) == labels).sum())


# ---- export ---------------------------------------------------------------------------------


class OnnxWriter:
    """ONNX nodes from modules, one for one: torch's own exporters fold batch norm in eval mode.

    A node is named after its module (stem.conv -> /stem/conv), an initializer after its key in
    the state_dict (stem.conv.weight).
    """

    def __init__(self, model):
        self.names = {module: name for name, module in model.named_modules()}
        self.nodes, self.initializers = [], []

    def emit(self, kind, name, inputs, **attributes):
        path = "/" + name.replace(".", "/")
        output = path + "/output"
        self.nodes.append(helper.make_node(kind, inputs, [output], name=path, **attributes))
        return output

    def store(self, name, tensor):
        values = np.ascontiguousarray(tensor.detach().numpy(), dtype="<f4")
        self.initializers.append(
            helper.make_tensor(name, TensorProto.FLOAT, values.shape, values.tobytes(), raw=True))
        return name

    def leaf(self, module, x):
        name = self.names[module]

        def parameters(*keys):
            return [x] + [self.store(f"{name}.{key}", getattr(module, key)) for key in keys]

        if isinstance(module, nn.Conv2d):
            assert module.bias is None
            return self.emit(
                "Conv", name, parameters("weight"), kernel_shape=list(module.kernel_size),
                strides=list(module.stride), pads=list(module.padding) * 2,
                dilations=list(module.dilation), group=module.groups)
        if isinstance(module, nn.BatchNorm2d):
            inputs = parameters("weight", "bias", "running_mean", "running_var")
            return self.emit("BatchNormalization", name, inputs, epsilon=module.eps)
        if isinstance(module, nn.MaxPool2d):
            side = [module.kernel_size] * 2
            return self.emit("MaxPool", name, [x], kernel_shape=side, strides=side)
        if isinstance(module, nn.Linear):
            return self.emit("Gemm", name, parameters("weight", "bias"), transB=1)
        plain = {nn.ReLU: "Relu", nn.AdaptiveAvgPool2d: "GlobalAveragePool", nn.Flatten: "Flatten"}
        return self.emit(plain[type(module)], name, [x])

    def chain(self, modules, x):
        for module in modules:
            if isinstance(module, ResidualBlock):
                x = self.block(module, x)
            elif list(module.children()):
                x = self.chain(module.children(), x)
            else:
                x = self.leaf(module, x)
        return x

    def block(self, b, x):
        y = self.chain([b.conv1, b.bn1, b.relu1, b.conv2, b.bn2], x)
        shortcut = x if b.downsample is None else self.chain([b.downsample], x)
        return self.leaf(b.relu2, self.emit("Add", self.names[b] + ".add", [y, shortcut]))


def export_onnx(model, path):
    writer = OnnxWriter(model)
    last = writer.chain(model.children(), "input")
    writer.nodes[-1].output[0] = "logits"
    assert last == "/fc/output"
    graph = helper.make_graph(
        writer.nodes, "digits_resnet",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["N", 1, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 10])],
        writer.initializers)
    proto = helper.make_model(
        graph, producer_name="train_digits.py", ir_version=8,
        opset_imports=[helper.make_opsetid("", 17)])
    onnx.checker.check_model(proto, full_check=True)
    path.write_bytes(proto.SerializeToString(deterministic=True))
    return proto


def check_export(path, images, logits):
    """The largest |onnxruntime - torch| over all test logits; the export is wrong above 1e-5."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    error = float(np.abs(session.run(None, {"input": images})[0] - logits).max())
    assert error < 1e-5, f"onnxruntime and torch differ by {error}"
    return error


# ---- README ---------------------------------------------------------------------------------

README = """# Handwritten digits: a float network and its data

Made by `python examples/digits/train_digits.py` with seed {seed}, torch {torch},
numpy {numpy}, scikit-learn {sklearn}, onnx {onnx}, onnxruntime {ort}, Python {python} on {machine}.
One machine gives the same files again; another CPU or torch may train slightly different weights.

| file | content |
| --- | --- |
| `digits_resnet.onnx` | the network: {parameters} parameters, {bn} BatchNormalization nodes (kept, not folded), opset 17, IR 8; `input` float32 (N, 1, 8, 8) -> `logits` float32 (N, 10) |
| `train_pixels.npy`, `train_labels.npy` | uint8 ({train}, 1, 8, 8), pixels 0 .. 16 before normalisation, and int64 ({train}); what the network was trained on, for examples/train_digits |
| `calibration_images.npy`, `calibration_labels.npy` | float32 ({calibration}, 1, 8, 8) and int64 ({calibration}); not used in training |
| `test_images.npy`, `test_labels.npy` | float32 ({test}, 1, 8, 8) and int64 ({test}); used in neither training nor any choice |
| `test_logits.npy` | float32 ({test}, 10): PyTorch's logits of the test images, eval mode |

**Normalisation.** `x = pixel / 8 - 1`, so pixels 0 .. 16 become -1 .. 1, exactly. The images in the
files are already normalised, in NCHW order.

**Split.** The 1,797 images, shuffled and stratified by digit: {train} for training, {calibration} for
calibration, {test} for the test. The split is by image, not by writer.

**Float accuracy.** Test images: {test_right} of {test} right = {test_percent:.2f} %; calibration
images: {calibration_right} of {calibration} = {calibration_percent:.2f} %; training images, not augmented:
{train_right} of {train} = {train_percent:.2f} %. onnxruntime and PyTorch agree on every test logit
within 1e-5 (largest difference {error:.1e}).

**Recipe.** AdamW, one-cycle rate with peak {rate}, weight decay {decay}, label smoothing {smoothing},
{epochs} epochs of batches of {batch}; each image rotated by up to 10 degrees, scaled by 0.9 .. 1.1
and shifted by up to 0.7 pixel. The weights are those of the last epoch.

## Where the images come from

E. Alpaydin, C. Kaynak: *Optical Recognition of Handwritten Digits*, UCI Machine Learning
Repository, 1998, DOI [10.24432/C50P49](https://doi.org/10.24432/C50P49), licence
[CC BY 4.0](https://creativecommons.org/licenses/by/4.0/). Taken from scikit-learn
(`sklearn.datasets.load_digits`), which holds the repository's test part. Changed: normalised,
shuffled, split. The `.npy` image and label files stay under CC BY 4.0.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "data")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)

    torch.manual_seed(SEED)
    torch.set_num_threads(1)  # one order of summation
    torch.use_deterministic_algorithms(True)

    data = load_split()
    model = train(DigitsResNet(), *map(torch.from_numpy, data["train"]))
    logits, right = {}, {}
    for part, (images, labels) in data.items():
        logits[part], right[part] = evaluate(model, images, labels)
        print(f"{part}: {right[part]} of {len(labels)} = {100 * right[part] / len(labels):.2f} %")

    proto = export_onnx(model, out / "digits_resnet.onnx")
    error = check_export(out / "digits_resnet.onnx", data["test"][0], logits["test"])
    for part in ("calibration", "test"):
        np.save(out / f"{part}_images.npy", data[part][0])
        np.save(out / f"{part}_labels.npy", data[part][1])
    np.save(out / "train_pixels.npy", np.rint((data["train"][0] + 1) * 8).astype(np.uint8))
    np.save(out / "train_labels.npy", data["train"][1])
    np.save(out / "test_logits.npy", logits["test"])

    numbers = {part: len(labels) for part, (_, labels) in data.items()}
    (out / "README.md").write_text(README.format(
        seed=SEED, torch=torch.__version__, numpy=np.__version__, sklearn=sklearn.__version__,
        onnx=onnx.__version__, ort=onnxruntime.__version__, python=platform.python_version(),
        machine=platform.machine(), error=error, rate=PEAK_LEARNING_RATE, decay=WEIGHT_DECAY,
        smoothing=LABEL_SMOOTHING, epochs=EPOCHS, batch=BATCH,
        parameters=f"{sum(p.numel() for p in model.parameters()):,}",
        bn=sum(node.op_type == "BatchNormalization" for node in proto.graph.node),
        **numbers,
        **{f"{part}_right": n for part, n in right.items()},
        **{f"{part}_percent": 100 * n / numbers[part] for part, n in right.items()}))


if __name__ == "__main__":
    main()
