#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/models: small ONNX models with inputs and expected outputs.

    pip install torch numpy onnx onnxscript onnxruntime
    python tests/golden/make_small_models.py [--out FOLDER]

Four kinds: small_cnn (many operators in one network; PyTorch gives the logits), one model per
operator variant and opset (onnx.reference gives the outputs, onnxruntime has to agree), small networks as
torch.onnx.export writes them by default (onnxruntime gives the outputs), and broken files that a reader must
refuse.  manifest.txt lists the good ones, `name input.npy output.npy` a line.
"""
import argparse
import platform
import textwrap
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from torch import nn
from torch.nn import functional as F

SEED = 7
NEWEST = onnx.defs.onnx_opset_version()


# ---- building blocks ------------------------------------------------------------------------


def raw(name, values):
    """An initializer in raw_data: float32, or int64 for integers."""
    values = np.asarray(values)
    kind, dtype = (TensorProto.INT64, "<i8") if values.dtype.kind == "i" else (TensorProto.FLOAT, "<f4")
    return helper.make_tensor(name, kind, values.shape, values.astype(dtype).tobytes(), raw=True)


def typed(name, values):
    """The same in float_data or int64_data."""
    values = np.asarray(values)
    kind = TensorProto.INT64 if values.dtype.kind == "i" else TensorProto.FLOAT
    return helper.make_tensor(name, kind, values.shape, values.ravel().tolist())


def model(name, opset, nodes, initializers, x_shape, y_shape, weights_are_inputs=False):
    """Input x, output y, the first axis of both symbolic."""
    def info(label, shape):
        return helper.make_tensor_value_info(label, TensorProto.FLOAT, ["N", *shape[1:]])

    inputs = [info("x", x_shape)]
    if weights_are_inputs:
        inputs += [helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in initializers]
    graph = helper.make_graph(nodes, name, inputs, [info("y", y_shape)], initializers)
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, producer_name="make_small_models.py", opset_imports=opsets,
                             ir_version=helper.find_min_ir_version_for(opsets))


def save_model(path, proto, check=True):
    if check:
        onnx.checker.check_model(proto, full_check=True)
    path.write_bytes(proto.SerializeToString(deterministic=True))


def run_onnxruntime(path, x):
    """None where this onnxruntime does not know the opset."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        if "Unsupported model IR version" in str(error) or "ValidateOpsetForDomain" in str(error):
            return None
        raise
    return session.run(None, {"x": x})[0]


# ---- small_cnn ------------------------------------------------------------------------------

DEAD_CHANNEL = 2  # of conv1: weights 0, bn bias 0.4: a constant after folding
ZERO_CHANNEL = 5  # of conv1: weights, mean and bn bias 0: nothing at all after folding


class SmallCnn(nn.Module):
    def __init__(self):
        super().__init__()

        def conv(inputs, outputs, kernel=3, **options):
            return nn.Conv2d(inputs, outputs, kernel, padding=options.pop("padding", 1), **options)

        self.conv1, self.bn1 = conv(3, 8, stride=2, bias=False), nn.BatchNorm2d(8)
        self.conv2, self.bn2 = conv(8, 8, padding=2, dilation=2, groups=2, bias=False), nn.BatchNorm2d(8)
        self.conv3, self.bn3 = conv(8, 8, groups=8, bias=False), nn.BatchNorm2d(8)
        self.conv4, self.bn4 = conv(8, 8, bias=False), nn.BatchNorm2d(8)
        self.conv5 = conv(8, 4, (1, 3), padding=(0, 1))
        self.fc1, self.fc2 = nn.Linear(12 * 3 * 2, 12), nn.Linear(12, 5)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))                           # 8 x 5 x 4
        x = F.relu6(self.bn2(self.conv2(x)))                          # 8 x 5 x 4
        x = F.relu(self.bn3(self.conv3(x)))                           # 8 x 5 x 4
        x = F.relu(self.bn4(self.conv4(x)) + x)                       # 8 x 5 x 4
        a = F.max_pool2d(x, 3, 2, padding=1)                          # 8 x 3 x 2
        b = F.avg_pool2d(F.relu(self.conv5(x)), 3, 2, padding=1)      # 4 x 3 x 2, counts the padding
        return self.fc2(F.relu(self.fc1(torch.cat([a, b], 1).flatten(1))))


def make_small_cnn_weights():
    """Random weights of trained size; running statistics measured, so activations are of order 1."""
    torch.manual_seed(SEED)
    net = SmallCnn()
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.momentum = None  # the plain mean over batches
                module.weight.uniform_(0.5, 1.5)
                module.bias.uniform_(-0.3, 0.5)
        net.bn2.weight[3] = 4.0  # reaches beyond 6, so that the clip cuts
        net.conv1.weight[[DEAD_CHANNEL, ZERO_CHANNEL]] = 0
        net.bn1.bias[DEAD_CHANNEL], net.bn1.bias[ZERO_CHANNEL] = 0.4, 0
        for _ in range(8):
            net.train()(torch.randn(32, 3, 9, 7))
    assert net.bn1.running_mean[ZERO_CHANNEL] == 0 == net.bn1.running_var[ZERO_CHANNEL]
    return net.eval()


