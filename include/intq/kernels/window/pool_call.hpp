// SPDX-License-Identifier: MIT
//
// One run of a pooling, as a function pointer takes it, its check and its row. Layer: kernels.
#ifndef INTQ_KERNELS_WINDOW_POOL_CALL_HPP
#define INTQ_KERNELS_WINDOW_POOL_CALL_HPP

#include "intq/arith/pool.hpp"
#include "intq/core/executor.hpp"
#include "intq/core/op_params.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// One run of a pooling, as a function pointer takes it. x and y are channels last.
struct PoolCall {
    const Window2d* window = nullptr;
    const arith::AverageParams* average = nullptr;  // not read by max
    const void* x = nullptr;
    void* y = nullptr;
    index_t batch = 0;
    index_t channels = 0;
    Size2d in{0, 0};
    Size2d out{0, 0};
    const Executor* executor = nullptr;
    index_t cut = 0;  // rows of the window's upper padding that a band does not have
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

namespace detail {

/// Whether the windows along an axis that start in its padding all see a cell; those that start in the image do.
constexpr bool all_see_a_cell(index_t out, index_t stride, index_t padding, index_t dilation, index_t extent) noexcept {
    if (dilation <= extent) return true;  // taps that are no further apart than the image is wide do not straddle it
    for (index_t at = 0; at < out && at * stride < padding; ++at) {
        const index_t missed = (padding - at * stride) % dilation;  // how far the last tap before the image is from it
        if (missed != 0 && dilation - missed >= extent) return false;
    }
    return true;
}

}  // namespace detail

/// @return ok; the errors of check_window(), check_image() and check_span(); padding as large as the window, and
///         dilation with which a window straddles the image: it would see no cell
constexpr Status check_pool(const Window2d& window, Size2d in, OpKind op) noexcept {
    if (const Status status = check_window(window, op); !status) return status;
    if (const Status status = check_image(in, op); !status) return status;
    const auto& [kernel, stride, padding, dilation] = window;
    const index_t reach_y = dilation.height * (kernel.height - 1) + 1;
    const index_t reach_x = dilation.width * (kernel.width - 1) + 1;
    for (const index_t pad : {padding.top, padding.bottom})
        if (pad >= reach_y) return {StatusCode::value_out_of_range, op, Field::padding, pad, reach_y - 1};
    for (const index_t pad : {padding.left, padding.right})
        if (pad >= reach_x) return {StatusCode::value_out_of_range, op, Field::padding, pad, reach_x - 1};
    if (const Status status = check_span(window, in, op); !status) return status;
    const Size2d out = output_size(window, in);
    if (!detail::all_see_a_cell(out.height, stride.height, padding.top, dilation.height, in.height))
        return {StatusCode::value_out_of_range, op, Field::dilation, dilation.height, in.height};
    if (!detail::all_see_a_cell(out.width, stride.width, padding.left, dilation.width, in.width))
        return {StatusCode::value_out_of_range, op, Field::dilation, dilation.width, in.width};
    return {};
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// A part of an average over a whole image, which comes some rows at a time.
struct PoolSums {
    std::int32_t* sums = nullptr;  // one for each channel; the codes may be written over them
    bool is_first = false;         // the sums are not read
    bool is_last = false;          // the codes are written
};

struct PoolRow {
    OpKind op;
    arith::AverageRule rule;  // of avg_pool2d
    DType dtype;
    void (*run)(const PoolCall&);
};

/// An average over a whole image, whose rows come in parts: adds the rows of a call to sums.
struct PoolSumRow {
    arith::AverageRule rule;
    DType dtype;
    void (*run)(const PoolCall&, const PoolSums&);
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_WINDOW_POOL_CALL_HPP
