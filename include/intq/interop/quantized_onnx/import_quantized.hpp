// SPDX-License-Identifier: MIT
//
// From a quantized ONNX model, of either form, to a converted model. Layer: interop (docs/onnx.md).
#ifndef INTQ_INTEROP_QUANTIZED_ONNX_IMPORT_QUANTIZED_HPP
#define INTQ_INTEROP_QUANTIZED_ONNX_IMPORT_QUANTIZED_HPP

#include <filesystem>
#include <memory>
#include <vector>

#include "intq/arith/fp32.hpp"
#include "intq/arith/target.hpp"
#include "intq/interop/onnx/read/model.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/quantization/prepare/prepared_model.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

struct QuantizedImportOptions {
    /// The target whose integers the model computes.
    arith::PolicyRecord target = target::fp32::policy;
    /// One for each input of the file, for the extents that the file leaves open. Without them an open extent of axis 0
    /// is 1, and any other is refused.
    std::vector<Tensor> example_inputs{};
};

/// Makes a converted model of a quantized file.
///
/// Scales, zero points, weight codes and bias codes are the file's. An operator between codes computes on them; other
/// operators stay in float, and lower() names those that cannot. Operators that the file fuses into one quantized value
/// (a convolution with an add and a relu behind it) become one step where the target has it.
///
/// @throws Error naming the node: one that import_model() refuses; a weight with a zero point; a batch norm behind the
///         codes of a weight; an operator that the target does not take
quantization::QuantizedGraph import_quantized(const Model& model, const QuantizedImportOptions& options = {});

/// Reads and imports a file; messages begin with the path.
quantization::QuantizedGraph import_quantized_file(const std::filesystem::path& path,
                                                   const QuantizedImportOptions& options = {});

/// The prepared model that import_quantized() converts: its quantizers have the grids of the file, and can be trained.
std::shared_ptr<quantization::PreparedModel> import_prepared(const Model& model,
                                                             const QuantizedImportOptions& options = {});

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_quantized_onnx)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <map>
#    include <set>
#    include <string>
#    include <utility>

#    include "intq/graph/graph.hpp"
#    include "intq/graph/graph_module.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/graph/operator_rows.hpp"
#    include "intq/graph/operators.hpp"
#    include "intq/graph/shape_arithmetic.hpp"
#    include "intq/interop/onnx/import.hpp"
#    include "intq/interop/onnx/internal/nodes/quantize_dequantize.hpp"
#    include "intq/interop/onnx/read/read.hpp"
#    include "intq/interop/quantized_onnx/internal/constant_operands.hpp"
#    include "intq/interop/quantized_onnx/internal/given_quantizer.hpp"
#    include "intq/interop/quantized_onnx/internal/moved_quantizers.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/layers/weighted.hpp"
#    include "intq/quantization/convert/convert_fx.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/fake_quantize/quantizer.hpp"
#    include "intq/quantization/fuse/fuse_fx.hpp"
#    include "intq/quantization/operators/conv.hpp"
#    include "intq/quantization/operators/operator.hpp"
#    include "intq/quantization/operators/operator_table.hpp"
#    include "intq/quantization/operators/pool.hpp"
#    include "intq/quantization/operators/resize.hpp"
#    include "intq/quantization/prepare/prepare_layer.hpp"
#    include "intq/tensor/quantize.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

using quantization::PreparedModel;
using quantization::QuantizedOperator;
using quantization::Role;

/// Makes a prepared model of a graph of float modules with the grids of a file.
class QuantizedImport {
public:
    QuantizedImport(const Model& model, const QuantizedImportOptions& options)
        : file_(model), options_(options), imported_(import_with_codes(model)) {
        keep_whole_weights();
        quantization::FuseOptions fuse;
        fuse.fused_add = options.target.fused_add;
        quantization::fuse_in_place(*imported_.module, fuse);
        prepared_ = std::make_shared<PreparedModel>(*imported_.module, options.target, quantization::PrepareOptions{});
    }

    std::shared_ptr<PreparedModel> prepare() {
        check_weights();
        place_quantizers();
        quantize_before_moves(*prepared_, options_.target);
        quantization::NodeOperators operators(*prepared_);
        for (graph::Node* node : prepared_->graph().nodes()) mark(*node, operators.of(*node));
        prepared_->eval();
        quantization::set_fake_quantize(*prepared_, quantization::FakeQuantState::validation);
        prepared_->propagate_shapes(example_inputs());
        return prepared_;
    }