def small_cnn_graph(net):
    nodes, initializers = [], []

    def emit(kind, name, inputs, **attributes):
        nodes.append(helper.make_node(kind, inputs, [f"/{name}/output"], name=f"/{name}", **attributes))
        return f"/{name}/output"

    def store(name, *keys):
        tensors = [(f"{name}.{key}", getattr(getattr(net, name), key)) for key in keys]
        initializers.extend(raw(label, t.detach().numpy()) for label, t in tensors if t is not None)
        return [label for label, t in tensors if t is not None]

    def conv(index, x):
        m = getattr(net, f"conv{index}")
        return emit("Conv", f"conv{index}", [x, *store(f"conv{index}", "weight", "bias")],
                    kernel_shape=list(m.kernel_size), strides=list(m.stride), pads=list(m.padding) * 2,
                    dilations=list(m.dilation), group=m.groups)

    def conv_bn(index, x):
        name = f"bn{index}"
        keys = store(name, "weight", "bias", "running_mean", "running_var")
        return emit("BatchNormalization", name, [conv(index, x), *keys], epsilon=1e-5)

    x = emit("Relu", "relu1", [conv_bn(1, "x")])
    initializers.extend([raw("relu6.min", 0.0), raw("relu6.max", 6.0)])
    x = emit("Clip", "relu6", [conv_bn(2, x), "relu6.min", "relu6.max"])
    x = emit("Relu", "relu3", [conv_bn(3, x)])
    x = emit("Relu", "relu4", [emit("Add", "add", [conv_bn(4, x), x])])
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    a = emit("MaxPool", "maxpool", [x], **window)
    b = emit("AveragePool", "avgpool", [emit("Relu", "relu5", [conv(5, x)])], count_include_pad=1, **window)
    x = emit("Flatten", "flatten", [emit("Concat", "concat", [a, b], axis=1)])
    x = emit("Relu", "relu_fc1", [emit("Gemm", "fc1", [x, *store("fc1", "weight", "bias")], transB=1)])
    emit("Gemm", "fc2", [x, *store("fc2", "weight", "bias")], transB=1)
    nodes[-1].output[0] = "y"
    return nodes, initializers


def make_small_cnn(out):
    net = make_small_cnn_weights()
    x = torch.randn(6, 3, 9, 7)
    with torch.no_grad():
        logits = net(x).numpy()
    proto = model("small_cnn", 17, *small_cnn_graph(net), x.shape, logits.shape)
    save_model(out / "small_cnn.onnx", proto)
    error = np.abs(run_onnxruntime(out / "small_cnn.onnx", x.numpy()) - logits).max()
    assert error < 1e-5, error
    np.save(out / "small_cnn_input.npy", x.numpy())
    np.save(out / "small_cnn_logits.npy", logits)
    return ["small_cnn small_cnn_input.npy small_cnn_logits.npy"]


# ---- one operator a model -------------------------------------------------------------------


class Cases:
    """Collects (case, opsets, input, nodes, initializers); inputs are shared by many cases.

    Numbers are multiples of 1/8, so that sums of products are exact in float32 in any order.
    """

    def __init__(self):
        self.random = np.random.RandomState(SEED)
        self.inputs = {"image": self.eighths(2, 4, 6, 5), "cube": self.eighths(2, 3, 4),
                       "matrix": self.eighths(3, 6)}
        self.rows = []

    def add_input(self, name, *shape):
        self.inputs[name] = self.eighths(*shape)

    def eighths(self, *shape):
        return (self.random.randint(-16, 17, shape) / 8.0).astype(np.float32)

    def add(self, case, opsets, x, nodes, initializers=(), **options):
        self.rows.append((case, opsets, x, nodes, list(initializers), options))

    def one(self, case, opsets, x, kind, more_inputs=(), initializers=(), options=None, **attributes):
        node = helper.make_node(kind, ["x", *more_inputs], ["y"], name=case, **attributes)
        self.add(case, opsets, x, [node], initializers, **(options or {}))


def add_convolutions(c):
    w, b = c.eighths(6, 4, 3, 3), c.eighths(6)
    both = [raw("w", w), raw("b", b)]
    everywhere = (11, 17, NEWEST)
    c.one("conv_same_upper", everywhere, "image", "Conv", "wb", both, auto_pad="SAME_UPPER",
          kernel_shape=[3, 3], strides=[2, 2])
    c.one("conv_same_lower", (13,), "image", "Conv", "wb", both, auto_pad="SAME_LOWER",
          kernel_shape=[3, 3], strides=[2, 2])
    c.one("conv_valid", (13,), "image", "Conv", "wb", both, auto_pad="VALID")
    c.one("conv_pads", (11, 13, 17, NEWEST), "image", "Conv", "wb", both, pads=[0, 1, 2, 1],
          kernel_shape=[3, 3], strides=[1, 2])
    c.one("conv_no_bias", (13, NEWEST), "image", "Conv", "w", [raw("w", w)])
    c.one("conv_float_data", (17,), "image", "Conv", "wb", [typed("w", w), typed("b", b)])
    c.one("conv_groups", everywhere, "image", "Conv", "wb",
          [raw("w", c.eighths(6, 2, 3, 2)), raw("b", b)], group=2, dilations=[2, 1], pads=[2, 0, 2, 1])
    c.one("conv_depthwise", (13,), "image", "Conv", "w", [raw("w", c.eighths(4, 1, 3, 3))],
          group=4, pads=[1, 1, 1, 1])
    c.one("conv_weights_are_inputs", (11,), "image", "Conv", "wb", both,
          options={"weights_are_inputs": True})


def add_elementwise(c):
    statistics = [raw("scale", c.eighths(4)), raw("bias", c.eighths(4)), raw("mean", c.eighths(4)),
                  raw("var", np.abs(c.eighths(4)) + 0.125)]
    names = ["scale", "bias", "mean", "var"]
    c.one("batch_norm", (11, 13, 17, NEWEST), "image", "BatchNormalization", names, statistics)
    c.one("batch_norm_epsilon", (13, 17), "image", "BatchNormalization", names, statistics,
          epsilon=0.125, momentum=0.75)
    c.one("relu", (11, 13, 17, NEWEST), "image", "Relu")
    low, high = raw("low", -0.5), raw("high", 1.25)
    c.one("clip", (11, 13, NEWEST), "image", "Clip", ["low", "high"], [low, high])
    c.one("clip_no_min", (11, 17), "image", "Clip", ["", "high"], [high])
    c.one("clip_no_max", (13,), "image", "Clip", ["low"], [low])
    c.one("add_self", (11, 17), "image", "Add", ["x"])
    c.one("add_channel", (13, NEWEST), "image", "Add", ["b"], [raw("b", c.eighths(4, 1, 1))])
    c.one("identity", (11, 17, NEWEST), "image", "Identity")
    c.one("dropout_attribute", (11,), "image", "Dropout", ratio=0.25)
    switch = helper.make_tensor("training", TensorProto.BOOL, [], [False])
    c.one("dropout_inputs", (13, NEWEST), "image", "Dropout", ["ratio", "training"],
          [raw("ratio", 0.25), switch])
    c.one("dropout_default", (17,), "image", "Dropout")
    constant = helper.make_node("Constant", [], ["c"], name="constant",
                                value=raw("value", c.eighths(4, 1, 1)))
    c.add("constant", (11, 17, NEWEST), "image",
          [constant, helper.make_node("Add", ["x", "c"], ["y"], name="add")])
    c.add("constant_value_float", (13,), "image",
          [helper.make_node("Constant", [], ["c"], name="constant", value_float=0.5),
           helper.make_node("Clip", ["x", "c"], ["y"], name="clip")])


