// SPDX-License-Identifier: MIT
//
// Writes files for the tests of intq that are too large or too odd to keep in the repository: what it must refuse, and
// models, images and pictures of other kinds than the shipped ones.
#include <cstdio>
#include <exception>
#include <limits>
#include <string>
#include <string_view>

#include "interop/onnx_builder.hpp"
#include "intq/io/file.hpp"
#include "intq/io/npy.hpp"
#include "intq/io/npz.hpp"
#include "tools/state_models.hpp"

#if INTQ_TEST_WITH_STB
#    define STB_IMAGE_WRITE_IMPLEMENTATION
#    define STB_IMAGE_WRITE_STATIC
#    include <stb/stb_image_write.h>
#endif

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

/// (N, 6) -> relu(x*w) -> 3 classes: no image at all.
///
/// @param factor  of the last layer's weights
test::Message flat_model(float factor = 1.0f) {
    test::ModelParts parts;
    parts.nodes = {test::node("Gemm", {"x", "w"}, {"h"}), test::node("Relu", {"h"}, {"r"}),
                   test::node("Gemm", {"r", "v"}, {"y"})};
    std::vector<float> w, v;
    for (int i = 0; i < 30; ++i) w.push_back(static_cast<float>(i * 7 % 11 - 5) / 8.0f);
    for (int i = 0; i < 15; ++i) v.push_back(factor * static_cast<float>(i * 5 % 7 - 3) / 4.0f);
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

/// (N, 3, 5, 7) -> 3 classes: what pictures with colours are for.
test::Message colour_model() {
    test::ModelParts parts;
    parts.nodes = {test::node("Conv", {"x", "w"}, {"c"}, {}, "mix"), test::node("Flatten", {"c"}, {"f"}),
                   test::node("Gemm", {"f", "v"}, {"y"})};
    std::vector<float> w, v;
    for (int i = 0; i < 6; ++i) w.push_back(static_cast<float>(i * 7 % 11 - 5) / 8.0f);
    for (int i = 0; i < 70 * 3; ++i) v.push_back(static_cast<float>(i * 5 % 13 - 6) / 16.0f);
    parts.initializers = {test::tensor("w", {2, 3, 1, 1}, w), test::tensor("v", {70, 3}, v)};
    parts.inputs = {test::value_info("x", {-1, 3, 5, 7})};
    return test::model(parts);
}

/// (N, 6) -> zeros, which integers give exactly.
test::Message zero_model() {
    test::ModelParts parts;
    parts.nodes = {test::node("Gemm", {"x", "v"}, {"y"})};
    parts.initializers = {test::filled("v", {6, 3}, 0.0f)};
    parts.inputs = {test::value_info("x", {-1, 6})};
    return test::model(parts);
}

/// a + b.
test::Message two_inputs_model() {
    test::ModelParts parts;
    parts.nodes = {test::node("Add", {"a", "b"}, {"y"})};
    parts.inputs = {test::value_info("a", {-1, 6}), test::value_info("b", {-1, 6})};
    return test::model(parts);
}

/// (N, 3, 10, 10) and (N, 6) -> a map (N, 2, 10, 10) and a score (N, 3).
test::Message detector_model() {
    test::ModelParts parts;
    parts.nodes = {test::node("Conv", {"image", "w"}, {"map"}, {}, "/head/conv"),
                   test::node("Gemm", {"size", "v"}, {"s"}, {}, "/rate/gemm"),
                   test::node("Sigmoid", {"s"}, {"score"}, {}, "/rate/sigmoid")};
    std::vector<float> w, v;
    for (int i = 0; i < 6; ++i) w.push_back(static_cast<float>(i * 5 % 7 - 3) / 4.0f);
    for (int i = 0; i < 18; ++i) v.push_back(static_cast<float>(i * 7 % 11 - 5) / 8.0f);
    parts.initializers = {test::tensor("w", {2, 3, 1, 1}, w), test::tensor("v", {6, 3}, v)};
    parts.inputs = {test::value_info("image", {-1, 3, 10, 10}), test::value_info("size", {-1, 6})};
    parts.outputs = {test::value_info("map"), test::value_info("score")};
    return test::model(parts);
}

/// What no target takes, several times over: a softmax of the samples, twice, and a flatten of them.
test::Message unlowerable_model() {
    test::ModelParts parts;
    parts.nodes = {test::node("Softmax", {"x"}, {"a"}, {test::attribute("axis", 0)}, "/first/soft"),
                   test::node("Conv", {"a", "w"}, {"c"}, {}, "/mix/conv"),
                   test::node("Softmax", {"c"}, {"d"}, {test::attribute("axis", 0)}, "/second/soft"),
                   test::node("Flatten", {"d"}, {"y"}, {test::attribute("axis", 0)}, "/end/flat")};
    parts.initializers = {test::filled("w", {2, 3, 1, 1}, 0.25f)};
    parts.inputs = {test::value_info("x", {-1, 3, 10, 10})};
    return test::model(parts);
}

/// Operators that the import refuses: one of constants alone, and one that ONNX does not have.
test::Message unreadable_model() {
    test::ModelParts parts;
    parts.nodes = {test::node("Floor", {"x"}, {"a"}, {}, "/first/floor"), test::node("Relu", {"a"}, {"b"}),
                   test::node("Frobnicate", {"b"}, {"y"}, {}, "/last/frob")};
    return test::model(parts);
}

/// The samples of the detector: a file for each input, one with fewer, and an archive of both.
void write_detector(const std::string& folder) {
    io::write_file(folder + "detector.onnx", detector_model().bytes());
    std::vector<float> image, size;
    for (int i = 0; i < 8 * 300; ++i) image.push_back(static_cast<float>(i * 13 % 17 - 8) / 4.0f);
    for (int i = 0; i < 8 * 6; ++i) size.push_back(static_cast<float>(i * 5 % 19 - 9) / 3.0f);
    const io::NpyArray images = io::make_npy<float>({8, 3, 10, 10}, image), sizes = io::make_npy<float>({8, 6}, size);
    io::write_npy(folder + "image.npy", images);
    io::write_npy(folder + "size.npy", sizes);
    const std::vector<float> fewer(size.begin(), size.begin() + 30);
    io::write_npy(folder + "fewer.npy", io::make_npy<float>({5, 6}, fewer));
    const std::vector<io::NamedArray> both{{"size", sizes}, {"image", images}},
        other{{"image", images}, {"sise", sizes}};
    io::write_npz(folder + "both.npz", both);
    io::write_npz(folder + "other.npz", other);
}

/// (N, 3, 10, 10) -> (N, 2, 10, 10): an image comes out.
///
/// @param side  of the image; -1: open
test::Message image_model(index_t side = 10) {
    test::ModelParts parts;
    parts.nodes = {test::node("Conv", {"x", "w"}, {"y"}, {}, "mix")};
    parts.initializers = {test::filled("w", {2, 3, 1, 1}, 0.25f)};
    parts.inputs = {test::value_info("x", {-1, 3, side, side})};
    return test::model(parts);
}

/// (N, 3, 10, 10) -> 5 numbers, as the stored TFLite model mobilenet3_int8 has them; samples in float and as codes.
void write_ten(const std::string& folder) {
    test::ModelParts parts;
    parts.nodes = {test::node("GlobalAveragePool", {"x"}, {"a"}), test::node("Flatten", {"a"}, {"f"}),
                   test::node("Gemm", {"f", "v"}, {"y"})};
    parts.initializers = {test::filled("v", {3, 5}, 0.5f)};
    parts.inputs = {test::value_info("x", {-1, 3, 10, 10})};
    io::write_file(folder + "ten.onnx", test::model(parts).bytes());
    std::vector<float> reals;
    std::vector<std::int8_t> codes;
    for (int i = 0; i < 4 * 300; ++i) {
        codes.push_back(static_cast<std::int8_t>(i * 37 % 256 - 128));
        reals.push_back(static_cast<float>(i * 13 % 17 - 8) / 4.0f);
    }
    io::write_npy(folder + "ten_reals.npy", io::make_npy<float>({4, 3, 10, 10}, reals));
    io::write_npy(folder + "ten_codes.npy", io::make_npy<std::int8_t>({4, 3, 10, 10}, codes));
}

#if INTQ_TEST_WITH_STB

using Pixels = std::vector<std::uint8_t>;

/// Pixels of one picture, colours together, as files have them.
Pixels picture(int number, int width, int height, int channels) {
    Pixels pixels;
    for (int i = 0; i < width * height * channels; ++i)
        pixels.push_back(static_cast<std::uint8_t>((number * width * height * channels + i) * 37 % 256));
    return pixels;
}

void write_png(const std::string& path, int width, int height, int channels, const Pixels& pixels) {
    if (stbi_write_png(path.c_str(), width, height, channels, pixels.data(), 0) == 0)
        throw Error(path, "cannot be written");
}

void append_number(std::string& bytes, std::uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xFF);
}

