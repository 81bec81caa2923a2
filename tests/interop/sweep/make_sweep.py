# SPDX-License-Identifier: MIT
"""Makes the sweep's folder: small float graphs, their samples, and what ONNX Runtime makes of them.

    python make_sweep.py <folder> <graphs> [seed] [first]

Needs numpy, onnx and onnxruntime. Each graph is quantized by quantize_static (int8 activations and weights, a scale for
each channel, extremes, the same samples) in four forms:

    qdq        QDQ with every operator between codes: the peer of the accuracy, and a source of fragments
    symmetric  the same without zero points, which leaves relu and clip where they are
    default    QDQ with the operators that the tool quantizes when it is not told which
    qoperator  the operator form with these operators

A fragment is what stands between codes and the next codes, as a model of its own whose inputs are real numbers on the
grids of the codes. Half of its samples are codes that occur, and half are random, so that every code occurs. All outputs
are those of ONNX Runtime without its optimizer. manifest.json lists the files for sweep_test.cpp and judge.py.
"""
import json
import logging
import pathlib
import sys
import time

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static

import graphs

MOVES = ("Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze")
WEIGHTED = ("Conv", "Gemm")
FORMS = {"qdq": ("fp32", "tflite", "litert"), "symmetric": ("fp32", "bayes"), "default": (),
         "qoperator": ("fp32", "tflite", "litert")}  # and the targets that import their fragments


class Samples(CalibrationDataReader):
    def __init__(self, x):
        self.batches = iter([{"x": x}])

    def get_next(self):
        return next(self.batches, None)


def quantized(model, x, form, path):
    types = sorted({node.op_type for node in model.graph.node})
    given = onnx.ModelProto()
    given.CopyFrom(model)  # the tool changes what it is given
    is_whole = form in ("qdq", "symmetric")
    options = {"ForceQuantizeNoInputCheck": is_whole, "ActivationSymmetric": form == "symmetric"}
    quantize_static(given, str(path), Samples(x), calibrate_method=CalibrationMethod.MinMax, per_channel=True,
                    quant_format=QuantFormat.QOperator if form == "qoperator" else QuantFormat.QDQ,
                    activation_type=QuantType.QInt8, weight_type=QuantType.QInt8,
                    op_types_to_quantize=types if is_whole else None, extra_options=options)
    return onnx.load(path)


def sqnr(expected, given):
    """dB; None where all numbers are equal."""
    expected, noise = expected.astype(float), (expected.astype(float) - given).ravel()
    if not noise.any():
        return None
    return float(10 * numpy.log10(max((expected.ravel() ** 2).sum(), 1e-60) / (noise ** 2).sum()))


def kind_of(nodes, constants):
    """The operators of a fragment, with what decides how near its codes must be."""
    kinds = []
    for node in nodes:
        kind = node.op_type
        if kind in ("QuantizeLinear", "DequantizeLinear"):
            continue
        if kind == "Resize":
            kind += "_" + next(a.s.decode() for a in node.attribute if a.name == "mode")
        sizes = [numpy.prod(constants[name].dims) for name in node.input if name in constants]
        if kind in ("Add", "Sub", "Mul", "Div") and sizes:
            kind += "_constant" if max(sizes) == 1 else "_per_channel"
        kinds.append(kind)
    return "+".join(kinds) or "Requantize"


# --- fragments ------------------------------------------------------------------------------------------------------

