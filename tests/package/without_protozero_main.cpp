// SPDX-License-Identifier: MIT
//
// A program that includes all that uses protozero, where there is none: it is told so when it reads an ONNX file.
#include <cstdio>
#include <string>

#include "intq/onnx.hpp"

int main() {
    int right = 0;
    try {
        (void)intq::interop::onnx::parse_model({}, "model.onnx");
    } catch (const intq::Error& error) {
        const std::string message = error.what();
        right = message.find("model.onnx") != message.npos && message.find("protozero") != message.npos ? 4 : 0;
    }
    std::printf("intq %d.%d.%d: %d\n", INTQ_VERSION_MAJOR, INTQ_VERSION_MINOR, INTQ_VERSION_PATCH, right);
}
