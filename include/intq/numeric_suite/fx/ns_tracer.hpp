// SPDX-License-Identifier: MIT
//
// NSTracer: how the FX numeric suite traces. Layer: numeric_suite (docs/workflow.md section 5).
#ifndef INTQ_NUMERIC_SUITE_FX_NS_TRACER_HPP
#define INTQ_NUMERIC_SUITE_FX_NS_TRACER_HPP

#include <string>
#include <vector>

#include "intq/graph/tracer.hpp"
#include "intq/nn/model/module.hpp"

namespace intq::numeric_suite::fx {
inline namespace INTQ_HOSTED_ABI {

/// Traces a model for the suite: observers and quantizers are nodes, and so are modules skipped by name or type.
///
/// Source   torch.ao.ns._numeric_suite_fx.NSTracer
class NSTracer : public graph::Tracer {
public:
    explicit NSTracer(nn::Module& root, std::vector<std::string> skipped_module_names = {},
                      std::vector<std::string> skipped_module_classes = {});

protected:
    INTQ_INLINE bool is_leaf(const nn::Module& module, const std::string& qualified_name) const override;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite::fx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(numeric_suite_fx)

#    include <utility>

#    include "intq/quantization/fake_quantize/fake_quantize.hpp"

namespace intq::numeric_suite::fx {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE NSTracer::NSTracer(nn::Module& root, std::vector<std::string> skipped_module_names,
                               std::vector<std::string> skipped_module_classes)
    : graph::Tracer(root,
                    graph::TraceOptions{std::move(skipped_module_names), std::move(skipped_module_classes), {}, {}}) {}

INTQ_INLINE bool NSTracer::is_leaf(const nn::Module& module, const std::string& qualified_name) const {
    return dynamic_cast<const quantization::Observer*>(&module) != nullptr ||
           dynamic_cast<const quantization::Quantizer*>(&module) != nullptr ||
           graph::Tracer::is_leaf(module, qualified_name);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite::fx

#endif  // INTQ_DEFINES(numeric_suite_fx)
#endif  // INTQ_NUMERIC_SUITE_FX_NS_TRACER_HPP
