// SPDX-License-Identifier: MIT
//
// The type names of layers with weights and of batch norms, with all that may be fused into them. Layer: numeric_suite
// (docs/workflow.md section 5).
#ifndef INTQ_NUMERIC_SUITE_LOGGERS_LAYER_TYPES_HPP
#define INTQ_NUMERIC_SUITE_LOGGERS_LAYER_TYPES_HPP

#include <set>
#include <string>
#include <vector>

#include "intq/nn/layers/conv.hpp"
#include "intq/nn/layers/conv3d.hpp"
#include "intq/nn/layers/fusion.hpp"
#include "intq/nn/layers/linear.hpp"

namespace intq::numeric_suite {
inline namespace INTQ_HOSTED_ABI {

/// A quantized type has two spellings, its class's and PyTorch's module's: "QuantizedLinear" is "quantized.Linear".
/// This returns the second for both; other types are unchanged. Both spellings are accepted wherever types are passed.
std::string type_word(const std::string& type);
/// Whether a set has a type, in either spelling.
bool holds_type(const std::set<std::string>& types, const std::string& type);

namespace detail {

/// Layers with weights: the operator's name, and the type's with the operators fused into it.
struct WeightedFamily {
    const char* name;
    std::string (*type)(const nn::Fusion&);
};
inline constexpr WeightedFamily weighted_families[] = {{"conv1d", &nn::Conv1d::fused_type_name},
                                                       {"conv2d", &nn::Conv2d::fused_type_name},
                                                       {"conv3d", &nn::Conv3d::fused_type_name},
                                                       {"conv_transpose1d", &nn::ConvTranspose1d::fused_type_name},
                                                       {"conv_transpose2d", &nn::ConvTranspose2d::fused_type_name},
                                                       {"conv_transpose3d", &nn::ConvTranspose3d::fused_type_name},
                                                       {"linear", &nn::Linear::fused_type_name}};

/// "Conv2d", "ConvReLU2d", "ConvBnAddReLU62d", …: the names of a family with all that may be fused into it.
std::vector<std::string> type_names(const WeightedFamily& family);

/// The computation of a layer with its fused operators: "conv2d", "conv2d with relu", "linear with add, relu6", "batch
/// norm 2d", …; empty for another type. A batch norm behind a product counts as folded.
std::string computed_by(const std::string& plain_type);

/// "BatchNorm2d", "BNReLU2d", …: a batch norm of 1, 2 or 3 dimensions with all that may be fused into it.
std::vector<std::string> batch_norm_names(int dimensions);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(numeric_suite_loggers)

#    include <algorithm>
#    include <cstddef>
#    include <string_view>

#    include "intq/nn/layers/norm.hpp"

namespace intq::numeric_suite {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::string type_word(const std::string& type) {
    constexpr std::string_view prefix = "Quantized";
    return type.size() > prefix.size() && type.starts_with(prefix) ? "quantized." + type.substr(prefix.size()) : type;
}

INTQ_INLINE bool holds_type(const std::set<std::string>& types, const std::string& type) {
    return std::any_of(types.begin(), types.end(),
                       [word = type_word(type)](const std::string& one) { return type_word(one) == word; });
}

namespace detail {

INTQ_INLINE std::string computed_by(const std::string& plain_type) {
    const auto with = [](const std::string& name, bool add, Activation activation) {
        std::string behind = add ? "add" : "";
        if (activation != Activation::none)
            behind += std::string(behind.empty() ? "" : ", ") + (activation == Activation::relu ? "relu" : "relu6");
        return behind.empty() ? name : name + " with " + behind;
    };
    for (const WeightedFamily& family : weighted_families)
        for (const bool norm : {false, true})
            for (const bool add : {false, true})
                for (const Activation activation : {Activation::none, Activation::relu, Activation::relu6})
                    if (family.type(nn::Fusion{add, activation, norm}) == plain_type)
                        return with(family.name, add, activation);
    for (const int dimensions : {1, 2, 3}) {
        const std::vector<std::string> names = batch_norm_names(dimensions);
        constexpr Activation activations[] = {Activation::none, Activation::relu, Activation::relu6};
        for (std::size_t i = 0; i < names.size(); ++i)
            if (names[i] == plain_type)
                return with("batch norm " + std::to_string(dimensions) + "d", false, activations[i]);
    }
    return "";
}

INTQ_INLINE std::vector<std::string> type_names(const WeightedFamily& family) {
    std::vector<std::string> names;
    for (const bool norm : {false, true})
        for (const bool add : {false, true})
            for (const Activation activation : {Activation::none, Activation::relu, Activation::relu6})
                names.push_back(family.type(nn::Fusion{add, activation, norm}));
    return names;
}

INTQ_INLINE std::vector<std::string> batch_norm_names(int dimensions) {
    const std::string plain = "BatchNorm" + std::to_string(dimensions) + "d";
    return {plain, nn::fused_norm_name(plain, Activation::relu), nn::fused_norm_name(plain, Activation::relu6)};
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite

#endif  // INTQ_DEFINES(numeric_suite_loggers)
#endif  // INTQ_NUMERIC_SUITE_LOGGERS_LAYER_TYPES_HPP
