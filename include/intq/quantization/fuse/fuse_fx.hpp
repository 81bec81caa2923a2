// SPDX-License-Identifier: MIT
//
// fuse_fx: fuses each sequence in the table of fusions into one module. Layer: quantization
// (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_FUSE_FUSE_FX_HPP
#define INTQ_QUANTIZATION_FUSE_FUSE_FX_HPP

#include <memory>
#include <string>
#include <vector>

#include "intq/graph/graph_module.hpp"
#include "intq/graph/tracer.hpp"
#include "intq/nn/layers/fusion.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/fuse/fusion_table.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

struct FuseOptions {
    bool fused_add = true;               // whether the target has a fused add: PolicyRecord::fused_add
    std::vector<FusionRow> more_rows{};  // tried before the library's
    graph::TraceOptions trace{};         // for a model that is not a GraphModule
    bool keep_batch_norm = false;        // as a child of the fused layer, instead of folded into its weight
    bool fused_relu6 = true;             // of the library's rows; PyTorch has none with relu6
};

/// Fused operators, and those that could not be fused.
struct FuseReport {
    struct Fused {
        std::string module;     // qualified name of the slot, which is the first operator's
        std::string type;       // of the new module
        std::string operators;  // "conv2d-batch_norm2d-relu"
    };
    struct Blocked {
        std::string node;       // where the chain breaks
        std::string operators;  // the operators that would have been fused
        std::string reason;
    };
    std::vector<Fused> fused;
    std::vector<Blocked> blocked;
};

/// Fuses in a clone of the model.
///
/// Matching starts at the last node and walks back, longest sequences first. The new module takes the slot of the first
/// operator; the slots of the others become Identity if nothing else calls them. If an add reads two convolutions, the
/// convolution of the first argument is fused, and the output of the other one is an ordinary quantized tensor. A call
/// of FloatFunctional::add_relu becomes an add and a relu first, which is how PyTorch traces it.
///
/// @param model   traced first, unless it is a GraphModule; must be in evaluation where a batch norm is folded
/// @param report  optional; reports with the reason each chain that only a shared module, a second reader, a constant
///                operand or the target breaks
std::shared_ptr<graph::GraphModule> fuse_fx(const nn::Module& model, const FuseOptions& options = {},
                                            FuseReport* report = nullptr);

/// The same, in the model itself.
void fuse_in_place(graph::GraphModule& model, const FuseOptions& options = {}, FuseReport* report = nullptr);

/// A clone of the model as a GraphModule; traced, unless it is one.
std::shared_ptr<graph::GraphModule> traced_clone(const nn::Module& model, const graph::TraceOptions& options = {});

/// A node as a qconfig mapping sees it.
nn::FusedMember member_of(const graph::Node& node, nn::Module& root);

/// A call of FloatFunctional::add_relu becomes an add and a relu. The relu belongs to the same module, so its entries
/// in a qconfig mapping apply to both.
void split_add_relu(graph::GraphModule& model);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_fuse)

#    include <algorithm>
#    include <cstddef>
#    include <optional>
#    include <set>
#    include <utility>

#    include "intq/graph/operators.hpp"
#    include "intq/graph/pattern.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/layers/move.hpp"
#    include "intq/nn/layers/norm.hpp"
#    include "intq/nn/layers/unary.hpp"
#    include "intq/nn/layers/weighted.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE nn::FusedMember member_of(const graph::Node& node, nn::Module& root) {
    if (node.op() == graph::Op::call_module) return {node.target(), graph::type_of(node, root), ""};
    return {node.scope().module, graph::type_of(node, root), node.scope().type, node.name()};
}

INTQ_INLINE std::shared_ptr<graph::GraphModule> traced_clone(const nn::Module& model,
                                                             const graph::TraceOptions& options) {
    const nn::ModulePtr copy = nn::clone(model);
    if (auto graph_module = std::dynamic_pointer_cast<graph::GraphModule>(copy)) return graph_module;
    return graph::symbolic_trace(copy, options);
}