void append_chunk(std::string& png, const std::string& type, const std::string& data) {
    append_number(png, static_cast<std::uint32_t>(data.size()));
    std::string checked = type + data;
    png += checked;
    append_number(png,
                  stbiw__crc32(reinterpret_cast<unsigned char*>(checked.data()), static_cast<int>(checked.size())));
}

/// A picture of 8 x 8 pixels whose data unpacks to 8 MB.
void write_bomb(const std::string& path) {
    Pixels zeros(8u << 20);
    int size = 0;
    unsigned char* const packed = stbi_zlib_compress(zeros.data(), static_cast<int>(zeros.size()), &size, 8);
    std::string png = "\x89PNG\r\n\x1a\n", head;
    append_number(head, 8);
    append_number(head, 8);
    head += std::string("\x08\0\0\0\0", 5);  // eight bits, grey
    append_chunk(png, "IHDR", head);
    append_chunk(png, "IDAT", std::string(reinterpret_cast<char*>(packed), static_cast<std::size_t>(size)));
    append_chunk(png, "IEND", "");
    STBIW_FREE(packed);
    io::write_file(path, std::string_view(png));
}

/// Folders of pictures beside the same pixels as .npy, and folders with one picture that is wrong.
void write_pictures(const std::string& folder) {
    for (const char* name : {"grey", "grey_as_colour", "colour", "jpeg", "wrong_size", "damaged", "changed", "no_image",
                             "no_pictures", "unpacks"})
        io::make_folder(folder + name);
    std::vector<std::uint8_t> planes;  // (N, 3, 5, 7)
    for (int n = 0; n < 4; ++n) {
        const std::string file = "/" + std::to_string(n) + ".png";
        const Pixels grey = picture(n, 8, 8, 1), colour = picture(n, 7, 5, 3);
        Pixels repeated;
        for (const std::uint8_t pixel : grey) repeated.insert(repeated.end(), 3, pixel);
        write_png(folder + "grey" + file, 8, 8, 1, grey);
        write_png(folder + "grey_as_colour" + file, 8, 8, 3, repeated);
        write_png(folder + "colour" + file, 7, 5, 3, colour);
        write_png(folder + "wrong_size" + file, n == 2 ? 9 : 8, 8, 1, picture(n, n == 2 ? 9 : 8, 8, 1));
        for (std::size_t c = 0; c < 3; ++c)
            for (std::size_t i = 0; i < 35; ++i) planes.push_back(colour[i * 3 + c]);
    }
    io::write_npy(folder + "colour.npy", io::make_npy<std::uint8_t>({4, 3, 5, 7}, planes));
    // One that says its right size, and then is no picture any more.
    std::vector<std::byte> bytes = io::read_file(folder + "grey/1.png");
    bytes.resize(45);
    io::write_file(folder + "damaged/1.png", bytes);
    io::write_file(folder + "damaged/0.png", io::read_file(folder + "grey/0.png"));
    // One bit of its pixels is another; the decoder does not see it.
    bytes = io::read_file(folder + "grey/1.png");
    bytes[50] ^= std::byte{1};
    io::write_file(folder + "changed/1.png", bytes);
    io::write_file(folder + "no_image/0.png", std::string_view("nothing"));
    io::write_file(folder + "no_pictures/notes.txt", std::string_view("nothing"));
    io::write_file(folder + "grey/notes.txt", std::string_view("passed over"));
    // A JPEG of one shade loses nothing.
    write_bomb(folder + "unpacks/0.png");
    const Pixels flat(64, 128);
    if (stbi_write_jpg((folder + "jpeg/0.JPG").c_str(), 8, 8, 1, flat.data(), 100) == 0)
        throw Error(folder, "the JPEG cannot be written");
    io::write_npy(folder + "jpeg.npy", io::make_npy<std::uint8_t>({1, 1, 8, 8}, flat));
}

#endif

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
    io::write_file(folder + "overflow.onnx", flat_model(16.0f).bytes());
    samples[7] = -3.4e38f;
    io::write_npy(folder + "lowest.npy", io::make_npy<float>({8, 6}, samples));
    io::write_npy(folder + "zeros.npy", io::make_npy<float>({8, 6}, std::vector<float>(8 * 6)));
    write_pixels(folder, 0.5f, 0.25f);
    io::write_file(folder + "colour.onnx", colour_model().bytes());
    write_ten(folder);
    io::write_file(folder + "colours.onnx", image_model().bytes());
    io::write_file(folder + "open.onnx", image_model(-1).bytes());
    io::write_file(folder + "zero.onnx", zero_model().bytes());
    io::write_file(folder + "two.onnx", two_inputs_model().bytes());
    io::write_file(folder + "unlowerable.onnx", unlowerable_model().bytes());
    io::write_file(folder + "unreadable.onnx", unreadable_model().bytes());
    write_detector(folder);
    test::write_state_models(folder);
#if INTQ_TEST_WITH_STB
    write_pictures(folder);
#endif
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
