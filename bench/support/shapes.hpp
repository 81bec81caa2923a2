// SPDX-License-Identifier: MIT
//
// Shapes of layers from text files, one a line, with the network that they come from.
#ifndef INTQ_BENCH_SUPPORT_SHAPES_HPP
#define INTQ_BENCH_SUPPORT_SHAPES_HPP

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "intq/core/op_params.hpp"
#include "intq/io/error.hpp"

namespace intq_bench {

/// One layer, batch 1.
struct LayerShape {
    intq::OpKind op = intq::OpKind::conv2d;
    std::string name;
    intq::index_t channels = 0;
    intq::Size2d in{};
    intq::index_t outputs = 0;
    intq::Window2d window{};

    /// Multiplications and additions, taps on padding counted: 2 · outputs · pixels · taps · channels.
    double operations() const {
        const intq::Size2d out = output_size(window, in);
        const intq::index_t taps = window.kernel.height * window.kernel.width;
        return 2.0 * static_cast<double>(out.height * out.width * outputs * taps * channels);
    }
};

/// Reads lines `conv|linear name channels height width outputs kernel stride padding`; # starts a comment.
inline std::vector<LayerShape> read_shapes(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw intq::Error(path, "cannot be opened");
    std::vector<LayerShape> shapes;
    std::string line;
    for (int number = 1; std::getline(file, line); ++number) {
        std::istringstream words(line.substr(0, line.find('#')));
        std::string kind;
        if (!(words >> kind)) continue;
        LayerShape shape;
        intq::index_t kernel = 1, stride = 1, padding = 0;
        const bool complete = static_cast<bool>(words >> shape.name >> shape.channels >> shape.in.height >>
                                                shape.in.width >> shape.outputs >> kernel >> stride >> padding);
        if (!complete || (kind != "conv" && kind != "linear"))
            throw intq::Error(path, "line " + std::to_string(number) + " is not a layer: " + line);
        shape.op = kind == "linear" ? intq::OpKind::linear : intq::OpKind::conv2d;
        shape.window = {{kernel, kernel}, {stride, stride}, {padding, padding, padding, padding}, {1, 1}};
        shapes.push_back(shape);
    }
    return shapes;
}

}  // namespace intq_bench

#endif  // INTQ_BENCH_SUPPORT_SHAPES_HPP
