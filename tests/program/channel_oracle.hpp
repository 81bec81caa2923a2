// SPDX-License-Identifier: MIT
//
// Oracle: which channels of a network a program can do without, by plain loops over the network's own weights.
//
// It knows docs/constant_channels.md and the oracle's integer rules (tests/reference), and nothing of the program.
#ifndef INTQ_TESTS_PROGRAM_CHANNEL_ORACLE_HPP
#define INTQ_TESTS_PROGRAM_CHANNEL_ORACLE_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "kernels/oracle_bridge.hpp"
#include "support/small_network.hpp"

namespace intq::test {

/// The codes of a channel, whatever the input.
struct CodeInterval {
    std::int64_t lowest = 0, highest = 0;
    bool is_constant() const { return lowest == highest; }
    friend bool operator==(const CodeInterval&, const CodeInterval&) = default;
};

inline CodeInterval hull(const CodeInterval& a, const CodeInterval& b) {
    return {(std::min)(a.lowest, b.lowest), (std::max)(a.highest, b.highest)};
}
inline CodeInterval with_code(const CodeInterval& a, std::int64_t code) { return hull(a, {code, code}); }

/// Tensor of the network, and channel.
using Channel = std::pair<int, index_t>;

/// The codes that a table has for lowest_code() … highest_code().
using TableOf = std::function<std::vector<std::int64_t>(const Network&, const NetworkLayer&)>;

/// Carries intervals of codes through a network.
class IntervalOracle {
public:
    IntervalOracle(const Network& network, const oracle::Target& target, const TableOf& table)
        : network_(network), target_(target), table_(table), intervals_(network.tensors.size()) {
        for (const int input : network.inputs) {
            const NetworkTensor& x = network.tensor(input);
            of(input).assign(static_cast<std::size_t>(x.channels), {x.qparams.quant_min, x.qparams.quant_max});
        }
        for (const NetworkLayer& layer : network.layers) of(layer.output) = make(layer);
    }

    const CodeInterval& at(int tensor, index_t channel) const {
        return intervals_[static_cast<std::size_t>(tensor)].at(static_cast<std::size_t>(channel));
    }
    const CodeInterval& at(const Channel& channel) const { return at(channel.first, channel.second); }

    /// Whether a clamp, a requantization or a table copies each code of an interval.
    bool copies(const NetworkLayer& layer, const CodeInterval& x) const {
        if (layer.op == OpKind::relu) return x.lowest >= layer.lowest && x.highest <= layer.highest;
        const std::vector<std::int64_t> table =
            layer.op == OpKind::lookup_table ? table_(network_, layer) : std::vector<std::int64_t>();
        for (std::int64_t code = x.lowest; code <= x.highest; ++code)
            if (of_code(layer, table, code) != code) return false;
        return true;
    }

private:
    using Intervals = std::vector<CodeInterval>;
    using Rule = std::function<std::int64_t(std::int64_t)>;

    Intervals& of(int tensor) { return intervals_.at(static_cast<std::size_t>(tensor)); }
    oracle::QParams grid(int tensor) const {
        const OwnedQParams& q = network_.tensor(tensor).qparams;
        return {q.scale(), network_.tensor(tensor).zero_point(), bits_of(q.dtype), q.quant_min, q.quant_max};
    }
    static std::int64_t clamp(const NetworkLayer& layer, std::int64_t code) {
        return std::clamp(code, layer.lowest, layer.highest);
    }

    std::int64_t of_code(const NetworkLayer& layer, const std::vector<std::int64_t>& table, std::int64_t code) const {
        if (layer.op == OpKind::relu) return clamp(layer, code);
        if (layer.op == OpKind::requantize)
            return clamp(layer, oracle::requantize_code(target_, code, grid(layer.inputs[0]), grid(layer.output)));
        return table[static_cast<std::size_t>(code - lowest_code(network_.dtype))];
    }

    Intervals make(const NetworkLayer& layer) const {
        const index_t channels = network_.tensor(layer.output).channels;
        Intervals result;
        if (layer.has_weights()) return make_weighted(layer);
        if (layer.op == OpKind::cat) return make_cat(layer);
        const std::vector<std::int64_t> table =
            layer.op == OpKind::lookup_table ? table_(network_, layer) : std::vector<std::int64_t>();
        const index_t cells = channels / (layer.inputs.empty() ? channels : network_.tensor(layer.inputs[0]).channels);
        for (index_t c = 0; c < channels; ++c) {
            if (layer.op == OpKind::constant)
                result.push_back(of_constant(layer, c));
            else if (layer.op == OpKind::flatten)
                result.push_back(at(layer.inputs[0], c / cells));
            else
                result.push_back(make_channel(layer, table, c));
        }
        return result;
    }

