// SPDX-License-Identifier: MIT
//
// Streaming kernels on codes: add, requantize, relu. Layer: kernels (DESIGN section 5, the third skeleton).
#ifndef INTQ_KERNELS_ELEMENTWISE_HPP
#define INTQ_KERNELS_ELEMENTWISE_HPP

#include "intq/arith/elementwise.hpp"
#include "intq/core/executor.hpp"
#include "intq/core/tensor_view.hpp"
#include "intq/simd/select.hpp"

namespace intq::inline INTQ_ABI::kernels {

namespace detail {

/// Elements that one task of the executor streams.
inline constexpr index_t stream_chunk = 16 * 1024;

/// Calls body(first, count) for vectors of [0, size): every count is the width but the last.
template <class L, class Body> INTQ_ALWAYS_INLINE void stream(index_t size, const Executor& executor, Body&& body) {
    executor((size + stream_chunk - 1) / stream_chunk, [&](index_t chunk) INTQ_ALWAYS_INLINE_LAMBDA {
        const index_t last = size - chunk * stream_chunk < stream_chunk ? size : (chunk + 1) * stream_chunk;
        for (index_t i = chunk * stream_chunk; i < last; i += L::width())
            body(i, last - i < L::width() ? last - i : L::width());
    });
}

}  // namespace detail

/// One run of an add, as a function pointer takes it. Elements in any order that x, y and out share.
struct AddCall {
    const arith::AddParams* params = nullptr;
    const void* x = nullptr;
    const void* y = nullptr;
    void* out = nullptr;
    index_t size = 0;
    const Executor* executor = nullptr;
};

/// out[i] = requantize(x[i]·s_x + y[i]·s_y), by the formula of the policy in arith/elementwise.hpp
///
/// @pre params made by arith::make_add; out may be x or y
/// Result   exact; the same bytes on every backend
/// Cost     O(n); bound by memory
template <class Backend, class Policy, class Code> void add_codes(const AddCall& call) INTQ_NOEXCEPT {
    using L = simd::lanes<Backend>;
    const arith::AddLanes<Policy, L> formula(*call.params);
    const auto* const x = static_cast<const Code*>(call.x);
    const auto* const y = static_cast<const Code*>(call.y);
    auto* const out = static_cast<Code*>(call.out);
    detail::stream<L>(call.size, *call.executor, [&](index_t i, index_t count) {
        L::store(out + i, formula.code(L::load(x + i, count), L::load(y + i, count)), count);
    });
}

/// Codes of one tensor at another scale; see make_requantize.
struct RequantizeParams {
    bool is_identity = false;  // equal scales, zero points and types: codes pass through
    std::int32_t zero_point = 0;
    arith::ChannelWords words{};
    arith::OutputCodes codes{};
};

/// Parameters of code -> code.
///
///     y = requantize(x - zp_in);  bpu: pre = 0;  equal scale, zero point and type: identity
///
/// @return unsupported, scale_out_of_range
constexpr Result<RequantizeParams> make_requantize(const arith::PolicyRecord& policy, const arith::CodesOf& in,
                                                   const arith::CodesOf& out,
                                                   const arith::OutputCodes& codes) noexcept {
    RequantizeParams params;
    params.zero_point = in.zero_point;
    params.codes = codes;
    params.is_identity = in.scale == out.scale && in.zero_point == out.zero_point && in.dtype == out.dtype;
    const arith::SumRange range{lowest_code(in.dtype) - in.zero_point, highest_code(in.dtype) - in.zero_point};
    const auto words = arith::make_requantize_words(policy, arith::RequantizeSource::code, {in.scale, 1.0f, out.scale},
                                                    in.dtype, out.dtype, range);
    if (!words) {
        if (params.is_identity) return params;
        return words.status();
    }
    params.words = *words;
    return params;
}

/// One run of requantize over rows of codes: `rows` rows of `columns`, strides in elements. A cat is one call an
/// input, into its slice of the channels.
struct RequantizeCall {
    const RequantizeParams* params = nullptr;
    const void* x = nullptr;
    void* y = nullptr;
    index_t rows = 1;
    index_t columns = 0;
    index_t x_stride = 0;
    index_t y_stride = 0;
    const Executor* executor = nullptr;
};

namespace detail {

/// The words of one channel in all lanes.
template <class Policy, class L>
INTQ_ALWAYS_INLINE typename Policy::template Channel<L> broadcast_channel(const arith::ChannelWords& words) {
    // Policies load from rows of words; a row of equal values is the broadcast.
    constexpr index_t width = 64;
    std::int32_t rows[std::size_t{5} * width];
    for (std::size_t word = 0; word < 5; ++word)
        for (std::size_t i = 0; i < width; ++i) rows[word * width + i] = words[word];
    return Policy::template load<L>(rows, width);
}

template <class T> void copy_rows(const RequantizeCall& call, const T* x, T* y) noexcept {
    for (index_t row = 0; row < call.rows; ++row)
        for (index_t i = 0; i < call.columns; ++i) y[row * call.y_stride + i] = x[row * call.x_stride + i];
}

}  // namespace detail

/// y[r][i] = requantize(x[r][i] - zp_in)
/// @pre params made by make_requantize
template <class Backend, class Policy, class X, class Y>
void requantize_codes(const RequantizeCall& call) INTQ_NOEXCEPT {
    using L = simd::lanes<Backend>;
    const auto* const x = static_cast<const X*>(call.x);
    auto* const y = static_cast<Y*>(call.y);
    if constexpr (std::is_same_v<X, Y>)
        if (call.params->is_identity) return detail::copy_rows(call, x, y);
    const auto channel = detail::broadcast_channel<Policy, L>(call.params->words);
    const arith::OutputLanes<L> out(call.params->codes);
    const auto zero_point = L::set(call.params->zero_point);
    (*call.executor)(call.rows, [&](index_t row) {
        for (index_t i = 0; i < call.columns; i += L::width()) {
            const index_t count = call.columns - i < L::width() ? call.columns - i : L::width();
            const auto code = L::sub(L::load(x + row * call.x_stride + i, count), zero_point);
            L::store(y + row * call.y_stride + i, Policy::template apply<L>(code, channel, out), count);
        }
    });
}

/// One run of relu on codes.
struct ClampCall {
    arith::OutputCodes codes{};
    const void* x = nullptr;
    void* y = nullptr;
    index_t size = 0;
    const Executor* executor = nullptr;
};

/// y[i] = clamp(x[i], lowest, highest): relu and relu6 on codes, exact; the scale stays.
template <class Backend, class Code> void clamp_codes(const ClampCall& call) INTQ_NOEXCEPT {
    using L = simd::lanes<Backend>;
    const arith::OutputLanes<L> out(call.codes);
    const auto* const x = static_cast<const Code*>(call.x);
    auto* const y = static_cast<Code*>(call.y);
    detail::stream<L>(call.size, *call.executor,
                      [&](index_t i, index_t count) { L::store(y + i, out.clamp(L::load(x + i, count)), count); });
}

}  // namespace intq::inline INTQ_ABI::kernels

#endif  // INTQ_KERNELS_ELEMENTWISE_HPP
