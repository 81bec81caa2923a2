// SPDX-License-Identifier: MIT
//
// A convolution with unpredictable operands, packed for one kernel table: what benches run.
#ifndef INTQ_BENCH_SUPPORT_CONV_CASE_HPP
#define INTQ_BENCH_SUPPORT_CONV_CASE_HPP

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "intq/kernels/conv2d.hpp"
#include "intq/quantization/owned_program.hpp"
#include "shapes.hpp"

namespace intq_bench {

/// int8 operands from a fixed seed; scales such that outputs use the whole range.
class ConvCase {
public:
    ConvCase(const intq::kernels::KernelTable& table, const LayerShape& shape) : table_(&table) {
        std::mt19937 random(1);
        const auto fill = [&](std::vector<std::int8_t>& codes, intq::index_t size) {
            codes.resize(static_cast<std::size_t>(size));
            for (auto& code : codes) code = static_cast<std::int8_t>(random());
        };
        const intq::index_t depth = shape.channels * shape.window.kernel.height * shape.window.kernel.width;
        fill(weights_, shape.outputs * depth);
        fill(x_, shape.channels * shape.in.height * shape.in.width);
        scales_.resize(static_cast<std::size_t>(shape.outputs));
        for (auto& scale : scales_) scale = 0.01f + 1e-5f * static_cast<float>(random() % 100);

        intq::kernels::Conv2dSpec spec;
        spec.op = shape.op;
        spec.window = shape.window;
        spec.in_channels = shape.channels;
        spec.out_channels = shape.outputs;
        spec.input = intq::QParams::per_tensor(0.02f, 0, intq::DType::int8);
        spec.weight = intq::QParams::per_channel(scales_, {}, 0, -128, 127);
        const float spread = 0.02f * 0.01f * 74.0f * 74.0f * static_cast<float>(std::sqrt(static_cast<double>(depth)));
        spec.output = intq::QParams::per_tensor(spread / 40.0f, 0, intq::DType::int8);
        spec.weight_codes = weights_.data();
        packed_bytes_ = intq::quantization::AlignedBytes(intq::kernels::packed_conv2d_size(table.packing, spec));
        packed_ = intq::value_or_throw(intq::kernels::pack_conv2d(table.packing, spec, packed_bytes_.workspace()),
                                       shape.name);
        geometry_bytes_ = intq::quantization::AlignedBytes(intq::kernels::conv2d_geometry_size(shape.window, shape.in));
        geometry_ = intq::value_or_throw(
            intq::kernels::make_conv2d_geometry(shape.window, 1, shape.in, geometry_bytes_.workspace()), shape.name);
        scratch_ = intq::quantization::AlignedBytes(intq::kernels::conv2d_workspace_size(packed_, geometry_));
        y_.resize(static_cast<std::size_t>(geometry_.out_pixels() * shape.outputs));
        kernel_ = intq::kernels::find_conv(table, packed_);
    }

    void run() {
        const void* const x = table_->stage(packed_, geometry_, x_.data(), scratch_.workspace(), intq::serial);
        kernel_->run({&packed_, &geometry_, x, nullptr, y_.data(), &intq::serial});
    }
    const std::vector<std::int8_t>& output() const { return y_; }

private:
    const intq::kernels::KernelTable* table_;
    const intq::kernels::ConvRow* kernel_ = nullptr;
    std::vector<std::int8_t> weights_, x_, y_;
    std::vector<float> scales_;
    intq::quantization::AlignedBytes packed_bytes_, geometry_bytes_, scratch_;
    intq::kernels::PackedConv2d packed_{};
    intq::kernels::ConvGeometry geometry_{};
};

}  // namespace intq_bench

#endif  // INTQ_BENCH_SUPPORT_CONV_CASE_HPP
