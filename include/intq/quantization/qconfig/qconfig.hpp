// SPDX-License-Identifier: MIT
//
// QConfig: how the input, weight and output of an operator are quantized. Layer: quantization
// (docs/workflow.md section 3).
#ifndef INTQ_QUANTIZATION_QCONFIG_QCONFIG_HPP
#define INTQ_QUANTIZATION_QCONFIG_QCONFIG_HPP

#include <optional>

#include "intq/core/dtype.hpp"
#include "intq/quantization/fake_quantize/quantizer_config.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// The quantizers of an operator. A fused operator takes input and weight from its first member, and output from its
/// last.
///
/// input:  used if the input is not quantized yet; none: as output.
/// output: none: the int32 accumulator is the output, without a quantizer.
struct QConfig {
    std::optional<QuantizerConfig> input{};
    std::optional<QuantizerConfig> weight{};
    std::optional<QuantizerConfig> output{};
    /// For an entry by name or regex: the last layer still keeps its accumulator as output
    /// (PrepareOptions::high_precision_output). Set by the rules that give layers more bits.
    bool keeps_high_precision = false;
};

/// Per tensor, symmetric, moving average 0.01.
QuantizerConfig default_activation(DType dtype = DType::int8);

/// Per channel on an axis (0; 1 for transposed convolution), symmetric, min-max.
QuantizerConfig default_weight(DType dtype = DType::int8, int ch_axis = 0);

/// The defaults of docs/workflow.md section 3, for calibration.
QConfig get_default_calib_qconfig(DType dtype = DType::int8, DType weight_dtype = DType::int8);

/// The same for an operator whose output is the accumulator (high precision).
QConfig get_default_calib_out_qconfig(DType weight_dtype = DType::int8);

/// PyTorch's qconfig of this name: the extremes of all data, for activations and weights, with one scale per tensor.
///
/// Activations are affine in torch mode on a target with zero points, and symmetric otherwise: in horizon mode, and for
/// targets without zero points, such as the marches of bpu. PyTorch uses only half of the quint8 codes here (0 … 127),
/// because sums of products saturate in some kernels. This function uses all int8 codes.
QConfig default_qconfig();

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_qconfig)

#    include "intq/quantization/observers/range_observers.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE QuantizerConfig default_activation(DType dtype) {
    QuantizerConfig config;
    config.options.observer_options.dtype = dtype;
    return config;
}

INTQ_INLINE QuantizerConfig default_weight(DType dtype, int ch_axis) {
    QuantizerConfig config;
    config.options.observer = observer_factory<PerChannelMinMaxObserver>();
    config.options.observer_options.dtype = dtype;
    config.options.observer_options.ch_axis = ch_axis;
    return config;
}

INTQ_INLINE QConfig get_default_calib_qconfig(DType dtype, DType weight_dtype) {
    return {std::nullopt, default_weight(weight_dtype), default_activation(dtype)};
}

INTQ_INLINE QConfig get_default_calib_out_qconfig(DType weight_dtype) {
    return {std::nullopt, default_weight(weight_dtype), std::nullopt};
}

INTQ_INLINE QConfig default_qconfig() {
    QConfig qconfig{std::nullopt, default_weight(DType::int8, -1), default_activation()};
    for (QuantizerConfig* config : {&*qconfig.weight, &*qconfig.output})
        config->options.observer = observer_factory<MinMaxObserver>();
    qconfig.output->affine_in_torch_mode = true;
    return qconfig;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_qconfig)
#endif  // INTQ_QUANTIZATION_QCONFIG_QCONFIG_HPP
