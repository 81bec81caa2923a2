#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times ONNX Runtime on a whole network: prints the median microseconds of one image, one thread.

    python3 bench/peers/onnxruntime_network.py build/bench/resnet18.network.txt u8 [seconds]
    python3 bench/peers/onnxruntime_network.py --version

network_bench writes the file (bench/support/network.hpp) and runs this between its own samples. Needs the packages
onnxruntime, onnx and numpy; without them it says so and ends with status 77.

The model is in QDQ form: each operator reads DequantizeLinear and is read by QuantizeLinear, weights are int8 with a
scale for each output channel, biases int32; activations are u8 or s8 with one scale and zero point. Behind a ReLU or
ReLU6 the zero point is the lowest code, so that the clamp of QuantizeLinear does its work and the node is left out, as
ONNX Runtime's own quantizer leaves it out; a Relu that stays keeps its convolution in float. All graph optimizations
are on: ONNX Runtime fuses the operators into integer ones and makes them channels-last. The image and the logits are
float32, in memory that is allocated beforehand.
"""
import statistics
import sys
import time
from pathlib import Path

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(missing)
    sys.exit(77)


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


def bound_session(model, input_shape):
    """A session, and its input and output bound to memory of our own."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    image = np.random.default_rng(2).standard_normal(input_shape, dtype=np.float32)
    logits = np.zeros(session.run(None, {"image": image})[0].shape, np.float32)
    binding = session.io_binding()
    keep = [ort.OrtValue.ortvalue_from_numpy(image), ort.OrtValue.ortvalue_from_numpy(logits)]
    binding.bind_ortvalue_input("image", keep[0])
    binding.bind_ortvalue_output("logits", keep[1])
    return session, binding, keep


def microseconds(session, binding, seconds):
    """Median time of one call, after as long again unmeasured."""
    clock, samples, start = time.perf_counter, [], time.perf_counter()
    while clock() < start + 2 * seconds or len(samples) < 14:
        before = clock()
        session.run_with_iobinding(binding)
        samples.append(clock() - before)
    return statistics.median(samples[len(samples) // 2:]) * 1e6


def main():
    if sys.argv[1:] == ["--version"]:
        print(f"ONNX Runtime {ort.__version__}, QDQ models, one thread")
        return
    path, types = sys.argv[1:3]
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 0.25
    builder = Builder({"u8": np.uint8, "s8": np.int8}[types])
    for line in Path(path).read_text().splitlines():
        builder.add_line(line.split())
    session, binding, _keep = bound_session(builder.model(), builder.input_shape)
    print(microseconds(session, binding, seconds))


if __name__ == "__main__":
    main()