def add_pools(c):
    window = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
    everywhere = (11, 17, NEWEST)
    c.one("max_pool", everywhere, "image", "MaxPool", ceil_mode=0, **window)
    c.one("max_pool_plain", (13,), "image", "MaxPool", kernel_shape=[2, 2])  # strides default to 1
    c.one("average_pool_exclude_pad", everywhere, "image", "AveragePool", count_include_pad=0, **window)
    c.one("average_pool_include_pad", everywhere, "image", "AveragePool", count_include_pad=1, **window)
    c.one("average_pool_plain", (13,), "image", "AveragePool", kernel_shape=[2, 2], strides=[2, 2])
    c.one("global_average_pool", everywhere, "image", "GlobalAveragePool")


def add_matrices(c):
    w, b = c.eighths(6, 5), c.eighths(5)
    straight, turned = [raw("w", w), raw("b", b)], [raw("w", np.ascontiguousarray(w.T)), raw("b", b)]
    c.one("gemm", (11, 17), "matrix", "Gemm", "wb", straight, transA=0, transB=0)
    c.one("gemm_trans_b", (11, 13, NEWEST), "matrix", "Gemm", "wb", turned, transB=1)
    c.one("gemm_alpha_beta", (13, 17), "matrix", "Gemm", "wb", turned, transB=1, alpha=0.5, beta=2.0)
    c.one("gemm_no_bias", (13,), "matrix", "Gemm", "w", straight[:1])
    c.one("gemm_bias_row", (17,), "matrix", "Gemm", "wb", [straight[0], raw("b", b.reshape(1, 5))])

    def matmul_add(case, opsets, operands):
        c.add(case, opsets, "matrix",
              [helper.make_node("MatMul", ["x", "w"], ["product"], name="matmul"),
               helper.make_node("Add", operands, ["y"], name="add")], straight)

    matmul_add("matmul_add", (11, 17, NEWEST), ["product", "b"])
    matmul_add("matmul_add_bias_first", (13,), ["b", "product"])


def add_shapes(c):
    c.one("flatten", (11, 13, NEWEST), "image", "Flatten")
    c.one("flatten_negative_axis", (17,), "image", "Flatten", axis=-3)
    keep = np.array([0, -1])
    c.one("reshape", (11, 13, 17, NEWEST), "image", "Reshape", ["shape"], [raw("shape", keep)])
    c.one("reshape_int64_data", (17,), "image", "Reshape", ["shape"], [typed("shape", keep)])

    def reshape_constant(case, opsets, **value):
        c.add(case, opsets, "image",
              [helper.make_node("Constant", [], ["shape"], name="constant", **value),
               helper.make_node("Reshape", ["x", "shape"], ["y"], name="reshape")])

    reshape_constant("reshape_constant", (11, 17, NEWEST), value=raw("value", keep))
    reshape_constant("reshape_constant_value_ints", (13,), value_ints=[0, -1])
    for case, opsets, axis in (("concat", (11, 17, NEWEST), 1), ("concat_negative_axis", (13,), -3)):
        c.add(case, opsets, "image",
              [helper.make_node("Relu", ["x"], ["positive"], name="relu"),
               helper.make_node("Concat", ["positive", "x"], ["y"], name="concat", axis=axis)])
    # Up to opset 12 Softmax flattens to 2-D at axis (default 1); from 13 it works along axis (default -1).
    # onnx.reference knows only the latter; softmax_flattened is computed here.
    def flattened(x):
        powers = np.exp(x.reshape(len(x), -1).astype(np.float64))
        return (powers / powers.sum(axis=1, keepdims=True)).reshape(x.shape)

    c.one("softmax_flattened", (11,), "cube", "Softmax", options={"expected": flattened})
    c.one("softmax", (13, NEWEST), "cube", "Softmax")
    c.one("softmax_axis1", (13,), "cube", "Softmax", axis=1)
    c.one("softmax_last_axis", (11, 17), "cube", "Softmax", axis=2)


def add_chain(c):
    """What an exporter writes for a small classifier, in one piece."""
    def node(kind, inputs, output, **attributes):
        return helper.make_node(kind, inputs, [output], name=f"/{kind.lower()}", **attributes)

    initializers = [raw("w", c.eighths(3, 4, 3, 3)), raw("scale", c.eighths(3)), raw("bias", c.eighths(3)),
                    raw("mean", c.eighths(3)), raw("var", np.abs(c.eighths(3)) + 0.5),
                    raw("fc.w", c.eighths(5, 3)), raw("fc.b", c.eighths(5))]
    c.add("chain", (11, 13, 17, NEWEST), "image", [
        node("Conv", ["x", "w"], "1", kernel_shape=[3, 3]),
        node("BatchNormalization", ["1", "scale", "bias", "mean", "var"], "2"),
        node("Relu", ["2"], "3"), node("GlobalAveragePool", ["3"], "4"),
        node("Flatten", ["4"], "5"), node("Gemm", ["5", "fc.w", "fc.b"], "y", transB=1)], initializers)


