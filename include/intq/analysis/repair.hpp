// SPDX-License-Identifier: MIT
//
// How a model is quantized, as something that can be changed and done again, and one such change. Layer: analysis
// (docs/debugging.md).
#ifndef INTQ_ANALYSIS_REPAIR_HPP
#define INTQ_ANALYSIS_REPAIR_HPP

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "intq/arith/target.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/prepare/prepared_model.hpp"
#include "intq/quantization/qconfig/qconfig_mapping.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

/// All that decides how a float model is quantized by calibration: what a program of its author does, as data.
///
///     QuantizationRecipe recipe{net, get_default_qconfig_mapping(policy), policy, batches_of(images, 32)};
///     const auto prepared = recipe.make();
struct QuantizationRecipe {
    nn::ModulePtr float_model{};  // is not changed
    quantization::QConfigMapping mapping{};
    arith::PolicyRecord target{};
    quantization::BatchSource calibration{};
    quantization::PrepareOptions options{};
    bool equalizes = false;  // fuse_fx() and improve::equalize() before prepare
    /// What is done behind calibration, in this order: scales that are given, AdaRound, bias correction.
    std::vector<std::function<void(quantization::PreparedModel&, const quantization::BatchSource&)>> afterwards{};

    /// The model prepared and calibrated, from the beginning: a copy of float_model.
    std::shared_ptr<quantization::PreparedModel> make() const;
};

enum class RepairKind : std::uint8_t {
    qconfig,      // another qconfig for one operator
    equalize,     // improve::equalize() before prepare
    calibrate,    // calibration on other data, with other observers
    set_qparams,  // a scale that is given
    adaround,     // improve::adaround() of one layer
    correct_bias  // improve::correct_bias()
};

/// "qconfig", "equalize", "calibrate", "set_qparams", "adaround", "correct_bias".
const char* name_of(RepairKind kind);

/// A change that can be applied as it is.
struct Repair {
    RepairKind kind = RepairKind::qconfig;
    std::string mod_name;  // the operator that it changes; empty where it is the whole model
    std::string line;      // in C++, with the names of docs/debugging.md: mapping, prepared, batches, float_model
    std::function<void(QuantizationRecipe&)> change{};

    void apply(QuantizationRecipe& recipe) const { change(recipe); }
};

/// {"kind": …, "mod_name": …, "line": …}
std::string to_json(const Repair& repair);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_ANALYSIS_REPAIR_HPP
