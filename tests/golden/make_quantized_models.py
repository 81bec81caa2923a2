#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes small quantized ONNX models with what ONNX Runtime gives for them, its optimizations off.

    pip install numpy onnx onnxruntime
    python tests/golden/make_quantized_models.py DIR COUNT [--seed N] [--symmetric] [--int16]

Each model has one operator, or one and what moves its values, between two grids of its own (QDQ), or one of ONNX
Runtime's operators on codes; quantized_weights.py makes those with weights.  Its input holds every int8 code.  COUNT
models of each family are made; the families are listed in FAMILIES.  manifest.txt has a line for each: family, name,
type, scale and zero point of the output.
"""
import argparse
import math
import pathlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import quantized_weights

IMAGE = (1, 2, 8, 16)  # each code once


class Maker:
    """One model: a graph under construction, and the random numbers that it is made of."""

    def __init__(self, rng, dtype, symmetric):
        self.rng, self.dtype, self.symmetric = rng, dtype, symmetric or dtype == np.int16
        self.lowest, self.highest = np.iinfo(dtype).min, np.iinfo(dtype).max
        self.nodes, self.initializers, self.opset = [], [], 17 if dtype == np.int8 else 21
        self.shape = IMAGE
        self.x_grid = (self.scale(), self.zero_point())

    # ---- random numbers ---------------------------------------------------------------------

    def chance(self, share):
        return self.rng.random() < share

    def pick(self, *choices):
        return choices[int(self.rng.integers(len(choices)))]

    def scale(self):
        """A power of two, a number of few digits, or any; ties are likely with the first."""
        kind = self.rng.integers(3)
        if kind == 0:
            return np.float32(2.0 ** self.rng.integers(-8, 2))
        any_scale = 10 ** self.rng.uniform(-3, 1) * 127 / self.highest
        return np.float32(float(f"{any_scale:.1e}") if kind == 1 else any_scale)

    def zero_point(self):
        return 0 if self.symmetric or self.chance(0.3) else int(self.rng.integers(-128, 128))

    def near(self, scale, low=-1.2, high=0.7):
        """Another scale, or the same."""
        return scale if self.chance(0.2) else np.float32(scale * 10 ** self.rng.uniform(low, high))

    def span(self, grid=None):
        scale, zero_point = grid or self.x_grid
        return [float((code - zero_point) * scale) for code in (self.lowest, self.highest)]

    def codes(self):
        count = int(np.prod(self.shape))
        if self.dtype == np.int16:
            return self.rng.integers(self.lowest, self.highest + 1, count).reshape(self.shape)
        return np.resize(self.rng.permutation(np.arange(-128, 128)), count).reshape(self.shape)

    def covering(self, values):
        """A grid that holds the values, or almost."""
        largest = max(float(np.abs(values).max()), 1e-3)
        if self.chance(0.2):
            return np.float32(2.0 ** math.ceil(math.log2(largest / self.highest))), 0
        return np.float32(largest / self.highest * 10 ** self.rng.uniform(-0.1, 0.3)), self.zero_point()

    # ---- nodes ------------------------------------------------------------------------------

    def constant(self, values):
        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def integers(self, *values):
        return self.constant(np.array(values, np.int64))

    def call(self, op_type, inputs, domain="", **attributes):
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name + "_y"], name=name, domain=domain, **attributes))
        return name + "_y"

    def grid(self, grid):
        return [self.constant(np.float32(grid[0])), self.constant(self.dtype(grid[1]))]

    def quantized(self, x, grid):
        return self.call("QuantizeLinear", [x, *self.grid(grid)])

    def dequantized(self, x, grid):
        return self.call("DequantizeLinear", [x, *self.grid(grid)])

    def input(self, grid=None):
        """The input between QuantizeLinear and DequantizeLinear."""
        grid = grid or self.x_grid
        return self.dequantized(self.quantized("x", grid), grid)

    def operand(self, codes, grid):
        """Three inputs of an operator on codes."""
        return [codes, *self.grid(grid)]

    def on_codes(self, op_type, inputs, **attributes):
        return self.call(op_type, inputs, "com.microsoft", **attributes)

    # ---- results ----------------------------------------------------------------------------

    def values(self):
        return ((self.codes().astype(np.float32) - np.float32(self.x_grid[1])) * self.x_grid[0]).astype(np.float32)

    def finish(self, value, grid):
        """A QuantizeLinear and the output."""
        return self.dequantized(self.quantized(value, grid), grid), grid

    def finish_codes(self, codes, grid):
        return self.dequantized(codes, grid), grid

    def run(self, output, x=None):
        """What ONNX Runtime gives for a value, its optimizations off."""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(self.model(output).SerializeToString(), options,
                                               providers=["CPUExecutionProvider"])
        return session.run(None, {"x": self.values() if x is None else x})[0]

    def model(self, output, y_shape=None):
        info = helper.make_tensor_value_info
        graph = helper.make_graph(self.nodes, "quantized", [info("x", TensorProto.FLOAT, self.shape)],
                                  [info(output, TensorProto.FLOAT, y_shape)], self.initializers)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, producer_name="make_quantized_models.py", opset_imports=opsets, ir_version=9)

    def any_grid(self):
        return self.near(self.x_grid[0]), self.zero_point()


# ---- operators between two grids ------------------------------------------------------------


def pad(m):
    grid = m.any_grid()
    low, high = m.span(grid)
    pads = [0, 0, *m.rng.integers(0, 3, 2), 0, 0, *m.rng.integers(1, 3, 2)]
    value = m.pick(0.0, m.rng.uniform(1.1 * low, 1.1 * high), round(m.rng.uniform(low, high), 1))
    return m.finish(m.call("Pad", [m.input(), m.integers(*pads), m.constant(np.float32(value))]), grid)


def clip(m):
    grid = m.any_grid()
    low, high = sorted(m.rng.uniform(*m.span(grid), 2))
    if m.chance(0.3):
        low, high = round(low, 1), round(high, 1)
    limits = [m.constant(np.float32(low)), m.constant(np.float32(high))]
    kind = m.rng.integers(4)
    if kind == 0:
        limits = limits[:1]
    elif kind == 1:
        limits[0] = ""
    return m.finish(m.call("Clip", [m.input(), *limits]), grid)


def relu6(m):
    zero, six = m.constant(np.float32(0)), m.constant(np.float32(6))
    if m.chance(0.5):
        m.x_grid = (np.float32(12 / (2 * int(m.rng.integers(10, 100)) + 1)), m.x_grid[1])  # 6 between two codes
    return m.finish(m.call("Clip", [m.input(), zero, six]), m.any_grid())


def relu(m):
    return m.finish(m.call("Relu", [m.input()]), m.any_grid())


def max_pool(m):
    return m.finish(m.call("MaxPool", [m.input()], kernel_shape=[2, 2], strides=[2, 1]), m.any_grid())


def requantize(m):
    return m.finish(m.input(), m.any_grid())


def move(m, value):
    kind = m.rng.integers(4)
    if kind == 0:
        return m.call("Flatten", [value])
    if kind == 1:
        return m.call("Transpose", [value], perm=[0, 2, 3, 1])
    if kind == 2:
        return m.call("Reshape", [value, m.integers(0, -1)])
    return m.call("Unsqueeze", [m.call("Flatten", [value]), m.integers(1)])


def moved(m):
    return m.finish(move(m, m.input()), m.any_grid())


def nearest(m):
    scales = m.constant(np.array([1, 1, 2, 3], np.float32))
    return m.finish(m.call("Resize", [m.input(), "", scales], mode="nearest", nearest_mode="floor",
                           coordinate_transformation_mode="asymmetric"), m.any_grid())


def concat(m):
    other = (m.near(m.x_grid[0]), m.zero_point())
    return m.finish(m.call("Concat", [m.input(), m.input(other)], axis=1), m.any_grid())


def function(op_type, ends=None, opset=17, **choices):
    """A function of one element, whose results lie between 0 or -1 and `ends`."""
    def make(m):
        m.opset = max(m.opset, opset)
        m.x_grid = (np.float32(min(m.x_grid[0], 12.7 / m.highest)), m.x_grid[1])
        scale = np.float32(ends / -m.lowest) if ends else m.x_grid[0]
        if m.chance(0.7):
            scale = m.near(scale, -0.5, 0.5)
        attributes = {name: float(m.pick(*values)) for name, values in choices.items()}
        return m.finish(m.call(op_type, [m.input()], **attributes), (scale, m.zero_point()))
    return make


def square(m):
    m.x_grid = (np.float32(min(m.x_grid[0], 12.7 / m.highest)), m.x_grid[1])
    squared = m.call("Pow", [m.input(), m.constant(np.array(2, np.float32))])
    return m.finish(squared, (m.near(m.x_grid[0], 0, 3), m.zero_point()))


# ---- means ----------------------------------------------------------------------------------


def linear(m):
    """The weights are multiples of 1/256, as the library has them, and means have finer codes; or the output is as
    coarse as the input."""
    is_int8 = m.dtype == np.int8
    factors, is_even = m.pick(((2, 2), True), ((4, 1), True), ((1.5, 3), False) if is_int8 else ((2, 4), True))
    resized = m.call("Resize", [m.input(), "", m.constant(np.array([1, 1, *factors], np.float32))], mode="linear",
                     coordinate_transformation_mode="half_pixel")
    is_fine = is_even and is_int8
    return m.finish(resized, m.any_grid() if is_fine else (m.near(m.x_grid[0], 0), m.zero_point()))


def average(m):
    kernel = int(m.rng.integers(2, 4))
    return m.finish(m.call("AveragePool", [m.input()], kernel_shape=[kernel, kernel], strides=[1, 2],
                           pads=[int(m.rng.integers(2))] * 4, count_include_pad=0), m.any_grid())


def global_average(m):
    m.shape = (1, 32, int(m.rng.integers(2, 9)), int(m.rng.integers(2, 9)))
    x = m.input()
    if m.opset < 18 and m.chance(0.7):
        mean = m.call("ReduceMean", [x], axes=[2, 3], keepdims=1)
    else:
        mean = m.call("GlobalAveragePool", [x])
    return m.finish(move(m, mean) if m.chance(0.7) else mean, m.any_grid())


# ---- an operator whose values are moved before they are quantized ----------------------------


def moved_operator(m):
    low, high = m.span()
    x = m.input()
    limits = [m.constant(np.float32(low / 3)), m.constant(np.float32(high / 3))]
    value = m.pick(lambda: m.call("Clip", [x, *limits]), lambda: m.call("Relu", [x]),
                   lambda: m.call("Pad", [x, m.integers(0, 0, 1, 1, 0, 0, 1, 1), limits[1]]),
                   lambda: m.call("Clip" if m.dtype == np.int16 else "HardSwish", [x]))()
    for op_type in m.pick(["MaxPool"], ["Relu"], ["MaxPool", "Relu"], []):
        value = m.call(op_type, [value], **({"kernel_shape": [2, 2]} if op_type == "MaxPool" else {}))
    return m.finish(move(m, value), m.any_grid())


# ---- constant operands ----------------------------------------------------------------------


def constant_values(m, adds):
    """One element, or one for each channel."""
    shape = m.pick((), (1,), (1, 1, 1, 1), (1, 2, 1, 1), (2, 1, 1))
    if adds:
        return np.asarray(m.rng.uniform(*m.span(), shape), np.float32)
    sign = m.pick(1.0, -1.0)
    return np.asarray(sign * m.rng.choice([0.5, 2.0, 1 / 6, m.rng.uniform(0.1, 3)], shape), np.float32)


def result_of(op_type, x, y):
    return {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}[op_type](x, y)


def coded_constant(m):
    op_type = m.pick("Add", "Sub", "Mul")
    values = constant_values(m, op_type != "Mul")
    grid = (np.float32(float(np.abs(values).max()) / m.highest), 0)
    codes = np.clip(np.rint(values / grid[0]), m.lowest, m.highest).astype(m.dtype)
    operands = [(m.input(), m.values()), (m.dequantized(m.constant(codes), grid), codes * grid[0])]
    if m.chance(0.3):
        operands.reverse()
    result = result_of(op_type, operands[0][1], operands[1][1])
    return m.finish(m.call(op_type, [operand[0] for operand in operands]), m.covering(result))


def float_constant(m):
    op_type = m.pick("Add", "Sub", "Mul", "Div")
    values = constant_values(m, op_type in ("Add", "Sub"))
    operands = [(m.input(), m.values()), (m.constant(values), values)]
    if op_type != "Div" and m.chance(0.3):
        operands.reverse()
    result = result_of(op_type, operands[0][1], operands[1][1])
    return m.finish(m.call(op_type, [operand[0] for operand in operands]), m.covering(result))


# ---- operators on codes ---------------------------------------------------------------------


def code_constant(m):
    op_type = m.pick("Add", "Mul")
    grid = (m.near(m.x_grid[0]), m.zero_point())
    codes = m.rng.integers(-128, 128, m.pick((1,), (1, 1, 1, 1), (1, 2, 1, 1), (2, 1, 1))).astype(np.int8)
    if m.chance(0.3):
        codes = codes.reshape(-1)[0].reshape(())
    operands = [m.operand(m.quantized("x", m.x_grid), m.x_grid), m.operand(m.constant(codes), grid)]
    if m.chance(0.3):
        operands.reverse()
    out = m.covering(result_of(op_type, m.values(), (codes.astype(np.float32) - grid[1]) * grid[0]))
    return m.finish_codes(m.on_codes("QLinear" + op_type, [*operands[0], *operands[1], *m.grid(out)]), out)


def code_binary(m):
    op_type = m.pick("Add", "Mul")
    grid = (m.near(m.x_grid[0], -0.3, 0.3), m.zero_point())
    operands = m.operand(m.quantized("x", m.x_grid), m.x_grid) + m.operand(m.quantized("x", grid), grid)
    out = m.covering(result_of(op_type, m.values(), m.values()))
    return m.finish_codes(m.on_codes("QLinear" + op_type, [*operands, *m.grid(out)]), out)


def code_concat(m):
    grid, out = (m.near(m.x_grid[0]), m.zero_point()), m.any_grid()
    parts = m.operand(m.quantized("x", m.x_grid), m.x_grid) + m.operand(m.quantized("x", grid), grid)
    return m.finish_codes(m.on_codes("QLinearConcat", [*m.grid(out), *parts], axis=1), out)


def code_function(op_type, end=None, **attributes):
    def make(m):
        out = (np.float32(end / 256 * 10 ** m.rng.uniform(-0.3, 0.3)), m.zero_point()) if end else m.any_grid()
        x = m.operand(m.quantized("x", m.x_grid), m.x_grid)
        return m.finish_codes(m.on_codes(op_type, [*x, *m.grid(out)], **attributes), out)
    return make


def code_average(m):
    kernel, out = int(m.rng.integers(2, 4)), m.any_grid()
    x = m.operand(m.quantized("x", m.x_grid), m.x_grid)
    return m.finish_codes(m.on_codes("QLinearAveragePool", [*x, *m.grid(out)], kernel_shape=[kernel] * 2,
                                     strides=[1, 2], pads=[int(m.rng.integers(2))] * 4), out)


def code_global_average(m):
    m.shape = (1, 32, int(m.rng.integers(2, 9)), int(m.rng.integers(2, 9)))
    x, out = m.operand(m.quantized("x", m.x_grid), m.x_grid), m.any_grid()
    return m.finish_codes(m.on_codes("QLinearGlobalAveragePool", [*x, *m.grid(out)], channels_last=0), out)


def code_moves(m):
    """What ONNX Runtime's tool lets read codes: their grid stays."""
    codes, fill = m.quantized("x", m.x_grid), m.constant(np.int8(m.rng.integers(-128, 128)))
    pads = m.integers(0, 0, 1, 0, 0, 0, 1, 2)
    scales = m.constant(np.array([1, 1, 2, 3], np.float32))
    moved = m.pick(lambda: m.call("Pad", [codes, pads, fill]), lambda: m.call("Pad", [codes, pads]),
                   lambda: m.call("Resize", [codes, "", scales], mode="nearest", nearest_mode="floor",
                                  coordinate_transformation_mode="asymmetric"),
                   lambda: m.call("MaxPool", [codes], kernel_shape=[2, 2]), lambda: move(m, codes))()
    return m.finish_codes(moved, m.x_grid)


