// SPDX-License-Identifier: MIT
//
// A convolution with unpredictable operands, packed for one kernel table: what benches run.
#ifndef INTQ_BENCH_SUPPORT_CONV_CASE_HPP
#define INTQ_BENCH_SUPPORT_CONV_CASE_HPP

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "element_types.hpp"
#include "intq/kernels/conv/conv2d.hpp"
#include "intq/kernels/conv/float_conv2d.hpp"
#include "intq/program/owned_program.hpp"
#include "shapes.hpp"

namespace intq_bench {

/// Bytes of `size` codes, uniform in [-reach, reach] or [0, reach]; floats are codes / reach.
inline std::vector<std::byte> random_elements(std::mt19937& random, intq::index_t size, intq::DType dtype,
                                              std::int32_t reach, bool is_nonnegative = false) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(size * size_of(dtype)));
    const auto store = [&](intq::index_t i, auto code) {
        std::memcpy(bytes.data() + i * static_cast<intq::index_t>(sizeof code), &code, sizeof code);
    };
    const std::int32_t lowest = is_nonnegative ? 0 : -reach;
    const auto span = static_cast<std::uint32_t>(reach - lowest + 1);
    for (intq::index_t i = 0; i < size; ++i) {
        const std::int32_t code = static_cast<std::int32_t>(random() % span) + lowest;
        if (dtype == intq::DType::int8) store(i, static_cast<std::int8_t>(code));
        if (dtype == intq::DType::int16) store(i, static_cast<std::int16_t>(code));
        if (dtype == intq::DType::float32) store(i, static_cast<float>(code) / static_cast<float>(reach));
    }
    return bytes;
}

/// The float kernel of a backend, or null: float layers have no target.
struct FloatKernel {
    intq::kernels::FloatPacking packing{};
    void (*run)(const intq::kernels::ConvCall& call) = nullptr;
};

/// Operands from a fixed seed, with a bias; scales such that outputs use the whole range. Weights of layers with int16
/// activations and sums of 32 bits are as large as the proof of the accumulator allows, at most 127.
class ConvCase {
public:
    /// @param floats  for float layers
    /// @throws Error where the target or backend refuses the layer, with the reason
    ConvCase(const intq::kernels::KernelTable& table, const FloatKernel& floats, const LayerShape& shape,
             const ElementTypes& types)
        : table_(&table), is_float_(types.input == intq::DType::float32), is_reproducible_(types.is_reproducible) {
        const intq::kernels::Conv2dSpec spec = make_spec(shape, types);
        if (is_float_ && floats.run == nullptr) throw intq::Error("float layers have no target");
        if (is_float_) {
            pack_float(floats, spec);
        } else {
            packed_bytes_ = intq::program::AlignedBytes(intq::kernels::packed_conv2d_size(table.packing, spec));
            packed_ = intq::value_or_throw(intq::kernels::pack_conv2d(table.packing, spec, packed_bytes_.workspace()));
            const intq::kernels::ConvRow* const row = intq::kernels::find_conv(table.conv, packed_);
            if (row == nullptr) throw intq::Error("the table of kernels has no row for it");
            run_ = row->run;
        }
        geometry_ = intq::value_or_throw(intq::kernels::make_conv2d_geometry(shape.window, shape.batch, shape.in));
        scratch_ = intq::program::AlignedBytes(intq::kernels::conv2d_workspace_size(packed_, geometry_));
        y_ = intq::program::AlignedBytes(shape.out_elements() * size_of(types.output));
    }

    void run() {
        const void* const x =
            is_float_ ? x_.data() : table_->stage(packed_, geometry_, x_.data(), scratch_.workspace(), intq::serial);
        run_({&packed_, &geometry_, x, nullptr, y_.data(), &intq::serial, scratch_.workspace().data});
    }
    /// The same bytes; of floats, where backends contract products and sums or not, equal to 10^-4 of the largest.
    bool has_output_of(const ConvCase& other) const {
        if (y_.size() != other.y_.size()) return false;
        if (!is_float_ || is_reproducible_)
            return std::memcmp(y_.data(), other.y_.data(), static_cast<std::size_t>(y_.size())) == 0;
        const auto* const a = reinterpret_cast<const float*>(y_.data());
        const auto* const b = reinterpret_cast<const float*>(other.y_.data());
        const intq::index_t size = y_.size() / static_cast<intq::index_t>(sizeof(float));
        float largest = 0.0f, difference = 0.0f;
        for (intq::index_t i = 0; i < size; ++i) {
            largest = std::max(largest, std::fabs(b[i]));
            difference = std::max(difference, std::fabs(a[i] - b[i]));
        }
        return difference <= 1e-4f * largest;
    }

private:
    static std::int32_t reach_of(intq::DType dtype) { return dtype == intq::DType::int16 ? 32767 : 127; }

