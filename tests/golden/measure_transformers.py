#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Quantizes the models that make_transformers.py made, and prints how far they are from float.

    pip install numpy
    python tests/golden/measure_transformers.py --folder FOLDER --intq build/release/tools/intq [--only NAME ...]
                                                [--machines]

Each model becomes a program three times: int8, int8 with the preset of transformers, and int16 with int16 weights. A
program has no operator in float. The table is of signal to noise in dB, |x|^2 / |x - y|^2 over all outputs but new
caches, beside ONNX Runtime's static quantization. The exit status is 1 where a model is refused, where the preset
is more than 1 dB below ONNX Runtime's quantization, or where int16 is less than 10 dB above it. The test
interop/onnx/transformers compares the imported models in float.

--machines also runs each program on an emulated Cortex-M55 and on AArch64: a header whose self test compares what each
instruction computes for a sample with the checksum of this machine. It takes small models (make_transformers.py
--small), arm-none-eabi-g++, aarch64-linux-gnu-g++ and QEMU.
"""
import argparse
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

FORMS = {"int8": [], "preset": ["--preset", "transformer"], "int16": ["--dtype", "int16", "--weight-dtype", "int16"]}
SOURCE = Path(__file__).resolve().parents[2]
FIRMWARE = SOURCE / "examples" / "firmware"
MAIN = """#include "model.hpp"
#ifdef __arm__
#include "board.hpp"
static void say(const char* text) { board::print(text); }
#else
#include <cstdio>
static void say(const char* text) { std::fputs(text, stdout); }
#endif
int main() {
    const bool passed = static_cast<bool>(model::self_test());
    say(passed ? "self test passed" : "self test failed");
    return passed ? 0 : 1;
}
"""
COMMON = ["-std=c++20", "-DNDEBUG", "-Wno-psabi", "-I", SOURCE / "include", "-I", FIRMWARE]
MACHINES = {  # the kernels, the compiler and its flags, the emulator
    "cortex-m55": (["--cpu", "cortex-m55"],
                   ["arm-none-eabi-g++", *COMMON, "-Os", "-mthumb", "-mcpu=cortex-m55", "-mfloat-abi=hard",
                    "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-ffunction-sections", "-fdata-sections",
                    "-Wl,--gc-sections", "-nostartfiles", "-T", FIRMWARE / "board.ld",
                    "-Wl,--defsym=code_at=0x01000000", "-Wl,--defsym=data_at=0x21000000", FIRMWARE / "start.cpp"],
                   ["qemu-system-arm", "-M", "mps3-an547", "-nographic", "-monitor", "none", "-serial", "none",
                    "-semihosting-config", "enable=on,target=native", "-kernel"]),
    "aarch64": ([], ["aarch64-linux-gnu-g++", *COMMON, "-O3", "-static"], ["qemu-aarch64"]),
}
LEAST = {"preset": -1.0, "int16": 10.0}  # dB beside ONNX Runtime


def decibels(expected, given):
    signal = noise = 0.0
    for name, x in expected.items():
        if not name.startswith("new_"):
            x = x.astype(np.float64)
            signal += np.square(x).sum()
            noise += np.square(x - given[name].reshape(x.shape)).sum()
    return 10 * math.log10(signal / noise) if noise else math.inf


def output_of(*command):
    """Runs a command. Raises RuntimeError with what it said where it fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stderr or done.stdout).strip())


def outputs(path, names):
    """What run wrote: a .npy of one output, or a .npz, whose names have _ for other characters."""
    read = np.load(path)
    if isinstance(read, np.ndarray):
        return {names[0]: read}
    return {name: read[name] for name in names}


def test_on(machine, intq, program, samples, place):
    """Runs the self test of a program's header on another machine."""
    kernels, compiler, emulator = MACHINES[machine]
    (place / "main.cpp").write_text(MAIN)
    output_of(intq, "codegen", program, "--data", samples, *kernels, "-o", place / "model.hpp")
    output_of(*compiler, "-I", place, place / "main.cpp", "-o", place / "image")
    try:
        output_of(*emulator, place / "image")
    except RuntimeError as error:
        raise RuntimeError(f"{machine}: {error}") from error


def first_of(samples, path):
    """A file with the first sample alone: a board has no room for more."""
    np.savez(path, **{name: array[:1] for name, array in np.load(samples).items()})
    return path


def measure(intq, folder, name, place, machines):
    expected = dict(np.load(folder / f"{name}_float.npz"))
    row = {"ONNX Runtime": decibels(expected, np.load(folder / f"{name}_qdq.npz"))}
    result = place / ("result.npy" if len(expected) == 1 else "result.npz")
    for form, options in FORMS.items():
        program = place / "program.intq"
        output_of(intq, "quantize", folder / f"{name}.onnx", "--data", folder / f"{name}_calibration.npz", "-o", program,
                  *options)
        output_of(intq, "run", program, "--data", folder / f"{name}_test.npz", "-o", result)
        row[form] = decibels(expected, outputs(result, list(expected)))
        for machine in machines:
            test_on(machine, intq, program, first_of(folder / f"{name}_test.npz", place / "first.npz"), place)
    return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--intq", type=Path, required=True)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--machines", action="store_true")
    arguments = parser.parse_args()
    names = arguments.only or sorted(path.stem for path in arguments.folder.glob("*.onnx"))
    machines = list(MACHINES) if arguments.machines else []
    columns = [*FORMS, "ONNX Runtime"]
    print("| model |", " | ".join(columns), "|\n| --- |", " | ".join("---:" for _ in columns), "|")
    failed, measured = False, 0
    for name in names:
        with tempfile.TemporaryDirectory() as place:
            try:
                row = measure(arguments.intq, arguments.folder, name, Path(place), machines)
            except RuntimeError as error:
                print(f"| {name} | {error} |", flush=True)
                failed = True
                continue
        measured += 1
        print(f"| {name} |", " | ".join(f"{row[column]:.1f}" for column in columns), "|", flush=True)
        failed = failed or any(row[form] < row["ONNX Runtime"] + least for form, least in LEAST.items())
    for machine in machines:
        print(f"{measured * len(FORMS)} programs compute the same bytes on {machine}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
