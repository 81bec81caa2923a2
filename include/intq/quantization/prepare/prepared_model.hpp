// SPDX-License-Identifier: MIT
//
// PreparedModel: a graph with quantizers on its edges. Layer: quantization (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_PREPARE_PREPARED_MODEL_HPP
#define INTQ_QUANTIZATION_PREPARE_PREPARED_MODEL_HPP

#include <set>
#include <span>
#include <string>
#include <vector>

#include "intq/arith/target.hpp"
#include "intq/graph/graph_module.hpp"
#include "intq/graph/tracer.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/fake_quantize/grid_choice.hpp"
#include "intq/quantization/fuse/fuse_fx.hpp"
#include "intq/quantization/fuse/fusion_table.hpp"
#include "intq/quantization/modules/custom_config.hpp"
#include "intq/quantization/modules/qat_mode.hpp"
#include "intq/quantization/observers/compatibility.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

struct PrepareOptions {
    Compatibility compatibility = Compatibility::horizon;
    /// A conv or linear without activation that feeds only DeQuantStubs gives its accumulator, where the target has
    /// that and its sum cannot leave 32 bits, unless an entry by module name or regex says otherwise. So does the
    /// average of int8 codes over whole images on fp32, also through a flatten.
    bool high_precision_output = true;
    /// An operator that stays in float is an error.
    bool strict = false;
    std::vector<FusionRow> more_fusions{};
    graph::TraceOptions trace{};
    /// What becomes of batch norms: of those behind layers with weights, and of those that no layer takes.
    QATMode qat_mode = get_qat_mode();
    PrepareCustomConfig custom{};  // its part on tracing adds to `trace`
    /// The inputs of each cat take its quantizer, so that none is requantized (unify_cat_scales()). In torch mode they
    /// share one in any case.
    bool optimize_graph = false;
    /// Named modules stay in float, whatever qconfigs say. The result runs as a HybridModel. Between what stays in
    /// float and an operator on codes stands a quantizer of the former's qconfig, if it has one with an output
    /// quantizer.
    bool hybrid = false;
    HybridDict hybrid_dict{};
    /// One tensor for each input, from which the shapes of all values become known. Without them, the first data that
    /// passes says the shapes. Nothing is observed on them.
    std::vector<Tensor> example_inputs{};
    /// 1: prepare_qat_fx prints what check_qat_model() finds.
    int verbose = 0;
};

/// An operator that is not quantized, and why.
struct FloatFallback {
    std::string node;
    std::string type;
    std::string reason;
};

/// A batch norm that no layer takes, by its first call, and how it is trained.
struct LoneBatchNorm {
    std::string node;
    std::string type;
    std::string treatment;
};

struct PrepareReport {
    FuseReport fusion;
    std::vector<FloatFallback> fallbacks;
    /// Operators whose output keeps the grid of the input at a loss; known when calibration ends.
    std::vector<KeptGrid> kept;
    std::vector<LoneBatchNorm> batch_norms;
};

/// A model whose edges hold quantizers (activation_post_process_<k>) and whose layers with weights hold
/// weight_fake_quant. Made by prepare_calibration_fx.
///
/// Each run, whoever asks for it, records the shapes of all values in the graph. Those of the inputs are a buffer, so
/// that a model whose state was loaded knows the shapes too.
class PreparedModel : public nn::Cloneable<PreparedModel, graph::GraphModule> {
public:
    PreparedModel(const graph::GraphModule& model, const arith::PolicyRecord& target, const PrepareOptions& options);

    INTQ_INLINE nn::Value run(std::span<const nn::Value> inputs, const graph::NodeHook& hook,
                              const graph::ValueHook& value_of = {}) override;
    /// Refuses shapes of inputs that are none.
    INTQ_INLINE void tensors_changed() override;

