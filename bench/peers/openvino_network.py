#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times OpenVINO on a whole network: prints the median microseconds of one image, one thread.

    python3 bench/peers/openvino_network.py build/bench/resnet18.network.txt u8 [seconds] [--isa NAME]
    python3 bench/peers/openvino_network.py --version [--isa NAME]

network_bench writes the file (bench/support/network.hpp) and runs this between its own samples. Needs the packages
openvino, onnx and numpy; without them it says so and ends with status 77.

The model is that of qdq_network.py. OpenVINO compiles it for latency, with one thread and one stream and all its
optimizations. Image and logits are in memory that is set beforehand. Every convolution and matrix product must run on
int8 codes: the script reads their precision in the compiled model, and fails where one has another.

The CPU plugin has a copy of oneDNN of its own, which obeys ONEDNN_MAX_CPU_ISA; --isa sets it. Without it OpenVINO takes
the best that the CPU has, AMX where it is there. --version compiles a small model and names what its convolution runs
as. Signed activations OpenVINO turns into unsigned ones by itself, and its release 2026.4 refuses a signed depthwise
convolution on AMX: the bench runs it with unsigned ones.
"""
import os
import sys

sys.dont_write_bytecode = True  # its imports are among the sources
try:
    import network_script
    import numpy as np
    import openvino as ov
    import qdq_network
except ImportError as missing:
    print(missing)
    sys.exit(77)

# Names of oneDNN, which ignores others.
ISAS = ("sse41", "avx", "avx2", "avx2_vnni", "avx2_vnni_2", "avx512_core", "avx512_core_vnni", "avx512_core_bf16",
        "avx512_core_fp16", "avx512_core_amx", "avx512_core_amx_fp16")


def limit(isa):
    """Before oneDNN is first used."""
    if isa is None:
        return
    if isa not in ISAS:
        sys.exit(f"OpenVINO: oneDNN has no instruction set of the name {isa}; it has {', '.join(ISAS)}")
    os.environ["ONEDNN_MAX_CPU_ISA"] = isa.upper()


def compiled(model):
    core = ov.Core()
    options = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}
    return core.compile_model(core.read_model(model.SerializeToString()), "CPU", options)


def weighted_layers(network):
    """Name, kernel and precision of each convolution and matrix product of a compiled model."""
    layers = []
    for node in network.get_runtime_model().get_ordered_ops():
        info = node.get_rt_info()
        kind, kernel, precision = (str(info[key].value) if key in info else ""
                                   for key in ("layerType", "primitiveType", "runtimePrecision"))
        if kind in ("Convolution", "FullyConnected", "MatMul"):
            layers.append((node.get_friendly_name(), kernel, precision))
    return layers


def require_int8(network):
    layers = weighted_layers(network)
    if not layers:
        sys.exit("OpenVINO: the compiled model has no convolution and no matrix product")
    for name, kernel, precision in layers:
        if precision not in ("u8", "i8"):
            sys.exit(f"OpenVINO: {name} runs in {precision} ({kernel}), and not in int8")
    return layers


def describe(isa):
    limit(isa)
    _, kernel, _ = require_int8(compiled(qdq_network.model_of(network_script.PROBE, "u8")[0]))[0]
    version = ov.get_version().split("-")[0]
    return (f"OpenVINO {version}, QDQ models, one thread, int8 convolutions run as {kernel} "
            f"({f'--peer-isa is {isa}' if isa else '--peer-isa limits it'})")


def prepare(steps, types, isa):
    """One call of a request whose input and output are memory of our own."""
    limit(isa)
    model, input_shape = qdq_network.model_of(steps, types)
    network = compiled(model)
    require_int8(network)
    image = network_script.random_image(input_shape)
    logits = np.zeros([int(extent) for extent in network.output().shape], np.float32)
    request = network.create_infer_request()
    request.set_input_tensor(ov.Tensor(image, shared_memory=True))
    request.set_output_tensor(ov.Tensor(logits, shared_memory=True))

    def call(_keep=(image, logits)):
        request.infer(share_inputs=True, share_outputs=True)

    return call


if __name__ == "__main__":
    network_script.run_script(describe, prepare)
