#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Networks of codes from random weights, and what LiteRT's reference kernels make of them, layer by layer.

    python make_litert_networks.py networks.json [seed]

Needs numpy and ai-edge-litert, whose schema module writes the flatbuffers. Each layer is written to the file with its
numbers as integers: codes as the hexadecimal bytes of little-endian integers, scales as the bits of a float32. Images
are NHWC, weights OHWI. tests/quantization/operators/litert_networks_test.cpp builds the same layers for target::litert.
"""
import json
import sys

import numpy as np
from ai_edge_litert import interpreter as tfl
from ai_edge_litert import schema_py_generated as schema

from tflite_file import FUSED, NUMPY, TfliteFile

try:
    from importlib.metadata import version
    LITERT = version("ai-edge-litert")
except Exception:  # an interpreter without metadata
    LITERT = "unknown"

RANGE = {"int8": (-128, 127), "int16": (-32768, 32767)}


def bits(scale):
    return int(np.float32(scale).view(np.uint32))


def hexadecimal(array):
    return np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes().hex()


class Value:
    """A tensor of codes: its place in the subgraph, its numbers, and the real numbers that scales are chosen from."""

    def __init__(self, index, real, dtype, scale, zero_point):
        self.index, self.real, self.dtype = index, real, dtype
        self.scale, self.zero_point = np.float32(scale), int(zero_point)

    def describe(self):
        return {"shape": list(self.real.shape), "dtype": self.dtype, "scale": bits(self.scale),
                "zero_point": self.zero_point}


class Network(TfliteFile):
    def __init__(self, name, generator, dtype="int8"):
        TfliteFile.__init__(self)
        self.name, self.random, self.dtype = name, generator, dtype
        self.values, self.layers = [], []

    def bytes(self):
        return self.content([self.values[0].index], [self.values[-1].index])

    # --- values -----------------------------------------------------------------------------------------------------

    def qparams(self, real, dtype=None, one_sided=False):
        """Affine int8 and symmetric int16 of a range that a few values leave."""
        dtype = dtype or self.dtype
        low, high = (0.0 if one_sided else np.quantile(real, 0.01)), np.quantile(real, 0.99)
        low, high = min(float(low), 0.0), max(float(high), 1e-3)
        if dtype == "int16":
            return np.float32(max(-low, high) / 32767), 0
        scale = np.float32((high - low) / 255)
        return scale, int(np.clip(round(-128 - low / float(scale)), -128, 127))

    def input(self, shape):
        real = self.random.normal(0.2, 1.0, shape)
        scale, zero_point = self.qparams(real)
        v = Value(self.tensor(shape, self.dtype, scale, zero_point), real, self.dtype, scale, zero_point)
        self.values.append(v)
        return v

    def output(self, layer, inputs, real, scale=None, zero_point=None, dtype=None, one_sided=False):
        dtype = dtype or self.dtype
        if scale is None:
            scale, zero_point = self.qparams(real, dtype, one_sided)
        v = Value(self.tensor(real.shape, dtype, scale, zero_point), real, dtype, scale, zero_point)
        layer["inputs"] = [self.values.index(i) for i in inputs]
        layer["output"] = v.describe()
        self.values.append(v)
        self.layers.append(layer)
        return v

    # --- layers -----------------------------------------------------------------------------------------------------

    def weights(self, shape, axis, per_channel, x, products):
        real = self.random.normal(0.0, products ** -0.5, shape)
        axes = tuple(i for i in range(len(shape)) if i != axis)
        largest = np.abs(real).max(axis=axes) if per_channel else np.abs(real).max().reshape(1)
        scales = (largest / 127).astype(np.float32)
        view = [1] * len(shape)
        view[axis] = -1
        codes = np.clip(np.round(real / scales.astype(np.float64).reshape(view)), -127, 127).astype(np.int8)
        channels = shape[axis]
        s_acc = np.broadcast_to(np.float64(x.scale) * scales.astype(np.float64), (channels,))
        bias = np.round(self.random.normal(0.0, 0.3, channels) / s_acc)
        bias = bias.astype(np.int64 if x.dtype == "int16" else np.int32)
        return codes, scales, bias, codes * scales.astype(np.float64).reshape(view), bias * s_acc

    def parameters(self, codes, scales, bias, x, axis):
        wide = x.dtype == "int16"
        w = self.tensor(codes.shape, "int8", scales, 0, codes, axis)
        s_acc = [np.float32(x.scale) * s for s in scales]
        return w, self.tensor(bias.shape, "int64" if wide else "int32", s_acc, 0, bias)

    @staticmethod
    def activated(real, activation):
        if activation == "none":
            return real
        return np.clip(real, 0, 6 if activation == "relu6" else None)

    @staticmethod
    def padding(size, kernel, stride, same):
        if not same:
            return 0, 0
        total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        return total // 2, total - total // 2

    def windows(self, x, kernel, stride, same, fill=0.0):
        """(N, OH, OW, KH, KW, C) of real numbers, and the padding top, left, bottom, right."""
        real = x.real
        (t, b), (l, r) = (self.padding(real.shape[1 + i], kernel[i], stride[i], same) for i in range(2))
        padded = np.pad(real, ((0, 0), (t, b), (l, r), (0, 0)), constant_values=fill)
        view = np.lib.stride_tricks.sliding_window_view(padded, kernel, axis=(1, 2))
        view = view[:, ::stride[0], ::stride[1]]
        return np.moveaxis(view, 3, 5), [t, l, b, r]

    def window(self, kernel, stride, padding):
        return {"kernel": list(kernel), "stride": list(stride), "padding": padding}

    def conv(self, x, channels, kernel, stride=(1, 1), same=True, activation="none", per_channel=True):
        inputs = x.real.shape[3]
        codes, scales, bias, w, b = self.weights((channels, *kernel, inputs), 0, per_channel, x,
                                                 kernel[0] * kernel[1] * inputs)
        view, padding = self.windows(x, kernel, stride, same)
        real = self.activated(np.einsum("nhwijc,oijc->nhwo", view, w) + b, activation)
        layer = {"op": "conv2d", "activation": activation, "window": self.window(kernel, stride, padding),
                 "weight": hexadecimal(codes), "weight_shape": list(codes.shape),
                 "weight_scales": [bits(s) for s in scales], "bias": [int(v) for v in bias]}
        y = self.output(layer, [x], real, one_sided=activation != "none")
        o = schema.Conv2DOptionsT()
        o.padding = schema.Padding.SAME if same else schema.Padding.VALID
        o.strideH, o.strideW, o.dilationHFactor, o.dilationWFactor = stride[0], stride[1], 1, 1
        o.fusedActivationFunction = FUSED[activation]
        self.operator(schema.BuiltinOperator.CONV_2D, [x.index, *self.parameters(codes, scales, bias, x, 0)],
                      [y.index], schema.BuiltinOptions.Conv2DOptions, o, 4 if x.dtype == "int16" else 3)
        return y

    def depthwise(self, x, kernel, stride=(1, 1), same=True, activation="none"):
        channels = x.real.shape[3]
        codes, scales, bias, w, b = self.weights((1, *kernel, channels), 3, True, x, kernel[0] * kernel[1])
        view, padding = self.windows(x, kernel, stride, same)
        real = self.activated(np.einsum("nhwijc,ijc->nhwc", view, w[0]) + b, activation)
        layer = {"op": "depthwise", "activation": activation, "window": self.window(kernel, stride, padding),
                 "weight": hexadecimal(codes), "weight_shape": list(codes.shape),
                 "weight_scales": [bits(s) for s in scales], "bias": [int(v) for v in bias]}
        y = self.output(layer, [x], real, one_sided=activation != "none")
        o = schema.DepthwiseConv2DOptionsT()
        o.padding = schema.Padding.SAME if same else schema.Padding.VALID
        o.strideH, o.strideW, o.depthMultiplier, o.dilationHFactor, o.dilationWFactor = stride[0], stride[1], 1, 1, 1
        o.fusedActivationFunction = FUSED[activation]
        self.operator(schema.BuiltinOperator.DEPTHWISE_CONV_2D, [x.index, *self.parameters(codes, scales, bias, x, 3)],
                      [y.index], schema.BuiltinOptions.DepthwiseConv2DOptions, o, 5 if x.dtype == "int16" else 3)
        return y

    def linear(self, x, outputs, activation="none", per_channel=True, flattens=False):
        """Behind a flatten the weight is that of a convolution whose window is the image, (O, H, W, C)."""
        flat = x
        if flattens:
            shape = [x.real.shape[0], int(np.prod(x.real.shape[1:]))]
            flat = Value(self.tensor(shape, x.dtype, x.scale, x.zero_point), x.real.reshape(shape), x.dtype, x.scale,
                         x.zero_point)
            o = schema.ReshapeOptionsT()
            o.newShape = shape
            self.operator(schema.BuiltinOperator.RESHAPE,
                          [x.index, self.tensor([2], "int32", None, 0, np.array(shape))], [flat.index],
                          schema.BuiltinOptions.ReshapeOptions, o, 1)
        inputs = flat.real.shape[1]
        codes, scales, bias, w, b = self.weights((outputs, inputs), 0, per_channel, flat, inputs)
        real = self.activated(flat.real @ w.T + b, activation)
        kernel = x.real.shape[1:3] if flattens else (1, 1)
        layer = {"op": "linear", "activation": activation, "window": self.window(kernel, (1, 1), [0, 0, 0, 0]),
                 "weight": hexadecimal(codes), "weight_shape": [outputs, *kernel, inputs // (kernel[0] * kernel[1])],
                 "weight_scales": [bits(s) for s in scales], "bias": [int(v) for v in bias]}
        y = self.output(layer, [x], real, one_sided=activation != "none")
        o = schema.FullyConnectedOptionsT()
        o.fusedActivationFunction = FUSED[activation]
        self.operator(schema.BuiltinOperator.FULLY_CONNECTED, [flat.index, *self.parameters(codes, scales, bias, flat, 0)],
                      [y.index], schema.BuiltinOptions.FullyConnectedOptions, o, 4)
        return y

    def binary(self, op, x, y, activation="none"):
        real = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[op](x.real, y.real)
        z = self.output({"op": op, "activation": activation}, [x, y], self.activated(real, activation),
                        one_sided=activation != "none")
        names = {"add": ("ADD", "AddOptions"), "sub": ("SUB", "SubOptions"), "mul": ("MUL", "MulOptions")}[op]
        o = getattr(schema, names[1] + "T")()
        o.fusedActivationFunction = FUSED[activation]
        if op != "mul":
            o.potScaleInt16 = False
        self.operator(getattr(schema.BuiltinOperator, names[0]), [x.index, y.index], [z.index],
                      getattr(schema.BuiltinOptions, names[1]), o, 4 if x.dtype == "int16" else 2)
        return z

    def pool(self, op, x, kernel, stride, same=False):
        fill = -np.inf if op == "max_pool" else np.nan
        view, padding = self.windows(x, kernel, stride, same, fill)
        real = np.nanmax(view, axis=(3, 4)) if op == "max_pool" else np.nanmean(view, axis=(3, 4))
        y = self.output({"op": op, "window": self.window(kernel, stride, padding)}, [x], real, x.scale, x.zero_point)
        o = schema.Pool2DOptionsT()
        o.padding = schema.Padding.SAME if same else schema.Padding.VALID
        o.strideH, o.strideW, o.filterHeight, o.filterWidth = *stride, *kernel
        o.fusedActivationFunction = FUSED["none"]
        builtin = "MAX_POOL_2D" if op == "max_pool" else "AVERAGE_POOL_2D"
        self.operator(getattr(schema.BuiltinOperator, builtin), [x.index], [y.index],
                      schema.BuiltinOptions.Pool2DOptions, o, 3 if x.dtype == "int16" else 2)
        return y

    def global_average(self, x):
        return self.pool("avg_pool", x, x.real.shape[1:3], (1, 1))

    def requantize(self, x, scale, zero_point):
        y = self.output({"op": "requantize"}, [x], x.real, scale, zero_point)
        self.operator(schema.BuiltinOperator.QUANTIZE, [x.index], [y.index], schema.BuiltinOptions.QuantizeOptions,
                      schema.QuantizeOptionsT(), 2)
        return y

    def cat(self, parts):
        """LiteRT joins codes of one scale, so the parts are brought to that of the first."""
        first = parts[0]
        same = [first] + [self.requantize(p, first.scale, first.zero_point) for p in parts[1:]]
        y = self.output({"op": "cat"}, same, np.concatenate([p.real for p in same], axis=3), first.scale,
                        first.zero_point)
        o = schema.ConcatenationOptionsT()
        o.axis, o.fusedActivationFunction = 3, FUSED["none"]
        self.operator(schema.BuiltinOperator.CONCATENATION, [p.index for p in same], [y.index],
                      schema.BuiltinOptions.ConcatenationOptions, o, 2)
        return y

    def pad(self, x, top, left, bottom, right):
        real = np.pad(x.real, ((0, 0), (top, bottom), (left, right), (0, 0)))
        y = self.output({"op": "pad", "padding": [top, left, bottom, right]}, [x], real, x.scale, x.zero_point)
        amounts = self.tensor([4, 2], "int32", None, 0, np.array([[0, 0], [top, bottom], [left, right], [0, 0]]))
        self.operator(schema.BuiltinOperator.PAD, [x.index, amounts], [y.index], schema.BuiltinOptions.PadOptions,
                      schema.PadOptionsT(), 2)
        return y

    def clamp(self, op, x):
        y = self.output({"op": op}, [x], self.activated(x.real, op), x.scale, x.zero_point)
        self.operator(getattr(schema.BuiltinOperator, op.upper()), [x.index], [y.index], opcode_version=2)
        return y

    def function(self, op, x):
        """The scales of the results are LiteRT's own."""
        real = 1 / (1 + np.exp(-x.real)) if op == "sigmoid" else np.tanh(x.real)
        scale, zero_point = (1 / 256, -128) if op == "sigmoid" else (1 / 128, 0)
        y = self.output({"op": op}, [x], real, scale, zero_point)
        self.operator(getattr(schema.BuiltinOperator, "LOGISTIC" if op == "sigmoid" else "TANH"), [x.index], [y.index],
                      opcode_version=2)
        return y

    def softmax(self, x, dtype=None):
        dtype = dtype or self.dtype
        e = np.exp(x.real - x.real.max(axis=-1, keepdims=True))
        scale, zero_point = {("int8", "int8"): (1 / 256, -128), ("int8", "int16"): (1 / 65536, -32768),
                             ("int16", "int16"): (1 / 32768, 0)}[x.dtype, dtype]
        y = self.output({"op": "softmax"}, [x], e / e.sum(axis=-1, keepdims=True), scale, zero_point, dtype)
        o = schema.SoftmaxOptionsT()
        o.beta = 1.0
        self.operator(schema.BuiltinOperator.SOFTMAX, [x.index], [y.index], schema.BuiltinOptions.SoftmaxOptions, o, 3)
        return y

    # --- the answer -------------------------------------------------------------------------------------------------

    def run(self):
        interpreter = tfl.Interpreter(model_content=self.bytes(),
                                      experimental_op_resolver_type=tfl.OpResolverType.BUILTIN_REF,
                                      experimental_preserve_all_tensors=True)
        interpreter.allocate_tensors()
        x = self.values[0]
        low, high = RANGE[x.dtype]
        codes = np.clip(np.round(x.real / float(x.scale)) + x.zero_point, low, high).astype(NUMPY[x.dtype])
        codes.flat[:4] = [low, high, x.zero_point, low]
        interpreter.set_tensor(x.index, codes)
        interpreter.invoke()
        for value, layer in zip(self.values[1:], self.layers):
            layer["codes"] = hexadecimal(interpreter.get_tensor(value.index))
        return {"name": self.name, "input": {**x.describe(), "codes": hexadecimal(codes)}, "layers": self.layers}