    quantization::QuantizedGraph convert() {
        quantization::QuantizedGraph result = quantization::convert_fx(*prepare(), options_.target);
        for (quantization::QuantizedNode& node : result.nodes) {
            const auto* step = node.as<quantization::WeightedStep>();
            const auto codes = imported_.layers.find(node.module);
            if (step != nullptr && codes != imported_.layers.end())
                node.step = with_given_codes(result, node, *step, codes->second);
            const auto* average = node.as<quantization::AvgPoolStep>();
            if (average != nullptr && imported_.averages_of_values.count(node.module) != 0)
                node.step = average->of_values();
            if (const auto* resize = node.as<quantization::InterpolateStep>()) node.step = resize->of_values();
        }
        return result;
    }

private:
    static Error refusal(const graph::Node& node, const std::string& why) {
        return {"import_quantized: %" + node.name(), why};
    }

    /// Fusing must not change the meaning of codes.
    void keep_whole_weights() {
        for (const auto& [name, codes] : imported_.layers) weights_[name] = codes.weight.clone();
    }
    void check_weights() const {
        for (const auto& [name, weight] : weights_) {
            const auto* layer = dynamic_cast<const nn::Weighted*>(&prepared_->find(name));
            if (layer == nullptr) continue;  // it is no longer in a slot
            const auto now = layer->weight().flat<float>(), then = weight.flat<float>();
            if (!std::equal(now.begin(), now.end(), then.begin(), then.end()))
                throw Error("import_quantized: " + name,
                            "a batch norm follows a weight that the file holds as codes, which is not supported");
        }
    }

    void place_quantizers() {
        for (const graph::Node* node : prepared_->graph().nodes()) {
            const auto* given = dynamic_cast<const QuantizeDequantize*>(graph::module_of(*node, *prepared_));
            if (given == nullptr) continue;
            try {
                const OwnedQParams grid = given->grid();
                prepared_->replace_child(node->target(), given_quantizer(grid, options_.target.quantize));
            } catch (const Error& error) {
                throw refusal(*node, error.what());
            }
        }
    }

    const quantization::Quantizer* quantizer_of(const graph::Node& node) const {
        return dynamic_cast<const quantization::Quantizer*>(graph::module_of(node, *prepared_));
    }
    bool is_quantizer(const graph::Node& node) const { return quantizer_of(node) != nullptr; }

    /// Whether only one quantizer reads the operator's value, perhaps through a relu that the operator takes.
    bool ends_in_quantizer(const graph::Node& node, const QuantizedOperator& row) const {
        if (node.users().size() != 1) return false;
        const graph::Node& user = *node.users()[0];
        if (is_quantizer(user)) return true;
        const std::string name = graph::operator_of(user, *prepared_);
        return row.takes_relu && (name == "relu" || name == "relu6") && user.users().size() == 1 &&
               is_quantizer(*user.users()[0]);
    }

    /// Whether its accumulator may be the output, which no quantizer reads.
    bool gives_accumulator(const graph::Node& node, const QuantizedOperator& row) const {
        const auto gives_sum = [&] {
            const Shape& shape = node.operands()[0]->outputs()[0].shape;
            return quantization::NodeOperators(*prepared_).gives_sum(node, shape, options_.target);
        };
        const bool may = row.role == Role::weighted || (row.gives_sum != nullptr && gives_sum());
        return may && std::none_of(node.users().begin(), node.users().end(),
                                   [&](const graph::Node* user) { return is_quantizer(*user); });
    }

