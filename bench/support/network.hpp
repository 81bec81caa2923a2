// SPDX-License-Identifier: MIT
//
// A network as a list of layers between numbered tensors: what other libraries are asked to run too.
#ifndef INTQ_BENCH_SUPPORT_NETWORK_HPP
#define INTQ_BENCH_SUPPORT_NETWORK_HPP

#include <string>
#include <vector>

#include "shapes.hpp"

namespace intq_bench {

/// One operator. Convolutions and linear layers hold their bias, their add and their activation.
struct NetworkStep {
    std::string name;
    LayerShape shape;  // op: quantize, conv2d, linear, max_pool2d, avg_pool2d or dequantize
    intq::Activation activation = intq::Activation::none;
    int input = 0, sumin = -1, output = 0;  // tensors; sumin is the operand of the add
};

/// In the order of running; tensor 0 is the float image.
struct Network {
    std::string name;
    std::vector<NetworkStep> steps;

    /// Of convolutions and linear layers: multiplications and additions, taps on padding counted.
    double operations() const;
};

/// One line a step, for the scripts that run other libraries:
///
///     op name input sumin output channels height width outputs kernel stride padding groups activation
///
/// with `KHxKW`, `SHxSW` and `top,left,bottom,right`.
///
/// @throws Error where the file cannot be written
void write_network(const Network& network, const std::string& path);

}  // namespace intq_bench

#endif  // INTQ_BENCH_SUPPORT_NETWORK_HPP
