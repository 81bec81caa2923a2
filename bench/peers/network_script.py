# SPDX-License-Identifier: MIT
"""What the scripts share that time another library on a whole network: its description, the image, time, command line.

network_bench writes the description, one line a layer (bench/support/network.hpp). Needs the package numpy.
"""
import argparse
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

# Of every edge: the codes of 8 bits span 6, which is a whole ReLU6.
SCALE = 6 / 255


@dataclass
class Step:
    """One line. `x`, `sumin` and `y` are numbers of tensors; `sumin` is the operand of an add, or -1."""
    op: str
    name: str
    x: int
    sumin: int
    y: int
    channels: int
    height: int
    width: int
    outputs: int
    kernel: list
    stride: list
    pads: list  # top, left, bottom, right
    groups: int
    activation: str


def steps_of(text):
    steps = []
    for line in text.splitlines():
        words = line.split()
        steps.append(Step(*words[:2], *(int(word) for word in words[2:9]),
                          *([int(n) for n in word.split("x")] for word in words[9:11]),
                          [int(n) for n in words[11].split(",")], int(words[12]), words[13]))
    return steps


# One convolution, for --version.
PROBE = steps_of("""quantize quant 0 -1 1 64 8 8 64 1x1 1x1 0,0,0,0 1 none
conv2d conv 1 -1 2 64 8 8 64 1x1 1x1 0,0,0,0 1 relu
dequantize dequant 2 -1 3 64 8 8 64 1x1 1x1 0,0,0,0 1 none""")


def random_weights(random, shape, outputs, input_scale):
    """Codes of a weight, its scale for each output channel, codes of the bias and its scales."""
    scales = (0.01 + 1e-5 * random.integers(0, 100, outputs)).astype(np.float32)
    codes = random.integers(-127, 128, shape, dtype=np.int8)
    bias = random.integers(-1000, 1000, outputs, dtype=np.int32)
    return codes, scales, bias, (scales * input_scale).astype(np.float32)


def random_image(shape):
    return np.random.default_rng(2).standard_normal(shape, dtype=np.float32)


def median_microseconds(call, seconds):
    """Median time of one call, after as long again unmeasured.

    It holds the call from Python, which is of no account from a millisecond on. DS-CNN and ResNet-8 show it.
    """
    clock, samples, start = time.perf_counter, [], time.perf_counter()
    while clock() < start + 2 * seconds or len(samples) < 14:
        before = clock()
        call()
        samples.append(clock() - before)
    return statistics.median(samples[len(samples) // 2:]) * 1e6


def run_script(describe, prepare):
    """What a peer's script does with its command line.

    describe(isa)              one line: name, version and instruction set
    prepare(steps, types, isa) allocates all that one image needs, and gives the function that runs it
    `types` of the activations are u8 or s8. `isa` is a name as --peer-isa takes it, or None.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", action="store_true", help="say what would run, and end")
    parser.add_argument("--isa", help="limit to an instruction set, as --peer-isa of the bench")
    parser.add_argument("network", nargs="?")
    parser.add_argument("types", nargs="?", choices=["u8", "s8"])
    parser.add_argument("seconds", nargs="?", type=float, default=0.25)
    arguments = parser.parse_args()
    if arguments.version:
        print(describe(arguments.isa))
    elif arguments.types is None:
        parser.error("a network and its types are needed")
    else:
        steps = steps_of(Path(arguments.network).read_text())
        print(median_microseconds(prepare(steps, arguments.types, arguments.isa), arguments.seconds))
