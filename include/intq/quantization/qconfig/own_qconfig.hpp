// SPDX-License-Identifier: MIT
//
// The qconfig that a module carries itself, for it and all below it. Layer: quantization (docs/workflow.md section 3).
#ifndef INTQ_QUANTIZATION_QCONFIG_OWN_QCONFIG_HPP
#define INTQ_QUANTIZATION_QCONFIG_OWN_QCONFIG_HPP

#include <optional>
#include <string>

#include "intq/nn/model/module.hpp"
#include "intq/quantization/qconfig/qconfig_mapping.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// Sets a module's own qconfig, for it and all below it: `module.qconfig = …` of the documents. None switches
/// quantization off.
void set_qconfig(nn::Module& module, std::optional<QConfig> qconfig);

/// A module's own qconfig; null if it carries none.
const std::optional<QConfig>* own_qconfig(const nn::Module& module);

/// A mapping with the qconfigs that the modules of a model carry, which take precedence. The model's own replaces the
/// global one. A module in several slots has its qconfig in each.
QConfigMapping with_own_qconfigs(QConfigMapping mapping, const nn::Module& model);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_qconfig)

#    include <utility>

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE void set_qconfig(nn::Module& module, std::optional<QConfig> qconfig) {
    module.set_attribute("qconfig", std::move(qconfig));
}

INTQ_INLINE const std::optional<QConfig>* own_qconfig(const nn::Module& module) {
    return module.attribute<std::optional<QConfig>>("qconfig");
}

namespace detail {

INTQ_INLINE void collect_own_qconfigs(QConfigMapping& mapping, const nn::Module& module, const std::string& path) {
    if (const auto* qconfig = own_qconfig(module)) mapping.set_own(path, *qconfig);
    for (const auto& child : module.children())
        collect_own_qconfigs(mapping, *child.value, nn::join_path(path, child.name));
}

}  // namespace detail

INTQ_INLINE QConfigMapping with_own_qconfigs(QConfigMapping mapping, const nn::Module& model) {
    detail::collect_own_qconfigs(mapping, model, "");
    return mapping;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_qconfig)
#endif  // INTQ_QUANTIZATION_QCONFIG_OWN_QCONFIG_HPP
