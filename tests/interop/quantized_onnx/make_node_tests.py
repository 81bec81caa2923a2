# SPDX-License-Identifier: MIT
"""Writes ONNX's own node tests as files that the import reads.

    python make_node_tests.py <folder>

The tests are made by onnx.backend.test of the installed package. They give scales, weights and shapes as inputs of the
graph, and the import wants constants, so each test is written in one or two forms: with every float input kept as an
input, and with the first input alone. Codes are given as the real numbers that they stand for, because the inputs and
outputs of an imported model are real. manifest.txt has a line for each form:

    test form quantized|float rtol atol operators [output,output... input...]

A test without files has data that numpy has no type for.
"""
import os
import pathlib
import sys
import warnings

import numpy
import onnx
from onnx import numpy_helper

warnings.simplefilter("ignore")
from onnx.backend.test.case.node import collect_testcases  # noqa: E402

QUANTIZED = {"QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger",
             "DynamicQuantizeLinear"}
CODES = {numpy.dtype(name) for name in ("int8", "uint8", "int16")}


def to_array(value):
    return value if isinstance(value, numpy.ndarray) else numpy.asarray(value)


def grid_of(node, name, inputs, is_output):
    """Scale and zero point with which a value of codes is read or made."""
    places = {"QLinearConv": {0: (1, 2), "out": (6, 7)}, "QLinearMatMul": {0: (1, 2), 3: (4, 5), "out": (6, 7)},
              "QuantizeLinear": {"out": (1, 2)}, "DequantizeLinear": {0: (1, 2)}, "ConvInteger": {0: (None, 2)},
              "MatMulInteger": {0: (None, 2)}}.get(node.op_type, {})
    place = places.get("out" if is_output else list(node.input).index(name))
    if place is None:
        return None
    read = lambda at: inputs.get(node.input[at]) if at is not None and at < len(node.input) else None  # noqa: E731
    scale, zero = read(place[0]), read(place[1])
    axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
    return (numpy.float32(1) if scale is None else scale), (0 if zero is None else zero), axis


def to_real(codes, grid):
    scale, zero, axis = grid
    scale, zero = numpy.asarray(scale, numpy.float32), numpy.asarray(zero).astype(numpy.int64)
    if scale.ndim == 1 and scale.size > 1:
        shape = [1] * codes.ndim
        shape[axis] = scale.size
        scale, zero = scale.reshape(shape), zero.reshape(shape)
    return ((codes.astype(numpy.int64) - zero) * scale).astype(numpy.float32)


def raise_opset(model):
    """A test of opset 10 becomes one of 11, the oldest that is read, where its operators are the same in both."""
    opset = model.opset_import[0]
    if opset.version == 10 and all(onnx.defs.get_schema(n.op_type, 11).since_version <= 10 for n in model.graph.node):
        opset.version = 11


