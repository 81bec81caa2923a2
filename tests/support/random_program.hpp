// SPDX-License-Identifier: MIT
//
// Random small networks: which layers, and how they hang together. Their weights are random as well, and nothing is
// planted in them (support/planted_channels.hpp).
#ifndef INTQ_TESTS_SUPPORT_RANDOM_PROGRAM_HPP
#define INTQ_TESTS_SUPPORT_RANDOM_PROGRAM_HPP

#include <algorithm>
#include <cstdint>
#include <vector>

#include "support/network_maker.hpp"

namespace intq::test {

/// How large a random network may be.
struct NetworkLimits {
    index_t channels = 12;                    // of a convolution; a cat may have twice as many
    index_t largest_image = 9;                // of an input; pads and resizes may add three
    int fewest_layers = 4, most_layers = 11;  // besides the last ones
};

namespace detail {

/// Grows a network by random layers. Images that no layer reads yet are read first.
class RandomNetwork {
public:
    RandomNetwork(const arith::PolicyRecord& policy, DType dtype, std::uint32_t seed, const NetworkLimits& limits)
        : maker_(policy, dtype, seed), dice_(maker_.dice()), limits_(limits), fused_add_(policy.fused_add) {}

    Network run() {
        const Size2d size{dice_.between(3, limits_.largest_image), dice_.between(3, limits_.largest_image)};
        made(maker_.input(dice_.between(2, 8), size, dice_.percent(20)));
        if (dice_.percent(15)) made(maker_.input(dice_.between(2, 4), size));
        const auto layers = dice_.between(limits_.fewest_layers, limits_.most_layers);
        for (std::int64_t i = 0; i < layers; ++i) made(random_layer(source()));
        const std::vector<int> outputs = dice_.percent(65) ? std::vector<int>{one_head()} : open_ends();
        return maker_.finish(outputs, dice_.percent(20));
    }

private:
    void made(int tensor) { images_.push_back(tensor); }
    const NetworkTensor& at(int tensor) const { return maker_.at(tensor); }

    std::vector<int> unread() const {
        std::vector<int> ends;
        for (const int image : images_) {
            const auto reads = [&](const NetworkLayer& layer) {
                return std::find(layer.inputs.begin(), layer.inputs.end(), image) != layer.inputs.end();
            };
            const auto& layers = maker_.network().layers;
            if (std::none_of(layers.begin(), layers.end(), reads)) ends.push_back(image);
        }
        return ends;
    }
    int source() {
        const std::vector<int> ends = unread();
        return dice_.one_of(!ends.empty() && dice_.percent(75) ? ends : images_);
    }

    index_t channels() { return dice_.between(2, limits_.channels); }
    Window2d square(index_t kernel, index_t padding) const {
        return {{kernel, kernel}, {1, 1}, {padding, padding, padding, padding}, {1, 1}};
    }
    Window2d whole(int x) const { return {at(x).size, {1, 1}, {}, {1, 1}}; }
    /// Of a convolution, or of a pool, whose windows must meet the image.
    Window2d window(int x, bool of_pool) {
        const Size2d size = at(x).size;
        const auto kernel = [&](index_t extent) {
            return dice_.between(1, (std::min)(extent, index_t{of_pool ? 3 : 5}));
        };
        Window2d w{{kernel(size.height), kernel(size.width)}, {dice_.between(1, 2), dice_.between(1, 2)}, {}, {1, 1}};
        if (dice_.percent(60)) w.kernel.width = (std::min)(w.kernel.height, size.width);
        if (dice_.percent(35)) {
            const index_t tall = of_pool ? w.kernel.height / 2 : 2, wide = of_pool ? w.kernel.width / 2 : 2;
            w.padding = {dice_.between(0, tall), dice_.between(0, wide), dice_.between(0, tall),
                         dice_.between(0, wide)};
        }
        if (!of_pool && dice_.percent(25)) {
            w.dilation = {2, 2};
            if (!check_span(w, size, OpKind::conv2d)) w.dilation = {1, 1};
        }
        return w;
    }
    /// Another image of the same size, and of as many channels where it matters.
    int beside(int x, bool same_channels) {
        std::vector<int> found;
        for (const int image : images_)
            if (image != x && at(image).size == at(x).size && (!same_channels || at(image).channels == at(x).channels))
                found.push_back(image);
        if (!found.empty() && dice_.percent(60)) return dice_.one_of(found);
        if (dice_.percent(12)) return maker_.constant(x);
        return maker_.conv(x, same_channels ? at(x).channels : channels(),
                           dice_.percent(50) ? square(1, 0) : square(3, 1));
    }

