// SPDX-License-Identifier: MIT
//
// The qconfigs of a target: the default mapping of prepare. Layer: quantization (docs/workflow.md section 3).
#ifndef INTQ_QUANTIZATION_QCONFIG_TARGET_DEFAULTS_HPP
#define INTQ_QUANTIZATION_QCONFIG_TARGET_DEFAULTS_HPP

#include "intq/arith/target.hpp"
#include "intq/core/dtype.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/observers/compatibility.hpp"
#include "intq/quantization/qconfig/qconfig.hpp"
#include "intq/quantization/qconfig/qconfig_mapping.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// get_default_calib_qconfig() with affine int8 activations if the target has zero points. Affine codes all represent
/// values that occur, while symmetric ones spend half on negative numbers that a relu never returns. int16 activations
/// are symmetric on every target.
QConfig get_default_qconfig(const arith::PolicyRecord& target, DType dtype = DType::int8,
                            DType weight_dtype = DType::int8);

/// get_default_qat_qconfig() with activations of the same scheme.
QConfig get_default_qat_qconfig(const arith::PolicyRecord& target, DType dtype = DType::int8,
                                DType weight_dtype = DType::int8);

/// The whole model with get_default_qconfig() of a target. The default of prepare without a mapping.
///
///     const auto mapping = get_default_qconfig_mapping(target::fp32::policy);
QConfigMapping get_default_qconfig_mapping(const arith::PolicyRecord& target, DType dtype = DType::int8,
                                           DType weight_dtype = DType::int8);

/// The whole model with get_default_qat_qconfig() of a target.
QConfigMapping get_default_qat_qconfig_mapping(const arith::PolicyRecord& target, DType dtype = DType::int8,
                                               DType weight_dtype = DType::int8);

namespace detail {

/// The mapping of a prepare call without one: `whole`, or an empty one if modules carry their own qconfigs, which then
/// say which parts of the model are quantized.
QConfigMapping mapping_where_none_is_given(const nn::Module& model, QConfigMapping whole);

/// The mapping with the schemes decided by mode and target: see QuantizerConfig::affine_in_torch_mode.
QConfigMapping in_mode(QConfigMapping mapping, const arith::PolicyRecord& target, Compatibility compatibility);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_qconfig)

#    include <algorithm>
#    include <optional>
#    include <utility>

#    include "intq/arith/quantize.hpp"
#    include "intq/quantization/qconfig/own_qconfig.hpp"
#    include "intq/quantization/qconfig/qconfig_factories.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE QConfig with_scheme_of(const arith::PolicyRecord& target, QConfig qconfig) {
    if (target.zero_points && qconfig.output->dtype() == DType::int8)
        qconfig.output->options.observer_options.scheme = arith::QuantScheme::affine;
    return qconfig;
}

INTQ_INLINE bool carries_qconfig(const nn::Module& model) {
    if (own_qconfig(model) != nullptr) return true;
    return std::any_of(model.children().begin(), model.children().end(),
                       [](const auto& child) { return carries_qconfig(*child.value); });
}

INTQ_INLINE QConfigMapping mapping_where_none_is_given(const nn::Module& model, QConfigMapping whole) {
    return carries_qconfig(model) ? QConfigMapping() : std::move(whole);
}

INTQ_INLINE QConfigMapping in_mode(QConfigMapping mapping, const arith::PolicyRecord& target,
                                   Compatibility compatibility) {
    if (compatibility != Compatibility::torch || !target.zero_points) return mapping;
    mapping.change_each([](QConfig& qconfig) {
        for (std::optional<QuantizerConfig>* const config : {&qconfig.input, &qconfig.output})
            if (*config && (*config)->affine_in_torch_mode && (*config)->dtype() == DType::int8)
                (*config)->options.observer_options.scheme = arith::QuantScheme::affine;
    });
    return mapping;
}

}  // namespace detail

INTQ_INLINE QConfig get_default_qconfig(const arith::PolicyRecord& target, DType dtype, DType weight_dtype) {
    return detail::with_scheme_of(target, get_default_calib_qconfig(dtype, weight_dtype));
}

INTQ_INLINE QConfig get_default_qat_qconfig(const arith::PolicyRecord& target, DType dtype, DType weight_dtype) {
    return detail::with_scheme_of(target, get_default_qat_qconfig({.dtype = dtype, .weight_dtype = weight_dtype}));
}

INTQ_INLINE QConfigMapping get_default_qconfig_mapping(const arith::PolicyRecord& target, DType dtype,
                                                       DType weight_dtype) {
    return std::move(QConfigMapping().set_global(get_default_qconfig(target, dtype, weight_dtype)));
}

INTQ_INLINE QConfigMapping get_default_qat_qconfig_mapping(const arith::PolicyRecord& target, DType dtype,
                                                           DType weight_dtype) {
    return std::move(QConfigMapping().set_global(get_default_qat_qconfig(target, dtype, weight_dtype)));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_qconfig)
#endif  // INTQ_QUANTIZATION_QCONFIG_TARGET_DEFAULTS_HPP
