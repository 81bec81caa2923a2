// SPDX-License-Identifier: MIT
//
// One run of add, requantize, relu and mul, as a function pointer takes it, and the rows of these kernels. Layer:
// kernels.
#ifndef INTQ_KERNELS_STREAMING_ELEMENTWISE_CALL_HPP
#define INTQ_KERNELS_STREAMING_ELEMENTWISE_CALL_HPP

#include "intq/arith/elementwise.hpp"
#include "intq/core/executor.hpp"
#include "intq/core/layout.hpp"
#include "intq/core/shape.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// The elements of two operands that a broadcast output reads: axes in the order of the output's memory, the last one
/// dense.
///
///     out[(i0·extents[1] + i1)·… + i] = x[i0·steps[0][0] + i1·steps[0][1] + … ] with y[i0·steps[1][0] + …]
///
/// A step is 0 along an axis where the operand repeats. In the last axis it is 0 or 1.
struct PairWalk {
    int rank = 1;
    index_t extents[max_rank] = {1, 1, 1, 1, 1, 1};
    index_t steps[2][max_rank] = {};
};

/// One run of an add, as a function pointer takes it. Elements in any order that x, y and out share.
struct AddCall {
    const arith::AddParams* params = nullptr;
    const void* x = nullptr;
    const void* y = nullptr;
    void* out = nullptr;
    index_t size = 0;
    const Executor* executor = nullptr;
    const PairWalk* walk = nullptr;  // of operands that are broadcast; null where both have every element
};

struct AddRow {
    DType dtype;
    const char* policy;
    void (*run)(const AddCall&);
};

