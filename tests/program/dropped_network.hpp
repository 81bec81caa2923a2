// SPDX-License-Identifier: MIT
//
// Compares a program without its constant channels with the whole one, and with the oracle of its channels.
#ifndef INTQ_TESTS_PROGRAM_DROPPED_NETWORK_HPP
#define INTQ_TESTS_PROGRAM_DROPPED_NETWORK_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "intq/program/constant_channels.hpp"
#include "intq/program/dropped_channels.hpp"
#include "intq/program/kept_outputs.hpp"
#include "kernels/tables/tables.hpp"
#include "program/channel_oracle.hpp"
#include "support/catch.hpp"
#include "support/planted_channels.hpp"
#include "support/random_program.hpp"
#include "support/same_bytes.hpp"

namespace intq::test {

/// A target, and the types of its activations.
struct Case {
    const char* target;
    std::size_t oracle;  // in oracle_targets()
    DType dtype;
};

/// Codes of a tensor in logical order, whatever their type.
inline std::vector<std::int64_t> codes_of(const intq::Tensor& tensor) {
    const intq::Tensor rows = tensor.contiguous();
    std::vector<std::int64_t> codes;
    if (rows.dtype() == DType::int8)
        codes.assign(rows.flat<std::int8_t>().begin(), rows.flat<std::int8_t>().end());
    else
        codes.assign(rows.flat<std::int16_t>().begin(), rows.flat<std::int16_t>().end());
    return codes;
}

/// Images of random codes, of one code, and of the two ends of the codes.
inline intq::Tensor images_of(const NetworkTensor& x, index_t random_images, Dice& dice) {
    const std::int64_t low = x.qparams.quant_min, high = x.qparams.quant_max;
    const index_t fixed = 7, images = random_images + fixed, plane = x.size.height * x.size.width;
    std::vector<std::int32_t> codes;
    for (index_t n = 0; n < images; ++n)
        for (index_t i = 0; i < x.channels * plane; ++i) {
            const bool is_odd = (i / x.size.width + i % x.size.width) % 2 != 0;
            const std::int64_t kinds[fixed] = {low,
                                               high,
                                               x.zero_point(),
                                               is_odd ? low : high,
                                               is_odd ? high : low,
                                               i / plane % 2 != 0 ? low : high,
                                               dice.percent(50) ? low : high};
            codes.push_back(static_cast<std::int32_t>(n < fixed ? kinds[n] : dice.between(low, high)));
        }
    return detail::tensor_of_codes(Shape(images, x.channels, x.size.height, x.size.width), x.qparams.dtype, codes);
}

/// What was dropped and removed in all networks of a test, so that it can say that it saw enough.
struct DroppedCount {
    int networks = 0, untouched = 0;
    int constant = 0, unread = 0, copies = 0;
    int folds = 0, folds_of_windows = 0, folds_at_padding = 0;  // of a channel into a layer that read it
    int kept_at_padding = 0;                                    // constant channels beside another zero point
    int kept_alone = 0;                                         // tensors of which one channel is left
};

/// One network, whole and without its constant channels.
class DroppedNetwork {
public:
    DroppedNetwork(const Network& network, const Case& of, index_t max_batch)
        : network_(network),
          table_(scalar_table(of.target)),
          intervals_(network_, oracle_targets()[of.oracle],
                     [this](const Network&, const NetworkLayer& layer) { return codes_of_table(layer); }),
          whole_(build(network_, table_, max_batch)),
          dropped_(program::drop_constant_channels(whole_.program)) {
        for (const runtime::DroppedChannel& channel : dropped_.program->program().dropped)
            for (int t = 0; t < static_cast<int>(network.tensors.size()); ++t)
                if (number(t) == channel.tensor) gone_[{t, channel.channel}] = channel;
    }