    /// The shapes of the values are those for these inputs from now on; see graph::propagate_shapes(). Nothing is
    /// observed, and nothing else changes.
    ///
    /// Memory   a copy of the model meanwhile
    void propagate_shapes(std::span<const Tensor> inputs);
    /// Makes the shapes of the nodes known for a caller that reads them. If a state was loaded since the last run, they
    /// follow from the shapes of the inputs in that state.
    ///
    /// @throws Error that says how shapes become known, where no data has passed yet
    void ensure_shapes();
    /// Takes the shapes of another model's inputs, unless this one's are known.
    void take_input_shapes(const PreparedModel& other);
    /// Throws what convert and lower would refuse whatever the data, now that the shapes are known; see
    /// prepare/check_lowering.hpp. The first run asks for it, unless prepare did.
    void check_lowering();

    const arith::PolicyRecord& target() const noexcept { return target_; }
    const PrepareOptions& options() const noexcept { return options_; }
    const PrepareReport& report() const;
    PrepareReport& report();
    /// Whether a node computes on codes once converted; the others stay in float.
    bool is_quantized(const graph::Node& node) const { return quantized_.count(node.name()) != 0; }
    void mark_quantized(const graph::Node& node);

private:
    arith::PolicyRecord target_;
    PrepareOptions options_;
    PrepareReport report_;
    std::set<std::string> quantized_;
    bool is_checked_ = false;
};

/// The buffer of a prepared model that holds the shapes of its inputs: a row of dtype, rank and extents for each, with
/// dtype none where nothing has passed yet.
inline constexpr const char* input_shapes_name = "prepared_input_shapes";

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_prepare)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <limits>
#    include <memory>

#    include "intq/io/error.hpp"
#    include "intq/nn/model/value.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/prepare/internal/check_lowering.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

using Shapes = std::vector<graph::OutputInfo>;

inline constexpr std::size_t shape_row = 2 + static_cast<std::size_t>(max_rank);

INTQ_INLINE Tensor tensor_of_shapes(const Shapes& shapes) {
    Tensor result = Tensor::zeros(Shape(shapes.size(), shape_row), DType::int64);
    const auto rows = result.flat<std::int64_t>();
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        const auto row = rows.subspan(i * shape_row, shape_row);
        row[0] = static_cast<std::int64_t>(shapes[i].dtype);
        row[1] = shapes[i].shape.rank;
        for (int axis = 0; axis < shapes[i].shape.rank; ++axis)
            row[2 + static_cast<std::size_t>(axis)] = shapes[i].shape[axis];
    }
    return result;
}

INTQ_INLINE Shapes shapes_of_tensor(const Tensor& tensor) {
    Shapes result(static_cast<std::size_t>(tensor.extent(0)));
    const auto rows = tensor.flat<std::int64_t>();
    for (std::size_t i = 0; i < result.size(); ++i) {
        const auto row = rows.subspan(i * shape_row, shape_row);
        const auto is_extent = [](std::int64_t extent) {
            return extent >= 0 && extent <= (std::numeric_limits<std::int32_t>::max)();
        };
        if (row[0] < 0 || row[0] > static_cast<std::int64_t>(DType::uint8) || row[1] < 0 || row[1] > max_rank ||
            !std::all_of(row.begin() + 2, row.end(), is_extent))
            throw Error(input_shapes_name, "row " + std::to_string(i) + " is not the shape of an input");
        result[i].dtype = static_cast<DType>(row[0]);
        result[i].shape.rank = static_cast<int>(row[1]);
        for (int axis = 0; axis < result[i].shape.rank; ++axis)
            result[i].shape[axis] = static_cast<index_t>(row[2 + static_cast<std::size_t>(axis)]);
    }
    return result;
}

/// What the last run wrote into the placeholders.
INTQ_INLINE Shapes shapes_of_inputs(const graph::Graph& graph) {
    Shapes result;
    for (const graph::Node* input : graph.placeholders()) result.push_back(input->outputs()[0]);
    return result;
}

INTQ_INLINE bool are_known(const Shapes& shapes) { return shapes.empty() || shapes.front().dtype != DType::none; }

INTQ_INLINE bool are_equal(const Shapes& a, const Shapes& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& one, const auto& other) {
        return one.dtype == other.dtype && one.shape == other.shape;
    });
}

}  // namespace detail