    CodeInterval make_channel(const NetworkLayer& layer, const std::vector<std::int64_t>& table, index_t c) const {
        const CodeInterval x = at(layer.inputs[0], c);
        switch (layer.op) {
            case OpKind::add:
            case OpKind::sub:
            case OpKind::mul:
                return of_corners(layer, x, at(layer.inputs[1], c));
            case OpKind::max_pool2d:
            case OpKind::interpolate:
            case OpKind::slice:
            case OpKind::permute:
            case OpKind::reshape:
                return x;
            case OpKind::avg_pool2d:
                return of_average(layer, x);
            case OpKind::pad:
                return with_code(x, layer.pad.fill);
            case OpKind::lookup_table: {
                CodeInterval y{of_code(layer, table, x.lowest), of_code(layer, table, x.lowest)};
                for (std::int64_t code = x.lowest; code <= x.highest; ++code)
                    y = with_code(y, of_code(layer, table, code));
                return y;
            }
            default:
                return {of_code(layer, table, x.lowest), of_code(layer, table, x.highest)};
        }
    }

    CodeInterval of_constant(const NetworkLayer& layer, index_t c) const {
        const NetworkTensor& y = network_.tensor(layer.output);
        const auto cells = static_cast<std::size_t>(y.size.height * y.size.width);
        const std::size_t first = static_cast<std::size_t>(c) * cells;
        CodeInterval result{layer.codes[first], layer.codes[first]};
        for (std::size_t i = first; i < first + cells; ++i) result = with_code(result, layer.codes[i]);
        return result;
    }

    CodeInterval of_corners(const NetworkLayer& layer, const CodeInterval& x, const CodeInterval& y) const {
        const oracle::QParams qx = grid(layer.inputs[0]), qy = grid(layer.inputs[1]), out = grid(layer.output);
        const auto code = [&](std::int64_t a, std::int64_t b) {
            return clamp(layer, layer.op == OpKind::mul
                                    ? oracle::mul_codes(target_, a, qx, b, qy, out)
                                    : oracle::add_codes(target_, a, qx, b, qy, out, layer.op == OpKind::sub));
        };
        CodeInterval result{code(x.lowest, y.lowest), code(x.lowest, y.lowest)};
        for (const std::int64_t a : {x.lowest, x.highest})
            for (const std::int64_t b : {y.lowest, y.highest}) result = with_code(result, code(a, b));
        return result;
    }

    /// Over the windows of the image: how many of their cells lie in it.
    CodeInterval of_average(const NetworkLayer& layer, const CodeInterval& x) const {
        const oracle::QParams in = grid(layer.inputs[0]), out = grid(layer.output);
        const bool counts = layer.divisor == PoolDivisor::kernel_cells;
        const bool requantizes = target_.is_tflite() && !layer.has_padding() && !oracle::keeps_grid(in, out);
        const auto code = [&](std::int64_t value, std::int64_t inside, std::int64_t kernel) {
            const std::int64_t cells = counts ? kernel : inside;
            const oracle::wide sum = oracle::wide{value} * inside + (cells - inside) * in.zero_point;
            return requantizes ? oracle::mean_code(target_, sum, cells, in, out)
                               : oracle::average_code(target_, sum, cells, in, out);
        };
        const Window2d& w = layer.window;
        const Size2d size = network_.tensor(layer.inputs[0]).size, places = network_.tensor(layer.output).size;
        const auto inside = [](index_t place, index_t stride, index_t before, index_t kernel, index_t extent) {
            const index_t first = place * stride - before;
            return (std::min)(first + kernel, extent) - (std::max)(first, index_t{0});
        };
        std::vector<CodeInterval> all;
        for (index_t row = 0; row < places.height; ++row)
            for (index_t column = 0; column < places.width; ++column) {
                const index_t cells = inside(row, w.stride.height, w.padding.top, w.kernel.height, size.height) *
                                      inside(column, w.stride.width, w.padding.left, w.kernel.width, size.width);
                const index_t kernel = w.kernel.height * w.kernel.width;
                all.push_back({code(x.lowest, cells, kernel), code(x.highest, cells, kernel)});
            }
        return std::accumulate(all.begin(), all.end(), all.front(), hull);
    }

