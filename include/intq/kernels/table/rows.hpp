// SPDX-License-Identifier: MIT
//
// KernelTable: the kernels of one target and backend as rows of function pointers. Only types. Code that chooses an
// operator at run time (a program, the hosted half) reads them and compiles no kernel; kernel_table.hpp has the tables.
// Layer: kernels (docs/design.md section 5).
#ifndef INTQ_KERNELS_TABLE_ROWS_HPP
#define INTQ_KERNELS_TABLE_ROWS_HPP

#include <cstddef>
#include <span>

#include "intq/arith/target.hpp"
#include "intq/kernels/matmul/matmul_call.hpp"
#include "intq/kernels/packing/conv_call.hpp"
#include "intq/kernels/packing/packing_rules.hpp"
#include "intq/kernels/streaming/elementwise_call.hpp"
#include "intq/kernels/streaming/embedding_call.hpp"
#include "intq/kernels/streaming/layer_norm_call.hpp"
#include "intq/kernels/streaming/move_call.hpp"
#include "intq/kernels/streaming/quantize_call.hpp"
#include "intq/kernels/streaming/softmax_call.hpp"
#include "intq/kernels/streaming/unary_call.hpp"
#include "intq/kernels/window/pool_call.hpp"
#include "intq/kernels/window/resize_call.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// The kernels of one target and backend, by family, and the rules of packing for them. Without `stage` it describes
/// the kernels of another machine: what they take, to lower, check and write a program for them.
///
/// Constant; any number of threads may use one.
struct KernelTable {
    const char* backend = "";
    PackingRules packing{};
    std::span<const ConvRow> conv{};
    std::span<const AddRow> add{};
    std::span<const RequantizeRow> requantize{};
    std::span<const ClampRow> clamp{};
    std::span<const PoolRow> pool{};
    std::span<const PoolSumRow> pool_sums{};
    std::span<const QuantizeRow> quantize{};
    std::span<const DequantizeRow> dequantize{};
    std::span<const MulRow> mul{};
    std::span<const LookUpRow> look_up{};
    std::span<const InterpolateRow> interpolate{};
    std::span<const SoftmaxRow> softmax{};
    std::span<const MoveRow> move{};
    std::span<const PadRow> pad{};
    std::span<const LayerNormRow> layer_norm{};
    std::span<const MatmulRow> matmul{};
    std::span<const EmbeddingRow> embedding{};
    std::span<const LogSoftmaxRow> log_softmax{};
    std::span<const IndexCopyRow> index_copy{};
    std::span<const ArgMaxRow> argmax{};
    const void* (*stage)(const PackedConv2d&, const ConvGeometry&, const void* x, Workspace, const Executor&) = nullptr;

    INTQ_ALWAYS_INLINE constexpr const arith::PolicyRecord& policy() const noexcept { return *packing.policy; }
    /// Whether its kernels run here.
    INTQ_ALWAYS_INLINE constexpr bool runs() const noexcept { return stage != nullptr; }
};

/// Calls visit(name, member) for each family of rows of a KernelTable: its name and the pointer to the member.
template <class Visit> constexpr void for_each_family(const Visit& visit) {
    visit("conv", &KernelTable::conv);
    visit("add", &KernelTable::add);
    visit("requantize", &KernelTable::requantize);
    visit("clamp", &KernelTable::clamp);
    visit("pool", &KernelTable::pool);
    visit("pool_sums", &KernelTable::pool_sums);
    visit("quantize", &KernelTable::quantize);
    visit("dequantize", &KernelTable::dequantize);
    visit("mul", &KernelTable::mul);
    visit("look_up", &KernelTable::look_up);
    visit("interpolate", &KernelTable::interpolate);
    visit("softmax", &KernelTable::softmax);
    visit("move", &KernelTable::move);
    visit("pad", &KernelTable::pad);
    visit("layer_norm", &KernelTable::layer_norm);
    visit("matmul", &KernelTable::matmul);
    visit("embedding", &KernelTable::embedding);
    visit("log_softmax", &KernelTable::log_softmax);
    visit("index_copy", &KernelTable::index_copy);
    visit("argmax", &KernelTable::argmax);
}

namespace detail {

constexpr std::size_t family_bytes() {
    std::size_t bytes = 0;
    for_each_family(
        [&]<class Row>(const char*, std::span<const Row> KernelTable::*) { bytes += sizeof(std::span<const Row>); });
    return bytes;
}
static_assert(offsetof(KernelTable, stage) - offsetof(KernelTable, conv) == family_bytes(),
              "for_each_family() leaves out a family of KernelTable");

}  // namespace detail

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

INTQ_ALWAYS_INLINE constexpr const ConvRow* find_conv(const KernelTable& table, const PackedConv2d& packed) noexcept {
    return find_conv(table.conv, packed);
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_TABLE_ROWS_HPP