    void mark(graph::Node& node, const QuantizedOperator& row) {
        if (const auto* quantizer = quantizer_of(node)) {
            on_grid_[&node] = quantizer;
            return;
        }
        std::vector<graph::Node*> operands = node.operands();
        std::erase_if(operands, [&](const graph::Node* operand) {
            return graph::gives_shape(*operand) || graph::takes_as_ids(node, row.name, *operand);
        });
        const auto is_on_grid = [&](const graph::Node* operand) { return on_grid_.count(operand) != 0; };
        const bool all_on_grid = graph::ids_of(row.name) == 0 ||
                                 (!operands.empty() && std::all_of(operands.begin(), operands.end(), is_on_grid));
        if (!operands.empty() && ids_.count(operands[0]) != 0) {  // a move of indices, which have no grid
            ids_.insert(&node);
            return prepared_->mark_quantized(node);
        }
        switch (row.role) {
            case Role::gives_ids:
                if (!all_on_grid) return;
                ids_.insert(&node);
                return prepared_->mark_quantized(node);
            case Role::shares_input:
            case Role::copies_into:
            case Role::item: {
                const bool is_taken_in = !operands.empty() && takes_in_.count(operands[0]) != 0;
                if (!all_on_grid && !is_taken_in) return;
                // A number that no quantizer rounds, such as the 6 of a relu6, stays as it is, in float.
                if (row.grid_use != nullptr && !is_taken_in && !ends_in_quantizer(node, row)) return;
                if (all_on_grid) on_grid_[&node] = on_grid_.at(operands[0]);
                return prepared_->mark_quantized(node);
            }
            case Role::own_output:
                if (!keeps_number(node, row)) {
                    if (all_on_grid && ends_in_quantizer(node, row)) take_number(node, row);
                    if (node.operands().size() < static_cast<std::size_t>(row.operands)) return;
                }
                [[fallthrough]];
            case Role::cat:
            case Role::weighted:
                if (!all_on_grid || !(ends_in_quantizer(node, row) || gives_accumulator(node, row))) return;
                if (row.role == Role::weighted && !place_layer(node, row)) return;
                if (row.takes_relu) takes_in_.insert(&node);
                return prepared_->mark_quantized(node);
            default:
                return;
        }
    }

    /// Whether a number beside codes stays one, which lowering makes an operand (docs/arithmetic.md section 4). A
    /// target that computes as ONNX does has it exactly.
    bool keeps_number(const graph::Node& node, const QuantizedOperator& row) const {
        return row.operands == 2 && !options_.target.computes_as_onnx() && node.args().size() == 2 &&
               (node.args()[0].number() || node.args()[1].number());
    }

    /// A number beside codes becomes a tensor of codes of their type.
    void take_number(graph::Node& node, const QuantizedOperator& row) {
        if (row.operands != 2 || node.operands().size() != 1) return;
        graph::Node& other = *node.operands()[0];
        if (other.outputs()[0].dtype == DType::none) prepared_->propagate_shapes(example_inputs());
        const graph::Node* const codes = make_number_an_operand(*prepared_, node, on_grid_.at(&other)->dtype());
        if (codes != nullptr) on_grid_[codes] = quantizer_of(*codes);
    }

    /// An operator with a constant for each channel, which the file holds in float: one code per channel, the largest.
    bool place_norm(const graph::Node& node, const QuantizedOperator& row) {
        if (imported_.constant_norms.count(node.target()) == 0 || !ends_in_quantizer(node, row)) return false;
        const auto layer =
            quantization::weighted_layer_of("import_quantized: %" + node.name(), *graph::module_of(node, *prepared_),
                                            row, quantization::QATMode::fuse_bn);
        std::vector<float> scales;
        const Tensor weights = layer->weight();
        for (const float weight : weights.flat<float>())
            scales.push_back(weight == 0.0f ? 1.0f : std::fabs(weight) / 127.0f);
        const OwnedQParams grid =
            OwnedQParams::per_channel(std::move(scales), layer->weight_channel_axis(), DType::int8);
        prepared_->replace_child(node.target(),
                                 row.prepare(*layer, given_quantizer(grid, options_.target.quantize), options_.target));
        return true;
    }

    /// A layer whose weight the file holds as codes, with the weight's quantizer.
    bool place_layer(const graph::Node& node, const QuantizedOperator& row) {
        if (row.as_layer != nullptr) return place_norm(node, row);
        const auto codes = imported_.layers.find(node.target());
        if (codes == imported_.layers.end() || row.prepare == nullptr) return false;
        const OwnedQParams& grid = *codes->second.grid;
        if (!grid.zero_points.empty())
            throw refusal(node,
                          "its weight has a zero point, and codes of weights are symmetric; quantize the weight "
                          "without one (unsigned weights have the zero point 128)");
        const auto& layer = dynamic_cast<const nn::Weighted&>(*graph::module_of(node, *prepared_));
        prepared_->replace_child(node.target(),
                                 row.prepare(layer, given_quantizer(grid, options_.target.quantize), options_.target));
        return true;
    }

