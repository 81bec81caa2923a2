// SPDX-License-Identifier: MIT
//
// The preparation of one layer or value, with a graph or without. Layer: quantization (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_PREPARE_PREPARE_LAYER_HPP
#define INTQ_QUANTIZATION_PREPARE_PREPARE_LAYER_HPP

#include <memory>
#include <string>

#include "intq/arith/constraints.hpp"
#include "intq/arith/target.hpp"
#include "intq/core/dtype.hpp"
#include "intq/nn/layers/weighted.hpp"
#include "intq/quantization/fake_quantize/fake_quantize.hpp"
#include "intq/quantization/modules/qat_mode.hpp"
#include "intq/quantization/observers/compatibility.hpp"
#include "intq/quantization/operators/operator.hpp"
#include "intq/quantization/qconfig/qconfig.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// The quantizer for a value.
///
/// @param where  the operator, for messages
/// @throws Error for a scheme that activations never have, or not on this target
std::shared_ptr<FakeQuantize> make_activation_quantizer(const std::string& where, QuantizerConfig config,
                                                        const arith::PolicyRecord& target, Compatibility compatibility);

/// The layer with weights that a module becomes, for a row with as_layer.
///
/// @param mode  of batch norms: fuse_bn freezes them, so it takes one only in evaluation
std::shared_ptr<nn::Weighted> weighted_layer_of(const std::string& where, const nn::Module& module,
                                                const QuantizedOperator& row, QATMode mode);

/// The layer with a weight quantizer, by channel where the configuration has an axis. It never rounds in place, because
/// the weight is kept.
std::shared_ptr<nn::Weighted> with_weight_quantizer(const std::string& where, const nn::Weighted& layer,
                                                    const QuantizedOperator& row, QuantizerConfig config,
                                                    const arith::PolicyRecord& target, Compatibility compatibility);

namespace detail {

/// Takes the codes of the target's schemes where a qconfig leaves them open: of int8 weights and of int16 activations.
/// In torch mode all stay open, which is PyTorch's full range.
void fill_open_codes(ObserverOptions& options, bool is_weight, const arith::PolicyRecord& target,
                     Compatibility compatibility);

/// A quantizer with the scale and zero point that the target fixes for an output, in place of the qconfig's; the
/// qconfig's if the target fixes none.
QuantizerConfig with_fixed_output(QuantizerConfig config, const arith::PolicyRecord& target,
                                  const arith::OperatorUse& use);

/// Whether the products of one output could leave the half of an int32 that its bias leaves to them
/// (docs/arithmetic.md section 3, step 0), with the current weights.
///
///     max over the output channels of sum |q_w| · 2^(bits of the input - 1) > 2^30,  |q_w| <= 2^(bits - 1)·|w|/max|w|
///     + 1/2
bool may_exceed_int32(const nn::Weighted& layer, DType input, DType weight);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_prepare)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <vector>

#    include "intq/io/error.hpp"
#    include "intq/nn/layers/fusion.hpp"
#    include "intq/quantization/observers/range_observers.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE void fill_open_codes(ObserverOptions& options, bool is_weight, const arith::PolicyRecord& target,
                                 Compatibility compatibility) {
    if (compatibility == Compatibility::torch || !options.has_open_codes()) return;
    if (options.dtype != (is_weight ? DType::int8 : DType::int16)) return;
    options.symmetric_scheme = is_weight ? target.weight_scheme : target.activation_scheme;
}

INTQ_INLINE QuantizerConfig with_fixed_output(QuantizerConfig config, const arith::PolicyRecord& target,
                                              const arith::OperatorUse& use) {
    const arith::FixedOutput* const fixed = arith::find_fixed_output(target.fixed_outputs, use);
    if (fixed == nullptr) return config;
    ObserverOptions options;
    options.dtype = fixed->output;
    options.scale = fixed->scale;
    options.zero_point = fixed->zero_point;
    // Nothing is fitted to a range; a zero point needs a scheme that has one.
    options.scheme = fixed->zero_point == 0 ? arith::QuantScheme::symmetric : arith::QuantScheme::affine;
    config.options.observer_options = options;
    config.options.observer = observer_factory<FixedScaleObserver>();
    config.fake_quantize = default_fake_quantize();  // there is nothing to learn
    config.is_fixed_by_target = true;
    return config;
}

