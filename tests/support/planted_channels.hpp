// SPDX-License-Identifier: MIT
//
// Plants in a network what a trained one sometimes has: channels whose code never changes, inputs that nobody reads,
// and clamps that never act.
#ifndef INTQ_TESTS_SUPPORT_PLANTED_CHANNELS_HPP
#define INTQ_TESTS_SUPPORT_PLANTED_CHANNELS_HPP

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "support/network_maker.hpp"

namespace intq::test {

/// What is planted, and how much of it.
struct Plants {
    int share = 30;             // percent of the channels of a layer
    bool zero_weights = true;   // the bias alone is left
    bool saturated = true;      // by the bias, some of them by little
    bool below_relu = true;     // the layer gets a ReLU
    bool unread_inputs = true;  // no weight of a layer reads a channel
    bool idle_clamps = true;    // ReLUs behind a ReLU, up to three in a row
    bool whole_layers = true;   // now and then all channels of one
};

namespace detail {

class Planter {
public:
    Planter(Network& network, const Plants& plants, std::uint32_t seed)
        : network_(network), plants_(plants), dice_(seed) {
        if (plants.zero_weights) kinds_.push_back(Kind::zero_weights);
        if (plants.saturated) kinds_.push_back(Kind::saturated);
        if (plants.below_relu) kinds_.push_back(Kind::below_relu);
        // The same channels in all layers, so that both operands of an add have them.
        if (dice_.percent(60)) common_ = chosen(64, plants.share);
    }

    void run() {
        for (NetworkLayer& layer : network_.layers) {
            if (layer.has_weights()) plant_weights(layer);
            if (layer.op == OpKind::constant) plant_constant(layer);
            if (layer.op == OpKind::relu && plants_.idle_clamps && dice_.percent(40)) {
                layer.lowest = lowest_code(network_.dtype);
                layer.highest = highest_code(network_.dtype);
            }
        }
        if (plants_.idle_clamps) add_idle_clamps();
    }

private:
    enum class Kind { zero_weights, saturated, below_relu };

    std::vector<bool> chosen(index_t count, int share) {
        std::vector<bool> result;
        for (index_t i = 0; i < count; ++i) result.push_back(dice_.percent(share));
        return result;
    }
    std::vector<bool> channels_of(index_t count) {
        if (plants_.whole_layers && dice_.percent(4)) return std::vector<bool>(static_cast<std::size_t>(count), true);
        if (!common_.empty() && count <= static_cast<index_t>(common_.size())) return common_;
        return chosen(count, plants_.share);
    }

    void plant_weights(NetworkLayer& layer) {
        const index_t out = network_.tensor(layer.output).channels;
        const auto size = static_cast<index_t>(layer.weights.size()) / out;
        const std::vector<bool> here = channels_of(out);
        for (index_t o = 0; o < out && !kinds_.empty(); ++o)
            if (here[static_cast<std::size_t>(o)]) plant_channel(layer, static_cast<std::size_t>(o), size);
        if (!plants_.unread_inputs || layer.groups > 1 || dice_.percent(40)) return;
        const index_t in = network_.tensor(layer.inputs[0]).channels, cells = size / in;
        const std::vector<bool> unread = chosen(in, plants_.share / 2);
        for (std::size_t i = 0; i < layer.weights.size(); ++i)
            if (unread[i / static_cast<std::size_t>(cells) % unread.size()]) layer.weights[i] = 0;
    }

    void plant_channel(NetworkLayer& layer, std::size_t o, index_t size) {
        const NetworkTensor& x = network_.tensor(layer.inputs[0]);
        const NetworkTensor& y = network_.tensor(layer.output);
        const double step = static_cast<double>(y.qparams.scale()) /
                            (static_cast<double>(x.qparams.scale()) * static_cast<double>(layer.weight_scales[o]));
        const double codes = static_cast<double>(y.qparams.quant_max - y.qparams.quant_min);
        const auto first = layer.weights.begin() + static_cast<std::ptrdiff_t>(static_cast<index_t>(o) * size);
        double sum = 0.0;
        for (index_t i = 0; i < size; ++i)
            sum += std::abs(first[i]) * static_cast<double>(x.qparams.quant_max - x.qparams.quant_min);
        // Far beyond the last code, or a few codes around the bias from which on the channel may be constant.
        const double beyond =
            dice_.percent(50) ? 1.2 * codes : 0.25 * codes + static_cast<double>(dice_.between(-3, 3));
        const Kind kind = dice_.one_of(kinds_);
        if (kind == Kind::zero_weights) {
            std::fill_n(first, size, 0);
            layer.bias[o] =
                dice_.percent(25) ? 0 : static_cast<std::int64_t>(step * codes * 0.7 * (dice_.factor(-1, 1)));
        } else if (kind == Kind::saturated) {
            layer.bias[o] = static_cast<std::int64_t>((dice_.percent(50) ? 1 : -1) * (sum + beyond * step));
        } else {
            layer.lowest = y.zero_point();
            layer.highest = (std::max)(layer.highest, layer.lowest);
            layer.bias[o] = static_cast<std::int64_t>(-(sum + beyond * step));
        }
        layer.bias[o] = std::clamp<std::int64_t>(layer.bias[o], -INT32_MAX, INT32_MAX);
    }

    void plant_constant(NetworkLayer& layer) {
        const NetworkTensor& y = network_.tensor(layer.output);
        const auto cells = static_cast<std::size_t>(y.size.height * y.size.width);
        const std::vector<bool> here = channels_of(y.channels);
        for (std::size_t i = 0; i < layer.codes.size(); ++i)
            if (here[i / cells]) layer.codes[i] = layer.codes[i / cells * cells];
    }

    /// Behind some layers with a lower clamp, clamps of the same lowest code.
    void add_idle_clamps() {
        for (std::size_t i = 0; i < network_.layers.size(); ++i) {
            const NetworkLayer before = network_.layers[i];
            if (!before.has_weights() || before.lowest == lowest_code(network_.dtype) || !dice_.percent(30)) continue;
            const auto count = static_cast<std::size_t>(dice_.between(1, 3));
            for (std::size_t k = 0; k < count; ++k) insert_clamp(i + k, before.lowest);
            i += count;
        }
    }
    /// A clamp behind a layer, which all readers of the layer's output read in its place.
    void insert_clamp(std::size_t behind, std::int64_t lowest) {
        const int x = network_.layers[behind].output, y = static_cast<int>(network_.tensors.size());
        network_.tensors.push_back(NetworkTensor(network_.tensor(x)));
        for (NetworkLayer& layer : network_.layers) std::replace(layer.inputs.begin(), layer.inputs.end(), x, y);
        std::replace(network_.outputs.begin(), network_.outputs.end(), x, y);
        NetworkLayer clamp;
        clamp.op = OpKind::relu;
        clamp.name = "idle" + std::to_string(y);
        clamp.inputs = {x};
        clamp.output = y;
        clamp.lowest = lowest, clamp.highest = highest_code(network_.dtype);
        network_.layers.insert(network_.layers.begin() + static_cast<std::ptrdiff_t>(behind) + 1, std::move(clamp));
    }

    Network& network_;
    Plants plants_;
    Dice dice_;
    std::vector<Kind> kinds_;
    std::vector<bool> common_;
};

}  // namespace detail

/// @param seed  the same one plants the same
inline void plant(Network& network, const Plants& plants, std::uint32_t seed) {
    detail::Planter(network, plants, seed).run();
}

}  // namespace intq::test

#endif  // INTQ_TESTS_SUPPORT_PLANTED_CHANNELS_HPP
