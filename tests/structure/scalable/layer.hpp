// SPDX-License-Identifier: MIT
//
// The layer on which scalable vectors are proven, its two packings, and plain loops that say what it gives.
// See docs/scalable_vectors.md.
#ifndef INTQ_TESTS_STRUCTURE_SCALABLE_LAYER_HPP
#define INTQ_TESTS_STRUCTURE_SCALABLE_LAYER_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "intq/embedded.hpp"

namespace intq::test {

/// A tag, as simd/base/tags.hpp has them. A panel of 16 columns is 4, 2 or 1 vectors of int32 at 128, 256 and 512 bits.
struct sve : simd::scalar {
    static constexpr const char* name = "sve";
    static constexpr simd::Packing int8_packing{16, 4, simd::Staging::as_is};
};

/// A convolution with padding, groups of input channels that are not filled, and a last panel that is not filled.
struct Layer {
    static constexpr index_t inputs = 37, outputs = 40;
    static constexpr Size2d in{9, 11};
    // Without the dilation, taps of a row would be merged and the input staged.
    static constexpr Window2d window{
        .kernel{3, 3}, .stride{1, 1}, .padding{.top = 1, .left = 2, .bottom = 1, .right = 2}, .dilation{1, 2}};

    std::vector<std::int8_t> x;      // (H, W, I)
    std::vector<std::int8_t> w;      // (O, I, KH, KW)
    std::vector<std::int64_t> bias;  // (O)

    Layer() : x(size(in.height * in.width * inputs)), w(size(outputs * inputs * 9)), bias(size(outputs)) {
        for (std::int8_t& code : x) code = next_code();
        for (std::int8_t& code : w) code = next_code();
        for (std::int64_t& code : bias) code = static_cast<std::int32_t>(next()) >> 4;
    }

    static std::size_t size(index_t n) { return static_cast<std::size_t>(n); }

    /// What the library is told of it: the sums themselves are its output.
    kernels::Conv2dSpec spec() const {
        kernels::Conv2dSpec spec;
        spec.window = window;
        spec.in_channels = inputs;
        spec.out_channels = outputs;
        spec.output_dtype = DType::int32;
        spec.input = QParams::per_tensor(1.0f, 0, DType::int8);
        spec.weight = QParams::per_tensor(1.0f, 0, DType::int8);
        spec.weight_codes = w.data();
        spec.bias_codes = bias.data();
        return spec;
    }

    /// The sum of one output pixel and channel, modulo 2^32.
    std::int32_t expected(index_t oy, index_t ox, index_t o) const {
        auto sum = static_cast<std::uint32_t>(bias[size(o)]);
        for (index_t ky = 0; ky < 3; ++ky)
            for (index_t kx = 0; kx < 3; ++kx) {
                const index_t y = oy + ky - 1, from = ox + 2 * kx - 2;
                if (y < 0 || y >= in.height || from < 0 || from >= in.width) continue;
                for (index_t i = 0; i < inputs; ++i) {
                    const int a = x[size((y * in.width + from) * inputs + i)];
                    const int b = w[size(((o * inputs + i) * 3 + ky) * 3 + kx)];
                    sum += static_cast<std::uint32_t>(a * b);
                }
            }
        return static_cast<std::int32_t>(sum);
    }

private:
    std::uint32_t next() {
        state_ = state_ * 1664525u + 1013904223u;
        return state_ >> 8 | state_ << 24;
    }
    /// A third of them the ends of the type.
    std::int8_t next_code() {
        const std::uint32_t word = next();
        if (word % 6 < 2) return word % 6 == 0 ? std::int8_t{-128} : std::int8_t{127};
        return static_cast<std::int8_t>(word >> 8);
    }

    std::uint32_t state_ = 7;
};

/// The layer packed by the library, in its own storage.
template <class Backend> struct PackedLayer {
    explicit PackedLayer(const Layer& layer) {
        const auto rules = kernels::packing_rules<target::fp32, Backend>();
        const kernels::Conv2dSpec spec = layer.spec();
        bytes = kernels::packed_conv2d_size(rules, spec);
        storage.resize(static_cast<std::size_t>(bytes + buffer_alignment));
        result = kernels::pack_conv2d(rules, spec, {data(), bytes});
    }
    /// Aligned.
    std::byte* data() {
        const auto address = reinterpret_cast<std::uintptr_t>(storage.data());
        return storage.data() + (static_cast<std::uintptr_t>(-address) % std::uintptr_t{buffer_alignment});
    }

    std::vector<std::byte> storage;
    index_t bytes = 0;
    Result<kernels::PackedConv2d> result = kernels::PackedConv2d{};
};

}  // namespace intq::test

#endif  // INTQ_TESTS_STRUCTURE_SCALABLE_LAYER_HPP
