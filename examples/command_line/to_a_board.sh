#!/bin/sh
# SPDX-License-Identifier: MIT
#
# From an ONNX file to firmware without a program of one's own, on the shipped digits. Run it where model.onnx,
# calibration.npy and test.npy are; intq must be on the path.
set -eu

# Which operators does the target have? How well do integers do? The header needs no other file.
intq check model.onnx --target tflite
intq quantize model.onnx --data calibration.npy --target tflite --portable --min-sqnr 30 -o model.intq
intq compare model.onnx model.intq --data test.npy
intq info model.intq --memory-svg arena.svg
intq codegen model.intq --name model --single-file -o model.hpp

# For the kernels of a Cortex-M4, as a program file and as a header.
intq pack model.intq --cpu cortex-m4 -o model_m4.intq
intq codegen model.intq --cpu cortex-m4 --single-file -o model_m4.hpp

# The same in one step, and in other forms.
intq quantize model.onnx --data calibration.npy --target tflite --single-file -o direct.hpp
intq quantize model.onnx --data calibration.npy --target tflite -o model.json
intq quantize model.onnx --data calibration.npy --onnx-form operators -o quantized.onnx
intq compare model.onnx quantized.onnx --data test.npy

# Where was the accuracy lost? The three operators that the output is most sensitive to become int16.
intq profile model.onnx --data calibration.npy --target bayes -o profile --sensitivity
intq quantize model.onnx --data calibration.npy --target bayes --sensitive-ops profile/sensitive_ops.txt --top-k 3 -o mixed.intq
