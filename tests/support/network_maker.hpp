// SPDX-License-Identifier: MIT
//
// Makes networks of codes one layer at a time: each function adds a layer with random weights and a grid that fits
// them.
#ifndef INTQ_TESTS_SUPPORT_NETWORK_MAKER_HPP
#define INTQ_TESTS_SUPPORT_NETWORK_MAKER_HPP

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "intq/arith/target.hpp"
#include "support/small_network.hpp"

namespace intq::test {

/// Random numbers that are the same with every standard library.
class Dice {
public:
    explicit Dice(std::uint32_t seed) : random_(seed) {}
    /// From lowest to highest, both of them too.
    std::int64_t between(std::int64_t lowest, std::int64_t highest) {
        return lowest + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(highest - lowest + 1));
    }
    bool percent(int chance) { return between(0, 99) < chance; }
    float factor(float lowest, float highest) {
        return lowest + (highest - lowest) * static_cast<float>(between(0, 4095)) / 4096.0f;
    }
    template <class T> const T& one_of(const std::vector<T>& values) {
        return values.at(static_cast<std::size_t>(between(0, static_cast<std::int64_t>(values.size()) - 1)));
    }

private:
    std::mt19937 random_;
};

/// Each function returns the number of the tensor that its layer writes.
class NetworkMaker {
public:
    /// @param policy  of the target: whether it has zero points, and its rule of averages
    NetworkMaker(const arith::PolicyRecord& policy, DType dtype, std::uint32_t seed)
        : dice_(seed), divides_codes_(policy.average == arith::AverageRule::divide_codes) {
        network_.dtype = dtype;
        zero_points_ = policy.zero_points && dtype == DType::int8;
        counts_padding_ = !policy.zero_points;
    }

    Dice& dice() { return dice_; }
    const Network& network() const { return network_; }
    const NetworkTensor& at(int tensor) const { return network_.tensor(tensor); }

    /// @param is_bounded  narrower bounds are stated for its codes
    int input(index_t channels, Size2d size, bool is_bounded = false) {
        NetworkTensor x{channels, size, false, grid(0.05f)};
        if (is_bounded) {
            x.qparams.quant_min = (std::min)(std::int64_t{0}, x.zero_point()) - dice_.between(1, 20);
            x.qparams.quant_max = (std::max)(std::int64_t{0}, x.zero_point()) + dice_.between(1, 20);
            x.qparams.quant_min = (std::max)(x.qparams.quant_min, lowest_code(network_.dtype));
            x.qparams.quant_max = (std::min)(x.qparams.quant_max, highest_code(network_.dtype));
        }
        network_.inputs.push_back(tensor(x));
        return network_.inputs.back();
    }
    /// @param sumin  of a fused add; below 0: none
    int conv(int x, index_t out, const Window2d& window, index_t groups = 1, int sumin = -1) {
        return weighted(OpKind::conv2d, x, {out, output_size(window, at(x).size), false, {}}, window, groups, sumin);
    }
    /// Of vectors, or of whole images.
    int linear(int x, index_t out) {
        return weighted(OpKind::linear, x, {out, {1, 1}, true, {}}, {at(x).size, {1, 1}, {}, {1, 1}}, 1, -1);
    }
    /// @param op  add, sub, or mul, whose y may have the size 1 x 1
    int binary(OpKind op, int x, int y) {
        NetworkTensor z = at(x);
        const float a = at(x).qparams.scale(), b = at(y).qparams.scale();
        const float most = static_cast<float>(highest_code(network_.dtype));
        z.qparams = grid((op == OpKind::mul ? a * b * most * 0.6f : (std::max)(a, b)) * dice_.factor(0.8f, 1.6f));
        return push(clamped(op, {x, y}, z), z);
    }
    int relu(int x) {
        NetworkLayer layer = clamped(OpKind::relu, {x}, at(x));
        if (dice_.percent(70)) layer.lowest = at(x).zero_point();
        return push(layer, at(x));
    }
    int requantize(int x) {
        const NetworkTensor y = on_grid(x);
        return push(clamped(OpKind::requantize, {x}, y), y);
    }
    int look_up(int x, TableFunction function) {
        const NetworkTensor y = on_grid(x);
        NetworkLayer layer = plain(OpKind::lookup_table, {x});
        layer.function = function;
        return push(layer, y);
    }
    int max_pool(int x, const Window2d& window) { return pool(OpKind::max_pool2d, x, window, at(x).qparams); }
    /// A target that divides codes keeps the grid where there is padding.
    int avg_pool(int x, const Window2d& window) {
        const bool keeps = dice_.percent(40) || (divides_codes_ && !(window.padding == Padding2d{}));
        return pool(OpKind::avg_pool2d, x, window,
                    keeps ? at(x).qparams : grid(at(x).qparams.scale() * dice_.factor(0.5f, 1.1f)));
    }
    int cat(const std::vector<int>& parts) {
        NetworkTensor y = at(parts[0]);
        y.channels = 0;
        float scale = 0.0f;
        for (const int part : parts) {
            y.channels += at(part).channels;
            scale = (std::max)(scale, at(part).qparams.scale());
        }
        if (dice_.percent(50) || y.qparams.scale() * 16.0f < scale) y.qparams = grid(scale);
        return push(plain(OpKind::cat, parts), y);
    }
    int resize(int x, arith::Resize rule, Size2d size) {
        NetworkTensor y = at(x);
        y.size = size;
        NetworkLayer layer = plain(OpKind::interpolate, {x});
        layer.resize = rule;
        return push(layer, y);
    }
    int pad(int x, const kernels::PadParams& pad) {
        NetworkTensor y = at(x);
        y.size = kernels::padded_size(pad, y.size);
        NetworkLayer layer = plain(OpKind::pad, {x});
        layer.pad = pad;
        return push(layer, y);
    }
    int flatten(int x) {
        NetworkTensor y = at(x);
        y.channels *= y.size.height * y.size.width;
        y.size = {1, 1};
        y.is_vector = true;
        return push(plain(OpKind::flatten, {x}), y);
    }
    /// Rows and columns of an image, from one of each on.
    int slice(int x, index_t row, index_t column, Size2d size) {
        NetworkTensor y = at(x);
        y.size = size;
        NetworkLayer layer = plain(OpKind::slice, {x});
        layer.window.padding.top = row;
        layer.window.padding.left = column;
        return push(layer, y);
    }
    int transpose(int x) {
        NetworkTensor y = at(x);
        std::swap(y.size.height, y.size.width);
        return push(plain(OpKind::permute, {x}), y);
    }
    /// An image of one pixel, which is repeated.
    int repeat(int x, Size2d size) {
        NetworkTensor y = at(x);
        y.size = size;
        return push(plain(OpKind::reshape, {x}), y);
    }
    /// Random codes of the shape of x.
    int constant(int x) {
        NetworkTensor y = at(x);
        y.qparams = grid(y.qparams.scale());
        NetworkLayer layer = plain(OpKind::constant, {});
        const index_t elements = y.channels * y.size.height * y.size.width;
        for (index_t i = 0; i < elements; ++i)
            layer.codes.push_back(static_cast<std::int32_t>(dice_.between(y.qparams.quant_min, y.qparams.quant_max)));
        return push(layer, y);
    }