namespace detail {

INTQ_INLINE bool holds(const graph::OperatorSequence& operators, const char* name) {
    return std::find(operators.begin(), operators.end(), name) != operators.end();
}

class Fuser {
public:
    Fuser(graph::GraphModule& model, const FuseOptions& options, FuseReport& report)
        : model_(model),
          graph_(model.graph()),
          names_(model),
          report_(report),
          keep_batch_norm_(options.keep_batch_norm) {
        // Longest first; at equal length, the user's before the library's, each in the order of its table.
        std::size_t longest = 0;
        for (const auto* rows : {&options.more_rows, &fusion_table()})
            for (const FusionRow& row : *rows) longest = (std::max)(longest, row.operators.size());
        for (std::size_t length = longest; length > 0; --length)
            for (const auto* rows : {&options.more_rows, &fusion_table()})
                for (const FusionRow& row : *rows) {
                    if (row.operators.size() != length) continue;
                    if (!options.fused_relu6 && rows == &fusion_table() && holds(row.operators, "relu6")) continue;
                    (options.fused_add || !holds(row.operators, "add") ? rows_ : with_add_).push_back(&row);
                }
    }

    void run() {
        const auto nodes = graph_.nodes();
        for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
            if (gone_.count(*node) == 0) fuse_at(**node);
        graph_.lint(&model_);
    }

private:
    void fuse_at(graph::Node& last) {
        bool reported = false;
        for (const FusionRow* row : rows_) {
            const graph::MatchResult result = graph::match_back(row->operators, last, graph_, names_);
            if (result.match) {
                auto obstacle = norm_of_other_axis(*row, *result.match);
                if (!obstacle) obstacle = add_of_other_shape(*row, *result.match);
                if (!obstacle) return replace(*row, *result.match);
                report(*row, *obstacle);
                reported = true;
                continue;
            }
            if (result.obstacle && !reported) report(*row, *result.obstacle);
            reported = reported || result.obstacle.has_value();
        }
        for (const FusionRow* row : with_add_)
            if (const auto result = graph::match_back(row->operators, last, graph_, names_); result.match) {
                const auto add = std::find(row->operators.begin(), row->operators.end(), "add");
                return report(*row, {result.match->nodes[static_cast<std::size_t>(add - row->operators.begin())],
                                     "the target adds no operand inside the accumulator"});
            }
    }

    // A layer that is broadcast to the other operand of its add has a smaller output than the fused layer would.
    static std::optional<graph::Obstacle> add_of_other_shape(const FusionRow& row, const graph::Match& match) {
        const auto found = std::find(row.operators.begin(), row.operators.end(), "add");
        if (found == row.operators.end()) return std::nullopt;
        graph::Node* const node = match.nodes[static_cast<std::size_t>(found - row.operators.begin())];
        const graph::OutputInfo &layer = match.nodes.front()->outputs()[0], &sum = node->outputs()[0];
        if (layer.dtype == DType::none || sum.dtype == DType::none || layer.shape == sum.shape) return std::nullopt;
        return graph::Obstacle{
            node, "the layer's output " + to_string(layer.shape) + " is broadcast to " + to_string(sum.shape)};
    }

    // A batch norm behind a linear layer counts axis 1, which holds the layer's features only on (N, C).
    std::optional<graph::Obstacle> norm_of_other_axis(const FusionRow& row, const graph::Match& match) const {
        const auto found = std::find(row.operators.begin(), row.operators.end(), "batch_norm1d");
        if (row.operators.front() != "linear" || found == row.operators.end()) return std::nullopt;
        graph::Node* const node = match.nodes[static_cast<std::size_t>(found - row.operators.begin())];
        const auto* linear = dynamic_cast<const nn::Weighted*>(graph::module_of(*match.nodes.front(), model_));
        const auto* norm = dynamic_cast<const nn::BatchNorm*>(graph::module_of(*node, model_));
        const graph::OutputInfo& output = match.nodes.front()->outputs()[0];
        const bool known = output.dtype != DType::none;
        const bool same_count =
            linear == nullptr || norm == nullptr || norm->options().num_features == linear->out_channels();
        if (same_count && (!known || output.shape.rank == 2)) return std::nullopt;
        return graph::Obstacle{node,
                               "a batch norm counts axis 1, and the features of the linear layer are the last axis" +
                                   (known ? " of " + to_string(output.shape) : std::string())};
    }