    void check(DroppedCount& count, std::uint32_t seed) {
        INFO(to_string(network_));
        check_channels();
        check_copies();
        Dice dice(seed);
        check_runs(10, dice);
        add_to(count);
    }
    void add_to(DroppedCount& count) const {
        ++count.networks;
        if (dropped_.program == whole_.program) ++count.untouched;
        for (const auto& [channel, gone] : gone_) ++(gone.is_constant ? count.constant : count.unread);
        count.copies += static_cast<int>(dropped_.copies.size());
        for (const NetworkLayer& layer : network_.layers)
            if (layer.has_weights() && layer.groups == 1) add_to(count, layer);
        for (int t = 0; t < static_cast<int>(network_.tensors.size()); ++t) {
            index_t left = 0;
            for (index_t c = 0; c < network_.tensor(t).channels; ++c) left += gone_.contains({t, c}) ? 0 : 1;
            count.kept_alone += left == 1 && network_.tensor(t).channels > 1 ? 1 : 0;
        }
    }

    const NetworkProgram& whole() const { return whole_; }
    const program::DroppedProgram& dropped() const { return dropped_; }

    /// The number of a tensor of the network in the program without its constant channels.
    std::int32_t number(int tensor) const {
        return dropped_.tensors.at(static_cast<std::size_t>(whole_.numbers.at(static_cast<std::size_t>(tensor))));
    }

    std::vector<intq::Tensor> inputs(index_t random_images, Dice& dice) const {
        std::vector<intq::Tensor> result;
        for (const int input : network_.inputs)
            result.push_back(images_of(network_.tensor(input), random_images, dice));
        if (network_.has_real_ends)
            for (std::size_t i = 0; i < result.size(); ++i)
                result[i] = real_numbers(network_.tensor(network_.inputs[i]), result[i]);
        return result;
    }
    /// The outputs of both programs have the same bytes.
    void check_outputs(const std::vector<intq::Tensor>& inputs) const {
        const auto expected = whole_.program->run(inputs), given = dropped_.program->run(inputs);
        REQUIRE(given.size() == expected.size());
        for (std::size_t i = 0; i < given.size(); ++i) CHECK(same_bytes(given[i], expected[i]));
    }
    /// And so has all that they compute in between.
    void check_runs(index_t random_images, Dice& dice) const {
        const std::vector<intq::Tensor> inputs = this->inputs(random_images, dice);
        check_outputs(inputs);
        const index_t images = inputs[0].extent(0);
        program::KeptOutputs all(whole_.program->program(), images), kept(dropped_.program->program(), images);
        whole_.program->run(inputs, serial, all.hook());
        dropped_.program->run(inputs, serial, kept.hook());
        for (const NetworkLayer& layer : network_.layers) {
            INFO(layer.name);
            const auto value = all.tensor(whole_.numbers[static_cast<std::size_t>(layer.output)]);
            REQUIRE(value);
            check_intervals(layer.output, *value);
            if (const auto& inputs_of = dropped_.program->program().inputs;
                std::find(inputs_of.begin(), inputs_of.end(), number(layer.output)) != inputs_of.end())
                continue;  // a removed copy of an input
            const auto rest = kept.tensor(number(layer.output));
            REQUIRE(rest);
            check_values(layer.output, *value, *rest);
        }
    }

private:
    void add_to(DroppedCount& count, const NetworkLayer& layer) const {
        const int x = layer.inputs[0];
        const bool has_window = layer.window.kernel.height * layer.window.kernel.width > 1;
        for (index_t c = 0; c < network_.tensor(x).channels; ++c) {
            const auto gone = gone_.find({x, c});
            const bool is_zero = intervals_.at(x, c).lowest == network_.tensor(x).zero_point();
            const bool folds = gone != gone_.end() && gone->second.is_constant;
            count.folds += folds && !is_zero ? 1 : 0;
            count.folds_of_windows += folds && !is_zero && has_window ? 1 : 0;
            count.folds_at_padding += folds && layer.has_padding() ? 1 : 0;
            count.kept_at_padding += !folds && layer.has_padding() && intervals_.at(x, c).is_constant() ? 1 : 0;
        }
    }
    /// Those that the codes stand for.
    static intq::Tensor real_numbers(const NetworkTensor& x, const intq::Tensor& codes) {
        std::vector<float> values;
        for (const std::int64_t code : codes_of(codes))
            values.push_back(static_cast<float>(code - x.zero_point()) * x.qparams.scale());
        return intq::Tensor::from(codes.shape(), values);
    }
    std::vector<std::int64_t> codes_of_table(const NetworkLayer& layer) {
        if (const auto known = tables_.find(layer.name); known != tables_.end()) return known->second;
        // A program of this table alone, over all codes.
        Network alone;
        alone.dtype = network_.dtype;
        const index_t side = network_.dtype == DType::int8 ? 16 : 256;
        for (const int tensor : {layer.inputs[0], layer.output}) {
            alone.tensors.push_back(network_.tensor(tensor));
            alone.tensors.back().channels = 1;
            alone.tensors.back().size = {side, side};
            alone.tensors.back().qparams.quant_min = lowest_code(network_.dtype);
            alone.tensors.back().qparams.quant_max = highest_code(network_.dtype);
        }
        alone.layers = {layer};
        alone.layers[0].inputs = {0}, alone.layers[0].output = 1;
        alone.inputs = {0}, alone.outputs = {1};
        std::vector<std::int32_t> codes;
        for (index_t i = 0; i < side * side; ++i)
            codes.push_back(static_cast<std::int32_t>(lowest_code(network_.dtype) + i));
        const intq::Tensor x = detail::tensor_of_codes(Shape(1, 1, side, side), network_.dtype, codes);
        return tables_[layer.name] = codes_of(build(alone, table_, 1).program->run(x));
    }

