// SPDX-License-Identifier: MIT
//
// PrepareCustomConfig: what a model's author says about tracing, in PyTorch's words. Layer: quantization (WORKFLOW
// section 4).
#ifndef INTQ_QUANTIZATION_PREPARE_CUSTOM_CONFIG_HPP
#define INTQ_QUANTIZATION_PREPARE_CUSTOM_CONFIG_HPP

#include "intq/graph/tracer.hpp"

namespace intq::inline INTQ_ABI::quantization {

/// The part of PyTorch's prepare_custom_config that concerns tracing.
///
/// A non-traceable module is one node and stays in float, whatever it holds. A preserved attribute is a property of the
/// model (nn::Module::set_property) that its traced, fused and prepared forms have too. What the model does not have is
/// an Error that names the nearest names.
struct PrepareCustomConfig {
    std::vector<std::string> non_traceable_module_name{};   // qualified names
    std::vector<std::string> non_traceable_module_class{};  // type names
    std::vector<std::string> preserved_attributes{};
};

/// The same as options of symbolic_trace, fuse and prepare (FuseOptions::trace, PrepareOptions::trace).
inline graph::TraceOptions trace_options(const PrepareCustomConfig& config) {
    graph::TraceOptions options;
    options.leaf_modules = config.non_traceable_module_name;
    options.leaf_types = config.non_traceable_module_class;
    options.preserved_attributes = config.preserved_attributes;
    return options;
}

}  // namespace intq::inline INTQ_ABI::quantization

#endif  // INTQ_QUANTIZATION_PREPARE_CUSTOM_CONFIG_HPP