INT16 = ("pad", "clip", "relu6", "relu", "max_pool", "requantize", "moved", "nearest", "concat", "moved_operator",
         "linear", "average", "global_average", "coded_constant", "float_constant")
FAMILIES = {
    "pad": pad, "clip": clip, "relu6": relu6, "relu": relu, "max_pool": max_pool, "requantize": requantize,
    "moved": moved, "nearest": nearest, "concat": concat, "moved_operator": moved_operator,
    "sigmoid": function("Sigmoid", 0.5), "tanh": function("Tanh", 1), "exp": function("Exp"),
    "hard_sigmoid": function("HardSigmoid", 0.5, alpha=(0.2, 1 / 6, 0.25)), "hard_swish": function("HardSwish"),
    "leaky_relu": function("LeakyRelu", alpha=(0.01, 0.1, 0.125)), "elu": function("Elu", alpha=(1, 0.5)),
    "gelu": function("Gelu", opset=20),
    "linear": linear, "average": average, "global_average": global_average,
    "coded_constant": coded_constant, "float_constant": float_constant,
    "code_constant": code_constant, "code_binary": code_binary, "code_concat": code_concat,
    "code_moves": code_moves,
    "code_sigmoid": code_function("QLinearSigmoid", 1), "code_leaky_relu": code_function("QLinearLeakyRelu", alpha=0.1),
    "code_average": code_average, "code_global_average": code_global_average,
    **quantized_weights.FAMILIES,
    "softplus": function("Softplus"), "softsign": function("Softsign"), "selu": function("Selu"),
    "celu": function("Celu", alpha=(1, 0.5)), "mish": function("Mish", opset=18), "abs": function("Abs"),
    "neg": function("Neg"), "square": square,
}


def write(folder, family, number, seed, dtype, symmetric):
    maker = Maker(np.random.default_rng([seed, list(FAMILIES).index(family), number]), dtype, symmetric)
    output, grid = FAMILIES[family](maker)
    x = maker.values()
    y = maker.run(output, x)
    model = maker.model(output, y.shape)
    onnx.checker.check_model(model)
    name = f"{family}_{number}"
    onnx.save(model, folder / (name + ".onnx"))
    np.save(folder / (name + "_x.npy"), x)
    np.save(folder / (name + "_y.npy"), y)
    return f"{family} {name} {np.dtype(dtype).name} {float(grid[0]).hex()} {grid[1]}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--symmetric", action="store_true", help="no zero points")
    parser.add_argument("--int16", action="store_true", help="int16 codes, of what int16 codes have no tables for")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    dtype = np.int16 if options.int16 else np.int8
    families = INT16 if options.int16 else list(FAMILIES)
    lines = [write(options.folder, family, number, options.seed, dtype, options.symmetric)
             for family in families for number in range(options.count)]
    (options.folder / "manifest.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