    std::string text(const Channel& channel) const {
        const CodeInterval& codes = intervals_.at(channel);
        return "channel " + std::to_string(channel.second) + " of tensor " + std::to_string(channel.first) + " (" +
               std::to_string(codes.lowest) + " to " + std::to_string(codes.highest) + ")\n";
    }

    /// Exactly the channels that may go are gone, with their codes.
    void check_channels() {
        const ChannelOracle channels(network_, intervals_);
        const auto expected = channels.droppable([this](int tensor) {
            // Which channel of a tensor stays that needs none is the program's choice.
            for (index_t c = 0; c < network_.tensor(tensor).channels; ++c)
                if (!gone_.contains({tensor, c})) return c;
            return index_t{0};
        });
        std::string missing, others, codes;
        for (const Channel& channel : expected)
            if (!gone_.contains(channel)) missing += text(channel);
        for (const auto& [channel, gone] : gone_) {
            const CodeInterval& known = intervals_.at(channel);
            if (!expected.contains(channel)) others += text(channel);
            const std::int64_t code = known.is_constant() ? known.lowest : network_.tensor(channel.first).zero_point();
            if (gone.is_constant != known.is_constant() || gone.code != code)
                codes +=
                    std::to_string(gone.code) + (gone.is_constant ? " constant" : " unread") + " for " + text(channel);
        }
        CHECK(missing == "");
        CHECK(others == "");
        CHECK(codes == "");
        if (expected.empty() && dropped_.copies.empty()) CHECK(dropped_.program == whole_.program);
    }