def add_norms_by_parts(c):
    """Layer norm and RMS norm as exporters write them below opsets 17 and 23, and what only looks like one."""
    def node(kind, inputs, output, **attributes):
        return helper.make_node(kind, inputs, [output], **attributes)

    weights = [raw("w", c.eighths(4)), raw("v", c.eighths(4)), raw("eps", 0.125), raw("two", 2.0), raw("one", 1.0)]
    mean = {"axes": [-1], "keepdims": 1}
    c.add("layer_norm_by_parts", (11, 13), "cube", [
        node("ReduceMean", ["x"], "m", **mean), node("Sub", ["x", "m"], "d"), node("Pow", ["d", "two"], "q"),
        node("ReduceMean", ["q"], "s", **mean), node("Add", ["s", "eps"], "t"), node("Sqrt", ["t"], "r"),
        node("Div", ["d", "r"], "n"), node("Mul", ["n", "w"], "g"), node("Add", ["g", "v"], "y")],
          weights[:4])
    c.add("layer_norm_by_parts_turned", (18,), "cube", [
        node("ReduceMean", ["x", "last"], "m"), node("Sub", ["x", "m"], "d"), node("Sub", ["x", "m"], "e"),
        node("Mul", ["e", "e"], "q"), node("ReduceMean", ["q", "last"], "s"), node("Add", ["eps", "s"], "t"),
        node("Sqrt", ["t"], "r"), node("Reciprocal", ["r"], "i"), node("Mul", ["i", "d"], "n"),
        node("Mul", ["w", "n"], "g"), node("Add", ["v", "g"], "y")], weights[:3] + [raw("last", np.array([-1]))])
    c.add("rms_norm_by_parts", (13,), "cube", [
        node("Pow", ["x", "two"], "q"), node("ReduceMean", ["q"], "s", **mean), node("Add", ["s", "eps"], "t"),
        node("Sqrt", ["t"], "r"), node("Div", ["one", "r"], "i"), node("Mul", ["x", "i"], "n"),
        node("Mul", ["n", "w"], "y")], [weights[0]] + weights[2:])
    c.add("parts_that_are_no_norm", (13,), "cube", [
        node("ReduceMean", ["x"], "m", axes=[1], keepdims=1), node("Sub", ["x", "m"], "d"),
        node("Pow", ["d", "two"], "q"), node("ReduceMean", ["q"], "s", **mean), node("Add", ["s", "eps"], "t"),
        node("Sqrt", ["t"], "r"), node("Reciprocal", ["r"], "i"), node("Mul", ["d", "i"], "n"),
        node("Mul", ["n", "w"], "y")], [weights[0]] + weights[2:4])


def make_cases(out):
    """The manifest's lines, and the names of the models that onnxruntime is too old for."""
    c = Cases()
    for add in (add_convolutions, add_elementwise, add_pools, add_matrices, add_shapes, add_chain,
                add_weighted_more, add_unary, add_arithmetic, add_moves, add_what_exporters_write,
                add_pools_more, add_constants, add_lines_and_volumes, add_averages_that_count,
                add_what_older_opsets_write, add_norms_by_parts):
        add(c)
    for name, x in c.inputs.items():
        np.save(out / f"input_{name}.npy", x)
    lines, alone = [], []
    for case, opsets, x_name, nodes, initializers, options in c.rows:
        x, oracle = c.inputs[x_name], options.pop("expected", None)

        def build(opset, y):
            return model(f"{case}_opset{opset}", opset, nodes, initializers, x.shape, y.shape, **options)

        # Only the last opset asks onnx.reference: below opset 14 it runs BatchNormalization with a
        # momentum in training mode, where the specification says inference for a single output.
        y = oracle(x) if oracle else ReferenceEvaluator(build(opsets[-1], x)).run(None, {"x": x})[0]
        y = np.asarray(y, dtype=np.float32)
        np.save(out / f"{case}.npy", np.ascontiguousarray(y))
        for opset in opsets:
            proto = build(opset, y)
            path = out / f"{proto.graph.name}.onnx"
            save_model(path, proto)
            second = run_onnxruntime(path, x)
            if second is None:
                alone.append(proto.graph.name)
            else:
                np.testing.assert_allclose(second, y, rtol=2e-6, atol=1e-6, err_msg=proto.graph.name)
            lines.append(f"{proto.graph.name} input_{x_name}.npy {case}.npy")
        assert f"{case}_opset{opsets[0]}" not in alone, f"{case}: onnxruntime must confirm one opset"
    return lines, alone


def add_weighted_more(c):
    b6 = raw("b", c.eighths(6))
    c.one("conv_transpose", (11, 17), "image", "ConvTranspose", "wb", [raw("w", c.eighths(4, 6, 3, 2)), b6],
          strides=[2, 1], pads=[1, 0, 1, 1], output_padding=[1, 0])
    grouped, bias = c.eighths(4, 3, 3, 3), c.eighths(6)

    # onnx.reference cannot do groups here.
    def by_torch(x):
        return F.conv_transpose2d(*map(torch.from_numpy, (x, grouped, bias)), groups=2, dilation=(1, 2)).numpy()

    c.one("conv_transpose_groups", (13,), "image", "ConvTranspose", "wb", [raw("w", grouped), raw("b", bias)],
          group=2, dilations=[1, 2], kernel_shape=[3, 3], options={"expected": by_torch})
    c.one("conv1d", (11, 17), "cube", "Conv", "wb", [raw("w", c.eighths(6, 1, 2)), raw("b", bias)],
          group=3, pads=[1, 1], strides=[2], dilations=[2])
    turned = helper.make_node("Transpose", ["x"], ["t"], name="turn", perm=[0, 1, 3, 2])
    c.add("matmul_values", (13,), "image", [turned, helper.make_node("MatMul", ["x", "t"], ["y"], name="product")])


