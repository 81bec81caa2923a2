// SPDX-License-Identifier: MIT
//
// KernelTable: the kernels of one target and backend as function pointers. Layer: kernels (DESIGN section 5).
//
// Rows name what a kernel is keyed on: requantize policy, types, fused add. What chooses an operator at run
// time (a program, the tests, the benches) reads rows; a kernel that has no row does not exist.
#ifndef INTQ_KERNELS_TABLE_KERNEL_TABLE_HPP
#define INTQ_KERNELS_TABLE_KERNEL_TABLE_HPP

#include <span>

#include "intq/arith/bpu.hpp"
#include "intq/arith/fp32.hpp"
#include "intq/arith/tflite.hpp"
#include "intq/kernels/conv/depthwise.hpp"
#include "intq/kernels/conv/pack.hpp"
#include "intq/kernels/conv/stage.hpp"
#include "intq/kernels/streaming/dequantize.hpp"
#include "intq/kernels/streaming/elementwise.hpp"
#include "intq/kernels/streaming/quantize_planes.hpp"
#include "intq/kernels/window/pool.hpp"
#include "intq/kernels/window/resize.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

/// A convolution kernel: GEMM or depthwise.
struct ConvRow {
    DType input, weight, output;
    int accumulator_bits;
    bool has_sumin;
    bool is_depthwise;
    const char* policy;
    void (*run)(const ConvCall&) INTQ_NOEXCEPT;
};
struct AddRow {
    DType dtype;
    const char* policy;
    void (*run)(const AddCall&) INTQ_NOEXCEPT;
};
struct RequantizeRow {
    DType input, output;
    const char* policy;
    void (*run)(const RequantizeCall&) INTQ_NOEXCEPT;
};
struct ClampRow {
    DType dtype;
    void (*run)(const ClampCall&) INTQ_NOEXCEPT;
};
struct MulRow {
    DType dtype;
    const char* policy;
    void (*run)(const MulCall&) INTQ_NOEXCEPT;
};
/// A table of 256 int8 or 513 int16 entries.
struct LookUpRow {
    DType dtype;
    void (*run)(const LookUpCall&) INTQ_NOEXCEPT;
};
struct InterpolateRow {
    DType dtype;
    void (*run)(const InterpolateCall&) INTQ_NOEXCEPT;
};
struct PoolRow {
    OpKind op;
    DType dtype;
    void (*run)(const PoolCall&) INTQ_NOEXCEPT;
};
/// Per tensor or per channel, on contiguous memory.
struct QuantizeRow {
    DType output;
    void (*run)(const float* x, const ChannelBlocks& blocks, const QParams& qparams, arith::QuantizeRule rule, void* y,
                const Executor& executor);
    /// Row-major images of `pixels` each to channels last.
    void (*run_planes)(const float* x, index_t images, index_t channels, index_t pixels, const QParams& qparams,
                       arith::QuantizeRule rule, void* y, const Executor& executor);
};
struct DequantizeRow {
    DType input;
    void (*run)(const void* x, const ChannelBlocks& blocks, const QParams& qparams, float* y, const Executor& executor);
};

/// The kernels of one target and backend, by family, and what packing for them needs.
struct KernelTable {
    const char* backend = "";
    PackingRules packing{};
    std::span<const ConvRow> conv{};
    std::span<const AddRow> add{};
    std::span<const RequantizeRow> requantize{};
    std::span<const ClampRow> clamp{};
    std::span<const PoolRow> pool{};
    std::span<const QuantizeRow> quantize{};
    std::span<const DequantizeRow> dequantize{};
    std::span<const MulRow> mul{};
    std::span<const LookUpRow> look_up{};
    std::span<const InterpolateRow> interpolate{};
    const void* (*stage)(const PackedConv2d&, const ConvGeometry&, const void* x, Workspace,
                         const Executor&)INTQ_NOEXCEPT = nullptr;

    constexpr const arith::PolicyRecord& policy() const noexcept { return *packing.policy; }
};