    int random_layer(int x) {
        const auto kind = dice_.between(0, 99);
        if (kind < 34) return maker_.conv(x, channels(), window(x, false));
        if (kind < 42) {
            const index_t multiplier = at(x).channels <= limits_.channels / 2 && dice_.percent(20) ? 2 : 1;
            return maker_.conv(x, multiplier * at(x).channels, window(x, false), at(x).channels);
        }
        if (kind < 49 && at(x).channels % 2 == 0 && at(x).channels > 2) {
            const index_t out = dice_.percent(60) ? at(x).channels : 2 * dice_.between(1, 4);
            return maker_.conv(x, out, window(x, false), 2);
        }
        if (kind < 60) return maker_.binary(dice_.percent(70) ? OpKind::add : OpKind::sub, x, beside(x, true));
        if (kind < 63) return maker_.binary(OpKind::mul, x, beside(x, true));
        if (kind < 65) return maker_.binary(OpKind::mul, x, maker_.avg_pool(x, whole(x)));
        if (kind < 70 && fused_add_) return maker_.conv(x, at(x).channels, square(3, 1), 1, beside(x, true));
        return random_move(x, kind);
    }
    int random_move(int x, std::int64_t kind) {
        const Size2d size = at(x).size;
        const bool is_large = size.height > limits_.largest_image || size.width > limits_.largest_image;
        if (kind < 73 || size == Size2d{1, 1}) return maker_.relu(x);  // of one pixel a move would copy all
        if (kind < 75) {
            const index_t first = dice_.between(0, size.width / 2);
            return maker_.slice(x, (std::min)(first, size.height / 2), first,
                                {(size.height + 1) / 2, (size.width + 1) / 2});
        }
        if (kind < 76) return maker_.transpose(x);
        if (kind < 77) return maker_.repeat(maker_.max_pool(x, whole(x)), size);
        if (kind < 80) return maker_.requantize(x);
        if (kind < 84)
            return maker_.look_up(x, dice_.one_of<TableFunction>({TableFunction::silu, TableFunction::elu,
                                                                  TableFunction::hard_tanh, TableFunction::gelu_erf}));
        if (kind < 88) return maker_.max_pool(x, window(x, true));
        if (kind < 91) return maker_.avg_pool(x, window(x, true));
        if (kind < 96 && at(x).channels <= limits_.channels) {
            const int y = beside(x, false);
            if (at(y).channels <= limits_.channels) return maker_.cat({x, y});
        }
        if (kind < 98 && !is_large)
            return maker_.resize(x, dice_.percent(50) ? arith::Resize::nearest : arith::Resize::half_pixel,
                                 {size.height + dice_.between(0, 3), size.width + dice_.between(0, 3)});
        if (is_large)
            return maker_.max_pool(
                x, {{(std::min)(size.height, index_t{2}), (std::min)(size.width, index_t{2})}, {2, 2}, {}, {1, 1}});
        const OwnedQParams& q = at(x).qparams;
        const std::int64_t fill = dice_.percent(50) ? at(x).zero_point() : dice_.between(q.quant_min, q.quant_max);
        return maker_.pad(x, {{dice_.between(0, 1), dice_.between(0, 1), dice_.between(0, 1), 1},
                              {1, 1},
                              static_cast<std::int32_t>(fill)});
    }

    int vector(int x) {
        const bool is_small = at(x).size.height * at(x).size.width <= 16;
        if (is_small && dice_.percent(50)) return maker_.flatten(x);
        return maker_.flatten(dice_.percent(50) ? maker_.avg_pool(x, whole(x)) : maker_.max_pool(x, whole(x)));
    }
    /// All open ends come together in one vector.
    int one_head() {
        const std::vector<int> ends = unread();
        if (ends.size() == 1 && dice_.percent(40)) return maker_.linear(ends[0], 5);
        std::vector<int> pooled;
        for (const int end : ends) pooled.push_back(maker_.max_pool(end, whole(end)));
        return maker_.linear(ends.size() == 1 ? vector(ends[0]) : maker_.flatten(maker_.cat(pooled)), 5);
    }
    /// One open end gets a linear layer, the others stay.
    std::vector<int> open_ends() {
        std::vector<int> outputs = unread();
        outputs.back() = maker_.linear(vector(outputs.back()), 3);
        return outputs;
    }

    NetworkMaker maker_;
    Dice& dice_;
    NetworkLimits limits_;
    bool fused_add_;
    std::vector<int> images_;
};

}  // namespace detail

/// A network that the target takes. The same seed gives the same network.
///
/// @param dtype  int8 or int16, of all codes but the weights, which are int8
inline Network random_network(const arith::PolicyRecord& policy, DType dtype, std::uint32_t seed,
                              const NetworkLimits& limits = {}) {
    return detail::RandomNetwork(policy, dtype, seed, limits).run();
}

}  // namespace intq::test

#endif  // INTQ_TESTS_SUPPORT_RANDOM_PROGRAM_HPP
