#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times ONNX Runtime on the shapes of the benches: quantized layers in QDQ form, one thread.

    python3 bench/peers/onnxruntime_peer.py [bench/shapes/list.txt ...]

Needs the packages onnxruntime, onnx and numpy; without them it says so and ends with status 77, which ctest counts as
skipped. ./dev bench does not run it: figures of another process, minutes apart, are no ratios. To compare, run it in
turns with ./dev bench on an idle machine, both under the same `taskset -c N`.

Each layer is a model of three nodes, DequantizeLinear -> Conv or MatMul -> QuantizeLinear, with int8 weights and a
scale for each output channel; ONNX Runtime fuses them into one integer operator. Columns: signed (s8s8) and unsigned
(u8s8) activations, microseconds, median of samples of at least 0.2 ms over 0.25 s. Input and output stay in memory
that was allocated beforehand.
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
    print(f"skipped: {missing}")
    sys.exit(77)


def numbers(word, count, separator):
    """`3` or `3,1,3,1`, as in support/shapes.hpp, as a list of count numbers."""
    parts = [int(part) for part in word.split(separator)]
    return parts * count if len(parts) == 1 else parts


def read_shapes(path):
    """The layers of a file of shapes: name, input shape, weight shape, and the attributes of Conv or None."""
    layers = []
    for line in Path(path).read_text().splitlines():
        words = line.split("#")[0].split()
        if not words:
            continue
        kind, name, rest = words[0], words[1], words[2:]
        if kind == "gemm":
            m, k, n = map(int, rest)
            layers.append((name, [m, k], [k, n], None))
            continue
        channels, height, width, outputs = map(int, rest[:4])
        kernel, stride = numbers(rest[4], 2, "x"), numbers(rest[5], 2, "x")
        padding, groups = numbers(rest[6], 4, ","), int(rest[7]) if len(rest) > 7 else 1
        if kind == "linear" and kernel == [1, 1]:
            layers.append((name, [1, channels], [channels, outputs], None))
            continue
        attributes = {"kernel_shape": kernel, "strides": stride, "pads": padding, "group": groups}
        layers.append((name, [1, channels, height, width], [outputs, channels // groups, *kernel], attributes))
    return layers


def make_model(input_shape, weight_shape, attributes, dtype):
    """A quantized layer whose input and output are of dtype (numpy's int8 or uint8)."""
    random = np.random.default_rng(1)
    axis = 0 if attributes is not None else 1
    outputs = weight_shape[axis]
    depth = int(np.prod(weight_shape)) // outputs
    zero = np.array(0 if dtype == np.int8 else 128, dtype)
    values = {
        "s_in": np.float32(0.02), "z_in": zero,
        "w": random.integers(-127, 128, weight_shape, dtype=np.int8),
        "s_w": (0.01 + 1e-5 * random.integers(0, 100, outputs)).astype(np.float32),
        "z_w": np.zeros(outputs, np.int8),
        "s_out": np.float32(0.02 * 0.01 * 74 * 74 * depth**0.5 / 40), "z_out": zero,
    }
    kind = "Conv" if attributes is not None else "MatMul"
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s_in", "z_in"], ["x_real"]),
        helper.make_node("DequantizeLinear", ["w", "s_w", "z_w"], ["w_real"], axis=axis),
        helper.make_node(kind, ["x_real", "w_real"], ["y_real"], **(attributes or {})),
        helper.make_node("QuantizeLinear", ["y_real", "s_out", "z_out"], ["y"]),
    ]
    element = TensorProto.INT8 if dtype == np.int8 else TensorProto.UINT8
    graph = helper.make_graph(
        nodes, "layer", [helper.make_tensor_value_info("x", element, input_shape)],
        [helper.make_tensor_value_info("y", element, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


def bound_session(model, input_shape, dtype):
    """A session, and its input and output bound to memory of our own."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    low, high = (-128, 128) if dtype == np.int8 else (0, 256)
    x = np.random.default_rng(2).integers(low, high, input_shape, dtype=dtype)
    y = np.zeros(session.run(None, {"x": x})[0].shape, dtype)
    binding = session.io_binding()
    keep = [ort.OrtValue.ortvalue_from_numpy(x), ort.OrtValue.ortvalue_from_numpy(y)]
    binding.bind_ortvalue_input("x", keep[0])
    binding.bind_ortvalue_output("y", keep[1])
    return session, binding, keep


def microseconds(model, input_shape, dtype):
    """Median time of one call."""
    session, binding, _keep = bound_session(model, input_shape, dtype)
    run, clock = session.run_with_iobinding, time.perf_counter
    start = clock()
    for _ in range(3):
        run(binding)
    calls = max(1, int(2e-4 / ((clock() - start) / 3)))
    samples, end = [], clock() + 0.25
    while clock() < end or len(samples) < 7:
        start = clock()
        for _ in range(calls):
            run(binding)
        samples.append((clock() - start) / calls)
    return statistics.median(samples) * 1e6


def main():
    here = Path(__file__).resolve().parent
    paths = sys.argv[1:] or [here.parent / "shapes" / "list.txt"]
    print(f"ONNX Runtime {ort.__version__}, one thread")
    print(f"{'layer':<26} {'s8s8 us':>10} {'u8s8 us':>10}")
    for path in paths:
        for name, input_shape, weight_shape, attributes in read_shapes(path):
            times = [microseconds(make_model(input_shape, weight_shape, attributes, dtype), input_shape, dtype)
                     for dtype in (np.int8, np.uint8)]
            print(f"{name:<26} {times[0]:>10.1f} {times[1]:>10.1f}", flush=True)


if __name__ == "__main__":
    main()
