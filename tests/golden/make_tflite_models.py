#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""TFLite models of random weights, and what LiteRT's reference kernels make of them, tensor by tensor.

    python make_tflite_models.py folder [seed] [--small]

Needs numpy and ai-edge-litert, whose schema module writes the flatbuffers. The folder gets one .tflite file a model and
answers.json: for each model the bytes of its inputs and of every tensor that an operator writes, as hexadecimal
digits of little-endian numbers, by the tensor's name. --small makes the few models that the repository keeps.
tests/interop/tflite/litert_test.cpp imports the files and compares.
"""
import json
import pathlib
import sys

import numpy as np
from ai_edge_litert import interpreter as tfl
from ai_edge_litert import schema_py_generated as schema

import make_litert_networks as layers
from make_litert_networks import LITERT, RANGE, Network, Value, hexadecimal
from tflite_file import FUSED, NUMPY, make


class Model(Network):
    """A Network whose operators are all that the importer reads. Values are NHWC.

    Where `input_bounds` are set, the layers have int32 biases and weights that are so large that the sums stay in 32
    bits for such inputs only.
    """

    input_bounds = None
    bounded = ()  # values besides the input whose largest codes the answer says
    has_zero_bias = False

    def weights(self, shape, axis, per_channel, x, products):
        codes, scales, bias, w, b = Network.weights(self, shape, axis, per_channel, x, products)
        if self.input_bounds is None:
            return codes, scales, bias, w, b
        codes = self.random.integers(-127, 128, shape).astype(np.int8)
        view = [1] * len(shape)
        view[axis] = -1
        return codes, scales, bias, codes * scales.astype(np.float64).reshape(view), b

    def parameters(self, codes, scales, bias, x, axis):
        if self.input_bounds is None:
            return Network.parameters(self, codes, scales, bias, x, axis)
        w = self.tensor(codes.shape, "int8", scales, 0, codes, axis)
        bias = bias * 0 if self.has_zero_bias else bias
        return w, self.tensor(bias.shape, "int32", [np.float32(x.scale) * s for s in scales], 0, bias)

    def bias_type(self):
        return {} if self.input_bounds is None else {"quantizedBiasType": schema.TensorType.INT32}

    def activated(self, real, activation):
        if activation == "relu_n1_to_1":
            return np.clip(real, -1, 1)
        return Network.activated(real, activation)

    def value(self, inputs, real, scale=None, zero_point=None, dtype=None):
        return self.output({}, inputs, real, scale, zero_point, dtype)

    def same(self, x, real):
        """A result with the scale of x."""
        return self.value([x], real, x.scale, x.zero_point, x.dtype)

    def add_operator(self, builtin, inputs, y, options=None, version=3, **fields):
        indices = [i.index if isinstance(i, Value) else i for i in inputs]
        self.named_operator(builtin, indices, y.index, options, version, **fields)
        return y

    # --- weights ----------------------------------------------------------------------------------------------------

    def general_conv(self, x, channels, kernel, stride=(1, 1), dilation=(1, 1), same=True, activation="none", groups=1,
                     bias=True, per_channel=True, multiplier=0):
        """A convolution with groups, dilation or a depth multiplier. LiteRT demands the bias of a CONV_2D."""
        inputs = x.real.shape[3]
        depthwise = multiplier > 0
        if depthwise:
            channels = inputs * multiplier
            shape, axis = (1, *kernel, channels), 3
        else:
            shape, axis = (channels, *kernel, inputs // groups), 0
        products = kernel[0] * kernel[1] * (1 if depthwise else inputs // groups)
        codes, scales, bias_codes, _, _ = self.weights(shape, axis, per_channel, x, products)
        extents = [-(-x.real.shape[1 + i] // stride[i]) if same else
                   (x.real.shape[1 + i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in range(2)]
        real = self.activated(self.random.normal(0.3, 1.2, (x.real.shape[0], *extents, channels)), activation)
        if self.input_bounds is not None:
            real *= 4  # so that no code of the output is at an end
        y = self.output({}, [x], real, one_sided=activation.startswith("relu") and activation != "relu_n1_to_1")
        parameters = list(self.parameters(codes, scales, bias_codes, x, axis))
        if not bias:
            parameters = parameters[:1]
        names = ("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions") if depthwise else ("CONV_2D", "Conv2DOptions")
        extra = {"depthMultiplier": multiplier} if depthwise else self.bias_type()
        return self.add_operator(names[0], [x, *parameters], y, names[1], 5 if depthwise else 4,
                                 padding=schema.Padding.SAME if same else schema.Padding.VALID, strideH=stride[0],
                                 strideW=stride[1], dilationHFactor=dilation[0], dilationWFactor=dilation[1],
                                 fusedActivationFunction=FUSED[activation], **extra)

    def computed_dims(self, x, rest):
        """int32 numbers that the model computes: the samples of x, and others."""
        numbers = [self.tensor(shape, "int32", None, 0) for shape in ((x.real.ndim,), (), (1 + len(rest),))]
        self.operator(schema.BuiltinOperator.SHAPE, [x.index], [numbers[0]], schema.BuiltinOptions.ShapeOptions,
                      make(schema.ShapeOptionsT, outType=schema.TensorType.INT32), 1)
        self.operator(schema.BuiltinOperator.STRIDED_SLICE,
                      [numbers[0], self.ints([0]), self.ints([1]), self.ints([1])], [numbers[1]],
                      schema.BuiltinOptions.StridedSliceOptions, make(schema.StridedSliceOptionsT, shrinkAxisMask=1), 1)
        self.operator(schema.BuiltinOperator.PACK, [numbers[1], *(self.ints(n) for n in rest)], [numbers[2]],
                      schema.BuiltinOptions.PackOptions,
                      make(schema.PackOptionsT, valuesCount=1 + len(rest), axis=0), 1)
        return numbers[2]

    def transpose_conv(self, x, channels, kernel, stride, same=True, bias=True, computed=False):
        n, h, w, c = x.real.shape
        codes, scales, bias_codes, _, _ = self.weights((channels, *kernel, c), 0, True, x, kernel[0] * kernel[1] * c)
        size = [(e * s if same else (e - 1) * s + k) for e, s, k in zip((h, w), stride, kernel)]
        y = self.value([x], self.random.normal(0.1, 1.0, (n, *size, channels)))
        weight, bias_tensor = self.parameters(codes, scales, bias_codes, x, 0)
        dims = self.computed_dims(x, (*size, channels)) if computed else self.ints([n, *size, channels])
        inputs = [dims, weight, x, *([bias_tensor] * bias)]
        return self.add_operator("TRANSPOSE_CONV", inputs, y, "TransposeConvOptions", 4 if x.dtype == "int16" else 3,
                                 padding=schema.Padding.SAME if same else schema.Padding.VALID, strideH=stride[0],
                                 strideW=stride[1], **self.bias_type())

    def fully(self, x, outputs, activation="none", keep=False, bias=True, per_channel=True):
        """A linear layer straight on an image or on rows."""
        features = x.real.shape[-1] if keep else int(np.prod(x.real.shape[1:]))
        codes, scales, bias_codes, w, b = self.weights((outputs, features), 0, per_channel, x, features)
        flat = x.real if keep else x.real.reshape(x.real.shape[0], features)
        real = self.activated(flat @ w.T + b, activation)
        y = self.output({}, [x], real, one_sided=activation != "none")
        weight, bias_tensor = self.parameters(codes, scales, bias_codes, x, 0)
        return self.add_operator("FULLY_CONNECTED", [x, weight, bias_tensor if bias else -1], y,
                                 "FullyConnectedOptions", 5, fusedActivationFunction=FUSED[activation],
                                 keepNumDims=keep, **self.bias_type())

    # --- two operands -----------------------------------------------------------------------------------------------

    def constant(self, real, dtype=None):
        """A constant operand. It is a value without an operator."""
        real = np.asarray(real, np.float64)
        dtype = dtype or self.dtype
        scale, zero_point = self.qparams(real, dtype)
        low, high = RANGE[dtype]
        codes = np.clip(np.round(real / float(scale)) + zero_point, low, high)
        return Value(self.tensor(real.shape, dtype, scale, zero_point, codes), real, dtype, scale, zero_point)

    def two(self, op, x, y, activation="none"):
        real = {"ADD": np.add, "SUB": np.subtract, "MUL": np.multiply}[op](x.real, y.real)
        z = self.output({}, [], self.activated(real, activation), one_sided=activation in ("relu", "relu6"))
        fields = {} if op == "MUL" else {"potScaleInt16": False}
        return self.add_operator(op, [x, y], z, op.capitalize() + "Options", 4 if x.dtype == "int16" else 2,
                                 fusedActivationFunction=FUSED[activation], **fields)

    def squared_difference(self, x, y, scale=None, zero_point=None):
        real = (x.real - y.real) ** 2
        if scale is None:
            scale, zero_point = self.qparams(real, one_sided=True)
        z = self.value([], real, scale, zero_point)
        return self.add_operator("SQUARED_DIFFERENCE", [x, y], z, "SquaredDifferenceOptions", 2)

    def extreme(self, op, x, y):
        """MAXIMUM or MINIMUM of codes of one scale."""
        real = {"MAXIMUM": np.maximum, "MINIMUM": np.minimum}[op](x.real, y.real)
        z = self.same(x if x in self.values else y, real)
        return self.add_operator(op, [x, y], z, "MaximumMinimumOptions", 1)

    def bound(self, x, code, shape=()):
        """A constant of the scale of x: one code, or codes."""
        codes = np.broadcast_to(code, shape)
        return Value(self.tensor(shape, x.dtype, x.scale, x.zero_point, codes),
                     (codes - x.zero_point) * float(x.scale), x.dtype, x.scale, x.zero_point)

    def select(self, mask, x, y, builtin="SELECT_V2"):
        """Codes of one scale by a constant condition."""
        mask = np.asarray(mask, bool)
        z = self.same(x if x in self.values else y, np.where(mask, x.real, y.real))
        condition = self.tensor(mask.shape, "bool", None, 0, mask)
        return self.add_operator(builtin, [condition, x, y], z, "SelectV2Options" if builtin[-1] == "2" else
                                 "SelectOptions", 1)

    def log_softmax(self, x):
        real = x.real - x.real.max(axis=-1, keepdims=True)
        y = self.value([x], real - np.log(np.exp(real).sum(axis=-1, keepdims=True)), 1 / 16, 127)
        return self.add_operator("LOG_SOFTMAX", [x], y, "LogSoftmaxOptions", 2)

    def ids(self, shape, rows):
        """The model's input: rows of a table."""
        v = Value(self.tensor(shape, "int32", None, 0), self.random.integers(0, rows, shape), "int32", 1, 0)
        self.values.append(v)
        return v

    def rows_of(self, builtin, table, x):
        """The rows of a constant by ids."""
        y = self.output({}, [x], table.real[x.real], table.scale, table.zero_point)
        if builtin == "GATHER":
            return self.add_operator(builtin, [table, x], y, "GatherOptions", 2, axis=0)
        return self.add_operator(builtin, [x, table], y, None, 1)

    def batch_matmul(self, x, y, adj_x=False, adj_y=False, scale=None, zero_point=None):
        """Either operand may be a constant."""
        a, b = (np.swapaxes(v.real, -1, -2) if adj else v.real for v, adj in ((x, adj_x), (y, adj_y)))
        z = self.value([], a @ b, scale, zero_point)
        return self.add_operator("BATCH_MATMUL", [x, y], z, "BatchMatMulOptions", 4, adjX=adj_x, adjY=adj_y)

    # --- windows ----------------------------------------------------------------------------------------------------

    def pool2(self, op, x, kernel, stride, same=False, activation="none"):
        fill = -np.inf if op == "MAX_POOL_2D" else np.nan
        view, _ = self.windows(x, kernel, stride, same, fill)
        real = np.nanmax(view, axis=(3, 4)) if op == "MAX_POOL_2D" else np.nanmean(view, axis=(3, 4))
        y = self.same(x, self.activated(real, activation))
        return self.add_operator(op, [x], y, "Pool2DOptions", 3 if x.dtype == "int16" else 2,
                                 padding=schema.Padding.SAME if same else schema.Padding.VALID, strideH=stride[0],
                                 strideW=stride[1], filterHeight=kernel[0], filterWidth=kernel[1],
                                 fusedActivationFunction=FUSED[activation])

    def mean(self, x, axes, keep=True):
        y = self.value([x], x.real.mean(axis=tuple(axes), keepdims=keep))
        return self.add_operator("MEAN", [x, self.ints(axes)], y, "ReducerOptions", 2, keepDims=keep)

    def sum(self, x, axes, keep=True, scale=None, zero_point=None):
        y = self.value([x], x.real.sum(axis=tuple(axes), keepdims=keep), scale, zero_point)
        return self.add_operator("SUM", [x, self.ints(axes)], y, "ReducerOptions", 2, keepDims=keep)

    # --- moves ------------------------------------------------------------------------------------------------------

    def reshape(self, x, shape, with_input=True):
        y = self.same(x, x.real.reshape(shape))
        inputs = [x, self.ints(shape)] if with_input else [x]
        return self.add_operator("RESHAPE", inputs, y, "ReshapeOptions", 1, newShape=list(shape))

    def squeeze(self, x, axes):
        y = self.same(x, np.squeeze(x.real, tuple(axes)))
        return self.add_operator("SQUEEZE", [x], y, "SqueezeOptions", 1, squeezeDims=list(axes))

    def expand(self, x, axis):
        y = self.same(x, np.expand_dims(x.real, axis))
        return self.add_operator("EXPAND_DIMS", [x, self.ints([axis])], y, "ExpandDimsOptions", 1)

    def transpose(self, x, axes):
        return self.add_operator("TRANSPOSE", [x, self.ints(axes)], self.same(x, x.real.transpose(axes)),
                                 "TransposeOptions", 4)

    def pad_by(self, x, amounts, value=None):
        y = self.same(x, np.pad(x.real, amounts, constant_values=0.0 if value is None else value))
        if value is None:
            return self.add_operator("PAD", [x, self.ints(amounts)], y, "PadOptions", 2)
        code = int(np.clip(round(value / float(x.scale)) + x.zero_point, *RANGE[x.dtype]))
        fill = self.tensor([1], x.dtype, x.scale, x.zero_point, np.array([code]))
        return self.add_operator("PADV2", [x, self.ints(amounts), fill], y, "PadV2Options", 2)

    def mirror_pad(self, x, amounts, symmetric=False):
        y = self.same(x, np.pad(x.real, amounts, mode="symmetric" if symmetric else "reflect"))
        return self.add_operator("MIRROR_PAD", [x, self.ints(amounts)], y, "MirrorPadOptions", 1, mode=int(symmetric))

    def strided_slice(self, x, begin, end, strides, index=None, **masks):
        """`index` says the same as begin, end, strides and masks."""
        y = self.same(x, x.real[index])
        return self.add_operator("STRIDED_SLICE", [x, self.ints(begin), self.ints(end), self.ints(strides)], y,
                                 "StridedSliceOptions", 4, **masks)

    def slice(self, x, begin, size):
        index = tuple(slice(b, None if s < 0 else b + s) for b, s in zip(begin, size))
        return self.add_operator("SLICE", [x, self.ints(begin), self.ints(size)], self.same(x, x.real[index]),
                                 "SliceOptions", 3)

    def concat(self, parts, axis):
        first = parts[0]
        parts = [first] + [p if p.scale == first.scale and p.zero_point == first.zero_point else
                           self.quantize(p, first.scale, first.zero_point) for p in parts[1:]]
        y = self.same(first, np.concatenate([p.real for p in parts], axis=axis))
        return self.add_operator("CONCATENATION", parts, y, "ConcatenationOptions", 2, axis=axis,
                                 fusedActivationFunction=FUSED["none"])

    def add_pieces(self, builtin, inputs, reals, x, options, version=1, **fields):
        """An operator that writes several tensors."""
        pieces = [self.same(x, real) for real in reals]
        self.operator(getattr(schema.BuiltinOperator, builtin), inputs, [y.index for y in pieces],
                      getattr(schema.BuiltinOptions, options), make(getattr(schema, options + "T"), **fields), version)
        return pieces

    def split(self, x, pieces, axis):
        reals = np.split(x.real, pieces, axis)
        return self.add_pieces("SPLIT", [self.ints(axis), x.index], reals, x, "SplitOptions", 4, numSplits=pieces)

    def split_v(self, x, sizes, axis):
        """One of the sizes may be -1."""
        rest = x.real.shape[axis] - sum(size for size in sizes if size >= 0)
        ends = np.cumsum([rest if size < 0 else size for size in sizes])[:-1]
        return self.add_pieces("SPLIT_V", [x.index, self.ints(sizes), self.ints(axis)], np.split(x.real, ends, axis), x,
                               "SplitVOptions", 2, numSplits=len(sizes))

    def unpack(self, x, axis):
        reals = [np.squeeze(part, axis) for part in np.split(x.real, x.real.shape[axis], axis)]
        return self.add_pieces("UNPACK", [x.index], reals, x, "UnpackOptions", 1, num=len(reals), axis=axis)

    def pack(self, parts, axis):
        y = self.same(parts[0], np.stack([p.real for p in parts], axis))
        return self.add_operator("PACK", parts, y, "PackOptions", 1, valuesCount=len(parts), axis=axis)

    def gather(self, x, indices, axis):
        y = self.same(x, np.take(x.real, indices, axis))
        return self.add_operator("GATHER", [x, self.ints(indices)], y, "GatherOptions", 1, axis=axis)

    def depth_to_space(self, x, block):
        n, h, w, c = x.real.shape
        real = x.real.reshape(n, h, w, block, block, -1).transpose(0, 1, 3, 2, 4, 5)
        y = self.same(x, real.reshape(n, h * block, w * block, -1))
        return self.add_operator("DEPTH_TO_SPACE", [x], y, "DepthToSpaceOptions", 1, blockSize=block)

    def space_to_depth(self, x, block):
        n, h, w, c = x.real.shape
        real = x.real.reshape(n, h // block, block, w // block, block, c).transpose(0, 1, 3, 2, 4, 5)
        y = self.same(x, real.reshape(n, h // block, w // block, -1))
        return self.add_operator("SPACE_TO_DEPTH", [x], y, "SpaceToDepthOptions", 1, blockSize=block)

    def broadcast_to(self, x, shape):
        y = self.same(x, np.broadcast_to(x.real, shape))
        return self.add_operator("BROADCAST_TO", [x, self.ints(shape)], y, "BroadcastToOptions", 2)

    def reverse(self, x, axes):
        return self.add_operator("REVERSE_V2", [x, self.ints(axes)], self.same(x, np.flip(x.real, axes)),
                                 "ReverseV2Options", 3)

    def resize_nearest(self, x, size, align=False, half=False):
        n, h, w, c = x.real.shape
        rows = np.minimum(np.arange(size[0]) * h // size[0], h - 1)
        columns = np.minimum(np.arange(size[1]) * w // size[1], w - 1)
        y = self.same(x, x.real[:, rows][:, :, columns])
        return self.add_operator("RESIZE_NEAREST_NEIGHBOR", [x, self.ints(size)], y, "ResizeNearestNeighborOptions",
                                 4 if x.dtype == "int16" else 3, alignCorners=align, halfPixelCenters=half)

    def resize_bilinear(self, x, size, align=False, half=False):
        y = self.same(x, np.zeros((x.real.shape[0], *size, x.real.shape[3])))
        y.real = self.random.normal(0, 1, y.real.shape)
        return self.add_operator("RESIZE_BILINEAR", [x, self.ints(size)], y, "ResizeBilinearOptions", 3,
                                 alignCorners=align, halfPixelCenters=half)

    # --- one code ---------------------------------------------------------------------------------------------------

    def quantize(self, x, scale, zero_point, dtype=None):
        y = self.value([x], x.real, scale, zero_point, dtype or x.dtype)
        return self.add_operator("QUANTIZE", [x], y, "QuantizeOptions", 2)

    def clamped(self, builtin, x, scale=None, zero_point=None):
        real = {"RELU": lambda r: np.maximum(r, 0), "RELU6": lambda r: np.clip(r, 0, 6),
                "RELU_N1_TO_1": lambda r: np.clip(r, -1, 1)}[builtin](x.real)
        scale, zero_point = (x.scale, x.zero_point) if scale is None else (scale, zero_point)
        y = self.value([x], real, scale, zero_point)
        return self.add_operator(builtin, [x], y, None, 1 if builtin == "RELU_N1_TO_1" else 2)

    def hard_swish(self, x):
        y = self.value([x], x.real * np.clip(x.real + 3, 0, 6) / 6)
        return self.add_operator("HARD_SWISH", [x], y, "HardSwishOptions", 1)

    def leaky_relu(self, x, alpha):
        y = self.value([x], np.where(x.real > 0, x.real, alpha * x.real))
        return self.add_operator("LEAKY_RELU", [x], y, "LeakyReluOptions", 2, alpha=alpha)

    def table_of(self, builtin, x, scale, zero_point, options=None, **fields):
        """EXP and its like, to codes of a given scale."""
        real = {"EXP": np.exp, "LOG": lambda r: np.log(np.maximum(r, 1e-9)), "SQRT": lambda r: np.sqrt(np.abs(r)),
                "RSQRT": lambda r: 1 / np.sqrt(np.maximum(r, 1e-9)), "ABS": np.abs, "NEG": np.negative,
                "GELU": lambda r: r / (1 + np.exp(-1.702 * r))}[builtin](x.real)
        y = self.value([x], real, np.float32(scale), zero_point)
        return self.add_operator(builtin, [x], y, options, 1, **fields)

    def logistic(self, x):
        fixed = (1 / 32768, 0) if x.dtype == "int16" else (1 / 256, -128)
        return self.add_operator("LOGISTIC", [x], self.value([x], 1 / (1 + np.exp(-x.real)), *fixed), None, 3)

    def function(self, op, x):
        """A scale of TANH is fixed: a few others have a value that the last bit of a math library decides."""
        if op == "tanh" and x.dtype == "int8":
            x = self.quantize(x, np.float32(0.03), 5)
        return Network.function(self, op, x)

    def tanh(self, x):
        fixed = (1 / 32768, 0) if x.dtype == "int16" else (1 / 128, 0)
        return self.add_operator("TANH", [x], self.value([x], np.tanh(x.real), *fixed), None, 3)

    def dequantize(self, x):
        y = Value(self.tensor(x.real.shape, "float32", None, 0), x.real, "float32", 1, 0)
        self.values.append(y)
        self.layers.append({})
        return self.add_operator("DEQUANTIZE", [x], y, "DequantizeOptions", 3)

    # --- the answer -------------------------------------------------------------------------------------------------

    def to_file(self, codes):
        """The codes that the file has for those of an answer."""
        return codes

    def from_file(self, given):
        return given

    def answer(self, folder):
        content = self.bytes()
        (folder / f"{self.name}.tflite").write_bytes(content)
        interpreter = tfl.Interpreter(model_content=content,
                                      experimental_op_resolver_type=tfl.OpResolverType.BUILTIN_REF,
                                      experimental_preserve_all_tensors=True)
        interpreter.allocate_tensors()
        x = self.values[0]
        if x.dtype == "int32":
            codes = x.real.astype(np.int32)
        else:
            low, high = RANGE[x.dtype]
            codes = np.clip(np.round(x.real / float(x.scale)) + x.zero_point, low, high).astype(NUMPY[x.dtype])
            low, high = self.input_bounds or (low, high)
            codes = np.clip(codes, low, high)
            codes.flat[:4] = [low, high, x.zero_point, low]
        interpreter.set_tensor(x.index, self.to_file(codes))
        interpreter.invoke()
        tensors = {}
        for value in self.values[1:]:
            given = self.from_file(interpreter.get_tensor(value.index))
            assert given.shape == value.real.shape, (self.name, given.shape, value.real.shape)
            tensors[self.graph.tensors[value.index].name.decode()] = hexadecimal(given)
        answer = {"name": self.name, "input": hexadecimal(codes), "tensors": tensors}
        if self.input_bounds is not None:
            largest = [(x, max(-low, high))] + [(y, int(np.abs(interpreter.get_tensor(y.index).astype(int)).max()))
                                                for y in self.bounded]
            answer["bounds"] = {self.graph.tensors[y.index].name.decode(): most for y, most in largest}
        return answer


class Unsigned(Model):
    """The same with uint8 codes in the file, which are 128 more. The answers hold int8 codes, as a program does.

    LiteRT has uint8 weights of one scale only.
    """

    is_unsigned = True

    def tensor(self, shape, dtype, scales, zero_point, data=None, axis=0):
        if dtype != "int8" or not self.is_unsigned:
            return Model.tensor(self, shape, dtype, scales, zero_point, data, axis)
        data = None if data is None else np.asarray(data, np.int64) + 128
        return Model.tensor(self, shape, "uint8", scales, zero_point + 128, data, axis)

    def weights(self, shape, axis, per_channel, x, products):
        return Model.weights(self, shape, axis, False, x, products)

    def to_file(self, codes):
        return (codes.astype(np.int64) + 128).astype(np.uint8) if codes.dtype == np.int8 else codes

    def from_file(self, given):
        return (given.astype(np.int64) - 128).astype(np.int8) if given.dtype == np.uint8 else given


# --- the models ------------------------------------------------------------------------------------------------------


def convolutions(n):
    x = n.input((2, 9, 8, 4))
    x = n.general_conv(x, 6, (3, 3), dilation=(2, 2), activation="relu")
    x = n.general_conv(x, 8, (3, 2), (2, 1), groups=2, activation="relu6")
    x = n.general_conv(x, 5, (2, 3), same=False)
    n.general_conv(x, 7, (1, 1), per_channel=False, activation="relu_n1_to_1")


def depthwise(n):
    x = n.input((1, 8, 9, 3))
    x = n.general_conv(x, 0, (3, 3), multiplier=2, activation="relu")
    x = n.general_conv(x, 0, (3, 3), dilation=(2, 1), multiplier=1, bias=False)
    n.general_conv(x, 0, (2, 2), (2, 2), same=False, multiplier=3, activation="relu6")


def transposed(n):
    x = n.input((2, 4, 5, 3))
    x = n.transpose_conv(x, 4, (3, 3), (2, 2))
    x = n.transpose_conv(x, 2, (2, 2), (2, 2), same=False)
    n.transpose_conv(x, 3, (4, 3), (1, 2), bias=False)


def rows(n):
    x = n.input((2, 6, 10))
    x = n.fully(x, 8, "relu", keep=True)
    x = n.fully(x, 12, keep=True, bias=False, per_channel=False)
    x = n.fully(x, 5, "relu6")
    n.softmax(x)


def image_rows(n):
    x = n.general_conv(n.input((2, 5, 4, 3)), 6, (3, 3), activation="relu")
    n.softmax(n.fully(n.pool2("MAX_POOL_2D", x, (2, 2), (2, 2), activation="relu6"), 7))


def sums(n):
    x = n.input((2, 5, 6, 4))
    a, b = n.general_conv(x, 4, (3, 3)), n.general_conv(x, 4, (1, 1))
    c = n.two("ADD", a, b, "relu6")
    d = n.two("SUB", c, x)
    e = n.two("MUL", d, a, "relu")
    f = n.two("ADD", e, n.mean(d, (1, 2)))
    n.two("SUB", n.mean(f, (1, 2)), f, "relu_n1_to_1")


def squares(n):
    """Scales that are equal, that are a power of two apart, and others; on either side the larger one."""
    x = n.input((2, 5, 6, 4))
    y = n.general_conv(x, 4, (1, 1))
    n.squared_difference(x, n.reverse(x, (1,)))
    n.squared_difference(x, y)
    n.squared_difference(y, n.mean(x, (1, 2)))
    n.squared_difference(n.constant(n.random.normal(0, 2, 4)), x)
    n.squared_difference(n.quantize(x, x.scale * np.float32(0.25), 3), x, x.scale * x.scale * np.float32(77), 9)
    n.squared_difference(x, n.quantize(y, x.scale * np.float32(0.003), -7), x.scale * np.float32(300), -100)


def layer_norm(n):
    """As a converter writes it: moments, and a root of the variance that is multiplied into one scale and one bias."""
    x = n.input((2, 6, 16))
    mean = n.mean(x, (2,))
    if x.dtype == "int8":
        square = n.squared_difference(x, mean)
    else:
        difference = n.two("SUB", x, mean)
        square = n.two("MUL", difference, difference)
    variance = n.two("ADD", n.mean(square, (2,)), n.constant(np.array(0.02)), "relu")
    scale = np.float32(2.5 / (32767 if x.dtype == "int16" else 255))
    root = n.table_of("RSQRT", variance, scale, 0 if x.dtype == "int16" else -128)
    root = n.two("MUL", root, n.constant(n.random.normal(1, 0.2, 16)))
    shift = n.two("SUB", n.constant(n.random.normal(0, 0.3, 16)), n.two("MUL", mean, root))
    n.two("ADD", n.two("MUL", x, root), shift)


def constants(n):
    x = n.input((2, 4, 5, 6))
    x = n.two("ADD", x, n.constant(n.random.normal(0, 1, 6)))
    x = n.two("MUL", x, n.constant(n.random.normal(0.5, 0.3, (1, 1, 1, 6))), "relu6")
    x = n.two("SUB", n.constant([1.5]), x)
    n.two("MUL", x, n.constant(np.array(0.75)), "relu")


def products(n):
    """Matrices of one sample each, and constant ones. In the first product, 14 codes of a sample tell a multiplier of
    LiteRT, which multiplies the scales in float32, from one of scales that are multiplied in double.
    """
    x = n.input((2, 15, 24))
    x.scale, x.zero_point = np.float32(float.fromhex("0x1.3843a6p-6")), 0
    quantization = n.graph.tensors[x.index].quantization
    quantization.scale, quantization.zeroPoint = [float(x.scale)], [0]
    codes = np.clip(np.round(x.real * 64), -127, 127)
    for row, total in enumerate([s * k for s in (-1, 1) for k in range(124593, 222814, 16370)]):
        steps, rest = divmod(total, 127)
        codes[:, row, 4:23], codes[:, row, 23] = [(steps + i) // 19 for i in range(19)], rest
    codes[:, 14] = [0] * 4 + [127] * 19 + [1]
    x.real = codes * float(x.scale)
    y = n.slice(x, (0, 14, 0), (2, 1, 24))
    n.batch_matmul(n.slice(x, (0, 0, 0), (2, 14, 24)), y, False, True, float.fromhex("0x1.524892p-1"), 0)
    y = n.fully(x, 15, keep=True)
    n.batch_matmul(x, y, adj_x=True)
    n.batch_matmul(x, y, adj_x=True, adj_y=True)
    y = n.batch_matmul(y, x)
    n.batch_matmul(y, n.constant(n.random.normal(0, 1, (24, 5))))
    n.batch_matmul(n.constant(n.random.normal(0, 1, (1, 4, 15))), y)
    n.batch_matmul(y, n.constant(n.random.normal(0, 1, (5, 24))), adj_y=True)


def matrices(n):
    """Several matrices a sample. Axes between them and the samples are repeated."""
    x = n.input((2, 3, 4, 6))
    y, t = n.slice(x, (0, 1, 0, 0), (2, 1, 4, 6)), n.transpose(x, (0, 1, 3, 2))
    n.batch_matmul(x, y, adj_y=True)
    n.batch_matmul(y, x, adj_x=True)
    n.batch_matmul(x, t)
    n.batch_matmul(t, y)
    n.batch_matmul(t, x, adj_x=True, adj_y=True)
    n.batch_matmul(x, n.constant(n.random.normal(0, 1, (1, 3, 6, 5))))
    n.batch_matmul(x, n.constant(n.random.normal(0, 1, (3, 5, 6))), adj_y=True)
    n.batch_matmul(x, n.constant(n.random.normal(0, 1, (6, 2))))
    n.batch_matmul(n.constant(n.random.normal(0, 1, (1, 2, 4))), x)
    n.batch_matmul(n.constant(n.random.normal(0, 1, (4, 7))), y, adj_x=True)


def one_sample(n):
    """Matrices without the axis of the samples, of different ranks."""
    x = n.reshape(n.input((1, 3, 4, 5)), (3, 4, 5))
    rows = n.reshape(x, (12, 5))
    n.batch_matmul(x, n.constant(n.random.normal(0, 1, (5, 2))))
    n.batch_matmul(rows, n.constant(n.random.normal(0, 1, (3, 5, 2))))
    n.batch_matmul(rows, n.constant(n.random.normal(0, 1, (5, 2))))
    n.batch_matmul(rows, rows, adj_x=True)
    n.batch_matmul(rows, x, adj_y=True)
    n.batch_matmul(n.reshape(x, (1, 3, 2, 2, 5)), n.reshape(x, (1, 3, 2, 5, 2)))
    n.batch_matmul(n.reshape(x, (3, 2, 2, 5)), n.slice(x, (1, 0, 0), (1, 4, 5)), adj_y=True)


def sample_rows(n):
    """Each sample is a row."""
    x = n.batch_matmul(n.input((4, 10)), n.constant(n.random.normal(0, 1, (10, 6))))
    n.softmax(n.batch_matmul(n.two("ADD", x, n.constant([0.5])), n.constant(n.random.normal(0, 1, (3, 6))), adj_y=True))


def narrow_matrix(n):
    """Activations of int16 codes times a constant of int8 codes."""
    x = n.input((2, 5, 6))
    codes = n.random.integers(-128, 128, (6, 4))
    scale = np.float32(0.013)
    y = Value(n.tensor(codes.shape, "int8", scale, 0, codes), codes * float(scale), "int8", scale, 0)
    n.batch_matmul(x, y)


def attention(n):
    """Two heads, five tokens."""
    x = n.input((2, 5, 8))
    q, k, v = (n.transpose(n.reshape(n.fully(x, 8, keep=True), (2, 5, 2, 4)), (0, 2, 1, 3)) for _ in range(3))
    y = n.batch_matmul(n.softmax(n.batch_matmul(q, k, adj_y=True)), v)
    n.fully(n.reshape(n.transpose(y, (0, 2, 1, 3)), (2, 5, 8)), 8, keep=True)


def pools(n):
    x = n.input((2, 9, 7, 3))
    x = n.pool2("AVERAGE_POOL_2D", x, (3, 3), (1, 2), same=True)
    x = n.pool2("MAX_POOL_2D", x, (2, 2), (1, 1), activation="relu")
    n.pool2("AVERAGE_POOL_2D", x, (3, 2), (2, 1), activation="relu6")


def means(n):
    x = n.input((2, 6, 5, 4))
    n.mean(n.general_conv(x, 3, (1, 1)), (1, 2))
    n.mean(x, (1,))
    n.mean(x, (2,), keep=False)
    n.mean(x, (3,))
    n.mean(x, (-1, 1, 2), keep=False)
    n.mean(n.reshape(x, (2, 30, 4)), (1,), keep=False)
    n.mean(x, (1, 3))
    n.mean(n.reshape(x, (2, 3, 2, 5, 4)), (1, 3), keep=False)
    n.mean(n.reshape(x, (2, 3, 2, 5, 4)), (4, 2))
    n.mean(x, (1, 2), keep=False)


def totals(n):
    """Sums to grids of their own, and to that of the input, where they saturate."""
    x = n.input((2, 6, 5, 4))
    n.sum(n.general_conv(x, 3, (1, 1)), (1, 2))
    n.sum(x, (3,), keep=False)
    n.sum(x, (2,), True, x.scale, x.zero_point)
    n.sum(x, (-1, 1))
    n.sum(n.reshape(x, (2, 3, 2, 5, 4)), (1, 3), keep=False)
    n.sum(n.reshape(x, (2, 30, 4)), (1,), False, x.scale * np.float32(7.3), 0 if x.dtype == "int16" else 30)


def moves(n):
    x = n.input((2, 6, 8, 4))
    y = n.reshape(n.transpose(x, (0, 2, 1, 3)), (2, 8, 24))
    y = n.transpose(y, (0, 2, 1))
    y = n.reshape(y, (2, 4, 6, 8), with_input=False)
    y = n.transpose(y, (0, 3, 1, 2))
    z = n.squeeze(n.expand(n.slice(y, (0, 1, 0, 2), (2, 5, -1, 3)), 1), (1,))
    n.fully(z, 5)


def slices(n):
    x = n.input((2, 7, 8, 5))
    n.strided_slice(x, (0, 1, 0, 1), (2, 6, 8, 4), (1, 2, 3, 1), np.s_[:, 1:6:2, 0:8:3, 1:4])
    n.strided_slice(x, (0, -3, 2, 0), (0, 99, -1, 0), (1, 1, 1, 1), np.s_[:, -3:, 2:-1, :], beginMask=1, endMask=9)
    n.strided_slice(x, (0, 2, 0, 0), (0, 3, 0, 0), (1, 1, 1, 1), np.s_[:, 2], beginMask=13, endMask=13,
                    shrinkAxisMask=2)
    y = n.strided_slice(x, (0, 1), (0, 4), (1, 1), np.s_[..., 1:4], beginMask=0, endMask=0, ellipsisMask=1)
    n.strided_slice(y, (0, 6, 0, 0), (0, 1, 0, 0), (1, -2, 1, 1), np.s_[:, 6:1:-2], beginMask=13, endMask=13)


def extremes(n):
    x = n.input((2, 4, 3, 5))
    y = n.extreme("MINIMUM", n.extreme("MAXIMUM", x, n.bound(x, -20)), n.bound(x, 40, (1, 1, 1, 5)))
    z = n.extreme("MAXIMUM", n.bound(y, 7, (1,)), n.reverse(x, (1,)))
    n.extreme("MAXIMUM", y, z)
    n.extreme("MAXIMUM", *n.unpack(n.reshape(z, (2, 2, 30)), 1))
    n.extreme("MINIMUM", x, n.reverse(x, (2,)))


def log_shares(n):
    """Rows of equal and of distant codes, sharp and flat ones."""
    x = n.input((2, 6, 9))
    for scale in (x.scale, 0.004, 0.26, 2.9):
        y = n.value([x], x.real, np.float32(scale), 5)
        n.add_operator("QUANTIZE", [x], y, "QuantizeOptions", 2)
        n.log_softmax(y)
    n.log_softmax(n.fully(x, 33, keep=True))
    n.log_softmax(n.quantize(x, x.scale * np.float32(40), 0))


def selected(n):
    x = n.input((2, 4, 5, 6))
    y, low = n.reverse(x, (1,)), RANGE[x.dtype][0]
    mask = lambda *shape: n.random.random(shape) < 0.5
    n.select(mask(1, 1, 5, 6), x, y)
    n.select(mask(4, 5, 1), y, n.bound(x, low))
    n.select(mask(5, 6), n.bound(x, x.zero_point, (1,)), x)
    n.select(mask(6), n.bound(x, n.random.integers(low, -low, (4, 1, 1)), (4, 1, 1)), y)
    n.select(mask(1, 4, 5, 6), x, n.bound(x, n.random.integers(low, -low, 6), (6,)))
    n.select(np.array(True), y, x)
    n.select(mask(4, 1, 1), n.slice(x, (0, 0, 2, 0), (2, 4, 1, 6)), y)


def selected_sample(n):
    """One sample, and the older SELECT."""
    x = n.input((1, 6, 7))
    y = n.reverse(x, (2,))
    n.select(n.random.random((1, 6, 7)) < 0.5, x, y, "SELECT")
    n.select(np.array(False), x, y, "SELECT")
    x = n.reshape(x, (6, 7))
    causal = np.tri(6, 7) > 0
    n.select(causal, x, n.bound(x, RANGE[x.dtype][0], (6, 7)), "SELECT")
    n.select(causal, x, n.bound(x, RANGE[x.dtype][0]))


def embeddings(n):
    """Ids of two samples, and positions that are added."""
    x = n.rows_of("GATHER", n.constant(n.random.normal(0, 1, (13, 8))), n.ids((2, 5), 13))
    x = n.two("ADD", x, n.constant(n.random.normal(0, 1, (1, 5, 8))))
    n.fully(x, 6, keep=True)


def lookups(n):
    n.fully(n.rows_of("EMBEDDING_LOOKUP", n.constant(n.random.normal(0, 1, (20, 6))), n.ids((7,), 20)), 5, keep=True)


def pieces(n):
    x = n.input((2, 4, 2, 4))
    a, b = n.split(x, 2, 3)
    c, d, e = n.split_v(x, (1, -1, 2), 1)
    n.two("ADD", n.pack([c, d], 2), n.reshape(e, (2, 1, 2, 2, 4)))
    n.fully(d, 4)
    n.unpack(n.reshape(n.pack([a, b, a], -1), (2, 8, 6)), 2)
    n.pack([n.pack([y, y], 1) for y in n.unpack(x, 1)], 3)


def gathered(n):
    x = n.input((2, 9, 5, 4))
    n.gather(x, (1, 3, 5, 7), 1)
    n.gather(x, 3, 2)
    n.gather(x, (8, 6, 4), -3)
    n.gather(x, ((0, 1), (2, 3)), 3)
    n.gather(x, (2, 2, 2), 2)
    n.gather(n.gather(x, (0, 1, 2, 7, 8, 4, 4), 1), (3, 0), 3)
    n.broadcast_to(n.mean(x, (1, 2)), (2, 3, 2, 4))
    n.broadcast_to(n.slice(x, (0, 0, 2, 0), (2, 9, 1, 4)), (2, 9, 3, 4))
    n.reverse(n.reverse(x, (1, 2)), (3,))


def blocks(n):
    x = n.input((2, 4, 6, 3))
    y = n.space_to_depth(x, 2)
    n.depth_to_space(n.general_conv(y, 18, (1, 1)), 3)
    n.depth_to_space(y, 2)


def unsigned_net(n):
    x = n.input((1, 7, 7, 3))
    x = n.general_conv(x, 6, (3, 3), (1, 2), activation="relu6")
    x = n.general_conv(x, 0, (3, 3), multiplier=1, activation="relu")
    y = n.pool2("MAX_POOL_2D", x, (2, 2), (1, 1), same=True)
    x = n.two("ADD", x, n.quantize(n.two("MUL", y, n.constant(n.random.normal(0.5, 0.3, 6))), y.scale, 9))
    a, b = n.split(n.pad_by(n.concat([x, y], 3), [[0, 0], [1, 0], [0, 1], [0, 0]]), 2, 3)
    x = n.two("SUB", n.hard_swish(a), n.leaky_relu(b, 0.1), "relu_n1_to_1")
    x = n.transpose_conv(n.pool2("AVERAGE_POOL_2D", x, (3, 3), (3, 3)), 4, (2, 2), (2, 2))
    x = n.resize_nearest(n.two("MUL", n.logistic(x), n.tanh(n.quantize(x, np.float32(0.03), 5))), (6, 5))
    n.mean(n.reverse(x, (1, 2)), (1, 2), keep=False)
    x = n.fully(n.transpose(n.reshape(x, (1, 30, 4)), (0, 2, 1)), 7, "relu", keep=True)
    n.dequantize(n.softmax(n.fully(n.slice(x, (0, 1, 0), (1, 3, -1)), 5)))


def mixed_types(n):
    """An int8 network between a QUANTIZE from uint8 codes and one to them."""
    x = n.input((1, 6, 6, 3))
    n.is_unsigned = False
    y = n.quantize(x, x.scale, x.zero_point)
    y = n.general_conv(y, 4, (3, 3))
    n.is_unsigned = True
    n.quantize(y, y.scale * np.float32(1.1), 5)


def pads(n):
    x = n.input((2, 5, 4, 3))
    x = n.pad_by(x, [[0, 0], [1, 2], [0, 3], [0, 0]])
    n.pad_by(x, [[0, 0], [1, 0], [0, 1], [2, 1]])
    n.pad_by(x, [[0, 0], [1, 0], [2, 1], [0, 0]], 0.7)
    n.mirror_pad(x, [[0, 0], [2, 1], [0, 3], [0, 0]])
    n.mirror_pad(x, [[0, 0], [1, 0], [2, 2], [1, 2]])


def long_rows(n):
    """A sum that stays in 32 bits because of what the input holds."""
    n.input_bounds = (-9000, 9000)
    n.fully(n.input((1, 1152)), 3)


def long_windows(n):
    n.input_bounds = (-9000, 9000)
    x = n.input((1, 4, 4, 128))
    y = n.general_conv(x, 72, (3, 3))
    n.bounded = (y,)
    n.has_zero_bias = True
    n.fully(y, 4)
    n.transpose_conv(x, 3, (3, 3), (2, 2))


def joins(n):
    x = n.input((2, 6, 5, 4))
    a, b = n.general_conv(x, 3, (3, 3)), n.pool2("MAX_POOL_2D", x, (3, 3), (1, 1), same=True)
    y = n.concat([a, b, a], 3)
    y = n.concat([y, n.pad_by(y, [[0, 0], [0, 0], [1, 0], [0, 0]])], -2)
    n.concat([n.fully(y, 4), n.fully(y, 3)], 1)


def nearest(n):
    x = n.input((1, 5, 7, 3))
    n.resize_nearest(x, (10, 14))
    n.resize_nearest(x, (10, 14), half=True)
    n.resize_nearest(x, (9, 20), align=True)
    n.resize_nearest(x, (3, 4))
    n.resize_nearest(x, (13, 5), half=True)


def bilinear(n):
    x = n.input((2, 5, 7, 3))
    n.resize_bilinear(x, (10, 14))
    n.resize_bilinear(x, (10, 14), half=True)
    n.resize_bilinear(x, (9, 20), align=True)
    n.resize_bilinear(x, (3, 4), half=True)
    n.resize_bilinear(n.resize_bilinear(x, (1, 1), align=True), (13, 5))
    n.resize_bilinear(n.resize_bilinear(x, (23, 11), half=True), (24, 10), align=True)


def curves(n):
    """LOGISTIC and TANH of int16 codes: scales that are powers of two or next to one, and others; all knots."""
    x = n.input((1, 8, 8, 2))
    for scale in (2.0 ** -12, 1.0005 * 2.0 ** -12, 2.0 ** -11, 2.0 ** -9, 0.0003, 0.00005, 0.011, 1.4, 5.1, 1e-7):
        y = n.quantize(x, np.float32(scale), 0)
        n.tanh(y)
        n.logistic(y)


def knots(n):
    """A step of the codes is a knot of the curve."""
    scale = np.nextafter(np.float32(4 / 3 / 64), np.float32(1))
    x = n.input((1, 260))
    n.graph.tensors[x.index].quantization.scale = [float(scale)]
    x.scale, x.real = scale, np.arange(-4, 256).reshape(1, 260) * float(scale)
    n.tanh(x)


def wide_leaks(n):
    x = n.input((1, 8, 8, 2))
    for alpha, factor in ((0.01, 0.4), (0.3, 1.0), (0.0, 3.0), (1.5, 1.0), (0.2, 0.07)):
        n.leaky_relu(n.quantize(x, x.scale * np.float32(factor), 0), alpha)


def functions(n):
    x = n.input((2, 5, 6, 4))
    a = n.logistic(x)
    b = n.tanh(n.quantize(n.general_conv(x, 4, (1, 1)), np.float32(0.03), 5))
    c = n.hard_swish(n.two("MUL", a, b))
    d = n.leaky_relu(n.two("SUB", x, c), 0.1)
    n.hard_swish(n.quantize(d, d.scale * np.float32(3.7), 17))


def swishes(n):
    x = n.input((1, 16, 16, 1))
    for factor, zero_point in ((0.02, 0), (0.3, -128), (1.0, 5), (6.0, 127), (40.0, -60)):
        n.hard_swish(n.quantize(x, x.scale * np.float32(factor), zero_point))


def leaks(n):
    x = n.input((1, 16, 16, 1))
    for alpha, factor, zero_point in ((0.01, 0.4, 0), (0.3, 1.0, -128), (-0.5, 3.0, 60), (1.5, 1.0, 127)):
        n.leaky_relu(n.quantize(x, x.scale * np.float32(factor), zero_point), alpha)


def tables(n):
    """The scales are fixed: of others, a few have values at the middle of two codes, which an import refuses."""
    x = n.quantize(n.input((1, 16, 16, 1)), np.float32(0.04), 7)
    positive = n.clamped("RELU", x)
    n.table_of("EXP", x, 0.09, -100, "ExpOptions")
    n.table_of("LOG", x, 0.03, 60)
    n.table_of("GELU", x, 0.035, -3, "GeluOptions", approximate=False)
    n.table_of("GELU", x, 0.021, -90, "GeluOptions", approximate=True)
    n.table_of("SQRT", positive, 0.011, -120)
    n.table_of("RSQRT", positive, 0.02, -128)
    n.table_of("ABS", x, x.scale, x.zero_point, "AbsOptions")
    n.table_of("ABS", x, 0.03, -128, "AbsOptions")
    n.table_of("NEG", n.quantize(x, x.scale, 0), x.scale, 0, "NegOptions")


def middle(n):
    """Every code, with a scale at which a value of the sigmoid lies next to the middle of two codes."""
    x = n.input((1, 260))
    x.scale, x.zero_point = np.float32(0.003906275611370802), 16
    quantization = n.graph.tensors[x.index].quantization
    quantization.scale, quantization.zeroPoint = [float(x.scale)], [16]
    x.real = (np.arange(-132, 128).reshape(1, 260) - 16) * float(x.scale)
    n.logistic(x)


def wide_tables(n):
    x = n.quantize(n.input((1, 16, 16, 1)), np.float32(0.0001), 0)
    n.table_of("EXP", x, 0.0008, 0, "ExpOptions")
    n.table_of("LOG", x, 0.0003, 0)
    n.table_of("RSQRT", n.clamped("RELU", x), 0.002, 0)
    n.table_of("ABS", x, x.scale, 0, "AbsOptions")


def clamps(n):
    x = n.input((2, 8, 8, 3))
    n.clamped("RELU", x)
    n.clamped("RELU6", x, x.scale * np.float32(1.7), 0 if x.dtype == "int16" else -100)
    if x.dtype == "int8":
        n.clamped("RELU_N1_TO_1", x, x.scale * np.float32(0.6), 3)
    n.clamped("RELU", x, x.scale * np.float32(0.31), 0 if x.dtype == "int16" else 99)


def conversions(n):
    x = n.input((2, 4, 4, 6))
    other = "int16" if x.dtype == "int8" else "int8"
    y = n.quantize(x, x.scale * np.float32(0.7), 0, other)
    z = n.quantize(y, y.scale * np.float32(1.9), 0, x.dtype)
    n.dequantize(n.quantize(z, z.scale * np.float32(0.8), 0))


def computed_shape(n):
    """A reshape as converters write it where the number of samples is not fixed."""
    x = n.general_conv(n.input((2, 4, 3, 2)), 3, (1, 1))
    y = n.same(x, x.real.reshape(2, 36))
    n.add_operator("RESHAPE", [x, n.computed_dims(x, (36,))], y, "ReshapeOptions", 1)
    n.fully(y, 5)


def computed_size(n):
    """The same for the size of a transposed convolution, and a constant size."""
    x = n.input((2, 4, 5, 3))
    n.transpose_conv(n.transpose_conv(x, 4, (3, 3), (2, 2), computed=True), 2, (2, 2), (2, 1), same=False)


def unet(n):
    x = n.input((1, 8, 8, 3))
    a = n.general_conv(x, 4, (3, 3), activation="relu")
    b = n.general_conv(n.pool2("MAX_POOL_2D", a, (2, 2), (2, 2)), 6, (3, 3), activation="relu")
    c = n.transpose_conv(b, 4, (2, 2), (2, 2))
    d = n.concat([c, a], 3)
    n.general_conv(n.resize_nearest(d, (16, 16)), 2, (1, 1))


def mobilenet3(n):
    x = n.hard_swish(n.general_conv(n.input((1, 10, 10, 3)), 8, (3, 3), (2, 2)))
    s = n.mean(x, (1, 2))
    s = n.fully(n.fully(s, 4, "relu"), 8)
    s = n.reshape(n.logistic(s), (1, 1, 1, 8))
    x = n.hard_swish(n.general_conv(n.two("MUL", x, s), 6, (1, 1)))
    n.softmax(n.fully(n.mean(x, (1, 2), keep=False), 5))


def constant_image(n):
    x = n.input((1, 4, 4, 2))
    y = n.two("ADD", x, n.constant(n.random.normal(0, 1, (1, 4, 4, 2))))
    n.two("MUL", n.constant(n.random.normal(0, 1, (1, 4, 4, 2))), y)


def keyword_stream(n):
    x = n.reshape(n.input((1, 60)), (1, 12, 5, 1))
    x = n.general_conv(x, 6, (4, 3), (2, 2), activation="relu")
    x = n.general_conv(x, 0, (3, 3), multiplier=1, activation="relu")
    n.softmax(n.fully(n.pool2("AVERAGE_POOL_2D", x, x.real.shape[1:3], (1, 1)), 4))


# --- models of real numbers ------------------------------------------------------------------------------------------


class Reals(Network):
    """A model of float32. Shapes are NHWC, and an operator is told that of its output."""

    def __init__(self, name, generator):
        Network.__init__(self, name, generator, "float32")
        self.shapes = {}

    def tensor_of(self, shape, data=None):
        index = self.tensor(shape, "float32", None, 0, data)
        self.shapes[index] = tuple(shape)
        return index

    def random_of(self, *shape):
        return self.tensor_of(shape, self.random.normal(0, 0.5, shape))

    def op(self, builtin, inputs, shape, options=None, **fields):
        y = self.tensor_of(shape)
        self.named_operator(builtin, inputs, y, options, **fields)
        return y

    def conv(self, x, channels, kernel, shape, stride=1, activation="none", same=True):
        weight = self.random_of(channels, kernel, kernel, self.shapes[x][3])
        return self.op("CONV_2D", [x, weight, self.random_of(channels)], shape, "Conv2DOptions", strideH=stride,
                       strideW=stride, dilationHFactor=1, dilationWFactor=1, padding=0 if same else 1,
                       fusedActivationFunction=FUSED[activation])

    def answer(self, folder, x, outputs):
        content = self.content([x], outputs)
        (folder / f"{self.name}.tflite").write_bytes(content)
        interpreter = tfl.Interpreter(model_content=content,
                                      experimental_op_resolver_type=tfl.OpResolverType.BUILTIN_REF)
        interpreter.allocate_tensors()
        values = self.random.normal(0, 1, self.shapes[x]).astype(np.float32)
        interpreter.set_tensor(x, values)
        interpreter.invoke()
        given = [interpreter.get_tensor(y) for y in outputs]
        return {"name": self.name, "shape": list(values.shape), "input": hexadecimal(values),
                "outputs": [{"shape": list(y.shape), "values": hexadecimal(y)} for y in given]}


def float_net(n):
    x = n.tensor_of((2, 9, 8, 3))
    y = n.conv(x, 6, 3, (2, 5, 4, 6), 2, "relu6")
    y = n.op("DEPTHWISE_CONV_2D", [y, n.random_of(1, 3, 3, 12), n.random_of(12)], (2, 5, 4, 12),
             "DepthwiseConv2DOptions", strideH=1, strideW=1, depthMultiplier=2, dilationHFactor=1, dilationWFactor=1,
             fusedActivationFunction=FUSED["relu"])
    y = n.op("MUL", [y, n.random_of(12)], (2, 5, 4, 12), "MulOptions")
    y = n.op("ADD", [y, y], (2, 5, 4, 12), "AddOptions", fusedActivationFunction=FUSED["relu_n1_to_1"])
    z = n.op("MAX_POOL_2D", [y], (2, 3, 2, 12), "Pool2DOptions", strideH=2, strideW=2, filterHeight=2, filterWidth=2)
    z = n.op("AVERAGE_POOL_2D", [z], (2, 3, 2, 12), "Pool2DOptions", strideH=1, strideW=1, filterHeight=3,
             filterWidth=2)
    a = n.op("FULLY_CONNECTED", [z, n.random_of(5, 72), n.random_of(5)], (2, 5), "FullyConnectedOptions")
    b = n.op("MEAN", [y, n.ints((1, 2))], (2, 12), "ReducerOptions")
    c = n.op("SUM", [y, n.ints((1, 3))], (2, 4), "ReducerOptions")
    return x, [n.op("SOFTMAX", [a], (2, 5), "SoftmaxOptions", beta=1.0), b, y, c]


def float_decoder(n):
    x = n.tensor_of((1, 4, 5, 3))
    y = n.op("TRANSPOSE_CONV", [n.ints((1, 8, 10, 4)), n.random_of(4, 3, 3, 3), x], (1, 8, 10, 4),
             "TransposeConvOptions", strideH=2, strideW=2)
    r = n.op("RESIZE_NEAREST_NEIGHBOR", [x, n.ints((8, 10))], (1, 8, 10, 3), "ResizeNearestNeighborOptions")
    y = n.op("CONCATENATION", [y, r], (1, 8, 10, 7), "ConcatenationOptions", axis=3)
    y = n.op("HARD_SWISH", [y], (1, 8, 10, 7), "HardSwishOptions")
    y = n.op("LEAKY_RELU", [y], (1, 8, 10, 7), "LeakyReluOptions", alpha=0.2)
    p = n.op("PAD", [y, n.ints([[0, 0], [1, 0], [0, 2], [0, 0]])], (1, 9, 12, 7), "PadOptions")
    m = n.op("MIRROR_PAD", [p, n.ints([[0, 0], [0, 1], [2, 3], [0, 0]])], (1, 10, 17, 7), "MirrorPadOptions", mode=0)
    s = n.op("SLICE", [p, n.ints((0, 1, 2, 3)), n.ints((1, 5, -1, 2))], (1, 5, 10, 2), "SliceOptions")
    t = n.op("TANH", [n.op("LOGISTIC", [s], (1, 5, 10, 2))], (1, 5, 10, 2))
    return x, [t, n.op("TRANSPOSE_CONV", [n.ints((1, 9, 11, 2)), n.random_of(2, 3, 3, 3), x], (1, 9, 11, 2),
                       "TransposeConvOptions", strideH=2, strideW=2, padding=1), m]


def float_rows(n):
    x = n.tensor_of((2, 4, 6))
    y = n.op("FULLY_CONNECTED", [x, n.random_of(5, 6), n.random_of(5)], (2, 4, 5), "FullyConnectedOptions",
             keepNumDims=True, fusedActivationFunction=FUSED["relu"])
    y = n.op("TRANSPOSE", [y, n.ints((0, 2, 1))], (2, 5, 4), "TransposeOptions")
    y = n.op("RESHAPE", [y, n.ints((2, 2, 5, 2))], (2, 2, 5, 2), "ReshapeOptions", newShape=[2, 2, 5, 2])
    y = n.op("SUB", [n.random_of(1, 1, 1, 2), y], (2, 2, 5, 2), "SubOptions")
    m = n.op("MEAN", [y, n.ints((3,))], (2, 2, 5), "ReducerOptions")
    return x, [n.op("EXPAND_DIMS", [m, n.ints([1])], (2, 1, 2, 5), "ExpandDimsOptions"), y]


def float_attention(n):
    x = n.tensor_of((2, 5, 8))
    heads = []
    for _ in range(3):
        y = n.op("FULLY_CONNECTED", [x, n.random_of(8, 8), n.random_of(8)], (2, 5, 8), "FullyConnectedOptions",
                 keepNumDims=True)
        y = n.op("RESHAPE", [y, n.ints((2, 5, 2, 4))], (2, 5, 2, 4), "ReshapeOptions", newShape=[2, 5, 2, 4])
        heads.append(n.op("TRANSPOSE", [y, n.ints((0, 2, 1, 3))], (2, 2, 5, 4), "TransposeOptions"))
    q, k, v = heads
    s = n.op("BATCH_MATMUL", [q, k], (2, 2, 5, 5), "BatchMatMulOptions", adjY=True)
    g = n.op("LOG_SOFTMAX", [s], (2, 2, 5, 5), "LogSoftmaxOptions")
    s = n.op("SOFTMAX", [s], (2, 2, 5, 5), "SoftmaxOptions", beta=1.0)
    y = n.op("BATCH_MATMUL", [s, v], (2, 2, 5, 4), "BatchMatMulOptions")
    t = n.op("BATCH_MATMUL", [y, s], (2, 2, 4, 5), "BatchMatMulOptions", adjX=True)
    y = n.op("BATCH_MATMUL", [y, n.random_of(1, 1, 4, 3)], (2, 2, 5, 3), "BatchMatMulOptions")
    return x, [n.op("BATCH_MATMUL", [y, n.random_of(6, 3)], (2, 2, 5, 6), "BatchMatMulOptions", adjY=True), t, g]


def float_pieces(n):
    x = n.tensor_of((2, 4, 4, 4))
    parts = [n.tensor_of((2, 4, 2, 4)) for _ in range(2)]
    n.operator(schema.BuiltinOperator.SPLIT, [n.ints(2), x], parts, schema.BuiltinOptions.SplitOptions,
               make(schema.SplitOptionsT, numSplits=2), 1)
    unequal = [n.tensor_of((2, 4, 4, 3)), n.tensor_of((2, 4, 4, 1))]
    n.operator(schema.BuiltinOperator.SPLIT_V, [x, n.ints((3, -1)), n.ints(-1)], unequal,
               schema.BuiltinOptions.SplitVOptions, make(schema.SplitVOptionsT, numSplits=2), 1)
    rows = [n.tensor_of((2, 2, 4)) for _ in range(4)]
    n.operator(schema.BuiltinOperator.UNPACK, [parts[0]], rows, schema.BuiltinOptions.UnpackOptions,
               make(schema.UnpackOptionsT, num=4, axis=1), 1)
    p = n.op("PACK", [rows[0], n.random_of(2, 2, 4), rows[3]], (2, 2, 4, 3), "PackOptions", valuesCount=3, axis=3)
    g = n.op("GATHER", [x, n.ints((0, 2, 3, 3))], (2, 4, 4, 4), "GatherOptions", axis=1)
    g = n.op("GATHER", [g, n.ints(((3, 1), (2, 0)))], (2, 4, 4, 2, 2), "GatherOptions", axis=3)
    g = n.op("GATHER", [g, n.ints(3)], (2, 4, 2, 2), "GatherOptions", axis=2)
    d = n.op("SPACE_TO_DEPTH", [n.op("DEPTH_TO_SPACE", [x], (2, 8, 8, 1), "DepthToSpaceOptions", blockSize=2)],
             (2, 2, 2, 16), "SpaceToDepthOptions", blockSize=4)
    m = n.op("MEAN", [x, n.ints((1, 2))], (2, 1, 1, 4), "ReducerOptions", keepDims=True)
    b = n.op("BROADCAST_TO", [m, n.ints((2, 3, 2, 4))], (2, 3, 2, 4), "BroadcastToOptions", version=2)
    r = n.op("REVERSE_V2", [x, n.ints((2, 3))], (2, 4, 4, 4), "ReverseV2Options")
    s = n.op("SQUARED_DIFFERENCE", [x, m], (2, 4, 4, 4), "SquaredDifferenceOptions")
    return x, [parts[1], *unequal, rows[2], p, g, d, b, r, s]


def float_functions(n):
    x = n.tensor_of((1, 3, 2, 5))
    p = n.op("EXP", [x], (1, 3, 2, 5), "ExpOptions")
    y = [n.op("LOG", [p], (1, 3, 2, 5)), n.op("SQRT", [p], (1, 3, 2, 5)), n.op("RSQRT", [p], (1, 3, 2, 5)),
         n.op("MAXIMUM", [x, n.tensor_of((), -0.3)], (1, 3, 2, 5), "MaximumMinimumOptions"),
         n.op("MINIMUM", [n.tensor_of((1,), [0.4]), x], (1, 3, 2, 5), "MaximumMinimumOptions"),
         n.op("ABS", [x], (1, 3, 2, 5), "AbsOptions"), n.op("NEG", [x], (1, 3, 2, 5), "NegOptions"),
         n.op("GELU", [x], (1, 3, 2, 5), "GeluOptions", approximate=True),
         n.op("GELU", [x], (1, 3, 2, 5), "GeluOptions", approximate=False)]
    return x, [p, *y]


FLOAT = [float_net, float_decoder, float_rows, float_attention, float_pieces, float_functions]


# --- models that a program refuses -----------------------------------------------------------------------------------


def two_places(n):
    n.resize_bilinear(n.input((1, 4, 4, 2)), (8, 8), align=True, half=True)


def beyond_the_image(n):
    n.resize_bilinear(n.input((1, 3, 4, 2)), (2000, 8))


def repeated_edge(n):
    n.mirror_pad(n.input((1, 4, 4, 2)), [[0, 0], [1, 1], [1, 1], [0, 0]], symmetric=True)


def undecided_curve(n):
    x = n.input((1, 8))
    n.graph.tensors[x.index].quantization.scale = [2.0 ** (-12 + 0.001)]
    n.logistic(x)


def other_curve(n):
    x = n.input((1, 8))
    n.add_operator("TANH", [x], n.value([x], np.tanh(x.real), 2.0 ** -14, 0), None, 3)


def falling_leak(n):
    n.leaky_relu(n.input((1, 8)), -0.1)


def wide_square(n):
    x = n.input((1, 4, 2))
    n.squared_difference(x, n.reverse(x, (1,)))


def fine_square(n):
    """LiteRT stops at a factor of 1 and more."""
    x = n.input((1, 4, 2))
    n.squared_difference(x, n.reverse(x, (1,)), x.scale * x.scale * np.float32(0.0002), -128)


def other_logarithm(n):
    x = n.input((1, 8))
    n.add_operator("LOG_SOFTMAX", [x], n.value([x], x.real, 1 / 8, 127), "LogSoftmaxOptions", 2)


def coarse_logarithm(n):
    n.log_softmax(n.quantize(n.input((1, 8)), np.float32(9), 0))


def bytewise_sum(n):
    n.sum(n.input((1, 7, 5)), (1,))


def hidden_bias_type(n):
    x = n.input((1, 6))
    codes, scales, bias_codes, _, _ = n.weights((4, 6), 0, True, x, 6)
    weight, _ = n.parameters(codes, scales, bias_codes, x, 0)
    bias = n.tensor((4,), "int32", x.scale * scales, 0, bias_codes)
    n.add_operator("FULLY_CONNECTED", [x, weight, bias], n.value([x], np.zeros((1, 4))), "FullyConnectedOptions", 5)


def narrow_depthwise(n):
    n.input_bounds = (-32768, 32767)
    n.general_conv(n.input((1, 3, 4, 2)), 0, (3, 3), multiplier=2)


def wide_swish(n):
    n.hard_swish(n.input((1, 8)))


def wide_gelu(n):
    n.table_of("GELU", n.input((1, 8)), 0.0001, 0, "GeluOptions")


def undecided_gelu(n):
    x = n.quantize(n.input((1, 8)), np.float32(1 / 16), 0)
    n.table_of("GELU", x, 0.26961547834, 0, "GeluOptions")  # 33 becomes 7.5 steps


def undecided_tanh(n):
    x = n.input((1, 8))
    n.tanh(n.quantize(x, np.float32(0.05086231976747513), 50))


def wide_sqrt(n):
    n.table_of("SQRT", n.input((1, 8)), 0.0001, 0)


def scaled_abs(n):
    n.table_of("ABS", n.input((1, 8)), 1.0, 0, "AbsOptions")


def shifted_neg(n):
    x = n.quantize(n.input((1, 8)), np.float32(0.1), 3)
    n.table_of("NEG", x, x.scale, 3, "NegOptions")


def wide_neg(n):
    x = n.input((1, 8))
    n.table_of("NEG", x, x.scale, 0, "NegOptions")


def sharp_softmax(n):
    x = n.input((1, 8))
    y = n.value([x], np.zeros((1, 8)), 1 / 256, -128)
    n.add_operator("SOFTMAX", [x], y, "SoftmaxOptions", 2, beta=2.0)


def powers_of_two(n):
    x = n.input((1, 8))
    y = n.value([x], x.real * 2)
    n.add_operator("ADD", [x, x], y, "AddOptions", 2, potScaleInt16=True)


def constant_samples(n):
    x = n.input((2, 4, 4, 2))
    n.two("ADD", x, n.constant(n.random.normal(0, 1, (2, 4, 4, 2))))


def product_of_samples(n):
    x = n.input((4, 6))
    n.batch_matmul(x, n.fully(x, 6), adj_y=True)


def products_of_two_types(n):
    x = n.input((1, 4, 6))
    y = n.quantize(x, x.scale * np.float32(256), 0, "int8")
    n.batch_matmul(x, y, adj_y=True)


def mean_of_samples(n):
    n.mean(n.input((2, 4, 5, 3)), (0,))


def other_scale(n):
    x = n.input((1, 4, 4, 2))
    y = n.value([x], x.real, x.scale * np.float32(2), x.zero_point)
    n.add_operator("RESHAPE", [x, n.ints((1, 4, 4, 2))], y, "ReshapeOptions", 1)


def shifted_weight(n):
    n.general_conv(n.input((1, 4, 4, 2)), 3, (1, 1))
    next(t for t in n.graph.tensors if t.shape == [3, 1, 1, 2]).quantization.zeroPoint[1] = 3


def division(n):
    x = n.input((1, 8))
    n.add_operator("DIV", [x, x], n.value([x], np.ones((1, 8))), "DivOptions", 1)


def fused_tanh(n):
    n.general_conv(n.input((1, 4, 4, 2)), 3, (1, 1))
    n.graph.operators[0].builtinOptions.fusedActivationFunction = schema.ActivationFunctionType.TANH


def float_inside(n):
    x = n.dequantize(n.input((1, 8)))
    y = Value(n.tensor((1, 8), "float32", None, 0), x.real, "float32", 1, 0)
    n.values.append(y)
    n.add_operator("LOGISTIC", [x], y, None, 1)


def scattered_indices(n):
    n.gather(n.input((1, 40, 2)), [i * i % 37 for i in range(20)], 1)


def unknown_index(n):
    x = n.input((1, 4, 2))
    n.add_operator("GATHER", [x, n.ints((1, 4))], n.same(x, x.real[:, :2]), "GatherOptions", 1, axis=1)


def uneven_pieces(n):
    x = n.input((1, 6, 2))
    n.add_pieces("SPLIT", [n.ints(1), x.index], [x.real[:, :2]] * 4, x, "SplitOptions", 1, numSplits=4)


def open_pieces(n):
    x = n.input((1, 6, 2))
    n.add_pieces("SPLIT_V", [x.index, n.ints((-1, -1)), n.ints(1)], [x.real[:, :3]] * 2, x, "SplitVOptions", 1)


def split_samples(n):
    n.split(n.input((2, 6, 2)), 2, 0)


def wide_blocks(n):
    n.space_to_depth(n.input((1, 4, 4, 2)), 2)


def odd_blocks(n):
    x = n.input((1, 4, 4, 6))
    n.add_operator("DEPTH_TO_SPACE", [x], n.same(x, np.zeros((1, 8, 8, 1))), "DepthToSpaceOptions", 1, blockSize=2)


def repeated_samples(n):
    n.broadcast_to(n.input((2, 3)), (2, 2, 3))


def even_average(n):
    n.pool2("AVERAGE_POOL_2D", n.input((1, 4, 4, 2)), (2, 3), (1, 1))


def unsigned_bilinear(n):
    n.resize_bilinear(n.input((1, 4, 4, 2)), (8, 8))


def unsigned_weight(n):
    n.general_conv(n.input((1, 4, 4, 2)), 3, (1, 1))
    next(t for t in n.graph.tensors if t.shape == [3, 1, 1, 2]).quantization.zeroPoint[0] = 131


def mixed_sum(n):
    x = n.input((1, 8))
    n.is_unsigned = False
    y = n.quantize(x, x.scale, x.zero_point)
    n.two("ADD", x, y)


def unequal_bounds(n):
    x = n.input((1, 4, 2))
    y = Value(n.tensor((2,), x.dtype, x.scale, x.zero_point, [3, 4]), np.zeros(2), x.dtype, x.scale, x.zero_point)
    n.extreme("MAXIMUM", x, y)


def scaled_bound(n):
    x = n.input((1, 4, 2))
    y = Value(n.tensor((), x.dtype, x.scale * np.float32(2), 0, 3), np.zeros(()), x.dtype, x.scale, 0)
    n.extreme("MAXIMUM", x, y)


def other_size(n):
    n.transpose_conv(n.input((1, 3, 4, 2)), 2, (2, 2), (2, 2))
    for index, t in enumerate(n.graph.tensors):
        if t.shape == [1, 6, 8, 2]:
            t.shape = [1, 7, 8, 2]
        if t.shape == [4]:
            n.model.buffers[t.buffer].data = np.frombuffer(np.array([1, 7, 8, 2], np.int32).tobytes(), np.uint8)


def folded_batch(n):
    n.reshape(n.input((2, 6)), (4, 3))


REFUSED = [("int8", two_places, "RESIZE_BILINEAR.*align_corners and half_pixel_centers"),
           ("int16", beyond_the_image, "RESIZE_BILINEAR.*2000 cells"), ("int8", repeated_edge, "MIRROR_PAD.*SYMMETRIC"),
           ("int16", undecided_curve, "LOGISTIC.*power of two"), ("int16", other_curve, "TANH.*expected 2\\^-15"),
           ("int8", other_logarithm, "LOG_SOFTMAX.*scale 1/16"), ("int8", coarse_logarithm, "LOG_SOFTMAX.*scale"),
           ("int16", bytewise_sum, "SUM.*bytes of int16 codes as uint8"),
           ("int16", wide_square, "SQUARED_DIFFERENCE.*other codes than int8"),
           ("int8", fine_square, "SQUARED_DIFFERENCE.*its scales"),
           ("int16", falling_leak, "LEAKY_RELU.*at least 0"), ("int16", wide_swish, "HARD_SWISH.*expected int8"),
           ("int16", wide_gelu, "GELU.*expected int8: its table"),
           ("int8", undecided_gelu, "GELU.*middle of two codes"),
           ("int8", undecided_tanh, "TANH.*middle of two codes"),
           ("int16", wide_sqrt, "SQRT.*expected int8: for int16 codes"), ("int16", scaled_abs, "ABS.*another scale"),
           ("int8", shifted_neg, "NEG.*zero point 3, expected 0"), ("int16", wide_neg, "NEG.*-32768"),
           ("int16", hidden_bias_type, "FULLY_CONNECTED.*quantized_bias_type"),
           ("int16", narrow_depthwise, "DEPTHWISE_CONV_2D.*LiteRT takes int64"),
           ("int8", sharp_softmax, "SOFTMAX.*beta"),
           ("int16", powers_of_two, "ADD.*pot_scale_int16"), ("int8", constant_samples, "ADD.*the same for each sample"),
           ("int8", product_of_samples, "BATCH_MATMUL.*\"t4\".*does not keep axis 0, the samples"),
           ("int16", products_of_two_types, "BATCH_MATMUL.*int16 and int8, expected one type"),
           ("int8", mean_of_samples, "MEAN.*samples"),
           ("int8", other_scale, "RESHAPE.*one dtype, scale and zero point"),
           ("int8", shifted_weight, "CONV_2D.*zero point 3"), ("int8", division, "\\(DIV .*not supported"),
           ("int8", fused_tanh, "CONV_2D.*fused activation TANH"), ("int8", float_inside, "LOGISTIC.*real numbers"),
           ("int8", folded_batch, "RESHAPE.*axis 0"),
           ("int8", scattered_indices, "GATHER.*not equally spaced: they are [0-9]+ ranges"),
           ("int16", unknown_index, "GATHER.*no element 4 among 4"),
           ("int8", uneven_pieces, "SPLIT.*6 elements has no 4 pieces"),
           ("int16", open_pieces, "SPLIT_V.*2 sizes are left open"), ("int8", split_samples, "SPLIT.*the samples"),
           ("int16", wide_blocks, "SPACE_TO_DEPTH.*LiteRT has it for 8 bits alone"),
           ("int8", odd_blocks, "DEPTH_TO_SPACE.*do not divide the 6 channels"),
           ("int16", unequal_bounds, "MAXIMUM.*different elements"),
           ("int8", scaled_bound, "MAXIMUM.*one dtype, scale"),
           ("int8", other_size, "TRANSPOSE_CONV.*output of 7 cells is one of 4 cells"),
           ("uint8", even_average, "AVERAGE_POOL_2D.*even number of cells"),
           ("uint8", unsigned_bilinear, "RESIZE_BILINEAR.*codes of uint8, for which LiteRT"),
           ("uint8", unsigned_weight, "CONV_2D.*zero point 131, expected 128"),
           ("uint8", mixed_sum, "ADD.*uint8 and of int8"),
           ("int8", repeated_samples, "BROADCAST_TO.*repeated for each sample")]


INT8 = [convolutions, depthwise, transposed, rows, image_rows, sums, squares, layer_norm, constants, pools, means,
        moves, slices, pieces, gathered, blocks, extremes, log_shares, selected, selected_sample, embeddings,
        lookups, pads, joins, nearest, bilinear, functions, swishes, leaks, tables, middle, clamps, conversions,
        computed_shape, computed_size, unet, mobilenet3, keyword_stream, constant_image, products, matrices,
        one_sample, sample_rows, attention]
INT16 = [convolutions, depthwise, transposed, rows, image_rows, sums, layer_norm, constants, pools, means, moves,
         slices, pieces, gathered, extremes, selected, selected_sample, embeddings, lookups, pads, joins, nearest,
         bilinear, curves, knots, wide_leaks, wide_tables, clamps, conversions, computed_shape, computed_size, unet,
         constant_image, products, matrices, one_sample, sample_rows, attention, narrow_matrix]
UINT8 = [unsigned_net, mixed_types, totals]
BOUNDED = [long_rows, long_windows]
SMALL = [("int8", convolutions), ("int8", constants), ("int8", slices), ("int8", mobilenet3), ("int16", sums),
         ("int8", constant_image), ("int8", bilinear), ("int16", curves), ("int16", knots), ("int16", wide_leaks),
         ("int8", pads), ("int8", products), ("int16", pieces), ("int8", gathered), ("int8", blocks),
         ("int8", extremes), ("int8", tables), ("int16", wide_tables), ("uint8", unsigned_net),
         ("int8", squares), ("int8", layer_norm), ("int16", layer_norm), ("uint8", totals),
         ("int8", selected), ("int16", selected), ("int8", selected_sample), ("int8", embeddings), ("int16", lookups),
         ("int8", log_shares), ("int8", middle)]


def empty_model(name, generator, dtype):
    return Unsigned(name, generator, "int8") if dtype == "uint8" else Model(name, generator, dtype)


def networks():
    """Name, builder and type of every model."""
    for dtype, builds in (("int8", INT8 + layers.INT8), ("int16", INT16 + layers.INT16), ("uint8", UINT8)):
        for build in builds:
            yield f"{build.__name__}_{dtype}", build, dtype


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    folder = pathlib.Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    seed = int(arguments[1]) if len(arguments) > 1 else 1
    small = "--small" in sys.argv
    chosen = [(f"{b.__name__}_{d}", b, d) for d, b in SMALL] if small else list(networks())
    answers = []
    for index, (name, build, dtype) in enumerate(chosen):
        n = empty_model(name, np.random.default_rng([seed, index]), dtype)
        build(n)
        answers.append(n.answer(folder))
    bounded = []
    for build in BOUNDED[:1] if small else BOUNDED:
        n = Model(build.__name__, np.random.default_rng(seed), "int16")
        build(n)
        bounded.append(n.answer(folder))
    names = {v: k for k, v in vars(schema.BuiltinOperator).items() if not k.startswith("_")}
    refused = []
    for dtype, build, reason in REFUSED:
        n = empty_model(f"refused_{build.__name__}", np.random.default_rng(seed), dtype)
        build(n)
        (folder / f"{n.name}.tflite").write_bytes(n.bytes())
        refused.append({"name": n.name, "reason": reason})
    reals = []
    for build in FLOAT:
        n = Reals(build.__name__, np.random.default_rng(seed))
        x, outputs = build(n)
        reals.append(n.answer(folder, x, outputs))
    with open(folder / "answers.json", "w") as file:
        everything = {"litert": LITERT, "seed": seed, "models": answers, "bounded": bounded, "refused": refused,
                      "float": reals, "operators": [names[code] for code in sorted(names)]}
        json.dump(everything, file, separators=(",", ":"))
        file.write("\n")
    print(f"{len(answers)} models, LiteRT {LITERT}, seed {seed}")


if __name__ == "__main__":
    main()
