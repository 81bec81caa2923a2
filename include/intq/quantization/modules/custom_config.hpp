// SPDX-License-Identifier: MIT
//
// The author's options for tracing, custom modules and hybrid models, by the documents' names. Layer: quantization
// (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_MODULES_CUSTOM_CONFIG_HPP
#define INTQ_QUANTIZATION_MODULES_CUSTOM_CONFIG_HPP

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "intq/graph/tracer.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/tensor/owned_qparams.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// How a custom module is quantized: on codes between quantizers; or with real values on both sides.
enum class QuantType : std::uint8_t { static_, dynamic, weight_only };

/// Makes the observed module of a float one, which computes in float and can be quantized later. It must be a leaf
/// (nn::Leaf makes one of any module).
using FromFloat = std::function<nn::ModulePtr(const nn::Module& float_module)>;

/// Makes the quantized module of an observed one. Static: its forward takes codes that carry their qparams, and returns
/// codes of the output's qparams, or real values, which are then quantized to these. Other types ignore `output`.
using FromObserved = std::function<nn::ModulePtr(const nn::Module& observed, const OwnedQParams& output)>;

/// PyTorch's prepare_custom_config.
///
/// A non-traceable module is one node and stays in float, whatever it holds. A preserved attribute is a property of the
/// model (nn::Module::set_property). All properties are kept, as in Horizon, so the list only says which must exist. A
/// name that the model lacks is an Error that names the nearest names.
///
/// The modules of a type in float_to_observed_custom_module_class are replaced before anything else; other QuantTypes
/// than static need no observed form.
struct PrepareCustomConfig {
    std::vector<std::string> non_traceable_module_name{};   // qualified names
    std::vector<std::string> non_traceable_module_class{};  // type names
    std::vector<std::string> preserved_attributes{};
    std::map<QuantType, std::map<std::string, FromFloat>> float_to_observed_custom_module_class{};  // by type names
};

/// PyTorch's convert_custom_config: by the type names of observed modules; of float ones if not static.
struct ConvertCustomConfig {
    std::vector<std::string> preserved_attributes{};  // required of the model; a converted one keeps all
    std::map<QuantType, std::map<std::string, FromObserved>> observed_to_quantized_custom_module_class{};
};

/// Horizon's hybrid_dict: modules that stay in float, by type and by qualified name, which covers all below it. A type
/// may be a function's.
struct HybridDict {
    std::vector<std::string> module_type{};
    std::vector<std::string> module_name{};
    bool empty() const noexcept { return module_type.empty() && module_name.empty(); }
};

/// The part that concerns tracing as options of symbolic_trace, fuse and prepare (FuseOptions::trace,
/// PrepareOptions::trace).
graph::TraceOptions trace_options(const PrepareCustomConfig& config);

/// The same, added to existing options.
graph::TraceOptions trace_options(graph::TraceOptions options, const PrepareCustomConfig& config);

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_modules)

INTQ_INLINE graph::TraceOptions trace_options(const PrepareCustomConfig& config) {
    graph::TraceOptions options;
    options.leaf_modules = config.non_traceable_module_name;
    options.leaf_types = config.non_traceable_module_class;
    options.preserved_attributes = config.preserved_attributes;
    return options;
}

INTQ_INLINE graph::TraceOptions trace_options(graph::TraceOptions options, const PrepareCustomConfig& config) {
    const graph::TraceOptions more = trace_options(config);
    const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    append(options.leaf_modules, more.leaf_modules);
    append(options.leaf_types, more.leaf_types);
    append(options.preserved_attributes, more.preserved_attributes);
    return options;
}

#endif  // INTQ_DEFINES(quantization_modules)

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_QUANTIZATION_MODULES_CUSTOM_CONFIG_HPP
