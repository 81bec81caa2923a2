// SPDX-License-Identifier: MIT
//
// PreparedModel: a graph with quantizers on its edges. Layer: quantization (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_PREPARE_PREPARED_MODEL_HPP
#define INTQ_QUANTIZATION_PREPARE_PREPARED_MODEL_HPP

#include <set>
#include <string>
#include <vector>

#include "intq/arith/target.hpp"
#include "intq/graph/graph_module.hpp"
#include "intq/graph/tracer.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/fuse/fuse_fx.hpp"
#include "intq/quantization/fuse/fusion_table.hpp"
#include "intq/quantization/modules/custom_config.hpp"
#include "intq/quantization/modules/qat_mode.hpp"
#include "intq/quantization/observers/compatibility.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

struct PrepareOptions {
    Compatibility compatibility = Compatibility::horizon;
    /// A conv or linear without activation that feeds only DeQuantStubs gives its accumulator, where the target has
    /// that, unless an entry by module name or regex says otherwise.
    bool high_precision_output = true;
    /// An operator that stays in float is an error.
    bool strict = false;
    std::vector<FusionRow> more_fusions{};
    graph::TraceOptions trace{};
    /// What becomes of the batch norms behind layers with weights.
    QATMode qat_mode = get_qat_mode();
    PrepareCustomConfig custom{};  // its part on tracing adds to `trace`
    /// Named modules stay in float, whatever qconfigs say. The result runs as a HybridModel.
    bool hybrid = false;
    HybridDict hybrid_dict{};
};

/// An operator that is not quantized, and why.
struct FloatFallback {
    std::string node;
    std::string type;
    std::string reason;
};

struct PrepareReport {
    FuseReport fusion;
    std::vector<FloatFallback> fallbacks;
};

/// A model whose edges hold quantizers (activation_post_process_<k>) and whose layers with weights hold
/// weight_fake_quant. Made by prepare_calibration_fx. Each run records the shapes of all values in the graph.
class PreparedModel : public nn::Cloneable<PreparedModel, graph::GraphModule> {
public:
    PreparedModel(const graph::GraphModule& model, const arith::PolicyRecord& target, const PrepareOptions& options);

    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;

    const arith::PolicyRecord& target() const noexcept { return target_; }
    const PrepareOptions& options() const noexcept { return options_; }
    const PrepareReport& report() const noexcept { return report_; }
    PrepareReport& report() noexcept { return report_; }
    /// Whether a node computes on codes once converted; the others stay in float.
    bool is_quantized(const graph::Node& node) const { return quantized_.count(node.name()) != 0; }
    void mark_quantized(const graph::Node& node);

private:
    arith::PolicyRecord target_;
    PrepareOptions options_;
    PrepareReport report_;
    std::set<std::string> quantized_;
};

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_prepare)

INTQ_INLINE PreparedModel::PreparedModel(const graph::GraphModule& model, const arith::PolicyRecord& target,
                                         const PrepareOptions& options)
    : Cloneable(model), target_(target), options_(options) {}

INTQ_INLINE nn::Value PreparedModel::forward(nn::Arguments arguments) {
    return graph::propagate_shapes(*this, arguments.values());
}

INTQ_INLINE void PreparedModel::mark_quantized(const graph::Node& node) { quantized_.insert(node.name()); }

#endif  // INTQ_DEFINES(quantization_prepare)

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_QUANTIZATION_PREPARE_PREPARED_MODEL_HPP
