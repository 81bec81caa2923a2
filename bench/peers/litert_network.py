#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times LiteRT with XNNPACK on a whole network: prints the median microseconds of one image, one thread.

    python3 bench/peers/litert_network.py build/bench/resnet18.network.txt s8 [seconds] [--isa NAME]
    python3 bench/peers/litert_network.py --version [--isa NAME]

network_bench writes the file (bench/support/network.hpp) and runs this between its own samples. Needs the packages
ai-edge-litert and numpy; without them it says so and ends with status 77.

The model is TFLite's: int8 activations, int8 weights with a scale for each output channel, int32 biases. Convolutions
clamp to their activation; an add is an ADD behind its convolution, which clamps then. Image (NHWC) and logits are
float32. The image is in the interpreter's memory beforehand, where the logits stay. u8 is refused: TFLite has no scales
of channels for weights of unsigned layers.

TFLite pads by a rule, SAME, whose taps may lie one row further down than the network's: of the same number and of the
same cost. A layer whose output has another size under it is refused.

XNNPACK must take all of the model, which the script checks: a layer that it refuses would run on other kernels. It
chooses its instruction set by itself and has no setting. --isa can only keep it from AMX (amx.py), and does unless the
name holds amx; it uses AVX-512 VNNI then, where the CPU has it. --version says which.
"""
import sys
from importlib.metadata import version
from pathlib import Path

sys.dont_write_bytecode = True  # its imports are among the sources
sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "golden"))
try:
    import amx
    import network_script
    import numpy as np
    import tflite_file
    from ai_edge_litert import interpreter as tfl
    from tflite_file import FUSED, schema
except ImportError as missing:
    print(missing)
    sys.exit(77)

# Names for which a CPU with AMX must do without it, and is then not wider than they say.
WITHOUT_AMX = ("avx512_core_vnni", "avx512_core_bf16", "avx512_core_fp16")
LOWEST, MIDDLE = -128, 0  # zero points: behind a clamp at 0, and elsewhere


class Model(tflite_file.TfliteFile):
    """A TFLite model from the steps of a network; every activation has one scale."""

    def __init__(self):
        super().__init__()
        self.random = np.random.default_rng(1)
        self.places, self.zero_points = {}, {}

    def activation(self, number, shape, zero_point):
        """The place of the codes of the network's tensor."""
        self.places[number] = self.tensor(shape, "int8", network_script.SCALE, zero_point)
        self.zero_points[number] = zero_point
        return self.places[number]

    def parameters(self, shape, axis):
        codes, scales, bias, bias_scales = network_script.random_weights(self.random, shape, shape[axis],
                                                                         network_script.SCALE)
        return [self.tensor(shape, "int8", scales, 0, codes, axis),
                self.tensor(bias.shape, "int32", bias_scales, 0, bias)]

    @staticmethod
    def window(step):
        """Padding and strides of an operator, and the size of its output."""
        size = [(n + before + behind - kernel) // stride + 1 for n, before, behind, kernel, stride in
                zip((step.height, step.width), step.pads[:2], step.pads[2:], step.kernel, step.stride)]
        same = [-(-n // stride) for n, stride in zip((step.height, step.width), step.stride)]
        if any(step.pads) and size != same:
            sys.exit(f"LiteRT: {step.name} makes {size[0]}x{size[1]} outputs, and {same[0]}x{same[1]} with SAME")
        padding = schema.Padding.SAME if any(step.pads) else schema.Padding.VALID
        return {"padding": padding, "strideH": step.stride[0], "strideW": step.stride[1]}, size

    def convolution(self, step):
        options, size = self.window(step)
        shape, sums = [1, *size, step.outputs], step.sumin >= 0
        one_sided = LOWEST if step.activation != "none" else MIDDLE
        y = self.tensor(shape, "int8", network_script.SCALE, MIDDLE) if sums else \
            self.activation(step.y, shape, one_sided)
        options |= {"dilationHFactor": 1, "dilationWFactor": 1,
                    "fusedActivationFunction": FUSED["none" if sums else step.activation]}
        if step.groups > 1 and step.groups == step.channels == step.outputs:
            inputs = [self.places[step.x], *self.parameters([1, *step.kernel, step.outputs], 3)]
            self.named_operator("DEPTHWISE_CONV_2D", inputs, y, "DepthwiseConv2DOptions", 3, depthMultiplier=1,
                                **options)
        else:
            weight = [step.outputs, *step.kernel, step.channels // step.groups]
            inputs = [self.places[step.x], *self.parameters(weight, 0)]
            self.named_operator("CONV_2D", inputs, y, "Conv2DOptions", 3, **options)
        if sums:
            self.named_operator("ADD", [y, self.places[step.sumin]], self.activation(step.y, shape, one_sided),
                                "AddOptions", 2, potScaleInt16=False, fusedActivationFunction=FUSED[step.activation])

    def add(self, step):
        x = self.places.get(step.x)
        if step.op == "quantize":
            shape = [1, step.height, step.width, step.channels]
            self.image = self.tensor(shape, "float32", None, 0)
            self.named_operator("QUANTIZE", [self.image], self.activation(step.y, shape, MIDDLE), "QuantizeOptions", 1)
        elif step.op == "conv2d":
            self.convolution(step)
        elif step.op == "max_pool2d":
            options, size = self.window(step)
            y = self.activation(step.y, [1, *size, step.outputs], self.zero_points[step.x])
            self.named_operator("MAX_POOL_2D", [x], y, "Pool2DOptions", 2, filterHeight=step.kernel[0],
                                filterWidth=step.kernel[1], **options)
        elif step.op == "avg_pool2d" and step.kernel == [step.height, step.width]:
            y = self.activation(step.y, [1, step.channels], self.zero_points[step.x])
            self.named_operator("MEAN", [x, self.ints([1, 2])], y, "ReducerOptions", 2, keepDims=False)
        elif step.op == "linear":
            weight = self.parameters([step.outputs, step.channels * step.height * step.width], 0)
            y = self.activation(step.y, [1, step.outputs], MIDDLE)
            self.named_operator("FULLY_CONNECTED", [x, *weight], y, "FullyConnectedOptions", 5,
                                fusedActivationFunction=FUSED[step.activation])
        elif step.op == "dequantize":
            self.logits = self.tensor(self.graph.tensors[x].shape, "float32", None, 0)
            self.named_operator("DEQUANTIZE", [x], self.logits, "DequantizeOptions", 2)
        else:
            sys.exit(f"LiteRT: no operator for {step.name}, {step.op}")


def require_xnnpack(interpreter):
    """One node of the delegate reads the image and writes the logits, and reads no tensor that another node writes."""
    nodes = interpreter._get_ops_details()
    taken = [node for node in nodes if node["op_name"] == "DELEGATE"]
    ends = [details[0]["index"] for details in (interpreter.get_input_details(), interpreter.get_output_details())]
    written = {tensor for node in nodes for tensor in node["outputs"]}
    if len(taken) == 1 and ends[0] in taken[0]["inputs"] and ends[1] in taken[0]["outputs"] \
            and not written & set(taken[0]["inputs"]):
        return
    sys.exit(f"LiteRT: XNNPACK takes not all of the model, but {len(taken)} parts of it")


def compiled(steps, isa):
    is_limited = isa is not None and "amx" not in isa
    if is_limited:
        amx.forbid()
    model = Model()
    for step in steps:
        model.add(step)
    interpreter = tfl.Interpreter(model_content=model.content([model.image], [model.logits]), num_threads=1)
    interpreter.allocate_tensors()
    require_xnnpack(interpreter)
    if is_limited and amx.is_permitted():
        sys.exit(f"LiteRT: XNNPACK has AMX, and --isa is {isa}")
    return interpreter


def describe(isa):
    compiled(network_script.PROBE, isa)
    choice = "AMX is permitted (--peer-isa avx512_core_vnni forbids it)" if amx.is_permitted() else "without AMX"
    if isa is not None and "amx" not in isa and isa not in WITHOUT_AMX:
        choice += f", {isa} does not limit it further"
    return f"LiteRT {version('ai-edge-litert')} with XNNPACK, one thread, {choice}"


def prepare(steps, types, isa):
    """One call of an interpreter that has the image."""
    if types != "s8":
        sys.exit(f"LiteRT: no scales of channels for weights of {types} layers; it runs s8")
    interpreter = compiled(steps, isa)
    image = interpreter.get_input_details()[0]
    interpreter.set_tensor(image["index"], network_script.random_image(list(image["shape"])))
    return interpreter.invoke


if __name__ == "__main__":
    network_script.run_script(describe, prepare)