    Intervals make_cat(const NetworkLayer& layer) const {
        Intervals result;
        for (const int part : layer.inputs) {
            const auto code = [&](std::int64_t x) {
                return oracle::requantize_code(target_, x, grid(part), grid(layer.output));
            };
            for (index_t c = 0; c < network_.tensor(part).channels; ++c)
                result.push_back({code(at(part, c).lowest), code(at(part, c).highest)});
        }
        return result;
    }

    oracle::WeightedLayer weighted(const NetworkLayer& layer) const {
        oracle::WeightedLayer w;
        w.weights.out_channels = network_.tensor(layer.output).channels;
        w.weights.in_channels = network_.tensor(layer.inputs[0]).channels / layer.groups;
        w.weights.kernel_h = layer.window.kernel.height, w.weights.kernel_w = layer.window.kernel.width;
        w.weights.codes.assign(layer.weights.begin(), layer.weights.end());
        w.weights.scale = layer.weight_scales;
        w.weights.bias_codes = layer.bias;
        w.in = grid(layer.inputs[0]), w.out = grid(layer.output);
        if (layer.inputs.size() > 1) w.sumin = grid(layer.inputs[1]);
        w.bounds = oracle::Bounds{layer.lowest, layer.highest};
        w.wide_sum = target_.kind == oracle::Target::Kind::fp32 && network_.dtype == DType::int16;
        w.is_linear = layer.op == OpKind::linear;
        return w;
    }

    /// Bias and sum of w·(x - zp), each x anywhere in its interval, where the window has padding at 0 too.
    Intervals make_weighted(const NetworkLayer& layer) const {
        const oracle::WeightedLayer w = weighted(layer);
        const oracle::MadeWeights made = oracle::make_weights(target_, w);
        const index_t in = w.weights.in_channels, cells = w.weights.kernel_h * w.weights.kernel_w;
        const index_t per_group = w.weights.out_channels / layer.groups;
        Intervals result;
        for (index_t o = 0; o < w.weights.out_channels; ++o) {
            oracle::wide lowest = 0, highest = 0;
            for (index_t i = 0; i < in; ++i) {
                CodeInterval x = at(layer.inputs[0], o / per_group * in + i);
                if (layer.has_padding()) x = with_code(x, w.in.zero_point);
                for (index_t k = 0; k < cells; ++k) {
                    const std::int64_t weight = layer.weights[static_cast<std::size_t>((o * in + i) * cells + k)];
                    const std::int64_t a = weight * (x.lowest - w.in.zero_point);
                    const std::int64_t b = weight * (x.highest - w.in.zero_point);
                    lowest += (std::min)(a, b), highest += (std::max)(a, b);
                }
            }
            const CodeInterval e = layer.inputs.size() > 1 ? at(layer.inputs[1], o) : CodeInterval{};
            const auto channel = static_cast<std::size_t>(o);
            result.push_back({oracle::finish_accumulator(target_, w, made, channel, lowest, e.lowest),
                              oracle::finish_accumulator(target_, w, made, channel, highest, e.highest)});
        }
        return result;
    }

    const Network& network_;
    oracle::Target target_;
    TableOf table_;
    std::vector<Intervals> intervals_;
};

/// Which channels a program needs.
class ChannelOracle {
public:
    /// The rule does not name constants, the layers. That they keep all their channels is how programs are made today.
    static constexpr bool constants_stay = true;

    ChannelOracle(const Network& network, const IntervalOracle& intervals) : network_(network), intervals_(intervals) {
        for (const NetworkTensor& tensor : network.tensors) {
            first_.push_back(parents_.size());
            for (index_t c = 0; c < tensor.channels; ++c) parents_.push_back(parents_.size());
        }
        for (const NetworkLayer& layer : network.layers)
            if (!layer.moves()) tie(layer);
    }