# --- the networks ---------------------------------------------------------------------------------------------------------


def mlp(n):
    x = n.input((3, 24))
    x = n.linear(x, 17, "relu")
    x = n.linear(x, 12, "none", per_channel=False)
    n.softmax(n.linear(x, 10))


def lenet(n):
    x = n.conv(n.input((2, 9, 8, 1)), 5, (3, 3), activation="relu")
    x = n.pool("max_pool", x, (2, 2), (2, 2))
    x = n.conv(x, 7, (3, 3), same=False, activation="relu", per_channel=False)
    n.softmax(n.linear(n.linear(x, 11, "relu", flattens=True), 10))


def dscnn(n):
    x = n.conv(n.input((2, 10, 6, 1)), 8, (5, 3), (2, 2), activation="relu")
    for _ in range(2):
        x = n.depthwise(x, (3, 3), activation="relu")
        x = n.conv(x, 8, (1, 1), activation="relu")
    n.softmax(n.linear(n.global_average(x), 6, flattens=True))


def resnet(n):
    x = n.conv(n.input((2, 7, 7, 3)), 6, (3, 3), activation="relu")
    y = n.conv(n.conv(x, 6, (3, 3), activation="relu"), 6, (3, 3))
    x = n.binary("add", x, y, "relu")
    y = n.conv(n.conv(x, 9, (3, 3), (2, 2), activation="relu"), 9, (3, 3))
    x = n.binary("add", y, n.conv(x, 9, (1, 1), (2, 2)), "relu")
    n.softmax(n.linear(n.global_average(x), 10, flattens=True))


