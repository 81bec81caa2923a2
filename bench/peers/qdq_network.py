# SPDX-License-Identifier: MIT
"""The QDQ model of a whole network, for the scripts that time another library on it, and what these scripts share.

network_bench writes the description of a network (bench/support/network.hpp). Needs the packages onnx and numpy.

In QDQ form each operator reads DequantizeLinear and is read by QuantizeLinear. Weights are int8 with a scale for each
output channel, biases int32. Activations are u8 or s8 with one scale and zero point. Behind a ReLU or ReLU6 the zero
point is the lowest code, so that the clamp of QuantizeLinear does its work and the node is left out, as ONNX Runtime's
own quantizer leaves it out; a Relu that stays keeps its convolution in float. The image and the logits are float32.
"""
import argparse
import statistics
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Builder:
    """A QDQ model from the lines of a network; every activation has one scale."""

    def __init__(self, dtype):
        self.dtype = dtype
        self.lowest, self.middle = (0, 128) if dtype == np.uint8 else (-128, 0)
        self.zero_points = {}
        self.random = np.random.default_rng(1)
        self.nodes, self.values = [], []
        self.input_shape = None

    def constant(self, name, value):
        self.values.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, kind, inputs, output, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def quantized(self, tensor, real, zero_point):
        """real -> codes -> real: the pair of nodes around every edge."""
        self.zero_points[tensor] = zero_point
        qparams = [self.constant(f"s{tensor}", np.float32(self.scale)),
                   self.constant(f"z{tensor}", np.array(zero_point, self.dtype))]
        codes = self.node("QuantizeLinear", [real, *qparams], f"q{tensor}")
        return self.node("DequantizeLinear", [codes, *qparams], f"x{tensor}")

    def weight(self, name, shape, input_scale):
        """The real weight and bias behind their DequantizeLinear."""
        scales = (0.01 + 1e-5 * self.random.integers(0, 100, shape[0])).astype(np.float32)
        codes = self.random.integers(-127, 128, shape, dtype=np.int8)
        w = self.node("DequantizeLinear", [self.constant(f"{name}.w", codes), self.constant(f"{name}.ws", scales),
                                           self.constant(f"{name}.wz", np.zeros(shape[0], np.int8))],
                      f"{name}.weight", axis=0)
        bias = self.random.integers(-1000, 1000, shape[0], dtype=np.int32)
        b = self.node("DequantizeLinear",
                      [self.constant(f"{name}.b", bias),
                       self.constant(f"{name}.bs", (scales * input_scale).astype(np.float32)),
                       self.constant(f"{name}.bz", np.zeros(shape[0], np.int32))], f"{name}.bias", axis=0)
        return w, b

    scale = 6 / 255  # of every edge: a whole range of 6 behind a ReLU6

    def add_line(self, words):
        op, name, x, sumin, y = words[0], words[1], *(int(word) for word in words[2:5])
        channels, height, width, outputs = (int(word) for word in words[5:9])
        kernel = [int(n) for n in words[9].split("x")]
        stride = [int(n) for n in words[10].split("x")]
        pads = [int(n) for n in words[11].split(",")]
        groups, activation = int(words[12]), words[13]
        window = {"kernel_shape": kernel, "strides": stride, "pads": pads}
        if op == "quantize":
            self.input_shape = [1, channels, height, width]
            self.quantized(y, "image", self.middle)
        elif op == "conv2d":
            w, b = self.weight(name, [outputs, channels // groups, *kernel], self.scale)
            real = self.node("Conv", [f"x{x}", w, b], f"{name}.conv", group=groups, **window)
            if sumin >= 0:
                # The sum reads the codes of both operands, as exporters write it.
                real = self.quantized(f"{y}.sum", real, self.middle)
                real = self.node("Add", [real, f"x{sumin}"], f"{name}.add")
            self.quantized(y, real, self.middle if activation == "none" else self.lowest)
        elif op == "linear":
            w, b = self.weight(name, [outputs, channels * height * width], self.scale)
            flat = self.node("Flatten", [f"x{x}"], f"{name}.flat", axis=1)
            flat = self.quantized(f"{y}.flat", flat, self.zero_points[x])
            real = self.node("Gemm", [flat, w, b], f"{name}.gemm", transB=1)
            self.quantized(y, real, self.middle)
        elif op == "max_pool2d":
            self.quantized(y, self.node("MaxPool", [f"x{x}"], f"{name}.pool", **window), self.zero_points[x])
        elif op == "avg_pool2d":
            self.quantized(y, self.node("GlobalAveragePool", [f"x{x}"], f"{name}.pool"), self.zero_points[x])
        elif op == "dequantize":
            self.node("Identity", [f"x{x}"], "logits")
        else:
            raise ValueError(f"no operator for {op}")

    def model(self):
        graph = helper.make_graph(
            self.nodes, "network", [helper.make_tensor_value_info("image", TensorProto.FLOAT, self.input_shape)],
            [helper.make_tensor_value_info("logits", TensorProto.FLOAT, None)], self.values)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


def model_of(text, types):
    """The model of a description, and the shape of its image. `types` of the activations: u8 or s8."""
    builder = Builder({"u8": np.uint8, "s8": np.int8}[types])
    for line in text.splitlines():
        builder.add_line(line.split())
    return builder.model(), builder.input_shape


def random_image(shape):
    return np.random.default_rng(2).standard_normal(shape, dtype=np.float32)


def median_microseconds(call, seconds):
    """Median time of one call, after as long again unmeasured.

    It holds the call from Python, which is of no account from a millisecond on. DS-CNN and ResNet-8 show it.
    """
    clock, samples, start = time.perf_counter, [], time.perf_counter()
    while clock() < start + 2 * seconds or len(samples) < 14:
        before = clock()
        call()
        samples.append(clock() - before)
    return statistics.median(samples[len(samples) // 2:]) * 1e6


def run_script(describe, prepare):
    """What a peer's script does with its command line.

    describe(isa)              one line: name, version and instruction set
    prepare(model, shape, isa) allocates all that one image needs, and gives the function that runs it
    `isa` is a name as --peer-isa takes it, or None.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", action="store_true", help="say what would run, and end")
    parser.add_argument("--isa", help="limit to an instruction set, as --peer-isa of the bench")
    parser.add_argument("network", nargs="?")
    parser.add_argument("types", nargs="?", choices=["u8", "s8"])
    parser.add_argument("seconds", nargs="?", type=float, default=0.25)
    arguments = parser.parse_args()
    if arguments.version:
        print(describe(arguments.isa))
    elif arguments.types is None:
        parser.error("a network and its types are needed")
    else:
        call = prepare(*model_of(Path(arguments.network).read_text(), arguments.types), arguments.isa)
        print(median_microseconds(call, arguments.seconds))
