// SPDX-License-Identifier: MIT
//
// Numbers from a seed, the same on every machine, and codes as the oracle and as the library take them. Compiles
// without exceptions, for programs of boards.
#ifndef INTQ_TESTS_KERNELS_DRAWN_HPP
#define INTQ_TESTS_KERNELS_DRAWN_HPP

#include <cstdint>
#include <cstring>
#include <vector>

#include "intq/arith/elementwise.hpp"
#include "intq/core/op_params.hpp"
#include "intq/core/qparams.hpp"
#include "reference/description.hpp"
#include "support/guarded_buffer.hpp"

namespace intq::test {

namespace oracle = intq_reference;

inline int bits_of(DType dtype) { return static_cast<int>(8 * size_of(dtype)); }

/// A per-tensor scale and zero point with the whole range of its type.
struct Codes {
    float scale = 1.0f;
    std::int32_t zero_point = 0;
    DType dtype = DType::int8;

    std::int64_t lowest() const { return lowest_code(dtype); }
    std::int64_t highest() const { return highest_code(dtype); }
    oracle::QParams for_oracle() const { return {scale, zero_point, bits_of(dtype), lowest(), highest()}; }
    QParams for_library() const { return QParams::per_tensor(scale, zero_point, dtype); }
    arith::CodesOf codes_of() const { return {scale, zero_point, dtype}; }
    arith::OutputCodes output_codes(Activation activation = Activation::none) const {
        return arith::make_output_codes(lowest(), highest(), zero_point, scale, activation);
    }
};

inline oracle::Activation for_oracle(Activation activation) {
    return activation == Activation::relu    ? oracle::Activation::relu
           : activation == Activation::relu6 ? oracle::Activation::relu6
                                             : oracle::Activation::none;
}

/// Codes of the oracle (N, C, H, W) as the bytes of a channels-last tensor.
inline std::vector<unsigned char> channels_last_bytes(const oracle::Tensor& tensor, DType dtype) {
    std::vector<unsigned char> bytes;
    bytes.reserve(tensor.codes.size() * static_cast<std::size_t>(size_of(dtype)));
    const auto push = [&](auto code) {
        unsigned char raw[sizeof code];
        std::memcpy(raw, &code, sizeof code);
        bytes.insert(bytes.end(), raw, raw + sizeof code);
    };
    for (std::int64_t n = 0; n < tensor.n; ++n)
        for (std::int64_t h = 0; h < tensor.h; ++h)
            for (std::int64_t w = 0; w < tensor.w; ++w)
                for (std::int64_t c = 0; c < tensor.c; ++c) {
                    const std::int64_t code = oracle::at(tensor, n, c, h, w);
                    if (dtype == DType::int8) push(static_cast<std::int8_t>(code));
                    if (dtype == DType::int16) push(static_cast<std::int16_t>(code));
                    if (dtype == DType::int32) push(static_cast<std::int32_t>(code));
                }
    return bytes;
}

/// A buffer of exactly these bytes, beside a page without access.
class InputBytes {
public:
    explicit InputBytes(const std::vector<unsigned char>& bytes) : buffer_(bytes.size()) {
        if (!bytes.empty()) std::memcpy(buffer_.as<unsigned char>(), bytes.data(), bytes.size());
    }
    const void* data() { return buffer_.as<unsigned char>(); }

private:
    GuardedBuffer buffer_;
};

/// Small numbers from a seed; the same on every standard library, unlike its distributions.
class Draw {
public:
    explicit Draw(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}

    std::uint64_t bits() {
        state_ += 0x9E3779B97F4A7C15u;
        std::uint64_t z = state_;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }
    /// Uniform in [lowest, highest].
    std::int64_t between(std::int64_t lowest, std::int64_t highest) {
        return lowest + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(highest - lowest + 1));
    }
    /// The same as an extent, which has 32 bits on some machines.
    index_t extent(index_t lowest, index_t highest) { return static_cast<index_t>(between(lowest, highest)); }
    /// Uniform in [lowest, highest), on a grid of 2^-24 of it.
    float real(float lowest, float highest) {
        return lowest + (highest - lowest) * (static_cast<float>(bits() >> 40) * 0x1p-24f);
    }
    bool one_in(std::int64_t n) { return between(1, n) == 1; }

private:
    std::uint64_t state_;
};

/// Codes that hold both ends, 0, ±1 and values between.
inline std::int64_t draw_code(Draw& draw, std::int64_t lowest, std::int64_t highest) {
    switch (draw.between(0, 15)) {
        case 0:
            return lowest;
        case 1:
            return highest;
        case 2:
            return 0;
        case 3:
            return draw.between(-1, 1);
        default:
            return draw.between(lowest, highest);
    }
}

inline oracle::Tensor draw_tensor(Draw& draw, index_t n, index_t c, index_t h, index_t w, const Codes& codes) {
    oracle::Tensor tensor{std::vector<std::int64_t>(static_cast<std::size_t>(n * c * h * w)), n, c, h, w};
    for (std::int64_t& code : tensor.codes) code = draw_code(draw, codes.lowest(), codes.highest());
    return tensor;
}

}  // namespace intq::test

#endif  // INTQ_TESTS_KERNELS_DRAWN_HPP
