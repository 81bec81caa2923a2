#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes twelve networks of torchvision as PyTorch exports them by default, and what ONNX Runtime makes of them.

    pip install torch torchvision onnx onnxscript onnxruntime numpy
    python tests/golden/make_torchvision_networks.py --out FOLDER [--only NAME ...]

The files are too large to be stored.  The test interop/onnx/torchvision reads the folder that the environment variable
INTQ_TORCHVISION_NETWORKS names, and is skipped without one.

images.npy holds 32 images of noise of several grains.  NAME.onnx, with its data in NAME.onnx.data, is a network with
random weights, whose batch norms have statistics that were measured on other such images.  ONNX Runtime gives its
output: NAME_float.npy, and of its static quantization (QDQ, per channel, min/max, calibrated on the 32 images)
NAME_int8.npy and NAME_int16.npy, the latter with int16 activations and int8 weights.
"""
import argparse
import tempfile
import warnings
from pathlib import Path

import numpy as np
import onnxruntime
import torch
import torchvision
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process

NETWORKS = ("resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "shufflenet_v2_x1_0",
            "regnet_x_400mf", "regnet_y_400mf", "densenet121", "squeezenet1_1", "googlenet", "mnasnet0_5")
SEED = 11
COUNT, SIDE = 32, 224


def make_images(count, seed):
    """Noise of several grains, with a contrast of its own for each image."""
    torch.manual_seed(seed)
    images = torch.zeros(count, 3, SIDE, SIDE)
    for grain, weight in ((4, 0.6), (14, 0.5), (56, 0.4), (SIDE, 0.3)):
        noise = torch.randn(count, 3, grain, grain)
        images += weight * torch.nn.functional.interpolate(noise, size=SIDE, mode="bilinear")
    return images * (0.5 + torch.rand(count, 1, 1, 1)) + 0.3 * torch.randn(count, 3, 1, 1)


def make_network(name):
    torch.manual_seed(SEED)
    options = {"aux_logits": False, "init_weights": True} if name == "googlenet" else {}
    net = getattr(torchvision.models, name)(weights=None, **options)
    norms = [m for m in net.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    with torch.no_grad():
        for norm in norms:
            norm.momentum = None  # the plain mean over batches
            norm.weight.uniform_(0.5, 1.5)
            norm.bias.uniform_(-0.3, 0.5)
        net.eval()
        for norm in norms:
            norm.train()
        for batch in range(2 if norms else 0):
            net(make_images(16, 100 + batch))
    return net.eval()


def run(path, images):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    label = session.get_inputs()[0].name
    return np.concatenate([session.run(None, {label: image[None]})[0] for image in images])


class Reader(quantization.CalibrationDataReader):
    def __init__(self, path, images):
        label = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).get_inputs()[0].name
        self.rows = iter([{label: image[None]} for image in images])

    def get_next(self):
        return next(self.rows, None)


def run_quantized(path, images, activations):
    with tempfile.TemporaryDirectory() as folder:
        prepared, quantized = Path(folder) / "prepared.onnx", Path(folder) / "quantized.onnx"
        quant_pre_process(str(path), str(prepared))
        quantization.quantize_static(
            str(prepared), str(quantized), Reader(prepared, images), quant_format=quantization.QuantFormat.QDQ,
            per_channel=True, activation_type=activations, weight_type=quantization.QuantType.QInt8,
            calibrate_method=quantization.CalibrationMethod.MinMax)
        return run(quantized, images)


def decibels(expected, given):
    noise = np.square(expected.astype(np.float64) - given).sum()
    return 10 * np.log10(np.square(expected.astype(np.float64)).sum() / noise)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--only", nargs="*", choices=NETWORKS)
    arguments = arguments.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore")
    images = make_images(COUNT, SEED).numpy()
    np.save(arguments.out / "images.npy", images)
    for name in arguments.only or NETWORKS:
        path = arguments.out / f"{name}.onnx"
        torch.onnx.export(make_network(name), (torch.from_numpy(images[:1]),), str(path), verbose=False)
        outputs = {"float": run(path, images),
                   "int8": run_quantized(path, images, quantization.QuantType.QInt8),
                   "int16": run_quantized(path, images, quantization.QuantType.QInt16)}
        for kind, output in outputs.items():
            np.save(arguments.out / f"{name}_{kind}.npy", np.ascontiguousarray(output, dtype=np.float32))
        print(f"{name}: int8 {decibels(outputs['float'], outputs['int8']):.2f} dB, "
              f"int16 {decibels(outputs['float'], outputs['int16']):.2f} dB", flush=True)


if __name__ == "__main__":
    main()
