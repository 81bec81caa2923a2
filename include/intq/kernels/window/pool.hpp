// SPDX-License-Identifier: MIT
//
// Max and average pooling on codes, channels in the lanes. Layer: kernels.
#ifndef INTQ_KERNELS_WINDOW_POOL_HPP
#define INTQ_KERNELS_WINDOW_POOL_HPP

#include <array>
#include <limits>

#include "intq/arith/pool.hpp"
#include "intq/core/op_params.hpp"
#include "intq/kernels/streaming/channel_walk.hpp"
#include "intq/kernels/window/geometry.hpp"
#include "intq/kernels/window/pool_call.hpp"
#include "intq/simd/base/code_streams.hpp"
#include "intq/simd/base/primitives.hpp"
#include "intq/simd/select.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

namespace detail {

/// The valid cells of one output pixel: `rows` rows of `columns` cells.
template <class Code> struct Cells {
    const Code* first;
    index_t rows, columns;
    index_t row_step, column_step;  // in elements

    /// visit(cell) for each, pointing at the channel that `first` points at.
    template <class Visit> INTQ_ALWAYS_INLINE void for_each(Visit&& visit) const {
        const Code* row = first;
        for (index_t y = 0; y < rows; ++y, row += row_step) {
            const Code* cell = row;
            for (index_t x = 0; x < columns; ++x, cell += column_step) {
                INTQ_KEEP_LOOP;
                visit(cell);
            }
        }
    }
    /// The same of a window of fixed size, without a loop.
    template <int Rows, int Columns, class Visit> INTQ_ALWAYS_INLINE void for_each_of(Visit&& visit) const {
        const Code* const at = first;
        simd::unroll<Rows>([&](auto y) INTQ_ALWAYS_INLINE_LAMBDA {
            simd::unroll<Columns>([&](auto x)
                                      INTQ_ALWAYS_INLINE_LAMBDA { visit(at + y * row_step + x * column_step); });
        });
    }
    bool is(index_t height, index_t width) const noexcept { return rows == height && columns == width; }
};

/// Output pixels of one row whose windows are alike: the first one's cells, and how far apart the windows are.
template <class Code> struct PixelRun {
    Cells<Code> cells;
    index_t count;
    index_t step;  // in elements

    /// function(cells, pixel) for each, pointing at channel `channel`.
    template <class Function> INTQ_ALWAYS_INLINE void for_each(index_t channel, Function&& function) const {
        Cells<Code> moved = cells;
        moved.first += channel;
        for (index_t pixel = 0; pixel < count; ++pixel, moved.first += step) function(moved, pixel);
    }
};

/// pixels(run, y) for runs of output pixels: each border pixel by itself, all others of a row together.
template <class Code, class Pixels> void for_each_window(const PoolCall& call, const Pixels& pixels) {
    (*call.executor)(call.batch * call.out.height, [&](index_t row) {
        const Window2d w = *call.window;
        const index_t channels = call.channels, width = call.in.width, height = call.in.height;
        const index_t image = quotient(row, call.out.height), oy = row - image * call.out.height;
        const Code* const x = static_cast<const Code*>(call.x) + image * height * width * channels;
        Code* const y = static_cast<Code*>(call.y) + row * call.out.width * channels;
        const index_t above = w.padding.top - call.cut;
        const ValidTaps ys = valid_taps(oy, w.stride.height, above, w.dilation.height, w.kernel.height, height);
        const index_t top = oy * w.stride.height - above + ys.first * w.dilation.height;
        const index_t room = width - 1 - w.dilation.width * (w.kernel.width - 1) + w.padding.left;
        const index_t inside = quotient_up(w.padding.left, w.stride.width);
        const index_t outside = room < 0 ? 0 : smaller(quotient(room, w.stride.width) + 1, call.out.width);
        for (index_t ox = 0; ox < call.out.width;) {
            const bool is_inside = ox >= inside && ox < outside;
            ValidTaps xs{0, w.kernel.width};
            if (!is_inside)
                xs = valid_taps(ox, w.stride.width, w.padding.left, w.dilation.width, w.kernel.width, width);
            const index_t left = ox * w.stride.width - w.padding.left + xs.first * w.dilation.width;
            const PixelRun<Code> run{{x + (top * width + left) * channels, ys.last - ys.first, xs.last - xs.first,
                                      w.dilation.height * width * channels, w.dilation.width * channels},
                                     is_inside ? outside - ox : 1,
                                     w.stride.width * channels};
            pixels(run, y + ox * channels);
            ox += run.count;
        }
    });
}

/// Cells of any number, or of a window whose size is fixed.
struct AnyWindow {
    template <class Code, class Visit> static INTQ_ALWAYS_INLINE void visit(const Cells<Code>& cells, Visit&& visit) {
        cells.for_each(visit);
    }
};
template <int Rows, int Columns> struct FixedWindow {
    template <class Code, class Visit> static INTQ_ALWAYS_INLINE void visit(const Cells<Code>& cells, Visit&& visit) {
        cells.template for_each_of<Rows, Columns>(visit);
    }
};

/// The largest code of each channel and window. Arguments are values: a store of bytes may change everything else.
template <class L, class Window, class Code>
void store_largest(const PixelRun<Code> run, const index_t channels, Code* y) noexcept {
    constexpr index_t width = L::template packed_width<Code>();
    const auto largest = [](const Cells<Code>& cells, auto&& load) INTQ_ALWAYS_INLINE_LAMBDA {
        auto most = L::set_packed(std::numeric_limits<Code>::lowest());
        Window::visit(cells,
                      [&](const Code* cell) INTQ_ALWAYS_INLINE_LAMBDA { most = L::max_packed(most, load(cell)); });
        return most;
    };
    index_t c = 0;
    for (; c + width <= channels; c += width)
        run.for_each(c, [&](const Cells<Code>& cells, index_t pixel) INTQ_ALWAYS_INLINE_LAMBDA {
            L::store_packed(y + pixel * channels + c, largest(cells, [](const Code* cell) INTQ_ALWAYS_INLINE_LAMBDA {
                                return L::load_packed(cell);
                            }));
        });
    if (const index_t rest = channels - c; rest > 0)
        run.for_each(c, [&](const Cells<Code>& cells, index_t pixel) INTQ_ALWAYS_INLINE_LAMBDA {
            L::store_packed(y + pixel * channels + c,
                            largest(cells, [rest](const Code* cell)
                                               INTQ_ALWAYS_INLINE_LAMBDA { return L::load_packed(cell, rest); }),
                            rest);
        });
}

/// Whether sums of bytes can be kept in 16 bits, for up to 256 of them.
template <class L, class Code> inline constexpr bool has_byte_sums = std::is_same_v<Code, std::int8_t>&& requires {
    typename L::ByteSums;
};

/// Sums of 4 · width channels of the cells, in int32.
template <class L> struct CellSums {
    typename L::i32 a = L::set(std::int32_t{0}), b = a, c = a, d = a;

    template <class Window, class Code> INTQ_ALWAYS_INLINE void add(const Cells<Code>& cells) {
        if constexpr (!has_byte_sums<L, Code>) {
            constexpr index_t width = L::width();
            Window::visit(cells, [&](const Code* cell) INTQ_ALWAYS_INLINE_LAMBDA {
                take(L::load(cell), L::load(cell + width), L::load(cell + 2 * width), L::load(cell + 3 * width));
            });
        } else if constexpr (!std::is_same_v<Window, AnyWindow>) {
            typename L::ByteSums bytes;
            Window::visit(cells, [&](const Code* cell) INTQ_ALWAYS_INLINE_LAMBDA { bytes.add(cell); });
            take(bytes);
        } else {
            const Code* row = cells.first;
            const bool is_run = cells.row_step == cells.columns * cells.column_step;  // a whole image
            const index_t rows = is_run ? 1 : cells.rows, columns = is_run ? cells.rows * cells.columns : cells.columns;
            for (index_t y = 0; y < rows; ++y, row += cells.row_step)
                for (index_t x = 0; x < columns; x += 256) {
                    typename L::ByteSums bytes;
                    const index_t end = smaller(x + 256, columns);
                    for (index_t i = x; i < end; ++i) bytes.add(row + i * cells.column_step);
                    take(bytes);
                }
        }
    }

private:
    INTQ_ALWAYS_INLINE void take(typename L::i32 more_a, typename L::i32 more_b, typename L::i32 more_c,
                                 typename L::i32 more_d) {
        a = L::add(a, more_a);
        b = L::add(b, more_b);
        c = L::add(c, more_c);
        d = L::add(d, more_d);
    }
    template <class Bytes> INTQ_ALWAYS_INLINE void take(const Bytes& bytes) {
        take(bytes.template vector<0>(), bytes.template vector<1>(), bytes.template vector<2>(),
             bytes.template vector<3>());
    }
};

/// Whether lanes have loops over the cells of sixteen channels.
template <class L, class Code>
inline constexpr bool has_cell_loop =
    !INTQ_SMALL && std::is_same_v<Code, std::int8_t> && requires(const simd::CodeCells& cells) {
    L::sum_cells(cells);
};

/// The averages of the first channels, sixteen at a time, of windows of up to 256 cells.
///
/// @return the number of channels
template <class L, arith::AverageRule Rule, class Code>
index_t store_averages_in_loops(const PixelRun<Code>& run, const arith::AverageParams& params, index_t channels,
                                Code* y) noexcept {
    constexpr index_t together = 16;
    const index_t valid = run.cells.rows * run.cells.columns;
    if (valid > 256) return 0;
    const arith::AverageBy<L, Rule> average(params);
    const auto window = average.window(valid, params);
    alignas(16) std::int16_t sums[together];
    simd::CodeCells cells{nullptr,
                          static_cast<std::int32_t>(run.cells.rows),
                          static_cast<std::int32_t>(run.cells.columns),
                          static_cast<std::int32_t>(run.cells.row_step),
                          static_cast<std::int32_t>(run.cells.column_step),
                          sums};
    simd::CodeAverages averages{sums,
                                nullptr,
                                static_cast<std::int32_t>(valid),
                                UINT32_MAX / (2 * static_cast<std::uint32_t>(valid)) + 1,
                                params.codes.lowest,
                                params.codes.highest,
                                0,
                                0,
                                0,
                                0};
    bool is_short = false;
    if constexpr (Rule == arith::AverageRule::double_rounding_sum) {
        averages.minus_offset = -window.offset;
        averages.multiplier = params.words[0];
        averages.shift = params.words[1];
        averages.zero_point = params.codes.zero_point;
        is_short = arith::fixed_point<arith::double_rounding>::is_short(std::int64_t{255} * 256, params.words);
    }
    index_t c = 0;
    for (; c + together <= channels; c += together)
        run.for_each(c, [&](const Cells<Code>& at, index_t pixel) INTQ_ALWAYS_INLINE_LAMBDA {
            Code* const to = y + pixel * channels + c;
            cells.from = at.first;
            L::sum_cells(cells);
            averages.out = to;
            if constexpr (Rule == arith::AverageRule::divide_codes) {
                L::divide_sums(averages);
            } else if (is_short) {
                L::scale_sums(averages);
            } else {
                for (index_t i = 0; i < together; ++i) to[i] = static_cast<Code>(average.code(sums[i], window));
            }
        });
    return c;
}

/// The averages of a run. Arguments are values, as above.
template <class L, class Window, arith::AverageRule Rule, class Code>
void store_averages(const PixelRun<Code> run, const arith::AverageParams params, const index_t channels,
                    Code* y) noexcept {
    using Average = arith::AverageBy<L, Rule>;
    const Average average(params);
    const auto window = Average::window(run.cells.rows * run.cells.columns, params);
    const CodeStore<L, Code> store(average.codes);
    for_each_four_vectors<L>(
        channels,
        [&](index_t channel) INTQ_ALWAYS_INLINE_LAMBDA {
            run.for_each(channel, [&](const Cells<Code>& cells, index_t pixel) INTQ_ALWAYS_INLINE_LAMBDA {
                CellSums<L> sums;
                sums.template add<Window>(cells);
                Code* to = y + pixel * channels + channel;
                const auto scaled = [&](auto sum) INTQ_ALWAYS_INLINE_LAMBDA { return average.scaled(sum, window); };
                store.four(to, scaled(sums.a), scaled(sums.b), scaled(sums.c), scaled(sums.d));
            });
        },
        [&](index_t channel, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
            run.for_each(channel, [&](const Cells<Code>& cells, index_t pixel) INTQ_ALWAYS_INLINE_LAMBDA {
                auto sum = L::set(std::int32_t{0});
                Window::visit(cells, [&](const Code* cell)
                                         INTQ_ALWAYS_INLINE_LAMBDA { sum = L::add(sum, L::load(cell, lanes)); });
                store_codes<L>(y + pixel * channels + channel, average.code(sum, window), lanes);
            });
        });
}

/// The averages of a run, of real numbers.
template <class L, class Code>
void store_averages_of_values(const PixelRun<Code> run, const arith::AverageParams params, const index_t channels,
                              Code* y) noexcept {
    const arith::AverageOfValues<L> average(params);
    const auto divisor = average.divisor(run.cells.rows * run.cells.columns, params);
    for_each_vector<L>(channels, [&](index_t channel, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
        run.for_each(channel, [&](const Cells<Code>& cells, index_t pixel) INTQ_ALWAYS_INLINE_LAMBDA {
            auto sum = L::set(0.0f);
            cells.for_each([&](const Code* cell)
                               INTQ_ALWAYS_INLINE_LAMBDA { sum = average.add(sum, load_codes<L>(cell, lanes)); });
            store_codes<L>(y + pixel * channels + channel, average.code(sum, divisor), lanes);
        });
    });
}

}  // namespace detail