def inception(n):
    x = n.input((2, 6, 7, 4))
    a = n.conv(x, 3, (1, 1), activation="relu")
    b = n.conv(n.conv(x, 4, (1, 1), activation="relu"), 5, (3, 3), activation="relu")
    c = n.pool("avg_pool", x, (3, 3), (1, 1), same=True)
    d = n.pool("max_pool", x, (3, 3), (1, 1), same=True)
    x = n.cat([a, b, c, d])
    x = n.conv(n.pad(x, 1, 0, 2, 1), 6, (3, 3), (2, 2), same=False, activation="relu6")
    n.linear(x, 5, flattens=True)


def gates(n):
    x = n.input((2, 5, 5, 4))
    a, b = n.conv(x, 6, (3, 3)), n.conv(x, 6, (3, 3), per_channel=False)
    x = n.binary("mul", n.function("sigmoid", a), n.function("tanh", b))
    x = n.binary("sub", x, a)
    n.linear(n.clamp("relu6", n.binary("add", x, b)), 4, "relu6", flattens=True)


def autoencoder(n):
    x = n.input((4, 40))
    for width in (16, 8, 4, 8, 16):
        x = n.linear(x, width, "relu")
    n.linear(x, 40)


def mobilenet(n):
    x = n.conv(n.input((1, 11, 9, 3)), 6, (3, 3), (2, 2), activation="relu6")
    y = n.conv(n.depthwise(n.conv(x, 18, (1, 1), activation="relu6"), (3, 3), activation="relu6"), 6, (1, 1))
    x = n.binary("add", x, y)
    x = n.conv(n.depthwise(n.conv(x, 18, (1, 1), activation="relu6"), (3, 3), (2, 2), activation="relu6"), 8, (1, 1))
    n.softmax(n.linear(n.global_average(x), 12, flattens=True))


