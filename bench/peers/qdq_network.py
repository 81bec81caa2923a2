# SPDX-License-Identifier: MIT
"""The QDQ model of a whole network, for the scripts that time another library on it. Needs the packages onnx and numpy.

In QDQ form each operator reads DequantizeLinear and is read by QuantizeLinear. Weights are int8 with a scale for each
output channel, biases int32. Activations are u8 or s8 with one scale and zero point. Behind a ReLU or ReLU6 the zero
point is the lowest code, so that the clamp of QuantizeLinear does its work and the node is left out, as ONNX Runtime's
own quantizer leaves it out; a Relu that stays keeps its convolution in float. The image and the logits are float32.
"""
import numpy as np
import onnx
from network_script import SCALE, random_weights
from onnx import TensorProto, helper, numpy_helper


class Builder:
    """A QDQ model from the steps of a network; every activation has one scale."""

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
        qparams = [self.constant(f"s{tensor}", np.float32(SCALE)),
                   self.constant(f"z{tensor}", np.array(zero_point, self.dtype))]
        codes = self.node("QuantizeLinear", [real, *qparams], f"q{tensor}")
        return self.node("DequantizeLinear", [codes, *qparams], f"x{tensor}")

    def weight(self, name, shape):
        """The real weight and bias behind their DequantizeLinear."""
        codes, scales, bias, bias_scales = random_weights(self.random, shape, shape[0], SCALE)
        zeros = [np.zeros(shape[0], dtype) for dtype in (np.int8, np.int32)]
        w = self.node("DequantizeLinear", [self.constant(f"{name}.w", codes), self.constant(f"{name}.ws", scales),
                                           self.constant(f"{name}.wz", zeros[0])], f"{name}.weight", axis=0)
        b = self.node("DequantizeLinear", [self.constant(f"{name}.b", bias), self.constant(f"{name}.bs", bias_scales),
                                           self.constant(f"{name}.bz", zeros[1])], f"{name}.bias", axis=0)
        return w, b

    def add(self, step):
        name, x, y = step.name, step.x, step.y
        window = {"kernel_shape": step.kernel, "strides": step.stride, "pads": step.pads}
        if step.op == "quantize":
            self.input_shape = [1, step.channels, step.height, step.width]
            self.quantized(y, "image", self.middle)
        elif step.op == "conv2d":
            w, b = self.weight(name, [step.outputs, step.channels // step.groups, *step.kernel])
            real = self.node("Conv", [f"x{x}", w, b], f"{name}.conv", group=step.groups, **window)
            if step.sumin >= 0:
                # The sum reads the codes of both operands, as exporters write it.
                real = self.quantized(f"{y}.sum", real, self.middle)
                real = self.node("Add", [real, f"x{step.sumin}"], f"{name}.add")
            self.quantized(y, real, self.middle if step.activation == "none" else self.lowest)
        elif step.op == "linear":
            w, b = self.weight(name, [step.outputs, step.channels * step.height * step.width])
            flat = self.node("Flatten", [f"x{x}"], f"{name}.flat", axis=1)
            flat = self.quantized(f"{y}.flat", flat, self.zero_points[x])
            real = self.node("Gemm", [flat, w, b], f"{name}.gemm", transB=1)
            self.quantized(y, real, self.middle)
        elif step.op == "max_pool2d":
            self.quantized(y, self.node("MaxPool", [f"x{x}"], f"{name}.pool", **window), self.zero_points[x])
        elif step.op == "avg_pool2d":
            self.quantized(y, self.node("GlobalAveragePool", [f"x{x}"], f"{name}.pool"), self.zero_points[x])
        elif step.op == "dequantize":
            self.node("Identity", [f"x{x}"], "logits")
        else:
            raise ValueError(f"no operator for {step.op}")

    def model(self):
        graph = helper.make_graph(
            self.nodes, "network", [helper.make_tensor_value_info("image", TensorProto.FLOAT, self.input_shape)],
            [helper.make_tensor_value_info("logits", TensorProto.FLOAT, None)], self.values)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


def model_of(steps, types):
    """The model of a description, and the shape of its image. `types` of the activations: u8 or s8."""
    builder = Builder({"u8": np.uint8, "s8": np.int8}[types])
    for step in steps:
        builder.add(step)
    return builder.model(), builder.input_shape