    std::vector<Tensor> example_inputs() const {
        if (!options_.example_inputs.empty()) return options_.example_inputs;
        std::vector<Tensor> shapes;
        for (const graph::Node* placeholder : prepared_->graph().placeholders()) {
            const auto info = std::find_if(file_.graph.inputs.begin(), file_.graph.inputs.end(),
                                           [&](const ValueInfo& input) { return input.name == placeholder->target(); });
            if (info == file_.graph.inputs.end() || !info->has_shape) throw needs_examples(*placeholder);
            Shape shape;
            for (const index_t extent : info->shape) {
                if (extent < 0 && shape.rank > 0) throw needs_examples(*placeholder);
                shape.extents[static_cast<std::size_t>(shape.rank++)] = std::max<index_t>(extent, 1);
            }
            if (shape.size() > largest_example)
                throw refusal(*placeholder, "its shape " + to_string(shape) +
                                                " has more elements than are taken from " +
                                                "a file without asking; give example_inputs");
            const bool holds_ids = info->dtype == DType::int64 || info->dtype == DType::int32;
            shapes.push_back(Tensor::of_shape(shape, holds_ids ? info->dtype : DType::float32));
        }
        return shapes;
    }
    static Error needs_examples(const graph::Node& placeholder) {
        return refusal(placeholder, "the file leaves the shape of this input open; give example_inputs");
    }

    /// The step with the codes as they are in the file.
    quantization::StepPtr with_given_codes(const quantization::QuantizedGraph& quantized,
                                           const quantization::QuantizedNode& node,
                                           const quantization::WeightedStep& step, const LayerCodes& codes) const {
        auto given = std::make_shared<quantization::WeightedStep>(step);
        const auto& layer = dynamic_cast<const nn::Weighted&>(*step.layer);
        const std::vector<float>& own = step.weight_qparams.scales;
        if (step.spread && !std::equal(codes.grid->scales.begin(), codes.grid->scales.end(), own.begin()))
            throw Error("import_quantized: " + node.module,
                        "its bias asks for a larger scale of the weight, which a transposed layer of a file cannot be "
                        "given");
        if (!step.spread) {
            // Where a bias needs a larger scale of the weight, convert would choose other codes.
            given->weight_qparams = *codes.grid;
            const Tensor weight = codes.weight.reshape(step.weight.shape());
            given->weight = quantize(weight, given->weight_qparams, options_.target.quantize);
            const nn::ModulePtr copy = nn::clone(static_cast<const nn::Module&>(layer));
            dynamic_cast<nn::Weighted&>(*copy).set_weight(codes.weight);
            given->layer = copy;
        }
        const float s_in = quantized.input(node, 0).qparams.scale();
        const auto channels = static_cast<index_t>(codes.bias_codes.size());
        std::vector<float> scales = codes.bias_scales;
        if (scales.size() == 1) scales.resize(codes.bias_codes.size(), scales[0]);
        if (channels == step.weight.extent(0) && !codes.bias_codes.empty() &&
            scales == quantization::accumulator_scales(s_in, given->weight_qparams, channels))
            given->bias_codes = codes.bias_codes;
        return given;
    }

    /// The most elements of an input that a file may demand; the model is run on them once.
    static constexpr index_t largest_example = index_t{1} << 22;

    const Model& file_;
    const QuantizedImportOptions& options_;
    ImportedModel imported_;
    std::shared_ptr<PreparedModel> prepared_;
    std::map<std::string, Tensor> weights_;
    /// Nodes whose values are codes, with the quantizer that holds their grid.
    std::map<const graph::Node*, const quantization::Quantizer*> on_grid_;
    std::set<const graph::Node*> ids_;       // indices, and moves of them
    std::set<const graph::Node*> takes_in_;  // operators on codes that take in the relu behind them
};

}  // namespace detail

INTQ_INLINE std::shared_ptr<quantization::PreparedModel> import_prepared(const Model& model,
                                                                         const QuantizedImportOptions& options) {
    return detail::QuantizedImport(model, options).prepare();
}

INTQ_INLINE quantization::QuantizedGraph import_quantized(const Model& model, const QuantizedImportOptions& options) {
    return detail::QuantizedImport(model, options).convert();
}

INTQ_INLINE quantization::QuantizedGraph import_quantized_file(const std::filesystem::path& path,
                                                               const QuantizedImportOptions& options) {
    const Model model = read_model(path);
    try {
        return import_quantized(model, options);
    } catch (const Error& error) {
        throw Error(path.string(), error.what());
    }
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_quantized_onnx)
#endif  // INTQ_INTEROP_QUANTIZED_ONNX_IMPORT_QUANTIZED_HPP