class Fragments:
    """What stands between codes in a quantized model."""

    def __init__(self, model):
        self.model = model
        self.constants = {tensor.name: tensor for tensor in model.graph.initializer}
        self.made_by = {output: node for node in model.graph.node for output in node.output}
        self.grids = {}  # by name of codes: scale and zero point, names of constants
        for node in model.graph.node:
            grid = self.grid_of(node)
            if grid:
                self.grids[node.output[0]] = grid

    def grid_of(self, node):
        """The grid of the codes that a node gives, or None."""
        names = list(node.input)
        if node.op_type == "QuantizeLinear":
            return names[1:3]
        if node.op_type in ("QLinearConv", "QLinearMatMul"):
            return names[6:8]
        if node.op_type == "QGemm":
            return names[7:9] if len(names) > 8 else None
        if node.op_type in ("QLinearAdd", "QLinearMul"):
            return names[6:8]
        if node.op_type == "QLinearConcat":
            return names[0:2]
        if node.op_type.startswith("QLinear"):
            return names[3:5]
        if node.op_type == "DequantizeLinear" or not names:
            return None
        return self.grids.get(names[0])

    def number(self, name):
        return numpy_helper.to_array(self.constants[name])

    def inside(self, node):
        """The nodes of the fragment that ends at a node, and the codes that it reads; None where it reads real values."""
        nodes, codes, waiting = [], [], [node]
        while waiting:
            one = waiting.pop()
            if one in nodes:
                continue
            nodes.append(one)
            for name in filter(None, one.input):
                if name in self.grids:
                    codes.append(name)
                elif name in self.made_by:
                    waiting.append(self.made_by[name])
                elif name not in self.constants:
                    return None
        nodes.sort(key=list(self.model.graph.node).index)
        return nodes, list(dict.fromkeys(codes))

    def is_one_operator(self, nodes):
        """Whether nodes between codes are one operator: with what moves its values, and a layer with its clamp."""
        kinds = [node.op_type for node in nodes
                 if node.op_type not in ("QuantizeLinear", "DequantizeLinear", *MOVES)]
        return len(kinds) < 2 or (len(kinds) == 2 and kinds[0] in WEIGHTED and kinds[1] in ("Relu", "Clip"))

    def is_between_codes(self):
        """Whether every operator of the model stands between codes, alone."""
        seen = set()
        for node in self.model.graph.node:
            if node.output[0] not in self.grids:
                continue
            found = self.inside(node)
            if not found and node.op_type == "QuantizeLinear" and node.input[0] == self.model.graph.input[0].name:
                seen.add(node.output[0])
            elif not found or not self.is_one_operator(found[0]):
                return False
            else:
                seen.update(one.output[0] for one in found[0])
        return all(node.output[0] in seen or node.op_type == "DequantizeLinear" for node in self.model.graph.node)

    def part(self, node, shapes):
        """The fragment that ends at a node as a model, its kind, and the codes that it reads."""
        found = self.inside(node)
        if not found or not found[1] or all(one.op_type in MOVES for one in found[0]):
            return None
        nodes, codes = found
        before, inputs = [], []
        for i, name in enumerate(codes):
            before.append(helper.make_node("QuantizeLinear", [f"in{i}", *self.grids[name]], [name], name=f"into_{i}"))
            inputs.append(helper.make_tensor_value_info(f"in{i}", TensorProto.FLOAT, ["N", *shapes[name][1:]]))
        end = helper.make_node("DequantizeLinear", [node.output[0], *self.grids[node.output[0]]], ["out"], name="out_of")
        used = {name for one in [*before, *nodes, end] for name in one.input}
        output = helper.make_tensor_value_info("out", TensorProto.FLOAT, ["N", *shapes[node.output[0]][1:]])
        graph = helper.make_graph([*before, *nodes, end], "fragment", inputs, [output],
                                  [tensor for name, tensor in self.constants.items() if name in used])
        made = helper.make_model(graph, opset_imports=self.model.opset_import, ir_version=self.model.ir_version)
        return made, kind_of(nodes, self.constants), codes

    def in_float(self, made, node):
        """A linear resize of codes as one of real numbers: ONNX Runtime's kernel for int8 cuts its means off."""
        resized = next(one for one in made.graph.node if one.name == node.name)
        grid = self.grids[node.output[0]]
        before = helper.make_node("DequantizeLinear", [resized.input[0], *grid], ["real"], name="to_real")
        behind = helper.make_node("QuantizeLinear", ["mean", *grid], [resized.output[0]], name="to_codes")
        changed = onnx.ModelProto()
        changed.CopyFrom(made)
        nodes = list(changed.graph.node)
        at = next(i for i, one in enumerate(nodes) if one.name == node.name)
        nodes[at].input[0], nodes[at].output[0] = "real", "mean"
        del changed.graph.node[:]
        changed.graph.node.extend([*nodes[:at], before, nodes[at], behind, *nodes[at + 1:]])
        return changed

    def run_codes(self, x):
        """All codes of the model on samples."""
        whole = onnx.ModelProto()
        whole.CopyFrom(self.model)
        del whole.graph.output[:]
        whole.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.INT8, None) for name in self.grids)
        return dict(zip(self.grids, graphs.session(whole).run(None, {"x": x})))

    def sum_of(self, made, node, fed):
        """What QLinearAdd rounds, in float64, less its zero point."""
        whole = onnx.ModelProto()
        whole.CopyFrom(made)
        del whole.graph.output[:]
        names = [name for name in (node.input[0], node.input[3]) if name not in self.constants]
        whole.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.INT8, None) for name in names)
        codes = dict(zip(names, graphs.session(whole).run(None, fed)))
        real = 0.0
        for at in (0, 3):
            name, scale, zero_point = node.input[at:at + 3]
            given = codes[name] if name in codes else self.number(name)
            real = real + ((given.astype(numpy.float64) - self.number(zero_point).astype(numpy.float64)) *
                           self.number(scale).astype(numpy.float64))
        return real

    def real(self, name, codes):
        scale, zero_point = (self.number(part) for part in self.grids[name])
        return ((codes.astype(numpy.int32) - zero_point.astype(numpy.int32)) * scale).astype(numpy.float32)


def real_values(model, name, fed):
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    del whole.graph.output[:]
    whole.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    return graphs.session(whole).run(None, fed)[0]


