// SPDX-License-Identifier: MIT
//
// The average of a whole image, whose rows come in parts. Layer: kernels (docs/rows.md).
#ifndef INTQ_KERNELS_WINDOW_POOL_SUMS_HPP
#define INTQ_KERNELS_WINDOW_POOL_SUMS_HPP

#include <array>
#include <cstring>

#include "intq/arith/pool.hpp"
#include "intq/kernels/streaming/channel_walk.hpp"
#include "intq/kernels/window/pool.hpp"
#include "intq/kernels/window/pool_call.hpp"
#include "intq/simd/base/code_streams.hpp"
#include "intq/simd/select.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

/// sums[c] += the codes of channel c in some rows of an image.
template <class L, class Code> void add_to_sums(const PoolCall& call, const PoolSums& part) INTQ_NOEXCEPT {
    const index_t channels = call.channels, pixels = call.in.height * call.in.width;
    const auto* const x = static_cast<const Code*>(call.x);
    index_t done = 0;
    if constexpr (has_cell_loop<L, Code>)
        if (pixels <= 256) {
            alignas(16) std::int16_t sums[16];
            const auto count = static_cast<std::int32_t>(pixels), step = static_cast<std::int32_t>(channels);
            simd::CodeCells cells{nullptr, 1, count, count * step, step, sums};
            for (; done + 16 <= channels; done += 16) {
                cells.from = x + done;
                L::sum_cells(cells);
                for (index_t i = 0; i < 16; ++i)
                    part.sums[done + i] = sums[i] + (part.is_first ? 0 : part.sums[done + i]);
            }
        }
    for_each_vector<L>(channels - done, [&](index_t c, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
        std::int32_t* const to = part.sums + done + c;
        auto sum = part.is_first ? L::set(std::int32_t{0}) : load_codes<L>(to, lanes);
        for (index_t p = 0; p < pixels; ++p) sum = L::add(sum, L::load(x + p * channels + done + c, lanes));
        store_codes<L>(to, sum, lanes);
    });
}

/// Sums, and behind the last rows their codes. A code is written behind all sums up to its own.
template <class Backend, arith::AverageRule Rule, class Code>
void add_rows_by(const PoolCall& call, const PoolSums& part) INTQ_NOEXCEPT {
    using L = simd::lanes<Backend>;
    using Average = arith::AverageBy<L, Rule>;
    add_to_sums<L, Code>(call, part);
    if (!part.is_last) return;
    const Average average(*call.average);
    const auto window = Average::window(call.window->kernel.height * call.window->kernel.width, *call.average);
    auto* const y = static_cast<std::byte*>(call.y);
    for_each_vector<L>(call.channels, [&](index_t c, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
        // Of a register, also where the vectors are narrower: g++ 12 takes all that a partial store can write for
        // written.
        alignas(buffer_alignment) Code codes[array_size(L::width() > 1 && L::width() < 16 ? 16 : L::width())];
        store_codes<L>(codes, average.code(load_codes<L>(part.sums + c, lanes), window), lanes);
        std::memcpy(y + c * static_cast<index_t>(sizeof(Code)), codes, static_cast<std::size_t>(lanes) * sizeof(Code));
    });
}

template <class Backend, arith::AverageRule Rule, class Code>
inline constexpr PoolSumRow pool_sum_row{Rule, dtype_of<Code>, &add_rows_by<Backend, Rule, Code>};

/// Of the rules that average codes.
template <class TargetType, class Backend> constexpr auto pool_sum_rows_of() noexcept {
    constexpr arith::AverageRule usual = TargetType::policy.average,
                                 requantized = TargetType::policy.requantized_average();
    constexpr std::array rows{pool_sum_row<Backend, usual, std::int8_t>, pool_sum_row<Backend, usual, std::int16_t>};
    if constexpr (requantized == usual)
        return rows;
    else
        return std::array{rows[0], rows[1], pool_sum_row<Backend, requantized, std::int8_t>,
                          pool_sum_row<Backend, requantized, std::int16_t>};
}
template <class TargetType, class Backend>
inline constexpr auto pool_sum_rows = pool_sum_rows_of<TargetType, Backend>();

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_WINDOW_POOL_SUMS_HPP