    void pack_float(const FloatKernel& floats, const intq::kernels::Conv2dSpec& spec) {
        intq::kernels::FloatConv2dSpec real;
        real.op = spec.op;
        real.window = spec.window;
        real.in_channels = spec.in_channels;
        real.out_channels = spec.out_channels;
        real.groups = spec.groups;
        real.weight = static_cast<const float*>(spec.weight_codes);
        real.bias = spec.bias;
        packed_bytes_ = intq::program::AlignedBytes(intq::kernels::packed_float_conv2d_size(floats.packing, real));
        packed_ =
            intq::value_or_throw(intq::kernels::pack_float_conv2d(floats.packing, real, packed_bytes_.workspace()));
        run_ = floats.run;
    }

    intq::kernels::Conv2dSpec make_spec(const LayerShape& shape, const ElementTypes& types) {
        std::mt19937 random(1);
        const double depth = static_cast<double>(shape.depth());
        const bool is_proven = types.input == intq::DType::int16 &&
                               table_->policy().for_weights(types.weight).accumulator_bits(types.input) == 32;
        const std::int32_t x_reach = reach_of(types.input);
        const std::int32_t w_reach =
            is_proven ? std::clamp(static_cast<std::int32_t>(110000.0 / depth), 1, 127) : reach_of(types.weight);
        const std::vector<std::byte> x =
            random_elements(random, shape.in_elements(), types.input, x_reach, types.is_nonnegative);
        x_ = intq::program::AlignedBytes(static_cast<intq::index_t>(x.size()));
        std::memcpy(x_.data(), x.data(), x.size());
        weights_ = random_elements(random, shape.weight_elements(), types.weight, w_reach);

        // The standard deviation of a sum of products of uniform codes.
        const double deviation = x_reach / std::sqrt(3.0) * w_reach / std::sqrt(3.0) * std::sqrt(depth);
        const float s_in = 0.02f, s_w = 0.01f;
        const auto real = static_cast<float>(deviation) * s_in * s_w;
        scales_.resize(static_cast<std::size_t>(shape.outputs));
        for (auto& scale : scales_) scale = s_w + 1e-5f * static_cast<float>(random() % 100);
        bias_.resize(scales_.size());
        for (auto& bias : bias_) bias = real * 0.01f * (static_cast<float>(random() % 201) - 100.0f);

        intq::kernels::Conv2dSpec spec;
        spec.op = shape.op;
        spec.window = shape.window;
        spec.in_channels = shape.channels;
        spec.out_channels = shape.outputs;
        spec.groups = shape.groups;
        spec.input_dtype = types.input;
        spec.weight_dtype = types.weight;
        spec.output_dtype = types.output;
        spec.input_is_nonnegative = types.is_nonnegative;
        if (types.input != intq::DType::float32) {
            spec.input = intq::QParams::per_tensor(s_in, 0, types.input);
            spec.weight =
                intq::QParams::per_channel(scales_, {}, 0, lowest_code(types.weight), highest_code(types.weight));
            spec.output =
                intq::QParams::per_tensor(real * 3.0f / static_cast<float>(reach_of(types.output)), 0, types.output);
        }
        spec.weight_codes = weights_.data();
        spec.bias = bias_.data();
        return spec;
    }

    const intq::kernels::KernelTable* table_;
    bool is_float_, is_reproducible_;
    void (*run_)(const intq::kernels::ConvCall& call) = nullptr;
    std::vector<std::byte> weights_;
    std::vector<float> scales_, bias_;
    intq::program::AlignedBytes x_, y_, packed_bytes_, scratch_;
    intq::kernels::PackedConv2d packed_{};
    intq::kernels::ConvGeometry geometry_{};
};

}  // namespace intq_bench

#endif  // INTQ_BENCH_SUPPORT_CONV_CASE_HPP
