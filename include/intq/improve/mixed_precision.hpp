// SPDX-License-Identifier: MIT
//
// The mixed choice of int8 and int16: the best assignment within a budget of time or of accuracy. Layer: improve.
#ifndef INTQ_IMPROVE_MIXED_PRECISION_HPP
#define INTQ_IMPROVE_MIXED_PRECISION_HPP

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "intq/core/dtype.hpp"
#include "intq/quantization/prepare/qconfig_rules.hpp"
#include "intq/quantization/qconfig/qconfig.hpp"
#include "intq/quantization/qconfig/qconfig_mapping.hpp"

namespace intq::improve {
inline namespace INTQ_HOSTED_ABI {

/// The cost of a layer in one type.
struct TypeCost {
    double loss = 0.0;     // of accuracy, in any additive measure where more is worse
    double seconds = 0.0;  // measured
    friend bool operator==(const TypeCost&, const TypeCost&) = default;
};

struct LayerCosts {
    std::string layer;  // qualified name
    TypeCost int8{}, int16{};
};

/// An assignment.
struct MixedPrecision {
    std::vector<std::string> int16{};  // the layers in int16, in the order of the costs; the others are in int8
    double loss = 0.0;                 // sums over all layers
    double seconds = 0.0;
};

/// The assignment with the least loss within a time, or the least time within a loss.
///
/// A layer takes the type that is better in both respects if there is one, and int8 if they are equal. For the others
/// the question is a knapsack problem, which solve_knapsack() solves exactly (the proof is there). The weight is the
/// slower type's extra time and the value is the loss that it saves, or the other way round. The losses and times of
/// layers are added: the method assumes that each layer loses the same whatever the choice of the others.
///
/// @param budget  counts as met up to 10^-12 of the sums, to allow for their rounding
/// @throws Error where no assignment meets the budget, naming the least possible; for a cost that is not finite, a time
///         below 0 and a layer that comes twice
MixedPrecision choose_within_seconds(std::span<const LayerCosts> costs, double budget);
MixedPrecision choose_within_loss(std::span<const LayerCosts> costs, double budget);

/// The measured time of a layer in both types.
struct LayerTimes {
    std::string layer;
    double int8 = 0.0, int16 = 0.0;  // seconds
};

/// Costs from a sensitivity list (quantization::read_sensitivity_list) whose metric grows with the loss (L1, MSE, KL):
/// in int8 a layer loses the largest metric of its rows, in int16 nothing. Throws for a layer that only one of the two
/// knows, and for a negative metric.
std::vector<LayerCosts> layer_costs(std::span<const quantization::SensitiveOperator> sensitivity,
                                    std::span<const LayerTimes> times);

/// Reads lines `layer int8_loss int16_loss int8_seconds int16_seconds`; empty lines and those that begin with # are
/// skipped. Any other line, and a file without costs, is an Error that names file and line.
std::vector<LayerCosts> read_layer_costs(const std::filesystem::path& path);

/// Writes a file for read_layer_costs(), with a line of column names, and each number with all its digits. Throws for a
/// name with a space or a #, which could not be read back.
void write_layer_costs(const std::filesystem::path& path, std::span<const LayerCosts> costs);

/// Gives the layers in int16 a qconfig by name. The last layer keeps its accumulator as output, if it has one
/// (QConfig::keeps_high_precision).
void set_mixed_precision(quantization::QConfigMapping& mapping, const MixedPrecision& choice,
                         const quantization::QConfig& int16 = quantization::get_default_calib_qconfig(DType::int16,
                                                                                                      DType::int8));

namespace detail {

/// Whether both numbers are finite and the time is not below 0.
bool is_cost(const TypeCost& cost);

/// A finite number that is the whole word.
std::optional<double> finite_number(std::string_view word);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::improve

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(improve)

#    include <algorithm>
#    include <charconv>
#    include <cmath>
#    include <cstddef>
#    include <map>
#    include <set>
#    include <system_error>
#    include <utility>

#    include "intq/improve/internal/knapsack.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/file.hpp"

namespace intq::improve {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE bool is_cost(const TypeCost& cost) {
    return std::isfinite(cost.loss) && std::isfinite(cost.seconds) && cost.seconds >= 0.0;
}

INTQ_INLINE void check_costs(std::span<const LayerCosts> costs, double budget) {
    if (!std::isfinite(budget)) throw Error("mixed precision: the budget must be a finite number");
    std::set<std::string> names;
    for (const LayerCosts& layer : costs) {
        if (!names.insert(layer.layer).second) throw Error(layer.layer, "mixed precision: its costs are given twice");
        for (const TypeCost& cost : {layer.int8, layer.int16})
            if (!is_cost(cost))
                throw Error(layer.layer, "mixed precision: a loss of " + shortest_text(cost.loss) + " and a time of " +
                                             shortest_text(cost.seconds) +
                                             " s; both must be finite, and no time is below 0");
    }
}

/// The least of one cost within a budget of another.
INTQ_INLINE MixedPrecision choose(std::span<const LayerCosts> costs, double TypeCost::*wanted,
                                  double TypeCost::*limited, double budget, const char* what) {
    check_costs(costs, budget);
    std::vector<bool> is_int16;     // where no budget is spent needlessly
    std::vector<std::size_t> open;  // layers whose other type costs more budget and less of `wanted`
    std::vector<KnapsackItem> items;
    double least = 0, size = (std::abs)(budget);
    for (const LayerCosts& layer : costs) {
        const double more = layer.int16.*limited - layer.int8.*limited, gain = layer.int8.*wanted - layer.int16.*wanted;
        const bool is_cheap = more < 0.0 || (more == 0.0 && gain > 0.0);
        if ((more > 0.0 && gain > 0.0) || (more < 0.0 && gain < 0.0)) {
            open.push_back(is_int16.size());
            items.push_back({(std::abs)(more), (std::abs)(gain)});
        }
        is_int16.push_back(is_cheap);
        least += (is_cheap ? layer.int16 : layer.int8).*limited;
        size += (std::max)((std::abs)(layer.int8.*limited), (std::abs)(layer.int16.*limited));
    }
    const double capacity = budget - least + 1e-12 * size;
    if (capacity < 0.0)
        throw Error(std::string("mixed precision: no assignment has a ") + what + " of " + shortest_text(budget) +
                    " or less; the least is " + shortest_text(least));
    const std::vector<bool> chosen = solve_knapsack(items, capacity);
    for (std::size_t i = 0; i < open.size(); ++i)
        if (chosen[i]) is_int16[open[i]] = !is_int16[open[i]];
    MixedPrecision result;
    for (std::size_t i = 0; i < costs.size(); ++i) {
        const TypeCost& cost = is_int16[i] ? costs[i].int16 : costs[i].int8;
        if (is_int16[i]) result.int16.push_back(costs[i].layer);
        result.loss += cost.loss;
        result.seconds += cost.seconds;
    }
    return result;
}

INTQ_INLINE std::optional<double> finite_number(std::string_view word) {
    double value = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || stop != word.data() + word.size() || !std::isfinite(value)) return std::nullopt;
    return value;
}

}  // namespace detail

INTQ_INLINE MixedPrecision choose_within_seconds(std::span<const LayerCosts> costs, double budget) {
    return detail::choose(costs, &TypeCost::loss, &TypeCost::seconds, budget, "time in seconds");
}

INTQ_INLINE MixedPrecision choose_within_loss(std::span<const LayerCosts> costs, double budget) {
    return detail::choose(costs, &TypeCost::seconds, &TypeCost::loss, budget, "loss");
}

INTQ_INLINE std::vector<LayerCosts> layer_costs(std::span<const quantization::SensitiveOperator> sensitivity,
                                                std::span<const LayerTimes> times) {
    std::map<std::string, double> losses;
    for (const auto& op : sensitivity) {
        if (!(op.metric >= 0.0))
            throw Error(op.op_name, "layer_costs: the metric is " + shortest_text(op.metric) +
                                        "; one that is never negative and grows with the loss is needed");
        double& loss = losses.emplace(op.op_name, 0.0).first->second;
        loss = (std::max)(loss, op.metric);
    }
    std::vector<LayerCosts> costs;
    for (const LayerTimes& layer : times) {
        const auto loss = losses.find(layer.layer);
        if (loss == losses.end()) throw Error(layer.layer, "layer_costs: the sensitivity list does not know it");
        costs.push_back({layer.layer, {loss->second, layer.int8}, {0.0, layer.int16}});
        losses.erase(loss);
    }
    if (!losses.empty())
        throw Error(losses.begin()->first, "layer_costs: its time is not given, or it was given twice");
    return costs;
}

INTQ_INLINE std::vector<LayerCosts> read_layer_costs(const std::filesystem::path& path) {
    const std::vector<std::byte> bytes = io::read_file(path);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    std::vector<LayerCosts> costs;
    std::size_t number = 0;
    for (std::size_t start = 0; start < text.size();) {
        const std::size_t end = (std::min)(text.find('\n', start), text.size());
        const std::string line(text.substr(start, end - start));
        start = end + 1;
        ++number;
        const std::vector<std::string> words = io::words_of(line);
        if (words.empty() || words[0][0] == '#') continue;
        std::vector<double> numbers;
        for (std::size_t i = 1; i < words.size(); ++i)
            if (const auto value = detail::finite_number(words[i])) numbers.push_back(*value);
        if (words.size() != 5 || numbers.size() != 4)
            throw Error(path.string() + ":" + std::to_string(number),
                        "expected a layer, its loss in int8 and int16, and its seconds in int8 and int16, given " +
                            in_quotes(line));
        costs.push_back({words[0], {numbers[0], numbers[2]}, {numbers[1], numbers[3]}});
    }
    if (costs.empty()) throw Error(path.string(), "no line of it holds the costs of a layer");
    return costs;
}

INTQ_INLINE void write_layer_costs(const std::filesystem::path& path, std::span<const LayerCosts> costs) {
    std::string text = "# layer int8_loss int16_loss int8_seconds int16_seconds\n";
    for (const LayerCosts& layer : costs) {
        const bool is_one_word = io::words_of(layer.layer) == std::vector<std::string>{layer.layer};
        if (!is_one_word || layer.layer[0] == '#')
            throw Error(path.string(), in_quotes(layer.layer) + " is no name for a line of costs");
        text += layer.layer;
        for (const double number : {layer.int8.loss, layer.int16.loss, layer.int8.seconds, layer.int16.seconds})
            text += " " + shortest_text(number);
        text += "\n";
    }
    io::write_file(path, text);
}

INTQ_INLINE void set_mixed_precision(quantization::QConfigMapping& mapping, const MixedPrecision& choice,
                                     const quantization::QConfig& int16) {
    quantization::QConfig qconfig = int16;
    qconfig.keeps_high_precision = true;
    for (const std::string& layer : choice.int16) mapping.set_module_name(layer, qconfig);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::improve

#endif  // INTQ_DEFINES(improve)
#endif  // INTQ_IMPROVE_MIXED_PRECISION_HPP