def write(folder, case, form, keep, model, values, inputs, expected):
    """One form of a test: the inputs in `keep` stay inputs of the graph."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    raise_opset(made)
    kept = [info for info in made.graph.input if info.name in keep]
    for info in list(made.graph.input):
        if info.name not in keep:
            made.graph.initializer.append(numpy_helper.from_array(inputs[info.name], info.name))
    del made.graph.input[:]
    made.graph.input.extend(kept)
    stem = f"{case.name}_{form}"
    onnx.save(made, folder / f"{stem}.onnx")
    files = []
    for i, info in enumerate(kept):
        numpy.save(folder / f"{stem}_{i}.npy", numpy.asarray(values[info.name], numpy.float32, order="C"))
        files.append(f"{stem}_{i}.npy")
    outs = []
    for i, array in enumerate(expected):
        numpy.save(folder / f"{stem}_out{i}.npy", numpy.asarray(array, numpy.float32, order="C"))
        outs.append(f"{stem}_out{i}.npy")
    return [",".join(outs)] + files


def add_case(folder, case, lines, skipped):
    model = case.model
    ops = {node.op_type for node in model.graph.node}
    kind = "quantized" if ops & QUANTIZED else "float"
    names = [info.name for info in model.graph.input]
    arrays, outputs = case.data_sets[0]
    inputs = {name: to_array(array) for name, array in zip(names, arrays)}
    node = model.graph.node[0]
    values = {}
    for name, array in inputs.items():
        grid = grid_of(node, name, inputs, False) if array.dtype in CODES and name in node.input else None
        values[name] = array if grid is None else to_real(array, grid)
    expected = [to_array(output) for output in outputs]
    atol = case.atol
    if expected[0].dtype in CODES and kind == "quantized":
        grid = grid_of(node, node.output[0], inputs, True)
        if grid is not None:
            expected = [to_real(expected[0], grid)]
            atol = 1e-3 * float(numpy.min(numpy.asarray(grid[0], numpy.float32)))  # far below the step of a code
    data = [info.name for info in model.graph.input
            if info.type.tensor_type.elem_type in (1, 2, 3, 5) and inputs[info.name].dtype.kind in "fiu"
            and (inputs[info.name].dtype == numpy.float32 or values[info.name] is not inputs[info.name])]
    grids = {name for n in model.graph.node for name in n.input[1:] if "scale" in name or "zero_point" in name}
    data = [name for name in data if name not in grids]
    if not data:
        data = names[:1]
    forms = [data[:1]] if len(data) == 1 else [data[:1], data]
    for form, keep in enumerate(forms):
        try:
            files = write(folder, case, form, set(keep), model, values, inputs, expected)
        except Exception as error:  # a type that numpy or npy files do not have
            skipped.append(f"{case.name}: {error}")
            files = None
        line = f"{case.name} {form} {kind} {case.rtol:g} {atol:g} {','.join(sorted(ops))}"
        lines.append(line + (f" {' '.join(files)}" if files is not None else ""))


def save_as_it_is(case, folder):
    """With the inputs of numpy's types as constants, but for the first."""
    made = onnx.ModelProto()
    made.CopyFrom(case.model)
    for info, array in list(zip(case.model.graph.input, case.data_sets[0][0]))[1:]:
        if isinstance(array, numpy.ndarray) and array.dtype.kind in "fiu" and array.dtype.itemsize > 1 or (
                isinstance(array, numpy.ndarray) and array.dtype in CODES):
            made.graph.initializer.append(numpy_helper.from_array(array, info.name))
            made.graph.input.remove(info)
    onnx.save(made, folder / f"{case.name}_0.onnx")


def main(folder):
    os.makedirs(folder, exist_ok=True)
    lines, skipped = [], []
    cases = collect_testcases(None)
    for case in cases:
        if case.model is None or not case.data_sets:
            continue
        written = len(lines)
        try:
            if not all(isinstance(a, (numpy.ndarray, numpy.generic, int, float)) for p in case.data_sets[0] for a in p):
                raise TypeError("its data are no arrays of numpy")
            add_case(folder, case, lines, skipped)
        except Exception as error:
            skipped.append(f"{case.name}: {type(error).__name__}: {error}")
            del lines[written:]
        if len(lines) == written or any(len(line.split()) == 6 for line in lines[written:]):
            # Data of a type that numpy does not have: the file as it is, which the import must refuse.
            del lines[written:]
            ops = {node.op_type for node in case.model.graph.node}
            save_as_it_is(case, folder)
            lines.append(f"{case.name} 0 {'quantized' if ops & QUANTIZED else 'float'} 0 0 {','.join(sorted(ops))}")
    (folder / "manifest.txt").write_text("\n".join(lines) + "\n")
    (folder / "skipped.txt").write_text("\n".join(skipped) + "\n")
    print(f"onnx {onnx.__version__}: {len(cases)} tests, {len(lines)} files, {len(skipped)} not written")
    return 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
