// SPDX-License-Identifier: MIT
//
// prepare_qat_fx: a prepared model that is trained. Layer: quantization (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_PREPARE_PREPARE_QAT_HPP
#define INTQ_QUANTIZATION_PREPARE_PREPARE_QAT_HPP

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "intq/arith/target.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/fake_quantize/fake_quantize.hpp"
#include "intq/quantization/prepare/prepared_model.hpp"
#include "intq/quantization/qconfig/qconfig_mapping.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// The same graph as from prepare_calibration_fx, for training: the model is in training mode and its quantizers
/// observe and round (FakeQuantState::qat). PrepareOptions::qat_mode sets the treatment of batch norms, and
/// PreparedModel::report() names those that no layer takes. With PrepareOptions::verbose, the findings of
/// check_qat_model() are printed.
///
/// Result and errors as prepare_calibration_fx
std::shared_ptr<PreparedModel> prepare_qat_fx(const nn::Module& model, const QConfigMapping& mapping,
                                              const arith::PolicyRecord& target, const PrepareOptions& options = {});

/// The same with get_default_qat_qconfig_mapping() of the target, or for a model whose modules carry their own qconfigs
/// with only these.
std::shared_ptr<PreparedModel> prepare_qat_fx(const nn::Module& model, const arith::PolicyRecord& target,
                                              const PrepareOptions& options = {});

/// Copies the scales of each quantizer in a calibrated model to the quantizer of the same name, whatever their kinds;
/// observers of the same type take over the statistics too. Given scales stay given, and the shapes that the
/// calibration saw are known.
///
/// @throws Error naming the quantizer that the calibrated model lacks, that saw no data, or whose grid or statistics
///         do not fit the model's, and saying what differs (FakeQuantize::check_grid()); and the batch norm that no
///         layer takes, where one QATMode folded and the other kept it; before anything is changed
void load_calibration(PreparedModel& model, PreparedModel& calibrated);

namespace detail {

/// The quantizers that hold their own scales, by qualified name.
std::map<std::string, FakeQuantize*> fake_quantizers(nn::Module& model);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_prepare)

#    include <cstddef>

#    include "intq/io/error.hpp"
#    include "intq/quantization/check/check_qat_model.hpp"
#    include "intq/quantization/modules/batch_norm_conv.hpp"
#    include "intq/quantization/observers/observer.hpp"
#    include "intq/quantization/prepare/prepare_fx.hpp"
#    include "intq/quantization/qconfig/target_defaults.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::shared_ptr<PreparedModel> prepare_qat_fx(const nn::Module& model, const QConfigMapping& mapping,
                                                          const arith::PolicyRecord& target,
                                                          const PrepareOptions& options) {
    auto prepared = detail::prepare_graph(model, mapping, target, options);
    prepared->train();
    set_fake_quantize(*prepared, FakeQuantState::qat);
    if (!options.example_inputs.empty()) prepared->check_lowering();
    if (options.verbose > 0) check_qat_model(*prepared);
    return prepared;
}

INTQ_INLINE std::shared_ptr<PreparedModel> prepare_qat_fx(const nn::Module& model, const arith::PolicyRecord& target,
                                                          const PrepareOptions& options) {
    return prepare_qat_fx(model, detail::mapping_where_none_is_given(model, get_default_qat_qconfig_mapping(target)),
                          target, options);
}

namespace detail {

INTQ_INLINE std::map<std::string, FakeQuantize*> fake_quantizers(nn::Module& model) {
    std::map<std::string, FakeQuantize*> result;
    for (const auto& module : model.named_modules())
        if (auto* quantizer = dynamic_cast<FakeQuantize*>(module.value)) result.emplace(module.name, quantizer);
    return result;
}

}  // namespace detail

