// SPDX-License-Identifier: MIT
//
// An imported network beside what ONNX Runtime makes of it: in float, and quantized for target::fp32.
#ifndef INTQ_TESTS_INTEROP_ONNX_TORCHVISION_HPP
#define INTQ_TESTS_INTEROP_ONNX_TORCHVISION_HPP

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "intq/arith/fp32.hpp"
#include "intq/graph/graph_module.hpp"
#include "intq/interop/onnx/import.hpp"
#include "intq/io/npy.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/qconfig/qconfig_factories.hpp"

namespace intq::test {

inline intq::Tensor read_floats(const std::filesystem::path& path) {
    const io::NpyArray array = io::read_npy(path);
    Shape shape;
    for (const index_t extent : array.shape) shape.extents[static_cast<std::size_t>(shape.rank++)] = extent;
    return intq::Tensor::from(shape, array.as<float>());
}

/// 10·log10(|x|² / |x - y|²)
inline double decibels(const intq::Tensor& expected, const intq::Tensor& given) {
    const intq::Tensor x = expected.contiguous(), y = given.contiguous();
    double signal = 0, noise = 0;
    for (std::size_t i = 0; i < x.flat<float>().size(); ++i) {
        const double value = static_cast<double>(x.flat<float>()[i]);
        const double difference = value - static_cast<double>(y.flat<float>()[i]);
        signal += value * value;
        noise += difference * difference;
    }
    return 10.0 * std::log10(signal / noise);
}

/// The largest difference, over the largest magnitude.
inline double relative_error(const intq::Tensor& expected, const intq::Tensor& given) {
    const intq::Tensor x = expected.contiguous(), y = given.contiguous();
    double largest = 0, worst = 0;
    for (std::size_t i = 0; i < x.flat<float>().size(); ++i) {
        const double value = static_cast<double>(x.flat<float>()[i]);
        const double difference = std::abs(value - static_cast<double>(y.flat<float>()[i]));
        largest = std::max(largest, std::abs(value));
        worst = difference <= worst ? worst : difference;  // keeps a NaN
    }
    return worst / largest;
}

/// Min/max over all images, and int8 weights by channel in -127 … 127, as ONNX Runtime's static quantization has them.
inline quantization::QConfigMapping min_max_mapping(DType activations, arith::QuantScheme scheme) {
    quantization::QConfigArguments arguments{.dtype = activations, .activation_observer = "min_max"};
    arguments.activation_qkwargs = [scheme](quantization::FakeQuantizeOptions& options) {
        options.observer_options.scheme = scheme;
    };
    arguments.weight_qkwargs = [](quantization::FakeQuantizeOptions& options) {
        options.observer_options.quant_min = -127;
        options.observer_options.quant_max = 127;
    };
    return std::move(quantization::QConfigMapping().set_global(quantization::get_default_calib_qconfig(arguments)));
}

/// The network for target::fp32, calibrated on all images; an operator that stays in float is an error.
inline quantization::QuantizedGraph quantized_whole(const graph::GraphModule& model, const intq::Tensor& images,
                                                    DType activations, arith::QuantScheme scheme, index_t batch) {
    const auto with_stubs = quantization::traced_clone(model);
    quantization::add_stubs(*with_stubs);
    quantization::PrepareOptions options;
    options.strict = true;
    // ONNX Runtime quantizes what a Concat reads on the grid of its output, which rounds once. This does it here.
    options.optimize_graph = true;
    const auto prepared = quantization::prepare_calibration_fx(*with_stubs, min_max_mapping(activations, scheme),
                                                               target::fp32::policy, options);
    quantization::calibrate(*prepared, images, batch);
    return quantization::convert_fx(*prepared);
}

}  // namespace intq::test

#endif  // INTQ_TESTS_INTEROP_ONNX_TORCHVISION_HPP
