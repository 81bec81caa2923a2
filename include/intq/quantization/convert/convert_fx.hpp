// SPDX-License-Identifier: MIT
//
// convert_fx: from a calibrated model to a QuantizedGraph, which the reference graph and the program are made of.
// Layer: quantization (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_CONVERT_CONVERT_FX_HPP
#define INTQ_QUANTIZATION_CONVERT_CONVERT_FX_HPP

#include "intq/arith/target.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/quantization/prepare/prepared_model.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// The steps of a prepared model, with all scales, the weights' codes under raised scales, and the real biases.
///
/// The prepared model stays as it is. The shapes of its values are those of its last run, of the example_inputs of
/// prepare, or of the state that was loaded. Throws the Error that names the first quantizer that has seen no data, and
/// that of a model whose shapes are not known.
///
/// @param target  the one that the model was prepared for, unless another with the same operators is wanted
QuantizedGraph convert_fx(PreparedModel& prepared, const arith::PolicyRecord& target);
QuantizedGraph convert_fx(PreparedModel& prepared);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_convert)

#    include <string>
#    include <utility>

#    include "intq/graph/operators.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/model/module.hpp"
#    include "intq/quantization/fake_quantize/grid_choice.hpp"
#    include "intq/quantization/modules/quantizer_of.hpp"
#    include "intq/quantization/operators/internal/graph_converter.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE QuantizedGraph convert_fx(PreparedModel& prepared) { return convert_fx(prepared, prepared.target()); }

namespace detail {

/// Converts with the scales that the quantizers of a prepared model have.
class Converter : public GraphConverter {
public:
    Converter(PreparedModel& model, const arith::PolicyRecord& target) : GraphConverter(model, target), model_(model) {}

    QuantizedGraph run() {
        choose_grids(model_);
        check_seen();
        ensure_shapes();
        walk();
        for (const auto& [node, tensor] : values()) result().values[node->name()] = tensor;
        result().properties = model_.properties();
        return std::move(result());
    }

private:
    bool is_quantized(const graph::Node& node) const override { return model_.is_quantized(node); }
    OwnedQParams qparams_of(const Quantizer& quantizer) const override { return quantizer.qparams(); }
    bool follows_input(const Quantizer& quantizer) const override { return quantizer.follows_input(); }
    std::string where(const graph::Node& node) const override { return "convert: " + graph::place_of(node, model_); }
    // A copy: the prepared model may go on training.
    nn::ModulePtr module_of_step(const nn::Module& module) const override { return nn::clone(module); }

    void check_seen() const {
        for (const graph::Node* node : model_.graph().nodes()) {
            const Quantizer* const quantizer = quantizer_of(*node, model_);
            if (quantizer == nullptr || quantizer->has_qparams()) continue;
            throw Error(where(*node),
                        "no data was seen by the quantizer of %" + node->inputs()[0]->name() + run_it_first);
        }
    }

    void ensure_shapes() {
        try {
            model_.ensure_shapes();
        } catch (const Error& error) {
            throw Error("convert", error);
        }
    }

    PreparedModel& model_;
};

}  // namespace detail

INTQ_INLINE QuantizedGraph convert_fx(PreparedModel& prepared, const arith::PolicyRecord& target) {
    return detail::Converter(prepared, target).run();
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_convert)
#endif  // INTQ_QUANTIZATION_CONVERT_CONVERT_FX_HPP
