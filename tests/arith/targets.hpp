// SPDX-License-Identifier: MIT
//
// Every target twice, as the library has it and as the oracle has it, and random operands that hurt.
#ifndef INTQ_TESTS_ARITH_TARGETS_HPP
#define INTQ_TESTS_ARITH_TARGETS_HPP

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <random>

#include "intq/arith/bpu.hpp"
#include "intq/arith/fp32.hpp"
#include "intq/arith/litert.hpp"
#include "intq/arith/make_requantize.hpp"
#include "intq/arith/tflite.hpp"
#include "reference/layers.hpp"

namespace intq::test {

namespace ref = intq_reference;
using arith::PolicyRecord;
using arith::scalar_lanes;

/// One target of the library and the same of the oracle.
template <class TargetType> struct Pair;
template <> struct Pair<target::fp32> {
    static ref::Target reference() { return ref::fp32(); }
};
template <> struct Pair<target::tflite<arith::double_rounding>> {
    static ref::Target reference() { return ref::tflite_double(); }
};
template <> struct Pair<target::tflite<arith::single_rounding>> {
    static ref::Target reference() { return ref::tflite_single(); }
};
template <> struct Pair<target::litert> {
    static ref::Target reference() { return ref::litert(); }
};
template <> struct Pair<target::bpu<march::bernoulli2>> {
    static ref::Target reference() { return ref::bernoulli2(); }
};
template <> struct Pair<target::bpu<march::bayes>> {
    static ref::Target reference() { return ref::bayes(); }
};
template <> struct Pair<target::bpu<march::meta>> {
    static ref::Target reference() { return ref::meta(); }
};

template <class TargetType>
inline constexpr bool is_bpu = TargetType::policy.requantize == arith::RequantizeRule::two_stage;

/// Calls function(TargetType{}) for every target that the library ships.
template <class Function> void for_each_target(Function&& function) {
    function(target::fp32{});
    function(target::tflite<arith::double_rounding>{});
    function(target::tflite<arith::single_rounding>{});
    function(target::bpu<march::bernoulli2>{});
    function(target::bpu<march::bayes>{});
    function(target::bpu<march::meta>{});
    function(target::litert{});
}

/// Whether a target has activations of a type at all.
template <class TargetType> bool takes(DType dtype) {
    return Pair<TargetType>::reference().widest_activation >= 8 * static_cast<int>(size_of(dtype));
}

inline ref::QParams codes_of(DType dtype, float scale, std::int64_t zero_point = 0) {
    return dtype == DType::int16 ? ref::int16(scale, zero_point) : ref::int8(scale, zero_point);
}

inline arith::OutputCodes output_codes(const ref::QParams& out) {
    return arith::make_output_codes(out.qmin, out.qmax, static_cast<std::int32_t>(out.zero_point), out.scale,
                                    Activation::none);
}

/// The oracle's value, or nothing where it refuses.
template <class Function> std::optional<std::int64_t> unless_refused(Function&& function) {
    try {
        return function();
    } catch (const ref::Refused&) {
        return std::nullopt;
    }
}

/// Random numbers of a fixed seed, dense where formulas change their branch.
class Random {
public:
    explicit Random(std::uint64_t seed) : engine_(seed) {}

    std::int64_t between(std::int64_t lowest, std::int64_t highest) {
        return std::uniform_int_distribution<std::int64_t>(lowest, highest)(engine_);
    }
    bool one_in(int n) { return between(1, n) == 1; }
    /// An integer of every magnitude up to 2^bits: any sign, powers of two and their neighbours among them.
    std::int64_t integer(int bits) {
        const auto shift = static_cast<int>(between(0, bits));
        const std::int64_t power = std::int64_t{1} << shift;
        const std::int64_t value = one_in(4) ? power + between(-2, 1) : between(0, power - 1);
        return one_in(2) ? -value : value;
    }
    /// 2^low … 2^high, log-uniform; one in eight is a power of two or its neighbour.
    float scale(double low, double high) {
        const double exponent = std::uniform_real_distribution<double>(low, high)(engine_);
        if (!one_in(8)) return static_cast<float>(std::exp2(exponent));
        const float power = std::ldexp(1.0f, static_cast<int>(std::floor(exponent)));
        return one_in(3) ? std::nextafter(power, 0.0f) : one_in(2) ? std::nextafter(power, 2.0f * power) : power;
    }
    std::int64_t code(const ref::QParams& q) {
        if (one_in(8)) return one_in(2) ? q.qmin : q.qmax;
        return between(q.qmin, q.qmax);
    }

private:
    std::mt19937_64 engine_;
};

/// Accumulator -> code by the library: the policy's formula on scalar lanes with given words.
template <class TargetType, class Acc>
std::int32_t requantize(Acc acc, const arith::ChannelWords& words, const arith::OutputCodes& codes) {
    using Policy = arith::RequantizePolicy<TargetType, Acc>;
    const auto channel = Policy::template load<scalar_lanes>(words.data(), 1);
    return Policy::template apply<scalar_lanes>(acc, channel, arith::OutputLanes<scalar_lanes>(codes));
}

}  // namespace intq::test

#endif  // INTQ_TESTS_ARITH_TARGETS_HPP
