#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times ONNX Runtime on a whole network: prints the median microseconds of one image, one thread.

    python3 bench/peers/onnxruntime_network.py build/bench/resnet18.network.txt u8 [seconds] [--isa NAME]
    python3 bench/peers/onnxruntime_network.py --version [--isa NAME]

network_bench writes the file (bench/support/network.hpp) and runs this between its own samples. Needs the packages
onnxruntime, onnx and numpy; without them it says so and ends with status 77.

The model is that of qdq_network.py. All graph optimizations are on: ONNX Runtime fuses the operators into integer ones
and makes them channels-last. Image and logits are in memory that is allocated beforehand. Its kernels choose their
instruction set by themselves, AMX too: it has no setting for --isa, and its version line says so.
"""
import sys

sys.dont_write_bytecode = True  # its imports are among the sources
try:
    import network_script
    import numpy as np
    import onnxruntime as ort
    import qdq_network
except ImportError as missing:
    print(missing)
    sys.exit(77)


def describe(isa):
    choice = "the instruction set is its own choice" + (f", {isa} does not limit it" if isa else "")
    return f"ONNX Runtime {ort.__version__}, QDQ models, one thread, {choice}"


def prepare(steps, types, _isa):
    """One call of a session whose input and output are bound to memory of our own."""
    model, input_shape = qdq_network.model_of(steps, types)
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    image = network_script.random_image(input_shape)
    logits = np.zeros(session.run(None, {"image": image})[0].shape, np.float32)
    binding = session.io_binding()
    values = [ort.OrtValue.ortvalue_from_numpy(image), ort.OrtValue.ortvalue_from_numpy(logits)]
    binding.bind_ortvalue_input("image", values[0])
    binding.bind_ortvalue_output("logits", values[1])

    def call(_keep=values):
        session.run_with_iobinding(binding)

    return call


if __name__ == "__main__":
    network_script.run_script(describe, prepare)