def add_unary(c):
    for kind, opsets in (("Sigmoid", (11, 17)), ("Tanh", (13,)), ("HardSwish", (14,)), ("Exp", (13,)), ("Reciprocal", (13,))):
        if kind == "Reciprocal":
            shifted = helper.make_node("Exp", ["x"], ["e"], name="exp")
            c.add("reciprocal", opsets, "image", [shifted, helper.make_node(kind, ["e"], ["y"], name="reciprocal")])
            continue
        c.one(kind.lower(), opsets, "image", kind)
    for kind in ("Log", "Sqrt"):
        positive = helper.make_node("Exp", ["x"], ["e"], name="exp")
        c.add(kind.lower(), (13,), "image", [positive, helper.make_node(kind, ["e"], ["y"], name=kind.lower())])
    c.one("hard_sigmoid", (13,), "image", "HardSigmoid", alpha=1 / 6, beta=0.5)
    c.one("leaky_relu", (13,), "image", "LeakyRelu")
    c.one("leaky_relu_alpha", (17,), "image", "LeakyRelu", alpha=0.25)
    c.one("elu", (13,), "image", "Elu", alpha=0.5)
    for kind, opset in (("Softplus", 13), ("Softsign", 13), ("Selu", 13), ("Mish", 18), ("Abs", 13), ("Neg", 13)):
        c.one(kind.lower(), (opset,), "image", kind)
    c.one("celu", (13,), "image", "Celu", alpha=0.5)
    c.one("square", (13,), "image", "Pow", ["exponent"], [raw("exponent", 2.0)])
    c.one("gelu", (20,), "image", "Gelu")
    c.one("gelu_tanh", (20,), "image", "Gelu", approximate="tanh")


def add_arithmetic(c):
    halves = helper.make_node("GlobalAveragePool", ["x"], ["m"], name="mean")
    c.add("mul_broadcast", (13,), "image", [halves, helper.make_node("Mul", ["x", "m"], ["y"], name="mul")])
    c.add("sub_values", (13,), "image", [helper.make_node("Relu", ["x"], ["r"], name="relu"),
                                         helper.make_node("Sub", ["r", "x"], ["y"], name="sub")])
    c.one("mul_number", (11,), "image", "Mul", "b", [raw("b", -1.5)])
    c.one("mul_channels", (17,), "image", "Mul", "b", [raw("b", c.eighths(4, 1, 1))])
    c.add("sub_from_constant", (13,), "image", [helper.make_node("Sub", ["b", "x"], ["y"], name="sub")],
          [raw("b", c.eighths(5))])
    axes = raw("axes", np.array([2, 3]))
    c.one("reduce_mean", (11, 13), "image", "ReduceMean", axes=[2, 3], keepdims=0)
    c.one("reduce_mean_input", (18,), "image", "ReduceMean", ["axes"], [axes])
    c.one("reduce_sum", (11,), "image", "ReduceSum", axes=[-1])
    c.one("reduce_sum_input", (13,), "image", "ReduceSum", ["axes"], [axes], keepdims=0)


