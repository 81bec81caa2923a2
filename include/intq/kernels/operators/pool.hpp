// SPDX-License-Identifier: MIT
//
// max_pool2d and avg_pool2d as operators of a program. Layer: kernels.
#ifndef INTQ_KERNELS_OPERATORS_POOL_HPP
#define INTQ_KERNELS_OPERATORS_POOL_HPP

#include <cstddef>
#include <cstdint>

#include "intq/arith/pool.hpp"
#include "intq/kernels/operators/operator.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// Parameters of a pooling instruction.
struct PoolParams {
    Window2d window{};
    arith::AverageParams average{};  // not read by max_pool2d
};
template <> inline constexpr ParamKind param_kind<PoolParams> = ParamKind::pool;

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

inline void describe_params(arith::AverageParams& average, auto& fields) {
    fields("rule", average.rule);
    fields("divisor", average.divisor);
    fields("kernel_cells", average.kernel_cells);
    fields("zero_point", average.zero_point);
    fields("s_in", average.s_in);
    fields("s_out", average.s_out);
    fields("words", average.words);
    fields("codes", average.codes);
}
inline void describe_params(PoolParams& step, auto& fields) {
    fields("window", step.window);
    fields("average", step.average);
}

namespace operators {

template <OpKind Op> bool has_pool(const KernelTable& table, const OperatorTypes& types) noexcept {
    return types.input == types.output &&
           detail::has_any(table.pool, [&](const PoolRow& row) { return row.op == Op && row.dtype == types.input; });
}

/// Whether a row can serve a call; rows of max_pool2d have no rule.
inline bool serves(const PoolRow& row, const OperatorCall& call, DType dtype) noexcept {
    return row.op == call.op && row.dtype == dtype &&
           (call.op != OpKind::avg_pool2d || row.rule == call.params_as<PoolParams>().average.rule);
}

inline Status check_pool(const OperatorCall& call) noexcept {
    const ArenaTensor &x = call.x(), &y = call.y();
    const auto& step = call.params_as<PoolParams>();
    // (N, C, L) are images of one row.
    if (x.shape.rank != 3 && x.shape.rank != 4) return detail::wrong_shape(call.op, Field::input, x.shape.rank, 4);
    if (y.dtype != x.dtype) return detail::wrong_dtype(call.op, Field::output, y.dtype, x.dtype);
    const Size2d in = image_of(x.shape).size;
    if (const Status status = kernels::check_pool(step.window, in, call.op); !status) return status;
    const Size2d out = output_size(step.window, in);
    if (x.shape.rank == 3 && out.height != 1) return detail::wrong_shape(call.op, Field::output, out.height, 1);
    Shape expected = x.shape;
    if (x.shape.rank == 4) expected[2] = out.height;
    expected[x.shape.rank - 1] = out.width;
    if (!(y.shape == expected)) return detail::wrong_shape(call.op, Field::output, y.shape.size(), expected.size());
    const bool has_row =
        detail::has_any(call.table.pool, [&](const PoolRow& row) { return row.op == call.op && row.dtype == x.dtype; });
    if (!has_row) return detail::no_kernel(call.op, x.dtype);
    if (call.op != OpKind::avg_pool2d) return {};
    const index_t cells = step.window.kernel.height * step.window.kernel.width;
    if (step.average.kernel_cells != cells) return corrupt(call.op, Field::kernel, step.average.kernel_cells, cells);
    if (const Status status = arith::check_average_params(call.table.policy(), step.average, x.dtype,
                                                          !(step.window.padding == Padding2d{}));
        !status)
        return status;
    const bool has_rule = detail::has_any(call.table.pool, [&](const PoolRow& r) { return serves(r, call, x.dtype); });
    return has_rule ? Status{} : detail::no_kernel(call.op, x.dtype);
}

inline bool pool_runs_by_rows(const OperatorCall& call) noexcept {
    return detail::sees_rows(call.params_as<PoolParams>().window);
}
inline RowRange rows_of_pool(const OperatorCall& call, index_t, RowRange rows) noexcept {
    return detail::rows_of_windows(call.params_as<PoolParams>().window, call.x().shape[2], rows);
}

inline bool serves(const PoolSumRow& row, const OperatorCall& call) noexcept {
    return row.dtype == call.x().dtype && row.rule == call.params_as<PoolParams>().average.rule;
}

/// The average of a whole image.
inline bool average_adds_rows(const OperatorCall& call) noexcept {
    const ArenaTensor &x = call.x(), &y = call.y();
    const auto& step = call.params_as<PoolParams>();
    if (x.shape.rank != 4) return false;
    const Window2d whole{{x.shape[2], x.shape[3]}, step.window.stride, {}, {1, 1}};
    return y.shape[2] == 1 && y.shape[3] == 1 && step.window == whole &&
           detail::has_any(call.table.pool_sums, [&](const PoolSumRow& row) { return serves(row, call); });
}
inline void add_rows_of_average(const OperatorCall& call) INTQ_NOEXCEPT {
    const auto& step = call.params_as<PoolParams>();
    const ArenaTensor& x = call.x();
    const RowRange rows = call.band->rows;
    const auto& row = detail::find_row(call.table.pool_sums, [&](const PoolSumRow& r) { return serves(r, call); });
    auto* const y = static_cast<std::byte*>(call.y_data());
    // The codes of an image behind the first may begin between two words; its sums begin at the next one. They end
    // within the words that the arena holds for all images.
    auto* const sums =
        reinterpret_cast<std::int32_t*>(y + (-reinterpret_cast<std::uintptr_t>(y) & (alignof(std::int32_t) - 1)));
    row.run({&step.window,
             &step.average,
             call.x_data(),
             y,
             1,
             x.shape[1],
             {rows.count(), x.shape[3]},
             {1, 1},
             call.executor},
            {sums, rows.first == 0, rows.last == x.shape[2]});
}

inline void run_pool(const OperatorCall& call) INTQ_NOEXCEPT {
    const auto& step = call.params_as<PoolParams>();
    const ArenaTensor &x = call.x(), &y = call.y();
    if (y.holds_sums() && call.band != nullptr) return add_rows_of_average(call);
    const auto& row = detail::find_row(call.table.pool, [&](const PoolRow& r) { return serves(r, call, x.dtype); });
    PoolCall run{&step.window, &step.average,          call.x_data(),          call.y_data(), call.batch,
                 x.shape[1],   image_of(x.shape).size, image_of(y.shape).size, call.executor};
    if (call.band != nullptr) {
        run.in.height = call.x_height();
        run.out.height = call.y_height();
        run.cut = detail::cut_padding(step.window, call.band->rows.first);
    }
    row.run(run);
}

/// A window has at least one cell (check_pool).
inline std::int64_t lowest_code_of_max_pool(const OperatorCall&) noexcept { return codes_of_operand; }

inline constexpr ProgramOperator max_pool2d_operator{.op = OpKind::max_pool2d,
                                                     .codes = CodesFollow::ends,
                                                     .channels = ChannelsFollow::each,
                                                     .check = &check_pool,
                                                     .run = &run_pool,
                                                     .lowest_code = &lowest_code_of_max_pool,
                                                     .has_kernel = &has_pool<OpKind::max_pool2d>,
                                                     .runs_by_rows = &pool_runs_by_rows,
                                                     .rows_of_operand = &rows_of_pool,
                                                     .params = param_struct<PoolParams>};
inline constexpr ProgramOperator avg_pool2d_operator{.op = OpKind::avg_pool2d,
                                                     .codes = CodesFollow::ends,
                                                     .channels = ChannelsFollow::each,
                                                     .check = &check_pool,
                                                     .run = &run_pool,
                                                     .has_kernel = &has_pool<OpKind::avg_pool2d>,
                                                     .runs_by_rows = &pool_runs_by_rows,
                                                     .rows_of_operand = &rows_of_pool,
                                                     .adds_rows = &average_adds_rows,
                                                     .params = param_struct<PoolParams>};

}  // namespace operators

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_OPERATORS_POOL_HPP