/// y = the largest code among the valid cells; exact, the scale stays.
/// @pre check_pool() is ok
template <class Backend, class Code> void max_pool2d_codes(const PoolCall& call) INTQ_NOEXCEPT {
    using L = simd::lanes<Backend>;
    using detail::AnyWindow, detail::FixedWindow;
    detail::for_each_window<Code>(call, [channels = call.channels](const detail::PixelRun<Code>& run, Code* y) {
        if (!INTQ_SMALL && run.cells.is(2, 2))
            detail::store_largest<L, FixedWindow<2, 2>>(run, channels, y);
        else if (!INTQ_SMALL && run.cells.is(3, 3))
            detail::store_largest<L, FixedWindow<3, 3>>(run, channels, y);
        else
            detail::store_largest<L, AnyWindow>(run, channels, y);
    });
}

namespace detail {

template <class Backend, arith::AverageRule Rule, class Code> void average_by(const PoolCall& call) INTQ_NOEXCEPT {
    using L = simd::lanes<Backend>;
    for_each_window<Code>(call, [&](const PixelRun<Code>& run, Code* y) {
        if constexpr (has_cell_loop<L, Code> && Rule != arith::AverageRule::sum_of_values)
            if (call.channels % 16 == 0 &&
                store_averages_in_loops<L, Rule>(run, *call.average, call.channels, y) == call.channels)
                return;
        if constexpr (Rule == arith::AverageRule::sum_of_values)
            store_averages_of_values<L>(run, *call.average, call.channels, y);
        else if (!INTQ_SMALL && run.cells.is(2, 2))
            store_averages<L, FixedWindow<2, 2>, Rule>(run, *call.average, call.channels, y);
        else
            store_averages<L, AnyWindow, Rule>(run, *call.average, call.channels, y);
    });
}

}  // namespace detail