    /// All channels that may go.
    ///
    /// @param choose  of a tensor whose channels could all go, one that stays
    std::set<Channel> droppable(const std::function<index_t(int)>& choose) const {
        std::vector<bool> needed(parents_.size(), false);
        for (const int input : network_.inputs) need_all(needed, input);
        for (const int output : network_.outputs) need_all(needed, output);
        for (const NetworkLayer& layer : network_.layers)
            if (layer.moves() || (layer.groups > 1 && !network_.is_depthwise(layer)) ||
                (constants_stay && layer.op == OpKind::constant)) {
                need_all(needed, layer.output);
                for (const int x : layer.inputs) need_all(needed, x);
            }
        for (;;) {
            follow_weights(needed);
            const int empty = empty_tensor(needed);
            if (empty < 0) break;
            needed[root({empty, choose(empty)})] = true;
        }
        std::set<Channel> result;
        for (int t = 0; t < static_cast<int>(network_.tensors.size()); ++t)
            for (index_t c = 0; c < network_.tensor(t).channels; ++c)
                if (!needed[root({t, c})]) result.insert({t, c});
        return result;
    }

private:
    std::size_t id(const Channel& channel) const {
        return first_[static_cast<std::size_t>(channel.first)] + static_cast<std::size_t>(channel.second);
    }
    std::size_t root(const Channel& channel) const {
        std::size_t i = id(channel);
        while (parents_[i] != i) i = parents_[i];
        return i;
    }
    /// They go together or stay together.
    void tie(const Channel& a, const Channel& b) { parents_[root(a)] = root(b); }

    void tie(const NetworkLayer& layer) {
        const index_t channels = network_.tensor(layer.output).channels;
        if (layer.has_weights()) {
            for (index_t c = 0; c < channels; ++c) {
                if (network_.is_depthwise(layer)) tie({layer.inputs[0], c}, {layer.output, c});
                if (layer.inputs.size() > 1) tie({layer.inputs[1], c}, {layer.output, c});
            }
            return;
        }
        index_t first = 0;
        for (const int x : layer.inputs) {
            const index_t own = network_.tensor(x).channels, cells = layer.op == OpKind::flatten ? channels / own : 1;
            for (index_t c = 0; c < own * cells; ++c) tie({x, c / cells}, {layer.output, first + c});
            if (layer.op == OpKind::cat) first += own;
        }
    }

    void need_all(std::vector<bool>& needed, int tensor) const {
        for (index_t c = 0; c < network_.tensor(tensor).channels; ++c) needed[root({tensor, c})] = true;
    }

    /// A channel that a weight of a needed channel reads, unless its code is known and its part is the same everywhere.
    bool reads(const NetworkLayer& layer, index_t o, index_t i) const {
        const index_t in = network_.tensor(layer.inputs[0]).channels;
        const index_t cells = layer.window.kernel.height * layer.window.kernel.width;
        const auto first = layer.weights.begin() + static_cast<std::ptrdiff_t>((o * in + i) * cells);
        if (std::all_of(first, first + static_cast<std::ptrdiff_t>(cells), [](std::int32_t w) { return w == 0; }))
            return false;
        const CodeInterval& x = intervals_.at(layer.inputs[0], i);
        const bool is_same = !layer.has_padding() || x.lowest == network_.tensor(layer.inputs[0]).zero_point();
        return !(x.is_constant() && is_same);
    }
    void follow_weights(std::vector<bool>& needed) const {
        for (bool changes = true; changes;) {
            changes = false;
            for (const NetworkLayer& layer : network_.layers) {
                if (!layer.has_weights() || layer.groups > 1) continue;
                for (index_t o = 0; o < network_.tensor(layer.output).channels; ++o)
                    for (index_t i = 0;
                         needed[root({layer.output, o})] && i < network_.tensor(layer.inputs[0]).channels; ++i)
                        if (!needed[root({layer.inputs[0], i})] && reads(layer, o, i))
                            changes = needed[root({layer.inputs[0], i})] = true;
            }
        }
    }
    /// The first tensor of which nothing is needed; -1: none.
    int empty_tensor(const std::vector<bool>& needed) const {
        for (int t = 0; t < static_cast<int>(network_.tensors.size()); ++t) {
            bool is_empty = true;
            for (index_t c = 0; c < network_.tensor(t).channels; ++c) is_empty = is_empty && !needed[root({t, c})];
            if (is_empty) return t;
        }
        return -1;
    }

    const Network& network_;
    const IntervalOracle& intervals_;
    std::vector<std::size_t> first_, parents_;
};

}  // namespace intq::test

#endif  // INTQ_TESTS_PROGRAM_CHANNEL_ORACLE_HPP