def keywords(n):
    x = n.input((2, 1, 30, 5))
    x = n.conv(x, 8, (1, 7), (1, 2), activation="relu")
    x = n.clamp("relu", n.depthwise(x, (1, 5)))
    x = n.requantize(x, x.scale * np.float32(1.37), x.zero_point + 3)
    n.softmax(n.linear(n.pool("max_pool", x, (1, 3), (1, 3)), 12, flattens=True), "int16")


def probabilities(n):
    x = n.linear(n.input((6, 20)), 33)
    n.softmax(x)
    n.softmax(x, "int16")
    n.softmax(n.requantize(x, x.scale * np.float32(9.1), 5))
    n.softmax(n.requantize(x, x.scale * np.float32(0.013), -100), "int16")


def wide(n):
    x = n.input((2, 7, 6, 4))
    a = n.conv(x, 6, (3, 3), activation="relu")
    b = n.conv(n.depthwise(a, (3, 3)), 6, (1, 1))
    x = n.binary("add", a, b, "relu")
    x = n.pool("max_pool", x, (2, 2), (2, 2))
    x = n.binary("mul", x, n.pool("avg_pool", x, (3, 3), (1, 1), same=True))
    n.softmax(n.linear(n.linear(x, 14, "relu", flattens=True), 10))


INT8 = [mlp, lenet, dscnn, resnet, inception, gates, autoencoder, mobilenet, keywords, probabilities]
INT16 = [wide]


def main():
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    generator = np.random.default_rng(seed)
    networks = []
    for build in INT8 + INT16:
        n = Network(build.__name__, generator, "int16" if build in INT16 else "int8")
        build(n)
        networks.append(n.run())
    with open(sys.argv[1], "w") as file:
        json.dump({"litert": LITERT, "seed": seed, "networks": networks}, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