namespace detail {

// --- rows -----------------------------------------------------------------------------------------------------------

template <class Backend, class Policy, class X, class W, class Acc, class Y, class E>
constexpr ConvRow gemm_row() noexcept {
    return {dtype_of<X>,
            dtype_of<W>,
            dtype_of<Y>,
            static_cast<int>(8 * sizeof(Acc)),
            !std::is_same_v<E, no_sumin>,
            false,
            Policy::name,
            &Gemm<Backend, Policy, X, W, Acc, Y, E>::run};
}
template <class Backend, class Policy, class X, class W, class Acc, class Y, class E>
constexpr ConvRow depthwise_row() noexcept {
    return {dtype_of<X>,
            dtype_of<W>,
            dtype_of<Y>,
            static_cast<int>(8 * sizeof(Acc)),
            !std::is_same_v<E, no_sumin>,
            true,
            Policy::name,
            &Depthwise<Backend, Policy, X, W, Acc, Y, E>::run};
}

template <std::size_t... Sizes> constexpr auto join(const std::array<ConvRow, Sizes>&... parts) noexcept {
    std::array<ConvRow, (Sizes + ...)> all{};
    std::size_t at = 0;
    const auto append = [&](const auto& part) {
        for (const ConvRow& row : part) all[at++] = row;
    };
    (append(parts), ...);
    return all;
}

constexpr bool has_row(const arith::PolicyRecord& policy, OpKind op, DType input, DType weight, DType output) noexcept {
    for (const arith::ConstraintRow& row : policy.constraints)
        if (row.op == op && row.input == input && row.weight == weight && row.output == output) return true;
    return false;
}

/// The two rows of a combination of types, GEMM and depthwise; none where the target's constraint table has no such
/// operator. An int32 output is the accumulator itself, and takes no add.
template <class TargetType, class Backend, class X, class W, class Y, class E> constexpr auto conv_pair() noexcept {
    using Acc = arith::Accumulator<TargetType, dtype_of<X>>;
    constexpr bool keeps = std::is_same_v<Y, std::int32_t>, adds = !std::is_same_v<E, no_sumin>;
    constexpr bool is_accepted = has_row(TargetType::policy, OpKind::conv2d, dtype_of<X>, dtype_of<W>, dtype_of<Y>);
    if constexpr (!is_accepted || (adds && (keeps || !TargetType::policy.fused_add))) {
        return std::array<ConvRow, 0>{};
    } else {
        using Policy = std::conditional_t<keeps, arith::keep_accumulator, arith::RequantizePolicy<TargetType, Acc>>;
        return std::array{gemm_row<Backend, Policy, X, W, Acc, Y, E>(),
                          depthwise_row<Backend, Policy, X, W, Acc, Y, E>()};
    }
}

/// The rows for given input and output: what a caller instantiates who knows both.
template <class TargetType, class Backend, class X, class Y, class E>
inline constexpr auto typed_conv_rows = join(conv_pair<TargetType, Backend, X, std::int8_t, Y, E>(),
                                             conv_pair<TargetType, Backend, X, std::int16_t, Y, E>());

template <class TargetType, class Backend, class X> constexpr auto conv_rows_from() noexcept {
    return join(typed_conv_rows<TargetType, Backend, X, std::int8_t, no_sumin>,
                typed_conv_rows<TargetType, Backend, X, std::int8_t, X>,
                typed_conv_rows<TargetType, Backend, X, std::int16_t, no_sumin>,
                typed_conv_rows<TargetType, Backend, X, std::int16_t, X>,
                typed_conv_rows<TargetType, Backend, X, std::int32_t, no_sumin>);
}

/// The rows of a target are those of its constraint table.
template <class TargetType, class Backend>
inline constexpr auto conv_rows = join(conv_rows_from<TargetType, Backend, std::int8_t>(),
                                       conv_rows_from<TargetType, Backend, std::int16_t>());

/// The policy for sums of 32 bits: adds and codes, also of a target whose convolutions sum in 64.
template <class TargetType> using NarrowPolicy = arith::RequantizePolicy<TargetType, std::int32_t>;

template <class TargetType, class Backend>
inline constexpr AddRow add_rows[] = {
    {DType::int8, NarrowPolicy<TargetType>::name, &add_codes<Backend, NarrowPolicy<TargetType>, std::int8_t>},
    {DType::int16, NarrowPolicy<TargetType>::name, &add_codes<Backend, NarrowPolicy<TargetType>, std::int16_t>}};

template <class TargetType, class Backend>
inline constexpr MulRow mul_rows[] = {
    {DType::int8, NarrowPolicy<TargetType>::name, &mul_codes<Backend, NarrowPolicy<TargetType>, std::int8_t>},
    {DType::int16, NarrowPolicy<TargetType>::name, &mul_codes<Backend, NarrowPolicy<TargetType>, std::int16_t>}};

template <class TargetType, class Backend, class X, class Y> constexpr RequantizeRow requantize_row() noexcept {
    return {dtype_of<X>, dtype_of<Y>, NarrowPolicy<TargetType>::name,
            &requantize_codes<Backend, NarrowPolicy<TargetType>, X, Y>};
}
template <class TargetType, class Backend>
inline constexpr RequantizeRow requantize_rows[] = {requantize_row<TargetType, Backend, std::int8_t, std::int8_t>(),
                                                    requantize_row<TargetType, Backend, std::int8_t, std::int16_t>(),
                                                    requantize_row<TargetType, Backend, std::int16_t, std::int8_t>(),
                                                    requantize_row<TargetType, Backend, std::int16_t, std::int16_t>()};

template <class Backend>
inline constexpr ClampRow clamp_rows[] = {{DType::int8, &clamp_codes<Backend, std::int8_t>},
                                          {DType::int16, &clamp_codes<Backend, std::int16_t>}};
template <class Backend>
inline constexpr LookUpRow look_up_rows[] = {{DType::int8, &look_up_int8<Backend>},
                                             {DType::int16, &look_up_int16<Backend>}};
template <class Backend>
inline constexpr InterpolateRow interpolate_rows[] = {{DType::int8, &interpolate_codes<Backend, std::int8_t>},
                                                      {DType::int16, &interpolate_codes<Backend, std::int16_t>}};
template <class Backend>
inline constexpr PoolRow pool_rows[] = {{OpKind::max_pool2d, DType::int8, &max_pool2d_codes<Backend, std::int8_t>},
                                        {OpKind::max_pool2d, DType::int16, &max_pool2d_codes<Backend, std::int16_t>},
                                        {OpKind::avg_pool2d, DType::int8, &avg_pool2d_codes<Backend, std::int8_t>},
                                        {OpKind::avg_pool2d, DType::int16, &avg_pool2d_codes<Backend, std::int16_t>}};

template <class Backend, class Code>
void quantize_erased(const float* x, const ChannelBlocks& blocks, const QParams& qparams, arith::QuantizeRule rule,
                     void* y, const Executor& executor) {
    quantize_blocks<Backend>(x, blocks, qparams, rule, static_cast<Code*>(y), executor);
}
template <class Backend, class Code>
void quantize_planes_erased(const float* x, index_t images, index_t channels, index_t pixels, const QParams& qparams,
                            arith::QuantizeRule rule, void* y, const Executor& executor) {
    quantize_planes<Backend>(x, images, channels, pixels, qparams, rule, static_cast<Code*>(y), executor);
}
template <class Backend, class Code>
void dequantize_erased(const void* x, const ChannelBlocks& blocks, const QParams& qparams, float* y,
                       const Executor& executor) {
    dequantize_blocks<Backend>(static_cast<const Code*>(x), blocks, qparams, y, executor);
}
template <class Backend, class Code> constexpr QuantizeRow quantize_row() noexcept {
    return {dtype_of<Code>, &quantize_erased<Backend, Code>, &quantize_planes_erased<Backend, Code>};
}
template <class Backend>
inline constexpr QuantizeRow quantize_rows[] = {quantize_row<Backend, std::int8_t>(),
                                                quantize_row<Backend, std::int16_t>()};
template <class Backend>
inline constexpr DequantizeRow dequantize_rows[] = {{DType::int8, &dequantize_erased<Backend, std::int8_t>},
                                                    {DType::int16, &dequantize_erased<Backend, std::int16_t>},
                                                    {DType::int32, &dequantize_erased<Backend, std::int32_t>}};

}  // namespace detail