/// y = average of the window, by the target's rule that its parameters name; see arith/pool.hpp.
/// @pre check_pool() is ok; average made by arith::make_average, make_mean or make_average_of_values
template <class TargetType, class Backend, class Code> void avg_pool2d_codes(const PoolCall& call) INTQ_NOEXCEPT {
    constexpr arith::AverageRule usual = TargetType::policy.average,
                                 requantized = TargetType::policy.requantized_average();
    constexpr arith::AverageRule of_values = arith::AverageRule::sum_of_values;
    if constexpr (requantized != usual)
        if (call.average->rule == requantized) return detail::average_by<Backend, requantized, Code>(call);
    if constexpr (TargetType::policy.has_average(of_values) && std::is_same_v<Code, std::int8_t>)
        if (call.average->rule == of_values) return detail::average_by<Backend, of_values, Code>(call);
    detail::average_by<Backend, usual, Code>(call);
}

namespace detail {

template <class Backend, arith::AverageRule Rule, class Code>
inline constexpr PoolRow average_row{OpKind::avg_pool2d, Rule, dtype_of<Code>, &average_by<Backend, Rule, Code>};

/// A rule that few programs use has separate rows, which the others need not link.
template <class TargetType, class Backend> constexpr auto pool_rows_of() noexcept {
    constexpr arith::AverageRule usual = TargetType::policy.average,
                                 requantized = TargetType::policy.requantized_average();
    constexpr PoolRow of_bytes{OpKind::max_pool2d, usual, DType::int8, &max_pool2d_codes<Backend, std::int8_t>},
        of_words{OpKind::max_pool2d, usual, DType::int16, &max_pool2d_codes<Backend, std::int16_t>};
    constexpr PoolRow average_of_bytes = average_row<Backend, usual, std::int8_t>,
                      average_of_words = average_row<Backend, usual, std::int16_t>;
    if constexpr (TargetType::policy.has_average(arith::AverageRule::sum_of_values))
        return std::array{of_bytes, of_words, average_of_bytes, average_of_words,
                          average_row<Backend, arith::AverageRule::sum_of_values, std::int8_t>};
    else if constexpr (requantized == usual)
        return std::array{of_bytes, of_words, average_of_bytes, average_of_words};
    else
        return std::array{of_bytes,
                          of_words,
                          average_of_bytes,
                          average_of_words,
                          average_row<Backend, requantized, std::int8_t>,
                          average_row<Backend, requantized, std::int16_t>};
}
template <class TargetType, class Backend> inline constexpr auto pool_rows = pool_rows_of<TargetType, Backend>();

}  // namespace detail

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_WINDOW_POOL_HPP
