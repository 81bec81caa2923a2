# SPDX-License-Identifier: MIT
"""A TFLite file by its tensors and operators, for the scripts that make some: tests/golden, bench/peers.

Needs numpy, flatbuffers and ai-edge-litert, whose schema module writes the flatbuffers.
"""
import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

NUMPY = {"int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64, "float32": np.float32,
         "uint8": np.uint8, "bool": np.bool_}
TENSOR = {dtype: getattr(schema.TensorType, dtype.upper()) for dtype in NUMPY}
FUSED = {"none": schema.ActivationFunctionType.NONE, "relu": schema.ActivationFunctionType.RELU,
         "relu6": schema.ActivationFunctionType.RELU6, "relu_n1_to_1": schema.ActivationFunctionType.RELU_N1_TO_1}


def make(struct, **fields):
    made = struct()
    for name, field in fields.items():
        assert hasattr(made, name), name
        setattr(made, name, field)
    return made


class TfliteFile:
    """One subgraph. Tensors are known by their places in it."""

    def __init__(self):
        self.model = schema.ModelT()
        self.model.version = 3
        self.model.buffers = [schema.BufferT()]
        self.graph = schema.SubGraphT()
        self.graph.tensors, self.graph.operators = [], []
        self.codes = []
        self.model.operatorCodes = []

    def tensor(self, shape, dtype, scales, zero_point, data=None, axis=0):
        """The place of a new tensor; with `data` a constant, with several scales one for each index of `axis`."""
        t = schema.TensorT()
        t.shape, t.type, t.name = list(shape), TENSOR[dtype], f"t{len(self.graph.tensors)}".encode()
        if scales is not None:
            q = schema.QuantizationParametersT()
            q.scale = [float(s) for s in np.atleast_1d(scales)]
            q.zeroPoint = [zero_point] * len(q.scale)
            q.quantizedDimension = axis
            t.quantization = q
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data, NUMPY[dtype]).tobytes(), np.uint8)
            t.buffer = len(self.model.buffers)
            self.model.buffers.append(buffer)
        self.graph.tensors.append(t)
        return len(self.graph.tensors) - 1

    def ints(self, numbers):
        numbers = np.array(numbers, np.int32)
        return self.tensor(numbers.shape, "int32", None, 0, numbers)

    def operator(self, builtin, inputs, outputs, options_type=None, options=None, opcode_version=3):
        key = (builtin, opcode_version)
        if key not in self.codes:
            code = schema.OperatorCodeT()
            code.builtinCode, code.deprecatedBuiltinCode = builtin, min(builtin, 127)
            code.version = opcode_version
            self.model.operatorCodes.append(code)
            self.codes.append(key)
        op = schema.OperatorT()
        op.opcodeIndex = self.codes.index(key)
        op.inputs, op.outputs = list(inputs), list(outputs)
        if options is not None:
            op.builtinOptionsType, op.builtinOptions = options_type, options
        self.graph.operators.append(op)

    def named_operator(self, builtin, inputs, output, options=None, version=1, **fields):
        """The same by the names of the operator, its options and their fields."""
        option_type, struct = 0, None
        if options is not None:
            option_type = getattr(schema.BuiltinOptions, options)
            struct = make(getattr(schema, options + "T"), **fields)
        self.operator(getattr(schema.BuiltinOperator, builtin), inputs, [output], option_type, struct, version)

    def content(self, inputs, outputs):
        """The bytes of the file, whose subgraph has these inputs and outputs."""
        self.graph.inputs, self.graph.outputs = list(inputs), list(outputs)
        self.model.subgraphs = [self.graph]
        builder = flatbuffers.Builder(0)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())
