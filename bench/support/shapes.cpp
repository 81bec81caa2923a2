// SPDX-License-Identifier: MIT
#include "shapes.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "intq/io/error.hpp"

namespace intq_bench {

namespace {

/// `n` or `height x width` without spaces.
bool read_size(std::istringstream& words, intq::Size2d& size) {
    std::string word;
    if (!(words >> word)) return false;
    std::istringstream numbers(word);
    char between = 0;
    if (!(numbers >> size.height)) return false;
    size.width = size.height;
    if (numbers >> between && (between != 'x' || !(numbers >> size.width))) return false;
    return numbers.eof() || numbers.peek() == std::istringstream::traits_type::eof();
}

/// `n` or `top,left,bottom,right` without spaces.
bool read_padding(std::istringstream& words, intq::Padding2d& padding) {
    std::string word;
    if (!(words >> word)) return false;
    std::replace(word.begin(), word.end(), ',', ' ');
    std::istringstream numbers(word);
    if (!(numbers >> padding.top)) return false;
    padding.left = padding.bottom = padding.right = padding.top;
    if (numbers >> padding.left) return static_cast<bool>(numbers >> padding.bottom >> padding.right);
    padding.left = padding.top;
    return true;
}

/// A layer from the words behind its name; false where they are not those of its kind.
bool read_layer(const std::string& kind, std::istringstream& words, LayerShape& shape) {
    if (kind == "gemm") {
        shape.op = intq::OpKind::linear;
        return static_cast<bool>(words >> shape.batch >> shape.channels >> shape.outputs);
    }
    if (kind != "conv" && kind != "linear") return false;
    shape.op = kind == "linear" ? intq::OpKind::linear : intq::OpKind::conv2d;
    if (!(words >> shape.channels >> shape.in.height >> shape.in.width >> shape.outputs)) return false;
    intq::Window2d& window = shape.window;
    if (!read_size(words, window.kernel) || !read_size(words, window.stride) || !read_padding(words, window.padding))
        return false;
    if (!(words >> shape.groups)) words.clear(), shape.groups = 1;
    return true;
}

bool is_sensible(const LayerShape& shape) {
    const bool positive = shape.batch > 0 && shape.channels > 0 && shape.in.height > 0 && shape.in.width > 0 &&
                          shape.outputs > 0 && shape.groups > 0 && check_window(shape.window, shape.op).ok();
    return positive && shape.channels % shape.groups == 0 && shape.outputs % shape.groups == 0 &&
           shape.out().height > 0 && shape.out().width > 0;
}

}  // namespace

std::vector<LayerShape> read_shapes(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw intq::Error(path, "cannot be opened");
    std::vector<LayerShape> shapes;
    std::string line;
    for (int number = 1; std::getline(file, line); ++number) {
        std::istringstream words(line.substr(0, line.find('#')));
        std::string kind, rest;
        if (!(words >> kind)) continue;
        LayerShape shape;
        if (!(words >> shape.name) || !read_layer(kind, words, shape) || words >> rest || !is_sensible(shape))
            throw intq::Error(path, "line " + std::to_string(number) + " is not a layer: " + line);
        shapes.push_back(shape);
    }
    return shapes;
}

std::vector<std::string> shape_files(const std::string& folder) {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
        if (entry.path().extension() == ".txt") paths.push_back(entry.path().string());
    const auto rank = [](const std::string& path) { return std::pair(!path.ends_with("/list.txt"), path); };
    std::sort(paths.begin(), paths.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
    return paths;
}

}  // namespace intq_bench
