// SPDX-License-Identifier: MIT
//
// Writes the files that quantize_model must refuse and that are too large or too odd to keep in the repository.
#include <cstdio>
#include <exception>
#include <limits>
#include <string>
#include <string_view>

#include "interop/onnx_builder.hpp"
#include "intq/io/npy.hpp"

namespace {

using namespace intq;

void write_images(const std::string& path, index_t count, index_t channels, index_t side, float value) {
    const std::vector<float> values(static_cast<std::size_t>(count * channels * side * side), value);
    io::write_npy(path, io::make_npy<float>({count, channels, side, side}, values));
}

/// 1024 inputs of one weight each: in int16 their worst case leaves 32 bits.
test::Message large_model() {
    test::ModelParts parts;
    parts.nodes = {test::node("Conv", {"x", "w"}, {"c"}, {}, "wide"), test::node("Flatten", {"c"}, {"f"}),
                   test::node("Gemm", {"f", "v"}, {"y"})};
    parts.initializers = {test::filled("w", {4, 1024, 1, 1}, 0.01f), test::filled("v", {4, 3}, 0.5f)};
    parts.inputs = {test::value_info("x", {-1, 1024, 1, 1})};
    return test::model(parts);
}

}  // namespace

int main(int argc, char** argv) try {
    if (argc != 2) return 2;
    const std::string folder = std::string(argv[1]) + "/";
    write_images(folder + "nan.npy", 4, 1, 8, std::numeric_limits<float>::quiet_NaN());
    write_images(folder + "empty.npy", 0, 1, 8, 0.0f);
    write_images(folder + "large.npy", 2, 1024, 1, 0.5f);
    io::write_file(folder + "short.npy", std::string_view("\x93NUMPY\x01"));
    const auto bytes = large_model().bytes();
    io::write_file(folder + "large.onnx", bytes);
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