def add_moves(c):
    c.one("transpose", (13,), "image", "Transpose", perm=[0, 2, 3, 1])
    numbers = [raw("starts", np.array([1, -5])), raw("ends", np.array([3, 1 << 40])), raw("axes", np.array([1, 2])),
               raw("steps", np.array([1, 2]))]
    c.one("slice", (11, 17), "image", "Slice", ["starts", "ends", "axes", "steps"], numbers)
    parts = helper.make_node("Split", ["x", "sizes"], ["p", "q"], name="split", axis=1)
    joined = helper.make_node("Concat", ["q", "p"], ["y"], name="concat", axis=1)
    c.add("split", (13, 17), "image", [parts, joined], [raw("sizes", np.array([1, 3]))])
    old = helper.make_node("Split", ["x"], ["p", "q"], name="split", axis=-3, split=[3, 1])
    c.add("split_attribute", (11,), "image", [old, joined])
    even = helper.make_node("Split", ["x"], ["p", "q"], name="split", axis=1, num_outputs=2)
    c.add("split_even", (18,), "image", [even, joined])
    c.one("pad", (11, 17), "image", "Pad", ["pads", "value"],
          [raw("pads", np.array([0, 0, 1, 2, 0, 1, 0, 0])), raw("value", 0.5)])
    for case, size, attributes in (
            ("resize_nearest", None, dict(mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")),
            ("resize_linear", None, dict(mode="linear", coordinate_transformation_mode="half_pixel")),
            ("resize_corners", [2, 4, 9, 7], dict(mode="linear", coordinate_transformation_mode="align_corners"))):
        values = [raw("scales", [1.0, 1.0, 2.0, 2.0])] if size is None else [raw("sizes", np.array(size))]
        c.one(case, (13, 17), "image", "Resize", ["", "scales"] if size is None else ["", "", "sizes"], values, **attributes)


def add_what_exporters_write(c):
    """Attributes with their defaults, broadcasts, general reshapes."""
    axes = raw("axes", np.array([-1, -2]))
    c.one("reduce_mean_noop0", (18, 20), "image", "ReduceMean", ["axes"], [axes], noop_with_empty_axes=0)
    c.one("reduce_mean_all_noop0", (18,), "image", "ReduceMean", noop_with_empty_axes=0)
    c.one("reduce_sum_noop1", (18,), "image", "ReduceSum", noop_with_empty_axes=1)
    c.one("flatten_axis2", (13,), "image", "Flatten", axis=2)
    c.one("flatten_axis0", (13,), "image", "Flatten", axis=0)
    for case, target in (("reshape_split", [0, 2, 2, 6, 5]), ("reshape_rest", [0, 4, -1]),
                         ("reshape_rows", [-1, 5]), ("reshape_joined", [0, 0, 30])):
        c.one(case, (13, 20), "image", "Reshape", ["shape"], [raw("shape", np.array(target))])
    c.add("channel_shuffle", (13,), "image", [
        helper.make_node("Reshape", ["x", "apart"], ["1"], name="apart"),
        helper.make_node("Transpose", ["1"], ["2"], name="turn", perm=[0, 2, 1, 3, 4]),
        helper.make_node("Reshape", ["2", "together"], ["y"], name="together")],
          [raw("apart", np.array([0, 2, 2, 6, 5])), raw("together", np.array([0, 4, 6, 5]))])
    for axis in (2, -1):
        c.add(f"concat_axis{axis % 4}", (13,), "image",
              [helper.make_node("Relu", ["x"], ["positive"], name="relu"),
               helper.make_node("Concat", ["positive", "x"], ["y"], name="concat", axis=axis)])
    mean = helper.make_node("GlobalAveragePool", ["x"], ["m"], name="mean")
    c.add("add_broadcast", (13,), "image", [mean, helper.make_node("Add", ["m", "x"], ["y"], name="add")])
    c.one("add_row", (13,), "image", "Add", ["b"], [raw("b", c.eighths(5))])
    c.one("hard_sigmoid_default", (13,), "image", "HardSigmoid")
    for case, scales in (("resize_default", [1.0, 1.0, 2.0, 2.0]), ("resize_default_smaller", [1.0, 1.0, 0.5, 0.4])):
        c.one(case, (13,), "image", "Resize", ["", "scales"], [raw("scales", scales)])
    c.one("resize_default_sizes", (13,), "image", "Resize", ["", "", "sizes"], [raw("sizes", np.array([2, 4, 3, 7]))])
    c.one("gemm_trans_a", (13,), "matrix", "Gemm", "wb", [raw("w", c.eighths(3, 5)), raw("b", c.eighths(5))],
          transA=1)
    far = np.iinfo(np.int64)
    c.one("slice_backwards", (13,), "image", "Slice", ["starts", "ends", "axes", "steps"],
          [raw("starts", np.array([far.max, -2, 3])), raw("ends", np.array([far.min, -6, 0])),
           raw("axes", np.array([1, 2, 3])), raw("steps", np.array([-1, -2, -1]))])
    mean = helper.make_node("GlobalAveragePool", ["x"], ["m"], name="mean")
    c.add("squeeze", (11,), "image", [mean, helper.make_node("Squeeze", ["m"], ["y"], name="squeeze", axes=[2, -1])])
    c.one("unsqueeze", (13,), "cube", "Unsqueeze", ["axes"], [raw("axes", np.array([2, -1]))])


def add_pools_more(c):
    window = {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1}
    c.one("max_pool_ceil", (13, 20), "image", "MaxPool", **window)
    c.one("max_pool_ceil_pads", (13,), "image", "MaxPool", pads=[1, 1, 1, 0], **window)
    c.one("average_pool_ceil", (20,), "image", "AveragePool", **window)
    c.one("average_pool_ceil_exclude_pad", (20,), "image", "AveragePool", pads=[1, 1, 1, 0], **window)
    line = {"kernel_shape": [2], "strides": [2], "pads": [1, 0]}
    c.one("max_pool_1d", (13,), "cube", "MaxPool", **line)
    c.one("max_pool_1d_ceil", (13,), "cube", "MaxPool", kernel_shape=[3], strides=[2], ceil_mode=1)
    c.one("average_pool_1d", (13,), "cube", "AveragePool", **line)
    c.one("average_pool_1d_same", (13,), "cube", "AveragePool", kernel_shape=[3], strides=[2], auto_pad="SAME_UPPER")
    c.one("global_average_pool_1d", (13,), "cube", "GlobalAveragePool")


def add_constants(c):
    """Shape arithmetic, as exporters wrote it for x.view(x.size(0), -1) and for sizes."""
    def node(kind, inputs, output, **attributes):
        return helper.make_node(kind, inputs, [output], name=output, **attributes)

    zero, minus = raw("zero", np.array(0)), raw("minus", np.array([-1]))
    c.add("shape_view", (13,), "image", [
        node("Shape", ["x"], "extents"), node("Gather", ["extents", "zero"], "batch"),
        node("Unsqueeze", ["batch", "axes"], "first"), node("Concat", ["first", "minus"], "target", axis=0),
        node("Reshape", ["x", "target"], "y")], [zero, minus, raw("axes", np.array([0]))])
    c.add("shape_arithmetic", (13,), "image", [
        node("Shape", ["x"], "extents"), node("Slice", ["extents", "two", "four"], "sides"),
        node("Gather", ["sides", "zero"], "height"), node("Gather", ["sides", "one"], "width"),
        node("Mul", ["height", "width"], "cells"), node("Div", ["cells", "three"], "part"),
        node("Add", ["part", "one"], "more"), node("Sub", ["more", "one"], "less"),
        node("Cast", ["less"], "real", to=TensorProto.FLOAT), node("Floor", ["real"], "floor"),
        node("Cast", ["floor"], "whole", to=TensorProto.INT64),
        node("Unsqueeze", ["whole", "axes"], "last"), node("Concat", ["ends", "last"], "target", axis=0),
        node("Reshape", ["x", "target"], "y")],
          [zero, raw("one", np.array(1)), raw("three", np.array(3)), raw("two", np.array([2])),
           raw("four", np.array([4])), raw("axes", np.array([0])), raw("ends", np.array([0, 12]))])
    c.add("constant_of_shape", (13,), "image", [
        node("ConstantOfShape", ["shape"], "ones", value=raw("value", np.array([1.5]))),
        node("Range", ["zero", "five", "one"], "numbers"), node("Cast", ["numbers"], "reals", to=TensorProto.FLOAT),
        node("Mul", ["ones", "reals"], "row"), node("ReduceProd", ["shape"], "count", keepdims=0),
        node("Cast", ["count"], "real_count", to=TensorProto.FLOAT), node("Neg", ["real_count"], "negative"),
        node("Max", ["row", "negative"], "larger"), node("Min", ["larger", "real_count"], "smaller"),
        node("Add", ["x", "smaller"], "y")],
          [raw("shape", np.array([5])), zero, raw("five", np.array(5)), raw("one", np.array(1))])


def add_lines_and_volumes(c):
    """Unequal pads along one axis, volumes, and norms over the last axes."""
    c.add_input("volume", 2, 4, 3, 5, 4)
    both = [raw("w", c.eighths(6, 3, 3)), raw("b", c.eighths(6))]
    c.one("conv1d_causal", (11, 17), "cube", "Conv", "wb", both, pads=[2, 0])
    c.one("conv1d_causal_dilated", (13,), "cube", "Conv", "wb", both, pads=[4, 1], dilations=[2], strides=[2])
    c.one("conv1d_same_lower", (13,), "cube", "Conv", "wb", both, auto_pad="SAME_LOWER", kernel_shape=[3], strides=[3])
    c.one("conv_transpose1d_pads", (13,), "cube", "ConvTranspose", "wb",
          [raw("w", c.eighths(3, 6, 4)), raw("b", c.eighths(6))], strides=[2], pads=[2, 1], output_padding=[1])
    c.one("conv3d", (11, 17), "volume", "Conv", "wb", [raw("w", c.eighths(6, 2, 2, 3, 2)), raw("b", c.eighths(6))],
          group=2, pads=[1, 1, 0, 1, 0, 1], strides=[2, 1, 2], dilations=[1, 2, 1])
    c.one("conv_transpose3d", (13,), "volume", "ConvTranspose", "w", [raw("w", c.eighths(4, 3, 2, 3, 2))],
          pads=[1, 1, 0, 1, 0, 1], strides=[2, 1, 3], output_padding=[1, 0, 2])
    statistics = [raw("scale", c.eighths(4)), raw("bias", c.eighths(4)), raw("mean", c.eighths(4)),
                  raw("var", np.abs(c.eighths(4)) + 1)]
    c.one("batch_norm3d", (17,), "volume", "BatchNormalization", ["scale", "bias", "mean", "var"], statistics)
    c.one("layer_norm", (17, NEWEST), "cube", "LayerNormalization", "sb", [raw("s", c.eighths(4)), raw("b", c.eighths(4))])
    c.one("layer_norm_axes", (17,), "image", "LayerNormalization", "s", [raw("s", c.eighths(4, 6, 5))], axis=1,
          epsilon=0.125)
    c.one("rms_norm", (23,), "cube", "RMSNormalization", "s", [raw("s", c.eighths(4))])
    c.one("rms_norm_axes", (23,), "image", "RMSNormalization", "s", [raw("s", c.eighths(4, 6, 5))], axis=1,
          epsilon=0.125)
    channels = [raw("s", c.eighths(4)), raw("b", c.eighths(4))]
    c.one("group_norm", (21,), "image", "GroupNormalization", "sb", channels, num_groups=2)
    c.one("instance_norm", (11, 22), "image", "InstanceNormalization", "sb", channels, epsilon=0.125)
    c.one("instance_norm_volume", (17,), "volume", "InstanceNormalization", "sb", channels)


def add_averages_that_count(c):
    """Padding that counts in the divisor, where ceil mode lets a window reach beyond it."""
    window = {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1}
    c.one("average_pool_ceil_include_pad", (20,), "image", "AveragePool", pads=[1, 1, 0, 0], **window)
    c.one("average_pool_ceil_include_all_pads", (20,), "image", "AveragePool", pads=[1, 1, 2, 0], **window)
    c.one("average_pool_1d_ceil_include_pad", (20,), "cube", "AveragePool", kernel_shape=[3], strides=[2], pads=[1, 0],
          ceil_mode=1, count_include_pad=1)


def add_what_older_opsets_write(c):
    """GELU by Erf, one index of an axis, ranges of floats, sizes of two axes, and a product with axes behind it."""
    def node(kind, inputs, output, **attributes):
        return helper.make_node(kind, inputs, [output], name=output, **attributes)

    root, half_root = raw("root", np.float32(2 ** 0.5)), raw("half_root", np.float32(0.5 ** 0.5))
    one, half, two = raw("one", 1.0), raw("half", 0.5), raw("two", 2.0)
    c.one("erf", (13,), "image", "Erf")
    c.add("gelu_by_erf", (11, 18), "image", [
        node("Div", ["x", "root"], "a"), node("Erf", ["a"], "b"), node("Add", ["b", "one"], "c"),
        node("Mul", ["x", "c"], "d"), node("Mul", ["d", "half"], "y")], [root, one, half])
    c.add("gelu_by_erf_half_first", (13,), "image", [
        node("Constant", [], "half_root", value=half_root), node("Mul", ["half_root", "x"], "a"), node("Erf", ["a"], "b"),
        node("Add", ["one", "b"], "c"), node("Mul", ["x", "half"], "d"), node("Mul", ["c", "d"], "y")], [one, half])
    c.add("gelu_by_erf_of_halves", (13,), "image", [
        node("Mul", ["x", "half"], "h"), node("Div", ["h", "root"], "a"), node("Erf", ["a"], "b"),
        node("Add", ["b", "one"], "c"), node("Div", ["c", "two"], "d"), node("Mul", ["h", "d"], "y")],
          [root, one, half, two])
    c.add("erf_that_is_no_gelu", (13,), "image", [
        node("Div", ["x", "root"], "a"), node("Erf", ["a"], "b"), node("Add", ["b", "half"], "c"),
        node("Mul", ["x", "c"], "d"), node("Mul", ["d", "half"], "y")], [root, half])
    c.one("gather_last", (11, 13), "cube", "Gather", "i", [raw("i", np.array(-1))], axis=2)
    c.one("gather_one_of_axis", (13,), "image", "Gather", "i", [raw("i", np.array([2]))], axis=1)
    c.one("gather_range", (13,), "image", "Gather", "i", [raw("i", np.array([5, 3, 1]))], axis=2)
    c.one("gather_table", (13,), "image", "Gather", "i", [raw("i", np.array([[-1]]))], axis=-1)
    c.add("range_of_floats", (11,), "image", [
        node("Range", ["start", "limit", "delta"], "row"), node("Add", ["x", "row"], "y")],
          [raw("start", 1.0), raw("limit", -1.5), raw("delta", -0.5)])
    c.add("product_turned", (13,), "image", [
        node("Transpose", ["x"], "t", perm=[0, 1, 3, 2]), node("MatMul", ["x", "t"], "product"),
        node("Transpose", ["product"], "y", perm=[0, 2, 1, 3])])
    c.one("resize_axes", (18,), "image", "Resize", ["", "", "sizes"], [raw("sizes", np.array([9, 7]))], axes=[2, 3],
          mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    c.one("resize_axes_scales", (18,), "image", "Resize", ["", "scales"], [raw("scales", [2.0, 3.0])], axes=[2, 3],
          mode="linear", coordinate_transformation_mode="half_pixel")


# ---- networks as torch.onnx.export writes them --------------------------------------------------


class ExportedBlock(nn.Module):
    """Squeeze-excite, a channel shuffle with its split, a pool in ceil mode, joins, and a mean."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16)
        self.down, self.up = nn.Conv2d(16, 4, 1), nn.Conv2d(4, 16, 1)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.hard, self.pool = nn.Hardsigmoid(), nn.MaxPool2d(3, 2, ceil_mode=True)
        self.head = nn.Linear(24, 10)

    def forward(self, x):
        x = F.silu(self.norm(self.stem(x)))
        x = x * self.hard(self.up(F.relu(self.down(x.mean((2, 3), keepdim=True)))))
        n, c, h, w = x.shape
        x = x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)
        a, b = x.chunk(2, 1)
        x = torch.cat([a, F.hardswish(self.depthwise(b)), self.pool(b).mean((2, 3), keepdim=True) + a], 1)
        return self.head(torch.flatten(x.mean((2, 3)), 1))


def make_exported(out):
    torch.manual_seed(SEED)
    net = ExportedBlock()
    with torch.no_grad():
        net.norm.momentum = None
        net.norm.weight.uniform_(0.5, 1.5)
        net.norm.bias.uniform_(-0.3, 0.5)
        net.train()(torch.randn(16, 3, 14, 14))
    x = torch.randn(4, 3, 14, 14)
    # Exported for one image, as the example is; the rows of the batch go through it one by one.
    torch.onnx.export(net.eval(), (x[:1],), str(out / "exported_block.onnx"), input_names=["x"], output_names=["y"],
                      verbose=False)
    y = np.concatenate([run_onnxruntime(out / "exported_block.onnx", row[None].numpy()) for row in x])
    with torch.no_grad():
        assert np.abs(net(x).numpy() - y).max() < 1e-5
    np.save(out / "exported_block_input.npy", x.numpy())
    np.save(out / "exported_block.npy", y)
    return ["exported_block exported_block_input.npy exported_block.npy"]


# ---- files that a reader must refuse ----------------------------------------------------------


def make_bad_models(out):
    random = np.random.RandomState(SEED)
    w = random.randn(4, 4, 3, 3).astype(np.float32)
    image = (2, 4, 6, 5)

    def conv(output="y"):
        return helper.make_node("Conv", ["x", "w"], [output], name="conv", pads=[1, 1, 1, 1])

    def refused(name, nodes, initializers):
        proto = model(name, 17, nodes, initializers, image, image)
        try:
            onnx.checker.check_model(proto, full_check=True)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
            return save_model(out / f"{name}.onnx", proto, check=False)
        raise AssertionError(f"{name} should be refused by onnx.checker")

    (out / "not_onnx.onnx").write_text("This file is text and no ONNX model.\n" * 4)
    whole = (out / "small_cnn.onnx").read_bytes()
    (out / "truncated.onnx").write_bytes(whole[: len(whole) // 2])
    save_model(out / "unsupported_op.onnx", model("unsupported_op", 17, [
        conv("1"), helper.make_node("Cos", ["1"], ["2"], name="strange"),
        helper.make_node("Relu", ["2"], ["y"], name="relu")], [raw("w", w)], image, image))
    refused("wrong_rank", [conv()], [raw("w", w[:, :, 0, :].copy())])
    refused("missing_initializer", [conv()], [])


# ---- README -----------------------------------------------------------------------------------

README = """# Small ONNX models

Made by `python tests/golden/make_small_models.py` with seed {seed}, torch {torch}, numpy {numpy},
onnx {onnx}, onnxruntime {ort}, Python {python}.

`manifest.txt` lists the good models, `name input.npy output.npy` a line, for `name.onnx`. Every
graph has one input `x` and one output `y`, float32, the first axis symbolic.

- `small_cnn.onnx`: (N, 3, 9, 7) -> (N, 5), opset 17; logits by PyTorch in eval mode, onnxruntime
  within 1e-5. Of `/conv1`, channel {dead} has zero weights and a batch-norm bias of 0.4, channel
  {zero} zero weights, mean and bias; the running variance of both is 0. Nodes in order:
{nodes}
- `<case>_opset<k>.onnx`: {cases} variants of single operators, and a `chain`; outputs by
  `onnx.reference` (what it lacks, `softmax_flattened`, by the formula in float64, and
  `conv_transpose_groups` by PyTorch), confirmed by onnxruntime within 2e-6 relative plus 1e-6. Inputs and weights are multiples of 1/8,
  so that convolutions and matrix products are exact.{alone}
- `exported_block.onnx`, with its weights in `exported_block.onnx.data`: (1, 3, 14, 14) -> (1, 10), by the default
  `torch.onnx.export`; outputs by onnxruntime, one image at a time. Its first extent is 1 in the file, and any in intq.
- Files to refuse: `not_onnx.onnx` (text), `truncated.onnx` (the first half of small_cnn),
  `unsupported_op.onnx` (a Cos node named `strange`), `wrong_rank.onnx` (Conv with a weight of rank 3
  on data of rank 4), `missing_initializer.onnx` (Conv whose weight `w` is not there).
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "models")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)

    lines = make_small_cnn(out) + make_exported(out)
    cases, alone = make_cases(out)
    make_bad_models(out)
    (out / "manifest.txt").write_text("\n".join(lines + cases) + "\n")
    nodes = onnx.load(out / "small_cnn.onnx").graph.node
    (out / "README.md").write_text(README.format(
        seed=SEED, torch=torch.__version__, numpy=np.__version__, onnx=onnx.__version__,
        ort=onnxruntime.__version__, python=platform.python_version(),
        nodes=textwrap.fill(" ".join(node.name for node in nodes), 98, initial_indent="  ",
                            subsequent_indent="  "), dead=DEAD_CHANNEL, zero=ZERO_CHANNEL,
        cases=len(cases),
        alone=f"\n  The {len(alone)} models of opset {NEWEST} are too new for this onnxruntime; they share the\n"
              "  output that it confirmed for an older opset of the same case." if alone else ""))
    print(f"{len(lines) + len(cases)} models, {len(alone)} of them too new for onnxruntime")


if __name__ == "__main__":
    main()
