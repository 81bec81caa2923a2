// SPDX-License-Identifier: MIT
//
// Shapes of layers from text files, one a line, with the network that they come from.
#ifndef INTQ_BENCH_SUPPORT_SHAPES_HPP
#define INTQ_BENCH_SUPPORT_SHAPES_HPP

#include <string>
#include <vector>

#include "intq/core/op_kind.hpp"
#include "intq/core/op_params.hpp"

namespace intq_bench {

/// One convolution, linear layer or matrix product.
struct LayerShape {
    intq::OpKind op = intq::OpKind::conv2d;  // or linear: in {1, 1}, batch = rows of the matrix
    std::string name;
    intq::index_t batch = 1;
    intq::index_t channels = 0;
    intq::Size2d in{};
    intq::index_t outputs = 0;
    intq::index_t groups = 1;
    intq::Window2d window{};

    bool is_depthwise() const { return groups > 1 && groups == channels && groups == outputs; }
    intq::Size2d out() const { return output_size(window, in); }
    intq::index_t taps() const { return window.kernel.height * window.kernel.width; }
    /// Products of one output.
    intq::index_t depth() const { return taps() * channels / groups; }
    intq::index_t in_elements() const { return batch * channels * in.height * in.width; }
    intq::index_t out_elements() const { return batch * outputs * out().height * out().width; }
    intq::index_t weight_elements() const { return outputs * depth(); }
    /// Multiplications and additions, taps on padding counted.
    double operations() const { return 2.0 * static_cast<double>(out_elements() * depth()); }
};

/// Reads lines; # starts a comment.
///
///     conv   name channels height width outputs kernel stride padding [groups]
///     linear name channels height width outputs kernel stride padding
///     gemm   name M K N
///
/// Kernel and stride are one number or `10x4` (height by width), padding is one number or `top,left,bottom,right`.
///
/// @throws Error with the line that is not a layer
std::vector<LayerShape> read_shapes(const std::string& path);

/// The paths of all files of a folder whose names end in .txt, in alphabetical order, list.txt first.
std::vector<std::string> shape_files(const std::string& folder);

}  // namespace intq_bench

#endif  // INTQ_BENCH_SUPPORT_SHAPES_HPP
