# SPDX-License-Identifier: MIT
"""Families of make_quantized_models.py: weights that a file quantizes or moves, codes without a zero point or of fewer
bits, and what reads such codes."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

# ---- weights that the file quantizes or moves ------------------------------------------------


def named(m, values):
    """A constant, as an initializer or as nodes."""
    kind = m.rng.integers(4)
    if kind == 0:
        return m.constant(values)
    if kind == 1:
        return m.call("Constant", [], value=numpy_helper.from_array(np.asarray(values)))
    if kind == 2:
        return m.call("Identity", [m.constant(values)])
    wide = np.float32 if values.dtype == np.float32 else m.pick(np.int32, np.int64, np.float32)
    to = helper.np_dtype_to_tensor_dtype(values.dtype)
    return m.call("Cast", [m.constant(values.astype(wide))], to=to)


def weight_grid(m, values, axis, dtype):
    """Scales for the tensor or for each channel along an axis; the zero point is that of symmetric codes."""
    others = tuple(k for k in range(values.ndim) if k != axis)
    largest = np.abs(values).max(axis=m.pick(None, others))
    scales = np.maximum(largest, 1e-3).astype(np.float32) / np.float32(127)
    return scales, np.full(scales.shape, 0 if dtype == np.int8 else 128, dtype)


def weight(m, values, axis):
    """A weight from a float or an integer constant: QuantizeLinear, Clip, DequantizeLinear, a move anywhere."""
    dtype, rank = m.pick(np.int8, np.int8, np.uint8), values.ndim
    turn = m.pick("never", "before", "codes", "after")
    perm = [int(k) for k in m.rng.permutation(rank)]
    stored = values if turn == "never" else values.transpose(np.argsort(perm))
    if turn in ("codes", "after"):
        axis = perm[axis]
    scales, zeros = weight_grid(m, values if turn in ("never", "before") else stored, axis, dtype)
    grid, attributes = [named(m, scales), named(m, zeros)], {"axis": axis - m.pick(0, rank)}

    def turned(name, when):
        return m.call("Transpose", [name], perm=perm) if turn == when else name

    if turn != "before" and m.chance(0.3):
        shape = [1] * rank
        shape[axis] = scales.size
        codes = np.rint(stored / scales.reshape(shape) if scales.size > 1 else stored / scales)
        name = m.constant((codes + zeros.reshape(-1)[0]).astype(dtype))
    else:
        name = m.call("QuantizeLinear", [turned(m.constant(stored), "before"), *grid], **attributes)
    if m.chance(0.4):
        low, high = (-127, 127) if dtype == np.int8 else (1, 255)
        name = m.call("Clip", [name, named(m, dtype(low)), named(m, dtype(high))])
    after = {"axis": perm.index(axis) - m.pick(0, rank)} if turn == "codes" else attributes
    name = turned(m.call("DequantizeLinear", [turned(name, "codes"), *grid], **after), "after")
    return m.call("Cast", [name], to=TensorProto.FLOAT) if m.chance(0.2) else name


def random_weight(m, *shape):
    return (m.rng.normal(0, 1, shape) * 10 ** m.rng.uniform(-2, 1)).astype(np.float32)


def layer(m, x, turn_weight):
    """A layer of an image with `turn_weight` of its weight."""
    kind = m.pick("Conv", "Conv", "ConvTranspose", "Gemm", "MatMul", "reshaped")
    bias = [m.constant(random_weight(m, 6))] if m.chance(0.5) else []
    if kind == "Conv":
        return m.call("Conv", [x, turn_weight(m, random_weight(m, 6, 2, 3, 3), 0), *bias], pads=[1, 1, 1, 1])
    if kind == "ConvTranspose":
        return m.call("ConvTranspose", [x, turn_weight(m, random_weight(m, 2, 6, 2, 2), 1), *bias], strides=[2, 2])
    if kind == "reshaped":
        flat = turn_weight(m, random_weight(m, 6, 18), 0)
        return m.call("Conv", [x, m.call("Reshape", [flat, m.integers(6, 2, 3, 3)]), *bias])
    if kind == "MatMul":
        return m.call("MatMul", [x, turn_weight(m, random_weight(m, 16, 6), 1)])
    row = m.call("Flatten", [x])
    if m.chance(0.5):
        return m.call("Gemm", [row, turn_weight(m, random_weight(m, 6, 256), 0), *bias], transB=1)
    return m.call("Gemm", [row, turn_weight(m, random_weight(m, 256, 6), 1), *bias])


def float_weight(m):
    y = layer(m, m.input(), weight)
    return m.finish(y, m.covering(m.run(y)))


# ---- other types and ranges of codes ---------------------------------------------------------


def without_zero_point(m):
    """QuantizeLinear and DequantizeLinear without a zero point: of uint8, or of the type that output_dtype says."""
    is_uint8 = m.chance(0.5)
    m.opset, attributes = (m.opset, {}) if is_uint8 else (21, {"output_dtype": TensorProto.INT8})
    scale = m.x_grid[0]
    m.x_grid = (scale, -128 if is_uint8 else 0)

    def both(x, scale):
        codes = m.call("QuantizeLinear", [x, m.constant(np.float32(scale))], **attributes)
        if x == "x" and m.chance(0.3):
            codes = m.call("MaxPool", [codes], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        return m.call("DequantizeLinear", [codes, m.constant(np.float32(scale))])

    x = both("x", scale)
    value = m.pick(lambda: m.call("Relu", [x]), lambda: m.call("Flatten", [x]), lambda: x,
                   lambda: m.call("Concat", [x, both("x", m.near(scale))], axis=1), lambda: layer(m, x, weight))()
    largest = float(np.abs(m.run(value)).max())
    out = np.float32(max(largest, 1e-3) / (255 if is_uint8 else 127))
    return both(value, out), (out, m.x_grid[1])


def clipped_codes(m):
    """A Clip of codes between the two, as of fewer bits."""
    dtype = m.pick(np.int8, np.uint8)
    bits = m.pick(4, 7)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if dtype == np.int8 else (0, 2**bits - 1)

    def both(x, scale):
        zero = dtype(0 if m.chance(0.3) else m.rng.integers(low, high + 1))
        grid = [m.constant(np.float32(scale)), m.constant(zero)]
        limits = ["" if m.chance(0.5) and low in (0, -128) else named(m, dtype(low)), named(m, dtype(high))]
        return m.call("DequantizeLinear", [m.call("Clip", [m.call("QuantizeLinear", [x, *grid]), *limits]), *grid])

    coarse = np.float32(m.x_grid[0] * 2 ** (8 - bits) * m.rng.uniform(1.01, 1.3))  # without ties
    x = both("x", coarse)
    value = m.pick(lambda: m.call("Relu", [x]), lambda: m.call("MaxPool", [x], kernel_shape=[2, 2]), lambda: x,
                   lambda: m.call("Concat", [x, both("x", m.near(coarse))], axis=1), lambda: layer(m, x, weight),
                   lambda: m.call("Add", [x, both("x", coarse)]), lambda: m.call("HardSwish", [x]))()
    out = np.float32(max(float(np.abs(m.run(value)).max()), 1e-3) / 2**bits * 2)
    return both(value, out), (out, 0)


def code_gemm(m):
    """QGemm with alpha and a bias; ONNX Runtime has no uint8 weights beside int8 codes."""
    m.shape = (16, 16)
    values, axis = (random_weight(m, 6, 16), 0) if m.chance(0.5) else (random_weight(m, 16, 6), 1)
    is_uint8 = m.chance(0.5)
    dtype = m.pick(np.int8, np.uint8) if is_uint8 else np.int8
    scales, zeros = weight_grid(m, values, axis, dtype)
    shape = [1, 1]
    shape[axis] = scales.size
    # int8 weights of 7 bits: without VNNI, ONNX Runtime adds two products of 8 bits in int16, which saturates.
    step = scales.reshape(shape) * (2 if dtype == np.int8 else 1)
    codes = np.clip(np.rint(values / step), -127, 127) + zeros.reshape(-1)[0]
    grid = (lambda g: [m.constant(g[0]), named(m, np.uint8(g[1] + 128))]) if is_uint8 else m.grid
    x_grid = grid(m.x_grid)
    rows = m.call("QuantizeLinear", ["x", *x_grid])
    bias = m.constant(m.rng.integers(-20000, 20000, m.pick((6,), (1, 6))).astype(np.int32)) if m.chance(0.7) else ""
    operands = [rows, *x_grid, m.constant(codes.astype(dtype)), named(m, scales), named(m, zeros), bias]
    attributes = {"alpha": m.pick(1.0, 0.5, 2.0, 0.3), "transB": 1 - axis}
    sums = m.run(m.on_codes("QGemm", operands, **attributes))
    m.nodes.pop()
    out = m.covering(sums)
    out_grid = grid(out)
    return m.call("DequantizeLinear", [m.on_codes("QGemm", [*operands, *out_grid], **attributes), *out_grid]), out


def code_pieces(m):
    """Resize, Pad and Split read codes of int8 or uint8, with a zero point or without."""
    dtype = m.pick(np.int8, np.uint8)
    has_zero_point = dtype == np.int8 or m.chance(0.5)
    zero = m.zero_point() + (128 if dtype == np.uint8 else 0) if has_zero_point else 0
    m.x_grid = (m.x_grid[0], zero - (128 if dtype == np.uint8 else 0))
    grid = [m.constant(m.x_grid[0]), *([named(m, dtype(zero))] if has_zero_point else [])]
    codes = m.call("QuantizeLinear", ["x", *grid])
    scales = m.constant(np.array([1, 1, 2, 3], np.float32))
    pads, fill = m.integers(0, 0, 1, 0, 0, 0, 1, 2), named(m, dtype(m.rng.integers(0, 128)))

    def split():
        name = f"n{len(m.nodes)}"
        m.nodes.append(helper.make_node("Split", [codes, m.integers(3, 5)], [name + "_a", name + "_b"], axis=2))
        return m.pick(name + "_a", name + "_b")

    piece = m.pick(split, split, lambda: m.call("Pad", [codes, pads, *m.pick([fill], [])]),
                   lambda: m.call("Resize", [codes, "", scales], mode="nearest", nearest_mode="floor",
                                  coordinate_transformation_mode="asymmetric"))()
    return m.call("DequantizeLinear", [piece, *grid]), m.x_grid


FAMILIES = {
    "float_weight": float_weight, "without_zero_point": without_zero_point, "clipped_codes": clipped_codes,
    "code_gemm": code_gemm, "code_pieces": code_pieces,
}