    // The same break stops longer and shorter sequences; the longest one reports it.
    void report(const FusionRow& row, const graph::Obstacle& obstacle) {
        for (const auto& known : report_.blocked)
            if (known.node == obstacle.node->name() && known.reason == obstacle.reason) return;
        report_.blocked.push_back({obstacle.node->name(), graph::to_string(row.operators), obstacle.reason});
    }

    void replace(const FusionRow& row, const graph::Match& match) {
        std::vector<FusedOperator> operators;
        std::vector<nn::FusedMember> members;
        for (std::size_t i = 0; i < match.nodes.size(); ++i) {
            operators.push_back({row.operators[i], graph::module_of(*match.nodes[i], model_), keep_batch_norm_});
            const auto* fused = dynamic_cast<const nn::FusedFrom*>(operators[i].module);
            if (fused != nullptr && !fused->members().empty()) {
                for (nn::FusedMember& member : fused->members_at(match.nodes[i]->target()))
                    members.push_back(std::move(member));
            } else {
                members.push_back(member_of(*match.nodes[i], model_));
            }
        }
        graph::Node& first = *match.nodes.front();
        graph::Node& last = *match.nodes.back();
        const nn::ModulePtr module = made_of(row, operators, first);
        module->train(operators[0].module->training());
        if (auto* fused = dynamic_cast<nn::FusedFrom*>(module.get())) fused->set_members(std::move(members));
        report_.fused.push_back({first.target(), module->type_name(), graph::to_string(row.operators)});
        model_.replace_child(first.target(), module);

        // The first node stays, with its name, at the place of the last: the other operand may come after the first.
        graph_.move_before(first, last);
        first.outputs() = last.outputs();
        first.set_scope({first.target(), module->type_name()});
        graph_.replace_all_uses(last, first);
        for (std::size_t i = match.nodes.size(); i-- > 1;) drop(*match.nodes[i]);
        graph::ArgumentList args = first.args();
        if (match.other.node() != nullptr) args.push_back(match.other);
        first.set_args(std::move(args));
        names_.forget();
    }

    nn::ModulePtr made_of(const FusionRow& row, const std::vector<FusedOperator>& operators, const graph::Node& first) {
        try {
            return row.make(operators);
        } catch (const Error& error) {
            throw Error("fuse: " + graph::to_string(row.operators) + " of %" + first.name(), error);
        }
    }

    void drop(graph::Node& node) {
        const std::string target = node.op() == graph::Op::call_module ? node.target() : "";
        gone_.insert(&node);
        graph_.erase(node);
        if (target.empty()) return;
        for (const graph::Node* other : graph_.nodes())
            if (other->op() == graph::Op::call_module && other->target() == target) return;
        model_.replace_child(target, std::make_shared<nn::Identity>());
    }

    graph::GraphModule& model_;
    graph::Graph& graph_;
    graph::OperatorNames names_;
    FuseReport& report_;
    bool keep_batch_norm_;
    std::vector<const FusionRow*> rows_, with_add_;  // the latter if the target has no fused add
    std::set<const graph::Node*> gone_;
};

}  // namespace detail

INTQ_INLINE void split_add_relu(graph::GraphModule& model) {
    graph::Graph& graph = model.graph();
    for (graph::Node* node : graph.nodes()) {
        if (graph::operator_of(*node, model) != "add_relu") continue;
        node->set_method("add");
        const auto at = graph.after(*node);
        graph::Node& relu = graph.call_function(nn::relu_function, {*node});
        relu.set_scope({node->target(), graph::type_of(*node, model)});
        relu.outputs() = node->outputs();
        graph.replace_all_uses(*node, relu);
    }
}

INTQ_INLINE void fuse_in_place(graph::GraphModule& model, const FuseOptions& options, FuseReport* report) {
    FuseReport unread;
    split_add_relu(model);
    detail::Fuser(model, options, report != nullptr ? *report : unread).run();
}

INTQ_INLINE std::shared_ptr<graph::GraphModule> fuse_fx(const nn::Module& model, const FuseOptions& options,
                                                        FuseReport* report) {
    auto result = traced_clone(model, options.trace);
    fuse_in_place(*result, options, report);
    return result;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_fuse)
#endif  // INTQ_QUANTIZATION_FUSE_FUSE_FX_HPP
