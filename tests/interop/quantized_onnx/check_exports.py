# SPDX-License-Identifier: MIT
"""Runs exported models in ONNX Runtime beside the library's codes.

    python check_exports.py <folder>

The folder holds manifest.txt, a line for each file: its name, the inputs (with commas between), the result, then
value=file for each value of codes. Each file must pass ONNX's checker and strict shape inference. Codes are compared twice: each operator fed with
the library's codes, and the whole model from its input. Fed with the same codes QLinearConv, QLinearMatMul and QGemm
must give the same codes; all other differences are counted and printed. Files named float_… have layers in float,
whose weights ONNX Runtime is told to leave as they are: few of their codes may differ, by little. A file of codes is
also run with two other numbers of samples: each sample must give what it gave.
"""
import collections
import pathlib
import sys

import numpy
import onnx
import onnxruntime

EXACT = ("QLinearConv", "QLinearMatMul", "QGemm")


def session(model, optimize, has_float):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if has_float:  # else weights of float layers between codes are quantized
        options.add_session_config_entry("session.disable_quant_qdq", "1")
    if not optimize:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def check(path):
    onnx.checker.check_model(str(path), full_check=True)
    model = onnx.load(path)
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    return model


def code_type(codes):
    return {"int8": onnx.TensorProto.INT8, "int16": onnx.TensorProto.INT16, "int64": onnx.TensorProto.INT64,
            "float32": onnx.TensorProto.FLOAT}[codes.dtype.name]


def fragment(model, node, given, x, has_float):
    """What makes a value of codes from other codes, or from the input of the model, as a model of its own."""
    made_by = {output: maker for maker in model.graph.node for output in maker.output}
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    nodes, used, inputs, waiting = [], {}, {}, [node]
    while waiting:
        one = waiting.pop()
        if one in nodes:
            continue
        nodes.append(one)
        for name in one.input:
            if name in given:
                inputs[name] = given[name]
            elif name == model.graph.input[0].name:
                inputs[name] = x
            elif name in constants:
                used[name] = constants[name]
            elif name:
                waiting.append(made_by[name])
    nodes.sort(key=list(model.graph.node).index)
    graph = onnx.helper.make_graph(
        nodes, "fragment",
        [onnx.helper.make_tensor_value_info(name, code_type(array), array.shape) for name, array in inputs.items()],
        [onnx.helper.make_tensor_value_info(node.output[0], code_type(given[node.output[0]]), None)],
        list(used.values()))
    made = onnx.helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    kinds = [one.op_type for one in nodes if one.op_type not in ("QuantizeLinear", "DequantizeLinear")]
    form = "QDQ " if node.op_type == "QuantizeLinear" and kinds else ""
    label = form + ("+".join(kinds) if kinds else "+".join(one.op_type for one in nodes))
    return label, session(made, True, has_float).run(None, inputs)[0]


def keeps_samples(run, x, output):
    """Whether a model gives the same of each sample in other batches: one of one, and one of two more."""
    more = lambda array: numpy.concatenate([array, array[:2]])
    for batch, expected in ((x[:1], output[:1]), (more(x), more(output))):
        given = run(batch)
        if given.shape != expected.shape or numpy.abs(given - expected).max() > 0.02 * numpy.abs(output).max():
            return False
    return True


def main(folder):
    fed = collections.defaultdict(lambda: [0, 0, 0])  # by operators: how often, codes, differing
    failed, files = [], 0
    for line in (folder / "manifest.txt").read_text().splitlines():
        name, x_file, result_file, *values = line.split()
        files += 1
        model = check(folder / name)
        inputs = [numpy.load(folder / name) for name in x_file.split(",")]
        x, result = inputs[0], numpy.load(folder / result_file)
        given = {value.split("=")[0]: numpy.load(folder / value.split("=")[1]) for value in values}
        feed = {port.name: array for port, array in zip(model.graph.input, inputs, strict=True)}
        has_float = name.startswith("float_")
        whole_model = session(model, True, has_float)
        output = whole_model.run(None, feed)[0]
        if not given:  # a float model
            if output.shape != result.shape:
                failed.append(name)
                continue
            worst = float(numpy.abs(output - result).max())
            print(f"{name}: float, largest difference {worst:.2e}")
            if worst > 1e-4:
                failed.append(name)
            continue
        if not keeps_samples(lambda batch: whole_model.run(None, {model.graph.input[0].name: batch})[0], x, output):
            print(f"{name}: another number of samples gives something else")
            failed.append(name)
        whole = onnx.ModelProto()
        whole.CopyFrom(model)
        for value, codes in given.items():
            whole.graph.output.append(onnx.helper.make_tensor_value_info(value, code_type(codes), None))
        together = session(whole, False, has_float).run(list(given), feed)
        counts = [int((codes != theirs).sum()) for codes, theirs in zip(given.values(), together)]
        worst = max(int(numpy.abs(codes.astype(int) - theirs).max()) for codes, theirs in zip(given.values(), together))
        total = sum(codes.size for codes in given.values())
        equal = int((output == result).sum())
        print(f"{name}: {total} codes, {sum(counts)} differ by at most {worst}; {output.size - equal} of {output.size} "
              f"results differ, by at most {float(numpy.abs(output - result).max()):.3g}")
        fed_differ = 0
        for node in model.graph.node:
            if node.output[0] not in given:
                continue
            label, theirs = fragment(model, node, given, x, has_float)
            row = fed[label]
            differ = int((theirs != given[node.output[0]]).sum())
            fed_differ += differ
            row[0] += 1
            row[1] += theirs.size
            row[2] += differ
        if has_float and (worst > 2 or 100 * max(sum(counts), fed_differ) > total or
                          numpy.abs(output - result).max() > 0.02 * numpy.abs(result).max()):
            failed.append(name)
    for label, (nodes, codes, differ) in sorted(fed.items()):
        print(f"fed with the same codes: {label}: {nodes} times, {codes} codes, {differ} differ")
    for op_type in EXACT:
        if fed[op_type][0] == 0 or fed[op_type][2] != 0:
            failed.append(op_type)
    print(f"onnx {onnx.__version__}, ONNX Runtime {onnxruntime.__version__}: {files} files, {len(failed)} failed {failed}")
    return 1 if failed or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