    Network finish(std::vector<int> outputs, bool has_real_ends = false) {
        network_.outputs = std::move(outputs);
        network_.has_real_ends = has_real_ends;
        return network_;
    }

private:
    int tensor(const NetworkTensor& made) {
        network_.tensors.push_back(made);
        return static_cast<int>(network_.tensors.size()) - 1;
    }
    int push(NetworkLayer layer, const NetworkTensor& output) {
        layer.name = std::string(name_of(layer.op)) + std::to_string(network_.layers.size());
        layer.output = tensor(output);
        network_.layers.push_back(std::move(layer));
        return network_.layers.back().output;
    }

    OwnedQParams grid(float scale) {
        OwnedQParams qparams = OwnedQParams::per_tensor(scale, network_.dtype);
        if (!zero_points_) return qparams;
        const std::int64_t low = qparams.quant_min, high = qparams.quant_max;
        const std::int64_t any = dice_.between(low * 3 / 4, high * 3 / 4);
        qparams.zero_points = {static_cast<std::int32_t>(dice_.one_of<std::int64_t>({0, low, any, any, any}))};
        return qparams;
    }
    /// The same, or another one like it, without stated bounds.
    NetworkTensor on_grid(int x) {
        NetworkTensor y = at(x);
        if (dice_.percent(60)) y.qparams = grid(y.qparams.scale() * dice_.factor(0.7f, 1.5f));
        y.qparams.quant_min = lowest_code(network_.dtype);
        y.qparams.quant_max = highest_code(network_.dtype);
        return y;
    }
    NetworkLayer plain(OpKind op, std::vector<int> inputs) const {
        NetworkLayer layer;
        layer.op = op;
        layer.inputs = std::move(inputs);
        layer.lowest = lowest_code(network_.dtype), layer.highest = highest_code(network_.dtype);
        return layer;
    }
    /// With no clamp, that of a ReLU, or a clamp of both sides.
    NetworkLayer clamped(OpKind op, std::vector<int> inputs, const NetworkTensor& y) {
        NetworkLayer layer = plain(op, std::move(inputs));
        if (dice_.percent(50)) return layer;
        layer.lowest = y.zero_point();
        if (dice_.percent(30)) layer.highest = dice_.between(layer.lowest, layer.highest);
        return layer;
    }
    /// Grid and bias fit the deviation of a sum of random products.
    int weighted(OpKind op, int x, NetworkTensor y, const Window2d& window, index_t groups, int sumin) {
        const index_t terms = at(x).channels / groups * window.kernel.height * window.kernel.width;
        const float weight = 0.004f * dice_.factor(0.5f, 2.0f), reach = 70.0f * std::sqrt(static_cast<float>(terms));
        y.qparams = grid(at(x).qparams.scale() * weight * reach * dice_.factor(0.6f, 1.8f));
        NetworkLayer layer = clamped(op, {x}, y);
        if (sumin >= 0) layer.inputs.push_back(sumin);
        layer.window = window;
        layer.groups = groups;
        for (index_t i = 0; i < y.channels * terms; ++i) {
            const auto code = static_cast<std::int32_t>(dice_.between(1, 127));
            layer.weights.push_back(dice_.percent(50) ? code : -code);
        }
        const auto most = static_cast<std::int64_t>(reach * static_cast<float>(highest_code(network_.dtype)) * 0.4f);
        for (index_t o = 0; o < y.channels; ++o) {
            layer.weight_scales.push_back(weight * dice_.factor(0.8f, 1.2f));
            layer.bias.push_back(dice_.between(-most, most));
        }
        return push(std::move(layer), y);
    }
    int pool(OpKind op, int x, const Window2d& window, const OwnedQParams& qparams) {
        NetworkTensor y = at(x);
        y.size = output_size(window, y.size);
        y.qparams = qparams;
        NetworkLayer layer = plain(op, {x});
        layer.window = window;
        if (counts_padding_) layer.divisor = PoolDivisor::kernel_cells;
        return push(layer, y);
    }

    Dice dice_;
    bool divides_codes_, zero_points_ = false, counts_padding_ = false;
    Network network_;
};

}  // namespace intq::test

#endif  // INTQ_TESTS_SUPPORT_NETWORK_MAKER_HPP
