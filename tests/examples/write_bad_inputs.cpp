// SPDX-License-Identifier: MIT
//
// Writes files for quantize_model that are too large or too odd to keep in the repository: what it must refuse, and
// models and images of other kinds than the shipped ones.
#include <cstdio>
#include <exception>
#include <limits>
#include <string>
#include <string_view>

#include "interop/onnx_builder.hpp"
#include "intq/io/file.hpp"
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

/// (N, 6) -> relu(x·w) -> 3 classes: no image at all.
test::Message flat_model() {
    test::ModelParts parts;
    parts.nodes = {test::node("Gemm", {"x", "w"}, {"h"}), test::node("Relu", {"h"}, {"r"}),
                   test::node("Gemm", {"r", "v"}, {"y"})};
    std::vector<float> w, v;
    for (int i = 0; i < 30; ++i) w.push_back(static_cast<float>(i * 7 % 11 - 5) / 8.0f);
    for (int i = 0; i < 15; ++i) v.push_back(static_cast<float>(i * 5 % 7 - 3) / 4.0f);
    parts.initializers = {test::tensor("w", {6, 5}, w), test::tensor("v", {5, 3}, v)};
    parts.inputs = {test::value_info("x", {-1, 6})};
    return test::model(parts);
}

/// The same images twice: as pixels, and as (pixel/255 - mean)/deviation.
void write_pixels(const std::string& folder, float mean, float deviation) {
    std::vector<std::uint8_t> pixels;
    std::vector<float> values;
    for (int i = 0; i < 4 * 64; ++i) {
        pixels.push_back(static_cast<std::uint8_t>(i * 37 % 256));
        values.push_back((static_cast<float>(pixels.back()) / 255.0f - mean) / deviation);
    }
    io::write_npy(folder + "pixels.npy", io::make_npy<std::uint8_t>({4, 1, 8, 8}, pixels));
    io::write_npy(folder + "normalized.npy", io::make_npy<float>({4, 1, 8, 8}, values));
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
    io::write_file(folder + "flat.onnx", flat_model().bytes());
    std::vector<float> samples;
    for (int i = 0; i < 8 * 6; ++i) samples.push_back(static_cast<float>(i * 13 % 17 - 8) / 4.0f);
    io::write_npy(folder + "flat.npy", io::make_npy<float>({8, 6}, samples));
    write_pixels(folder, 0.5f, 0.25f);
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