INTQ_INLINE PreparedModel::PreparedModel(const graph::GraphModule& model, const arith::PolicyRecord& target,
                                         const PrepareOptions& options)
    : Cloneable(model), target_(target), options_(options) {
    options_.example_inputs.clear();                        // prepare shows them once
    if (find_tensor(input_shapes_name) != nullptr) return;  // prepared already, which prepare says
    add_buffer(input_shapes_name, detail::tensor_of_shapes(detail::Shapes(graph().placeholders().size())));
}

INTQ_INLINE PrepareReport& PreparedModel::report() {
    report_.kept = kept_grids(*this);
    return report_;
}

INTQ_INLINE const PrepareReport& PreparedModel::report() const { return const_cast<PreparedModel&>(*this).report(); }

INTQ_INLINE nn::Value PreparedModel::run(std::span<const nn::Value> inputs, const graph::NodeHook& hook,
                                         const graph::ValueHook& value_of) {
    if (nn::find_recorder(inputs) != nullptr) return GraphModule::run(inputs, hook, value_of);
    graph::ShapeRecord shapes;
    const auto record = [&](const graph::Node& node, const nn::Value& value) {
        shapes.add(node, value);
        if (hook) hook(node, value);
    };
    nn::Value result = GraphModule::run(inputs, record, value_of);
    shapes.write_to(graph());
    tensor(input_shapes_name) = detail::tensor_of_shapes(detail::shapes_of_inputs(graph()));
    if (!is_checked_) check_lowering();
    return result;
}

INTQ_INLINE void PreparedModel::check_lowering() {
    detail::check_lowering(*this, target_, [this](const graph::Node& node) { return is_quantized(node); });
    is_checked_ = true;
}

INTQ_INLINE void PreparedModel::tensors_changed() { detail::shapes_of_tensor(tensor(input_shapes_name)); }

INTQ_INLINE void PreparedModel::propagate_shapes(std::span<const Tensor> inputs) {
    const auto copy = std::static_pointer_cast<PreparedModel>(nn::clone(static_cast<const nn::Module&>(*this)));
    copy->eval();
    set_fake_quantize(*copy, FakeQuantState::float_);
    const std::vector<nn::Value> values(inputs.begin(), inputs.end());
    graph::propagate_shapes(*copy, values);
    const auto from = copy->graph().nodes(), to = graph().nodes();
    for (std::size_t i = 0; i < to.size(); ++i) to[i]->outputs() = from[i]->outputs();
    tensor(input_shapes_name) = detail::tensor_of_shapes(detail::shapes_of_inputs(graph()));
}

INTQ_INLINE void PreparedModel::ensure_shapes() {
    const detail::Shapes stored = detail::shapes_of_tensor(tensor(input_shapes_name));
    const detail::Shapes last = detail::shapes_of_inputs(graph());
    if (detail::are_known(last) && (!detail::are_known(stored) || detail::are_equal(last, stored))) return;
    if (!detail::are_known(stored))
        throw Error(
            "the shapes of its values are not known, since no data has passed yet: run the prepared model on data, or "
            "give prepare its example_inputs");
    std::vector<Tensor> inputs;
    for (const graph::OutputInfo& input : stored) {
        if (input.dtype == DType::none) break;  // from here on the inputs had their defaults
        inputs.push_back(Tensor::of_shape(input.shape, input.dtype));
    }
    try {
        propagate_shapes(inputs);
    } catch (const Error& error) {
        throw Error(std::string("on the shapes in ") + input_shapes_name, error);
    }
}

INTQ_INLINE void PreparedModel::take_input_shapes(const PreparedModel& other) {
    const Tensor& known = other.tensor(input_shapes_name);
    Tensor& own = tensor(input_shapes_name);
    if (!detail::are_known(detail::shapes_of_tensor(own)) && known.shape() == own.shape()) own = known.clone();
}

INTQ_INLINE void PreparedModel::mark_quantized(const graph::Node& node) { quantized_.insert(node.name()); }

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_prepare)
#endif  // INTQ_QUANTIZATION_PREPARE_PREPARED_MODEL_HPP
