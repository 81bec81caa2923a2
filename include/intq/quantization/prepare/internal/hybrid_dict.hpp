// SPDX-License-Identifier: MIT
//
// with_hybrid: the hybrid_dict of the documents as entries of a mapping. Layer: quantization
// (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_PREPARE_INTERNAL_HYBRID_DICT_HPP
#define INTQ_QUANTIZATION_PREPARE_INTERNAL_HYBRID_DICT_HPP

#include "intq/nn/model/module.hpp"
#include "intq/quantization/modules/custom_config.hpp"
#include "intq/quantization/prepare/prepared_model.hpp"
#include "intq/quantization/qconfig/qconfig_mapping.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// A mapping in which the modules that a dictionary names have no qconfig, above all other entries and the modules'
/// own.
///
/// @throws Error for a name that the model lacks, with the nearest ones; later, from check_all_used(), for a type that
///         no module or function has
QConfigMapping with_hybrid(QConfigMapping mapping, nn::Module& model, const HybridDict& dict);

/// The same with the options of a model that is being prepared.
QConfigMapping with_hybrid(QConfigMapping mapping, PreparedModel& model);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_prepare)

#    include <algorithm>
#    include <optional>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/io/error.hpp"
#    include "intq/io/nearest_names.hpp"
#    include "intq/nn/layers/fusion.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE QConfigMapping with_hybrid(QConfigMapping mapping, nn::Module& model, const HybridDict& dict) {
    std::vector<std::string> names;
    for (const auto& module : model.named_modules()) names.push_back(module.name);
    for (const std::string& type : dict.module_type) {
        bool is_module = false;
        for (const auto& module : model.named_modules()) {
            const auto* fused = dynamic_cast<const nn::FusedFrom*>(module.value);
            const bool has_type = module.value->type_name() == type;
            bool is_part = false;
            if (fused != nullptr)
                for (const nn::FusedMember& member : fused->members_at(module.name)) {
                    if (member.type != type || !member.scope_type.empty()) continue;
                    mapping.set_own(member.module, std::nullopt);
                    is_part = true;
                }
            if (has_type) mapping.set_own(module.name, std::nullopt);
            is_module = is_module || has_type || is_part;
        }
        if (!is_module) mapping.set_object_type(type, std::nullopt);
    }
    for (const std::string& name : dict.module_name) {
        if (std::find(names.begin(), names.end(), name) == names.end())
            throw Error("hybrid_dict: the model has no module \"" + name + "\"; the nearest are " +
                        nearest_names(name, names));
        mapping.set_own(name, std::nullopt);
    }
    return mapping;
}

INTQ_INLINE QConfigMapping with_hybrid(QConfigMapping mapping, PreparedModel& model) {
    const PrepareOptions& options = model.options();
    if (!options.hybrid && !options.hybrid_dict.empty())
        throw Error("prepare: there is a hybrid_dict, but hybrid is off; a hybrid model must be asked for");
    return with_hybrid(std::move(mapping), model, options.hybrid_dict);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_prepare)
#endif  // INTQ_QUANTIZATION_PREPARE_INTERNAL_HYBRID_DICT_HPP
