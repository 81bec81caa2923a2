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
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

/// @return ok; kernel, stride or padding errors; padding as large as the kernel, where a window would see no
///         cell; shape_mismatch where there is no output
constexpr Status check_pool(const Window2d& window, Size2d in, OpKind op) noexcept {
    if (const Status status = check_window(window, op); !status) return status;
    const index_t reach_y = window.dilation.height * (window.kernel.height - 1) + 1;
    const index_t reach_x = window.dilation.width * (window.kernel.width - 1) + 1;
    for (const index_t pad : {window.padding.top, window.padding.bottom})
        if (pad >= reach_y) return {StatusCode::value_out_of_range, op, Field::padding, pad, reach_y - 1};
    for (const index_t pad : {window.padding.left, window.padding.right})
        if (pad >= reach_x) return {StatusCode::value_out_of_range, op, Field::padding, pad, reach_x - 1};
    const Size2d out = output_size(window, in);
    if (out.height < 1 || out.width < 1) return {StatusCode::shape_mismatch, op, Field::output, 0, 1};
    return {};
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

struct PoolRow {
    OpKind op;
    DType dtype;
    void (*run)(const PoolCall&);
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_WINDOW_POOL_CALL_HPP