    /// What copies each code between the lowest and the highest of its input is removed, unless it writes an output of
    /// the program; what changes a code of a channel is not.
    void check_copies() const {
        const std::set<std::string> removed(dropped_.copies.begin(), dropped_.copies.end());
        CHECK(removed.size() == dropped_.copies.size());
        std::size_t known = 0;
        for (const NetworkLayer& layer : network_.layers) {
            if (layer.op != OpKind::relu && layer.op != OpKind::requantize && layer.op != OpKind::lookup_table)
                continue;
            INFO(layer.name);
            const auto& outputs = network_.outputs;
            const bool is_output =
                !network_.has_real_ends && std::find(outputs.begin(), outputs.end(), layer.output) != outputs.end();
            CodeInterval all = intervals_.at(layer.inputs[0], 0);
            bool copies_each = true;
            for (index_t c = 0; c < network_.tensor(layer.output).channels; ++c) {
                all = hull(all, intervals_.at(layer.inputs[0], c));
                copies_each = copies_each && intervals_.copies(layer, intervals_.at(layer.inputs[0], c));
            }
            const bool is_removed = removed.contains(layer.name);
            known += is_removed ? 1 : 0;
            if (is_removed) CHECK(copies_each);
            if (is_output || intervals_.copies(layer, all)) CHECK(is_removed != is_output);
            CHECK((number(layer.inputs[0]) == number(layer.output)) == is_removed);
        }
        CHECK(known == removed.size());
    }

    /// Each code lies in the interval of its channel: the oracle itself is right about it.
    void check_intervals(int tensor, const intq::Tensor& value) const {
        const auto codes = codes_of(value);
        const auto channels = static_cast<std::size_t>(network_.tensor(tensor).channels);
        const std::size_t plane = codes.size() / channels / static_cast<std::size_t>(value.extent(0));
        std::size_t outside = 0;
        for (std::size_t i = 0; i < codes.size(); ++i) {
            const CodeInterval& known = intervals_.at(tensor, static_cast<index_t>(i / plane % channels));
            outside += codes[i] < known.lowest || codes[i] > known.highest ? 1 : 0;
        }
        CHECK(outside == 0);
    }

    /// A whole tensor and what is left of it, filled up: channels that nobody reads hold the zero point.
    void check_values(int tensor, const intq::Tensor& whole, const intq::Tensor& rest) const {
        REQUIRE(rest.shape() == whole.shape());
        const auto expected = codes_of(whole), given = codes_of(rest);
        const auto channels = static_cast<std::size_t>(network_.tensor(tensor).channels);
        const std::size_t plane = expected.size() / channels / static_cast<std::size_t>(whole.extent(0));
        std::vector<bool> is_unread;
        for (std::size_t c = 0; c < channels; ++c) {
            const auto gone = gone_.find({tensor, static_cast<index_t>(c)});
            is_unread.push_back(gone != gone_.end() && !gone->second.is_constant);
        }
        const std::int64_t zero_point = network_.tensor(tensor).zero_point();
        std::size_t differences = 0;
        for (std::size_t i = 0; i < expected.size(); ++i)
            differences += given[i] == (is_unread[i / plane % channels] ? zero_point : expected[i]) ? 0 : 1;
        CHECK(differences == 0);
    }

    Network network_;
    const kernels::KernelTable& table_;
    std::map<std::string, std::vector<std::int64_t>> tables_;
    IntervalOracle intervals_;
    NetworkProgram whole_;
    program::DroppedProgram dropped_;
    std::map<Channel, runtime::DroppedChannel> gone_;
};

inline constexpr Case cases_of_dropped_networks[] = {{"fp32", 0, DType::int8},   {"tflite", 1, DType::int8},
                                                     {"litert", 6, DType::int8}, {"bayes", 4, DType::int8},
                                                     {"fp32", 0, DType::int16},  {"tflite", 1, DType::int16}};

/// Random networks with planted channels.
inline DroppedCount check_dropped_networks(const Case& of, std::uint32_t first_seed, std::uint32_t last_seed) {
    DroppedCount count;
    for (std::uint32_t seed = first_seed; seed <= last_seed; ++seed) {
        INFO("seed " << seed);
        Network network = random_network(scalar_table(of.target).policy(), of.dtype, seed);
        plant(network, {}, seed + 1000);
        DroppedNetwork(network, of, 4).check(count, seed);
    }
    return count;
}

}  // namespace intq::test

#endif  // INTQ_TESTS_PROGRAM_DROPPED_NETWORK_HPP