/// Codes of one tensor at another scale; see make_requantize.
struct RequantizeParams {
    bool is_identity = false;  // equal scales, zero points and types, nothing to clamp: codes pass through
    std::int32_t zero_point = 0;
    arith::ChannelWords words{};
    arith::OutputCodes codes{};
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

/// Whether operands of shapes a and b make an output: ranks are equal, the first extent (the samples) too, and each
/// other extent is the output's or 1.
constexpr bool is_broadcast(const Shape& a, const Shape& b, const Shape& out) noexcept {
    if (a.rank != out.rank || b.rank != out.rank || out.rank < 1) return false;
    for (int axis = 0; axis < out.rank; ++axis) {
        const index_t larger = a[axis] > b[axis] ? a[axis] : b[axis];
        const bool fits = (a[axis] == larger || a[axis] == 1) && (b[axis] == larger || b[axis] == 1);
        if (!fits || out[axis] != larger || (axis == 0 && a[axis] != b[axis])) return false;
    }
    return true;
}

/// The walk over an output whose operands are broadcast.
///
/// @param layout  of all three: channels_last or row_major
/// @pre is_broadcast()
constexpr PairWalk make_pair_walk(const Shape& a, const Shape& b, const Shape& out,
                                  Layout layout = Layout::channels_last) noexcept {
    // From the inside, in the order of memory: channels where they are last, then the last axis to the first.
    PairWalk inside_out{};
    inside_out.rank = 0;
    index_t dense[2] = {1, 1};
    const auto take = [&](int axis) {
        const index_t extent = out[axis];
        index_t steps[2] = {};
        for (int operand = 0; operand < 2; ++operand) {
            const index_t own = operand == 0 ? a[axis] : b[axis];
            steps[operand] = own == extent ? dense[operand] : 0;
            dense[operand] *= own;
        }
        if (extent == 1) return;
        const int last = inside_out.rank - 1;
        const auto goes_on = [&](int operand) {
            return steps[operand] == inside_out.extents[last] * inside_out.steps[operand][last];
        };
        if (last >= 0 && goes_on(0) && goes_on(1)) {
            inside_out.extents[last] *= extent;
            return;
        }
        inside_out.extents[inside_out.rank] = extent;
        for (int operand = 0; operand < 2; ++operand) inside_out.steps[operand][inside_out.rank] = steps[operand];
        ++inside_out.rank;
    };
    const bool has_channels_last = layout == Layout::channels_last && out.rank > 1;
    if (has_channels_last) take(1);
    for (int axis = out.rank - 1; axis >= 0; --axis)
        if (axis != 1 || !has_channels_last) take(axis);
    PairWalk walk{};
    walk.rank = inside_out.rank > 0 ? inside_out.rank : 1;
    walk.steps[0][0] = walk.steps[1][0] = 1;
    for (int axis = 0; axis < inside_out.rank; ++axis) {
        const int from = inside_out.rank - 1 - axis;
        walk.extents[axis] = inside_out.extents[from];
        for (int operand = 0; operand < 2; ++operand) walk.steps[operand][axis] = inside_out.steps[operand][from];
    }
    return walk;
}

/// Parameters of code -> code.
///
///     y = requantize(x - zp_in);  bpu: pre = 0;  equal scale, zero point and type, and all codes legal: identity
///
/// @param given  a multiplier from outside, in place of the scales; null: none
/// @return the errors of arith::check_codes() and check_result(); scale_out_of_range naming scale_ratio; the errors of
///         given_multiplier_words()
constexpr Result<RequantizeParams> make_requantize(const arith::PolicyRecord& policy, const arith::CodesOf& in,
                                                   const arith::CodesOf& out, const arith::OutputCodes& codes,
                                                   const arith::QuantizedMultiplier* given = nullptr) noexcept {
    constexpr OpKind op = OpKind::requantize;
    if (const Status status = arith::check_codes(policy, in, op, Field::input); !status) return status;
    if (const Status status = arith::check_result(policy, out, codes, op); !status) return status;
    RequantizeParams params{};
    params.zero_point = in.zero_point;
    params.codes = codes;
    params.is_identity = given == nullptr && in.scale == out.scale && in.zero_point == out.zero_point &&
                         in.dtype == out.dtype && codes.lowest == lowest_code(out.dtype) &&
                         codes.highest == highest_code(out.dtype);
    const arith::SumRange range{lowest_code(in.dtype) - in.zero_point, highest_code(in.dtype) - in.zero_point};
    const auto words = given != nullptr
                           ? arith::given_multiplier_words(policy, *given, 32, range)
                           : arith::make_requantize_words(policy, arith::RequantizeSource::code,
                                                          {in.scale, 1.0f, out.scale}, in.dtype, out.dtype, range);
    if (!words) {
        if (params.is_identity) return params;
        return words.status();
    }
    params.words = *words;
    return params;
}

/// Checks parameters from anywhere: those of make_requantize() pass.
///
/// @return ok; zero_point or quant_range as arith::check_output_codes() says; corrupt of scale: words with which the
///         formula would leave its types, or codes that pass through to another type
constexpr Status check_requantize_params(const arith::PolicyRecord& policy, const RequantizeParams& params, DType in,
                                         DType out, OpKind op) noexcept {
    if (const Status status = arith::check_zero_point(policy, params.zero_point, in, op); !status) return status;
    if (const Status status = arith::check_output_codes(policy, params.codes, out, op); !status) return status;
    if (arith::are_words(policy.requantize, params.words, 32) && (!params.is_identity || in == out)) return {};
    return {StatusCode::corrupt, op, Field::scale, 0, 0};
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

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

struct RequantizeRow {
    DType input, output;
    const char* policy;
    void (*run)(const RequantizeCall&);
};

/// One run of relu on codes.
struct ClampCall {
    arith::OutputCodes codes{};
    const void* x = nullptr;
    void* y = nullptr;
    index_t size = 0;
    const Executor* executor = nullptr;
};

struct ClampRow {
    DType dtype;
    void (*run)(const ClampCall&);
};

/// One run of a product, as a function pointer takes it. Elements in any order that x, y and out share.
struct MulCall {
    const arith::MulParams* params = nullptr;
    const void* x = nullptr;
    const void* y = nullptr;
    void* out = nullptr;
    index_t size = 0;
    const Executor* executor = nullptr;
    const PairWalk* walk = nullptr;  // as of AddCall
};

struct MulRow {
    DType dtype;
    const char* policy;
    void (*run)(const MulCall&);
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_ELEMENTWISE_CALL_HPP