namespace detail {

/// The data that a quantizer takes over from a calibrated one.
struct CalibratedGrid {
    FakeQuantize* quantizer;
    const FakeQuantize* source;
    OwnedQParams grid;
    std::shared_ptr<Observer> statistics{};  // null if the observers are of different types
};

/// The state of an observer on a copy of another of its class, which refuses a state that its own options cannot
/// produce.
INTQ_INLINE std::shared_ptr<Observer> with_statistics(const Observer& observer, const Observer& seen) {
    const auto copy = std::static_pointer_cast<Observer>(nn::clone(static_cast<const nn::Module&>(observer)));
    for (std::size_t i = 0; i < seen.buffers().size(); ++i)
        copy->buffers().at(i).value = seen.buffers()[i].value.clone();
    copy->check_state();
    return copy;
}

/// Throws the Error that states the mismatch.
INTQ_INLINE CalibratedGrid calibrated_grid(FakeQuantize& quantizer, const FakeQuantize& source) {
    CalibratedGrid result{&quantizer, &source, source.qparams(), nullptr};
    // One scale serves all channels until the channels are counted.
    if (result.grid.scales.size() == 1) result.grid.axis = source.channel_axis();
    quantizer.check_grid(result.grid);
    if (quantizer.observer().type_name() == source.observer().type_name())
        result.statistics = with_statistics(quantizer.observer(), source.observer());
    return result;
}

}  // namespace detail

namespace detail {

/// The quantizer of a kept batch norm saw ones; the quantizer of a folded one saw the factors.
INTQ_INLINE void check_lone_norms(nn::Module& model, nn::Module& calibrated) {
    std::map<std::string, const BatchNormConv2d*> norms;
    for (const auto& module : calibrated.named_modules())
        norms.emplace(module.name, dynamic_cast<const BatchNormConv2d*>(module.value));
    for (const auto& module : model.named_modules()) {
        const auto* norm = dynamic_cast<const BatchNormConv2d*>(module.value);
        const auto found = norms.find(module.name);
        if (norm == nullptr || found == norms.end() || found->second == nullptr) continue;
        if ((norm->norm() == nullptr) != (found->second->norm() == nullptr))
            throw Error(module.name,
                        "load_calibration: no layer takes this batch norm, and one of the models keeps it where the "
                        "other folded it; calibrate in the same QATMode");
    }
}

}  // namespace detail

INTQ_INLINE void load_calibration(PreparedModel& model, PreparedModel& calibrated) {
    detail::check_lone_norms(model, calibrated);
    const auto from = detail::fake_quantizers(calibrated);
    std::vector<detail::CalibratedGrid> grids;
    for (const auto& [name, quantizer] : detail::fake_quantizers(model)) {
        const auto found = from.find(name);
        if (found == from.end()) throw Error(name, "load_calibration: the calibrated model has no such quantizer");
        if (!found->second->has_qparams()) throw Error(name, "load_calibration: it saw no data; calibrate first");
        try {
            grids.push_back(detail::calibrated_grid(*quantizer, *found->second));
        } catch (const Error& error) {
            throw Error(name, std::string("load_calibration: ") + error.what());
        }
    }
    for (const detail::CalibratedGrid& taken : grids) {
        if (taken.statistics != nullptr)
            for (std::size_t i = 0; i < taken.statistics->buffers().size(); ++i)
                taken.quantizer->observer().buffers().at(i).value = taken.statistics->buffers()[i].value;
        if (taken.source->has_given_qparams())
            taken.quantizer->set_qparams(taken.grid);
        else
            taken.quantizer->adopt(taken.grid);
    }
    for (const auto& module : model.named_modules()) {
        auto* const quantizer = dynamic_cast<GridChoiceFakeQuantize*>(module.value);
        if (quantizer == nullptr) continue;
        quantizer->take(dynamic_cast<const GridChoiceFakeQuantize&>(calibrated.find(module.name)));
    }
    model.take_input_shapes(calibrated);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_prepare)
#endif  // INTQ_QUANTIZATION_PREPARE_PREPARE_QAT_HPP