/// All kernels of a target on a backend.
template <class TargetType, class Backend>
requires arith::Target<TargetType>
inline constexpr KernelTable kernel_table{Backend::name,
                                          packing_rules<TargetType, Backend>(),
                                          detail::conv_rows<TargetType, Backend>,
                                          detail::add_rows<TargetType, Backend>,
                                          detail::requantize_rows<TargetType, Backend>,
                                          detail::clamp_rows<Backend>,
                                          detail::pool_rows<Backend>,
                                          detail::quantize_rows<Backend>,
                                          detail::dequantize_rows<Backend>,
                                          detail::mul_rows<TargetType, Backend>,
                                          detail::look_up_rows<Backend>,
                                          detail::interpolate_rows<Backend>,
                                          &detail::stage_input<Backend>};

/// The row that runs a packed layer; null where there is none.
constexpr const ConvRow* find_conv(std::span<const ConvRow> rows, const PackedConv2d& packed) noexcept {
    for (const ConvRow& row : rows)
        if (row.input == packed.input_dtype && row.weight == packed.weight_dtype && row.output == packed.output_dtype &&
            row.has_sumin == packed.has_sumin && row.is_depthwise == packed.is_depthwise &&
            row.accumulator_bits == packed.accumulator_bits)
            return &row;
    return nullptr;
}
constexpr const ConvRow* find_conv(const KernelTable& table, const PackedConv2d& packed) noexcept {
    return find_conv(table.conv, packed);
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_TABLE_KERNEL_TABLE_HPP