def write_fragments(folder, name, model, x, random, targets):
    """Writes the fragments of a quantized model and their outputs."""
    fragments, written = Fragments(model), []
    codes_of = fragments.run_codes(x)
    shapes = {name: codes.shape for name, codes in codes_of.items()}
    for node in model.graph.node:
        found = fragments.part(node, shapes) if node.output[0] in fragments.grids else None
        if not found:
            continue
        made, kind, codes = found
        stem = f"{name}_{len(written)}"
        fed = {}
        for i, one in enumerate(codes):
            given = codes_of[one].copy()
            half = len(given) // 2
            given[half:] = random.integers(-128, 128, given[half:].shape)
            fed[f"in{i}"] = fragments.real(one, given)
            numpy.save(folder / f"{stem}_in{i}.npy", fed[f"in{i}"])
        onnx.save(made, folder / f"{stem}.onnx")
        on_codes = node.op_type == "Resize" and kind == "Resize_linear"
        expected = fragments.in_float(made, node) if on_codes else made
        numpy.save(folder / f"{stem}_out.npy", graphs.session(expected).run(None, fed)[0])
        if node.op_type == "QuantizeLinear":  # what it rounds
            numpy.save(folder / f"{stem}_real.npy", real_values(made, node.input[0], fed))
        elif node.op_type == "QLinearAdd":
            numpy.save(folder / f"{stem}_real.npy", fragments.sum_of(made, node, fed))
        written.append({"name": stem, "kind": kind, "targets": targets, "inputs": [f"{stem}_{i}.npy" for i in fed],
                        "is_one_operator": fragments.is_one_operator(fragments.inside(node)[0]),
                        "scale": float(fragments.number(fragments.grids[node.output[0]][0]))})
    return written


def rounded(samples, x):
    """x on the int8 grid of the extremes of samples and 0."""
    low, high = min(float(samples.min()), 0.0), max(float(samples.max()), 0.0)
    scale = (high - low) / 255 or 1.0
    zero_point = numpy.rint(-128 - low / scale)
    return ((numpy.clip(numpy.rint(x / scale) + zero_point, -128, 127) - zero_point) * scale).astype(numpy.float32)


def rounded_at_its_ends(model, samples, other):
    """What a model gives whose input and output alone are codes."""
    float_model = graphs.session(model)
    given = float_model.run(None, {"x": rounded(samples, other)})[0]
    return rounded(float_model.run(None, {"x": samples})[0], given)


# --- the folder -----------------------------------------------------------------------------------------------------

def output_scale(model):
    """The scale of a quantized model's output; None where it ends in float."""
    made_by = {output: node for node in model.graph.node for output in node.output}
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    node = made_by[model.graph.output[0].name]
    return float(numpy_helper.to_array(constants[node.input[1]])) if node.op_type == "DequantizeLinear" else None


def write_case(folder, seed, number):
    name = f"g{number:04}"
    model, for_peer, x, family, label = graphs.make_graph(seed, number)
    samples, other = x[:graphs.CALIBRATION], x[graphs.CALIBRATION:]
    onnx.save(model, folder / f"{name}.onnx")
    numpy.save(folder / f"{name}_samples.npy", samples)
    numpy.save(folder / f"{name}_other.npy", other)
    expected = graphs.session(model).run(None, {"x": other})[0]
    numpy.save(folder / f"{name}_float.npy", expected)
    case = {"name": name, "family": family, "label": label, "peers": {}, "fragments": []}
    random = numpy.random.default_rng([seed, number])
    for form, targets in FORMS.items():
        stem = f"{name}_{form}"
        peer = case["peers"][form] = {"name": stem}
        try:
            made = quantized(for_peer, samples, form, folder / f"{stem}.onnx")
            if not Fragments(made).grids:  # the tool leaves a clip or a relu of the input in float
                peer["failed"] = "nothing is quantized"
                if form == "qdq":
                    peer["sqnr"] = sqnr(expected, rounded_at_its_ends(model, samples, other))
                continue
            given = graphs.session(made).run(None, {"x": other})[0]
            peer["sqnr"], peer["scale"] = sqnr(expected, given), output_scale(made)
            numpy.save(folder / f"{stem}_out.npy", given)
            peer["is_between_codes"] = Fragments(made).is_between_codes()
            if targets:
                case["fragments"] += write_fragments(folder, f"{stem}_f", made, other, random, targets)
        except Exception as error:  # ONNX Runtime's own; counted by judge.py
            peer["failed"] = f"{type(error).__name__}: {error}"[:300]
    return case


def main(folder, count, seed, first):
    folder.mkdir(parents=True, exist_ok=True)
    logging.disable(logging.WARNING)
    onnxruntime.set_default_logger_severity(3)
    start = time.monotonic()
    cases = [write_case(folder, seed, number) for number in range(first, first + count)]
    (folder / "manifest.json").write_text(json.dumps(
        {"seed": seed, "onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__, "cases": cases}, indent=1))
    print(f"{count} graphs of seed {seed}, {sum(len(case['fragments']) for case in cases)} fragments, "
          f"{time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[2:]] + [1, 0][len(sys.argv) - 3:]
    main(pathlib.Path(sys.argv[1]), *numbers)