INTQ_INLINE bool may_exceed_int32(const nn::Weighted& layer, DType input, DType weight) {
    std::vector<double> sums(static_cast<std::size_t>(layer.out_channels())), largest(sums.size());
    std::vector<double> counts(sums.size());
    const Tensor values = layer.weight().contiguous();
    for (index_t i = 0; i < values.size(); ++i) {
        const auto channel = static_cast<std::size_t>(layer.output_channel_of(i));
        const double magnitude = (std::abs)(static_cast<double>(values.flat<float>()[static_cast<std::size_t>(i)]));
        sums[channel] += magnitude;
        largest[channel] = (std::max)(largest[channel], magnitude);
        counts[channel] += 1.0;
    }
    const double code = weight == DType::int16 ? 0x1p15 : 0x1p7, input_code = input == DType::int16 ? 0x1p15 : 0x1p7;
    for (std::size_t c = 0; c < sums.size(); ++c)
        if (largest[c] > 0 && (code * sums[c] / largest[c] + 0.5 * counts[c]) * input_code > 0x1p30) return true;
    return false;
}

}  // namespace detail

INTQ_INLINE std::shared_ptr<FakeQuantize> make_activation_quantizer(const std::string& where, QuantizerConfig config,
                                                                    const arith::PolicyRecord& target,
                                                                    Compatibility compatibility) {
    ObserverOptions& options = config.options.observer_options;
    if (options.ch_axis != -1)
        throw Error(where, "activations are quantized per tensor; its qconfig has a channel axis");
    if (options.scheme == arith::QuantScheme::affine && options.dtype == DType::int16 && !config.is_fixed_by_target)
        throw Error(where, "int16 codes have no zero point; use a symmetric scheme");
    if (options.scheme == arith::QuantScheme::affine && !target.zero_points)
        throw Error(where, std::string("the target ") + target.name + " has no zero points; use a symmetric scheme");
    detail::fill_open_codes(options, false, target, compatibility);
    return config.make(target.quantize, compatibility);
}

INTQ_INLINE std::shared_ptr<nn::Weighted> weighted_layer_of(const std::string& where, const nn::Module& module,
                                                            const QuantizedOperator& row, QATMode mode) {
    if (module.training() && mode == QATMode::fuse_bn)
        throw Error(where, "it becomes a layer with weights in evaluation only; call eval() on the model first");
    const std::shared_ptr<nn::Weighted> layer = row.as_layer(module, mode);
    layer->set_members(dynamic_cast<const nn::FusedFrom&>(module).members());
    layer->train(module.training());
    return layer;
}

INTQ_INLINE std::shared_ptr<nn::Weighted> with_weight_quantizer(const std::string& where, const nn::Weighted& layer,
                                                                const QuantizedOperator& row, QuantizerConfig config,
                                                                const arith::PolicyRecord& target,
                                                                Compatibility compatibility) {
    config.options.in_place = false;
    ObserverOptions& options = config.options.observer_options;
    if (options.scheme == arith::QuantScheme::affine) throw Error(where, "weights are symmetric always");
    const bool is_open = options.has_open_codes() && options.dtype == DType::int8;
    detail::fill_open_codes(options, true, target, compatibility);
    // The one weight of a channel is then the code 127, and has no error.
    if (row.as_layer != nullptr && is_open && compatibility != Compatibility::torch)
        options.symmetric_scheme = arith::SymmetricScheme::narrow_range;
    // 0 means the output channels, whichever axis they are on; so does none in an observer per channel.
    const int channels = layer.weight_channel_axis();
    if (options.ch_axis < -1 || (options.ch_axis > 0 && options.ch_axis != channels))
        throw Error(where, "its weight has a scale for each output channel, which axis " + std::to_string(channels) +
                               " counts, or one for the tensor (ch_axis -1); its qconfig has ch_axis " +
                               std::to_string(options.ch_axis));
    if (config.make(target.quantize, compatibility)->observer().options().ch_axis >= 0) options.ch_axis = channels;
    const auto prepared = row.prepare(layer, config.make(target.quantize, compatibility), target);
    prepared->train(layer.training());
    return prepared;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_prepare)
#endif  // INTQ_QUANTIZATION_PREPARE_PREPARE_LAYER_HPP
