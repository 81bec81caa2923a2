// SPDX-License-Identifier: MIT
//
// The view that an operator's row has of its node: values, constants, attributes, and a graph to write into. Long
// because a row sees all of it through one class. Layer: interop.
//
// Rows never look at another node. An attribute that a row did not read is refused afterwards, because it might have
// changed the meaning.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_NODES_NODE_IMPORT_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_NODES_NODE_IMPORT_HPP

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "intq/core/dtype.hpp"
#include "intq/core/shape.hpp"
#include "intq/graph/graph.hpp"
#include "intq/graph/node.hpp"
#include "intq/interop/onnx/internal/nodes/dims.hpp"
#include "intq/interop/onnx/internal/nodes/layer_codes.hpp"
#include "intq/interop/onnx/internal/nodes/names.hpp"
#include "intq/interop/onnx/internal/nodes/position_value.hpp"
#include "intq/interop/onnx/internal/read/limits.hpp"
#include "intq/interop/onnx/read/model.hpp"
#include "intq/nn/model/container.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/nn/model/recorder.hpp"
#include "intq/tensor/owned_qparams.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// A constant behind a QuantizeLinear. A layer takes its codes; any other operator reads a buffer with a quantizer,
/// which is made for the first such reader.
struct QuantizedConstant {
    const FileTensor* real = nullptr;
    OwnedQParams grid{};
    const Node* made_by = nullptr;  // the QuantizeLinear, whose name the quantizer gets
    graph::Node* place = nullptr;   // the node before the quantizer
    graph::Node* node = nullptr;    // the call of the quantizer
};

/// A value that is the matrices of another one as a list, each of them transposed or as it was.
struct MatrixList {
    graph::Node* x = nullptr;  // none for other values
    Dims dims{};               // of x
    bool is_transposed = false;
};

/// The meaning of a name in the ONNX graph: a node of ours, a constant, or something that is not supported.
struct ImportedValue {
    graph::Node* node = nullptr;
    const FileTensor* constant = nullptr;
    std::string unsupported{};
    Dims dims{};
    /// Of a value that the model computes: the type of its codes in the file; none for real numbers. `node` computes
    /// the real numbers that the codes represent. Only DequantizeLinear and Clip read codes.
    DType codes = DType::none;
    /// How much greater the codes of the file are than the codes of `grid`.
    std::int32_t shift = 0;
    /// Of codes; nothing for an input of the graph, whose grid DequantizeLinear holds.
    std::optional<OwnedQParams> grid{};
    /// Of a constant behind a QuantizeLinear, beside `constant`.
    QuantizedConstant* quantized = nullptr;
    MatrixList matrices{};
    bool is_ids =
        false;  // integers that the model is given, which Gather, Cast to integers and operators/positions.hpp read
    bool is_indices = false;  // of an ArgMax, which moves and Casts read
    /// What is made of positions: of the input that `positions.node` reads. Only operators/positions.hpp reads it.
    PositionValue positions{};
};

/// The model that is being made.
struct ImportState {
    std::int64_t opset = 0;
    std::size_t node_count = 0;
    graph::Graph graph{};
    nn::ModuleDict root{};
    ModuleNames names{};
    std::map<std::string, ImportedValue, std::less<>> values{};
    std::map<std::string, std::size_t, std::less<>> uses{};  // by nodes and by the graph's outputs
    std::deque<FileTensor> made_constants{};
    std::deque<QuantizedConstant> quantized_constants{};
    std::uint64_t constant_bytes = 0, copied_bytes = 0;  // held by the file, and copied by nodes
    std::map<std::pair<const FileTensor*, std::size_t>, std::string> buffers{};  // of a rank
    std::map<const FileTensor*, CodedConstant> coded{};
    std::map<std::string, LayerCodes> layers{};  // by name of the module
    std::set<std::string> constant_norms{};      // batch norms that an operator with a constant became
    std::set<std::string> averages_of_values{};  // pools that were QLinearAveragePool
    std::vector<graph::Node*> passed_over{};     // that readers may have replaced, in their order

    /// The number for an extent that is not known; equal names mean equal extents.
    index_t unknown_extent(const std::string& name);

    /// The graph, for one more node.
    /// @throws Error where a file makes more nodes than allowed
    graph::Graph& next_node();

private:
    std::size_t made_nodes_ = 0;
    index_t unknown_extents_ = 0;
    std::map<std::string, index_t> extents_by_name_{};
};

class NodeImport {
public:
    NodeImport(const Node& node, ImportState& state) : node_(node), state_(state) {}

    const Node& node() const noexcept { return node_; }
    std::int64_t opset() const noexcept { return state_.opset; }

    std::size_t input_count() const noexcept { return node_.inputs.size(); }
    /// An empty name is an input that is left out.
    bool has_input(std::size_t i) const noexcept { return i < node_.inputs.size() && !node_.inputs[i].empty(); }
    /// Whether input i is a constant that no quantizer of the model rounds.
    bool is_constant(std::size_t i) const { return has_elements(i) && find(i, "input").quantized == nullptr; }
    /// Whether the elements of input i are known before the model runs.
    bool has_elements(std::size_t i) const { return ids(i) == nullptr && find(i, "input").constant != nullptr; }
    /// Whether the elements of all present inputs are.
    bool has_all_elements() const;
    void expect_inputs(std::size_t least, std::size_t most) const;

    /// A value that is computed when the model runs; throws for a constant. Messages name it by `what`.
    graph::Node& value(std::size_t i, std::string_view what = "input") const;
    const Dims& dims(std::size_t i) const { return find(i, "input").dims; }
    /// The same, with a rank that is checked where it is known.
    graph::Node& value_of_rank(std::size_t i, std::size_t rank, std::string_view what = "input") const;
    /// The extent of an axis, or -1 where it is not known.
    index_t extent(std::size_t i, std::size_t axis) const;

    /// A constant; throws for a value that is only known when the model runs.
    const FileTensor& constant(std::size_t i, std::string_view what) const;
    /// A float32 constant of finite numbers, also of one rank; for a node that copies it.
    const FileTensor& float_constant(std::size_t i, std::string_view what) const;
    const FileTensor& float_constant(std::size_t i, std::size_t rank, std::string_view what) const;
    /// Counts bytes of constants that the node copies.
    /// @throws Error where all nodes copy too many
    void count_copied(std::uint64_t bytes) const;
    /// Whether only this node reads input i, so that its producer may be changed.
    bool is_only_user(std::size_t i) const;
    /// The module that computes input i when it is a T, else null.
    template <class T> T* producer(std::size_t i) const { return dynamic_cast<T*>(producing_module(i)); }

    /// What input i is made of positions.
    const PositionValue& positions(std::size_t i) const;
    /// The view of a node that reads another value in place of input i, under a name of its own.
    ///
    /// @param changed  receives the node, which the view refers to
    NodeImport with_input(Node& changed, std::size_t i, ImportedValue value) const;

    /// The integers of input i that are given to the model; null for another input.
    graph::Node* ids(std::size_t i) const { return has_input(i) ? ids_of(any_value(i, "input")) : nullptr; }
    /// An input that may be codes.
    const ImportedValue& any_value(std::size_t i, std::string_view what) const;
    /// Says that the output is codes of a type of the file, greater by `shift` than the codes of a grid; its node
    /// computes their real numbers.
    void mark_codes(const OwnedQParams& grid, DType codes, std::int32_t shift);
    /// Makes the output the codes of constant 0, which keeps its quantizer beside them.
    void set_quantized_constant(FileTensor codes, const OwnedQParams& grid);
    /// Lets the output have the quantizer of input 0, if that is on the same grid.
    void keep_quantizer(const OwnedQParams& grid);
    /// The codes from which DequantizeLinear made a constant; null for a constant of real numbers.
    const CodedConstant* coded_constant(std::size_t i) const;
    /// Notes the codes of constant `c`, if it has some, as the bias of the layer that computes input `x`.
    void note_bias(std::size_t x, std::size_t c) const;

    /// Attributes, with the operator's default. Throw for another kind of value.
    std::int64_t integer(std::string_view name, std::int64_t otherwise);
    float number(std::string_view name, float otherwise);
    std::string text(std::string_view name, std::string otherwise);
    std::vector<std::int64_t> integers(std::string_view name, std::vector<std::int64_t> otherwise);
    /// The attribute as it is; null when there is none.
    const AttributeValue* raw_attribute(std::string_view name);
    /// Throws when an attribute was not read by the row.
    void check_attributes_are_read() const;

    /// Each sets the node's first output, or that which it is told.
    void call_module(nn::ModulePtr module, graph::ArgumentList args, Dims dims, const std::string& method = "forward");
    /// The batch norm that is equal to an operator with a constant for each channel.
    void call_constant_norm(nn::ModulePtr norm, graph::ArgumentList args, Dims dims);
    void call_average_of_values(nn::ModulePtr pool, graph::ArgumentList args, Dims dims);
    void call_function(const nn::Function& function, graph::ArgumentList args, Dims dims);
    void set_output(ImportedValue value, std::size_t output = 0);
    void set_constant(FileTensor tensor);
    /// A constant that is computed from others, with its codes if it has any.
    /// @throws Error for one that is larger than all of them and has more than max_folded elements, or where all
    ///         constants take too much memory
    void set_folded(FileTensor tensor, std::optional<CodedConstant> coded = {}, std::size_t output = 0);
    /// Says that the output is indices. What moves them gives indices, too.
    void mark_indices();
    /// Whether an input is indices.
    bool reads_indices() const;
    /// Says that the output is the matrices of another value.
    void mark_matrices(const MatrixList& matrices);
    /// Sets all outputs: items of the tuple that a node returns.
    void set_items(graph::Node& tuple, const std::vector<Dims>& dims);
    /// A float32 constant as a buffer of the model, one for all nodes that take it, and a node that reads it.
    ///
    /// @param rank  at least that many axes, of which the first have extent 1
    graph::Node& add_buffer(std::size_t i, std::string_view what, std::size_t rank = 0);
    /// The same for a constant that is computed from others.
    graph::Node& add_made_buffer(FileTensor tensor, std::size_t rank = 0);
    /// A new node without setting an output, for operators that need two; `is_main` has the name of this one.
    graph::Node& make_function(const nn::Function& function, graph::ArgumentList args, bool is_main = false);
    graph::Node& make_module(nn::ModulePtr module, graph::ArgumentList args);
    /// The extent of an axis of a value; as a node of the graph.
    graph::Node& make_size(graph::Node& value, std::size_t axis);
    /// The same for an extent that is not known.
    /// @throws Error where no value has it
    graph::Node& make_extent(index_t unknown);

private:
    static graph::Node* ids_of(const ImportedValue& value) { return value.is_ids ? value.node : nullptr; }
    graph::Node& add_buffer_of(const FileTensor& tensor, std::size_t rank) const;
    graph::Node& call_quantizer(QuantizedConstant& constant) const;
    void call_noted(std::set<std::string>& names, nn::ModulePtr module, graph::ArgumentList args, Dims dims);
    const ImportedValue& find(std::size_t i, std::string_view what) const;
    const FileTensor& finite_constant(std::size_t i, std::string_view what) const;
    void note_layer(const std::string& name, const nn::Module& module) const;
    /// The module that computes input i; null where none does.
    nn::Module* producing_module(std::size_t i) const;
    template <class T> T attribute(std::string_view name, T otherwise, const char* kind);
    std::string label(std::size_t i, std::string_view what) const;
    std::string function_name() const;

    const Node& node_;
    ImportState& state_;
    std::set<std::string_view> read_;
};

/// Copies an ONNX tensor of float32; its dims may take another rank.
Tensor to_tensor(const FileTensor& tensor, const Shape& shape);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_nodes)

#    include <algorithm>
#    include <cmath>
#    include <iterator>
#    include <limits>
#    include <memory>
#    include <utility>
#    include <variant>

#    include "intq/graph/operator_rows.hpp"
#    include "intq/interop/onnx/internal/nodes/quantize_dequantize.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/layers/move.hpp"
#    include "intq/nn/layers/weighted.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE graph::Graph& ImportState::next_node() {
    if (++made_nodes_ > detail::max_nodes)
        throw Error("it makes more than " + std::to_string(detail::max_nodes) + " nodes of the graph");
    return graph;
}

INTQ_INLINE index_t ImportState::unknown_extent(const std::string& name) {
    const auto fresh = [&] { return (std::numeric_limits<index_t>::min)() / 2 + unknown_extents_++; };
    if (name.empty()) return fresh();
    const auto known = extents_by_name_.find(name);
    return known != extents_by_name_.end() ? known->second : extents_by_name_.emplace(name, fresh()).first->second;
}

INTQ_INLINE Tensor to_tensor(const FileTensor& tensor, const Shape& shape) {
    return Tensor::from(shape, tensor.as<float>());
}

INTQ_INLINE std::string NodeImport::label(std::size_t i, std::string_view what) const {
    return std::string(what) + " " + in_quotes(node_.inputs.at(i));
}

/// Whether an operator moves its input, or casts it.
INTQ_INLINE bool may_read_indices(const std::string& op_type) {
    return op_type == "Cast" ||
           std::any_of(std::begin(graph::operator_rows), std::end(graph::operator_rows),
                       [&](const graph::OperatorRow& row) {
                           return row.numbers == graph::Numbers::moved && graph::has_word(row.onnx, op_type);
                       });
}

INTQ_INLINE const ImportedValue& NodeImport::find(std::size_t i, std::string_view what) const {
    if (!has_input(i)) throw Error("the " + std::string(what) + " (input " + std::to_string(i + 1) + ") is missing");
    const ImportedValue& value = state_.values.find(node_.inputs[i])->second;
    if (!value.unsupported.empty()) throw Error("the " + label(i, what) + " is " + value.unsupported);
    if (value.codes != DType::none)
        throw Error("the " + label(i, what) + " holds codes of dtype " + name_of(value.codes) +
                    ", which DequantizeLinear and operators on codes alone read");
    if (value.is_ids)
        throw Error("the " + label(i, what) + " holds integers, which a Gather of rows of a constant alone reads");
    if (value.is_indices && !may_read_indices(node_.op_type))
        throw Error(
            "the " + label(i, what) +
            " holds indices, which are no numbers on a grid: the model may return them, as they are, in another "
            "shape or order, or cast; compute the rest behind the program");
    if (value.positions.kind != PositionValue::Kind::none)
        throw Error("the " + label(i, what) + " " + describe(value.positions.kind));
    return value;
}

INTQ_INLINE const ImportedValue& NodeImport::any_value(std::size_t i, std::string_view what) const {
    if (!has_input(i)) throw Error("the " + std::string(what) + " (input " + std::to_string(i + 1) + ") is missing");
    const ImportedValue& value = state_.values.find(node_.inputs[i])->second;
    const bool is_special = value.is_ids || value.positions.kind != PositionValue::Kind::none;
    return value.codes != DType::none || is_special ? value : find(i, what);
}

INTQ_INLINE const PositionValue& NodeImport::positions(std::size_t i) const {
    static const PositionValue none;
    return has_input(i) ? state_.values.find(node_.inputs[i])->second.positions : none;
}

INTQ_INLINE NodeImport NodeImport::with_input(Node& changed, std::size_t i, ImportedValue value) const {
    changed = node_;
    // No name of a file holds a zero byte, so none is taken.
    changed.inputs[i] += std::string(1, '\0') + std::to_string(state_.values.size());
    state_.uses[changed.inputs[i]] = 1;
    state_.values[changed.inputs[i]] = std::move(value);
    return NodeImport(changed, state_);
}

INTQ_INLINE bool NodeImport::has_all_elements() const {
    for (std::size_t i = 0; i < input_count(); ++i)
        if (has_input(i) && state_.values.find(node_.inputs[i])->second.constant == nullptr) return false;
    return true;
}

INTQ_INLINE void NodeImport::expect_inputs(std::size_t least, std::size_t most) const {
    if (input_count() < least || input_count() > most)
        throw Error(
            "it has " + std::to_string(input_count()) + " inputs, expected " +
            (most == (std::numeric_limits<std::size_t>::max)() ? "at least " : "") + std::to_string(least) +
            (least == most || most == (std::numeric_limits<std::size_t>::max)() ? "" : " to " + std::to_string(most)));
}

INTQ_INLINE graph::Node& NodeImport::value(std::size_t i, std::string_view what) const {
    const ImportedValue& found = find(i, what);
    if (found.quantized != nullptr && found.constant->dtype == DType::float32) return call_quantizer(*found.quantized);
    if (found.node == nullptr)
        throw Error("the " + label(i, what) +
                    " is a constant, expected a value that is computed from the model's input");
    return *found.node;
}

INTQ_INLINE graph::Node& NodeImport::value_of_rank(std::size_t i, std::size_t rank, std::string_view what) const {
    graph::Node& result = value(i, what);
    if (const Dims& known = dims(i); known && known->size() != rank)
        throw Error("the " + label(i, what) + " has shape " + describe_shape(*known) + ", expected rank " +
                    std::to_string(rank));
    return result;
}

INTQ_INLINE index_t NodeImport::extent(std::size_t i, std::size_t axis) const {
    const Dims& known = dims(i);
    return known && axis < known->size() ? (*known)[axis] : -1;
}

INTQ_INLINE const FileTensor& NodeImport::constant(std::size_t i, std::string_view what) const {
    const ImportedValue& found = find(i, what);
    if (found.constant == nullptr)
        throw Error("the " + label(i, what) + " is computed when the model runs, expected a constant");
    return *found.constant;
}

INTQ_INLINE const FileTensor& NodeImport::finite_constant(std::size_t i, std::string_view what) const {
    const FileTensor& tensor = constant(i, what);
    if (tensor.dtype != DType::float32)
        throw Error("the " + label(i, what) + " has dtype " + name_of(tensor.dtype) + ", expected float32");
    for (const float element : tensor.as<float>())
        if (!std::isfinite(element)) throw Error("the " + label(i, what) + " holds a NaN or an infinity");
    return tensor;
}

INTQ_INLINE const FileTensor& NodeImport::float_constant(std::size_t i, std::string_view what) const {
    const FileTensor& tensor = finite_constant(i, what);
    count_copied(tensor.data.size());
    return tensor;
}

INTQ_INLINE void NodeImport::count_copied(std::uint64_t bytes) const {
    const std::uint64_t most = detail::max_copied(state_.constant_bytes);
    if ((state_.copied_bytes += bytes) > most)
        throw Error("the nodes up to here copy more than " + std::to_string(most) + " bytes of constants");
}

INTQ_INLINE const FileTensor& NodeImport::float_constant(std::size_t i, std::size_t rank, std::string_view what) const {
    const FileTensor& tensor = float_constant(i, what);
    bool good = tensor.dims.size() == rank;
    for (const index_t dim : tensor.dims) good = good && dim > 0;
    if (!good)
        throw Error("the " + label(i, what) + " has shape " + describe_shape(tensor.dims) + ", expected rank " +
                    std::to_string(rank) + " without empty axes");
    return tensor;
}

INTQ_INLINE bool NodeImport::is_only_user(std::size_t i) const {
    return state_.uses.find(node_.inputs[i])->second == 1;
}

INTQ_INLINE nn::Module* NodeImport::producing_module(std::size_t i) const {
    const graph::Node* made_by = any_value(i, "input").node;
    if (made_by == nullptr || made_by->op() != graph::Op::call_module) return nullptr;
    return &state_.root.find(made_by->target());
}

INTQ_INLINE const AttributeValue* NodeImport::raw_attribute(std::string_view name) {
    read_.insert(name);
    for (const Attribute& attribute : node_.attributes)
        if (attribute.name == name) return &attribute.value;
    return nullptr;
}

template <class T> T NodeImport::attribute(std::string_view name, T otherwise, const char* kind) {
    const AttributeValue* value = raw_attribute(name);
    if (value == nullptr) return otherwise;
    if (const T* content = std::get_if<T>(value)) return *content;
    throw Error("the attribute " + std::string(name) + " is not " + kind);
}

INTQ_INLINE std::int64_t NodeImport::integer(std::string_view name, std::int64_t otherwise) {
    return attribute(name, otherwise, "an integer");
}

INTQ_INLINE float NodeImport::number(std::string_view name, float otherwise) {
    return attribute(name, otherwise, "a float");
}

INTQ_INLINE std::string NodeImport::text(std::string_view name, std::string otherwise) {
    return attribute(name, std::move(otherwise), "a string");
}

INTQ_INLINE std::vector<std::int64_t> NodeImport::integers(std::string_view name, std::vector<std::int64_t> otherwise) {
    return attribute(name, std::move(otherwise), "a list of integers");
}

INTQ_INLINE void NodeImport::check_attributes_are_read() const {
    std::set<std::string_view> seen;
    for (const Attribute& attribute : node_.attributes) {
        if (read_.count(attribute.name) == 0)
            throw Error("the attribute " + in_quotes(attribute.name) + " is not supported in opset " +
                        std::to_string(opset()));
        if (!seen.insert(attribute.name).second)
            throw Error("the attribute " + in_quotes(attribute.name) + " is there twice");
    }
}

INTQ_INLINE void NodeImport::mark_codes(const OwnedQParams& grid, DType codes, std::int32_t shift) {
    if (node_.outputs.empty() || node_.outputs[0].empty()) return;
    ImportedValue& output = state_.values[node_.outputs[0]];
    output.grid = grid;
    output.codes = codes;
    output.shift = shift;
}

INTQ_INLINE void NodeImport::set_quantized_constant(FileTensor codes, const OwnedQParams& grid) {
    const FileTensor& real = finite_constant(0, "input");
    set_folded(std::move(codes));
    if (node_.outputs.empty() || node_.outputs[0].empty()) return;
    state_.quantized_constants.push_back(
        {.real = &real, .grid = grid, .made_by = &node_, .place = state_.graph.nodes().back()});
    state_.values[node_.outputs[0]].quantized = &state_.quantized_constants.back();
}

INTQ_INLINE void NodeImport::keep_quantizer(const OwnedQParams& grid) {
    QuantizedConstant* const quantized = find(0, "input").quantized;
    if (quantized == nullptr || !(quantized->grid == grid)) return;
    if (!node_.outputs.empty() && !node_.outputs[0].empty()) state_.values[node_.outputs[0]].quantized = quantized;
}

INTQ_INLINE void NodeImport::mark_indices() {
    if (!node_.outputs.empty() && !node_.outputs[0].empty()) state_.values[node_.outputs[0]].is_indices = true;
}

INTQ_INLINE bool NodeImport::reads_indices() const {
    return std::any_of(node_.inputs.begin(), node_.inputs.end(), [&](const std::string& input) {
        const auto found = state_.values.find(input);
        return found != state_.values.end() && found->second.is_indices;
    });
}

INTQ_INLINE void NodeImport::mark_matrices(const MatrixList& matrices) {
    if (node_.outputs.empty() || node_.outputs[0].empty()) return;
    ImportedValue& output = state_.values[node_.outputs[0]];
    output.matrices = matrices;
    state_.passed_over.push_back(output.node);
}

/// The quantizers of constants are in the order of the file, whichever is read first.
INTQ_INLINE graph::Node& NodeImport::call_quantizer(QuantizedConstant& constant) const {
    if (constant.node != nullptr) return *constant.node;
    const auto at = state_.graph.after(*constant.place);
    graph::Node& buffer = add_buffer_of(*constant.real, 0);
    const std::string name = state_.names.create(*constant.made_by);
    nn::add_module(state_.root, name, std::make_shared<QuantizeDequantize>(constant.grid));
    constant.node = &state_.next_node().call_module(name, {buffer});
    bool is_later = false;
    for (QuantizedConstant& other : state_.quantized_constants) {
        if (is_later && other.place == constant.place) other.place = constant.node;
        is_later = is_later || &other == &constant;
    }
    return *constant.node;
}

namespace detail {

/// The axis of a weight in the file that counts the channels of the output.
INTQ_INLINE int channel_axis_in_file(const std::string& op_type, bool transposes) {
    if (op_type == "Conv") return 0;
    if (op_type == "Gemm" && transposes) return 0;
    return 1;
}

}  // namespace detail

INTQ_INLINE const CodedConstant* NodeImport::coded_constant(std::size_t i) const {
    const auto coded = state_.coded.find(&constant(i, "constant"));
    return coded == state_.coded.end() ? nullptr : &coded->second;
}

INTQ_INLINE void NodeImport::note_bias(std::size_t x, std::size_t c) const {
    const CodedConstant* const coded = coded_constant(c);
    const graph::Node* const made_by = find(x, "input").node;
    if (coded == nullptr || coded->codes.empty() || made_by == nullptr) return;
    const auto layer = state_.layers.find(made_by->target());
    if (layer == state_.layers.end()) return;
    layer->second.bias_codes = coded->codes;
    layer->second.bias_scales = coded->grid.scales;
}

/// Notes the codes of a layer whose weight is input 1 and whose bias is input 2.
INTQ_INLINE void NodeImport::note_layer(const std::string& name, const nn::Module& module) const {
    const auto* layer = dynamic_cast<const nn::Weighted*>(&module);
    if (layer == nullptr || !has_input(1) || find(1, "weight").constant == nullptr) return;
    const auto weight = state_.coded.find(find(1, "weight").constant);
    if (weight == state_.coded.end()) return;
    LayerCodes noted{.weight = layer->weight(), .grid = weight->second.grid};
    bool transposes = false, scales_bias = false;
    for (const Attribute& attribute : node_.attributes) {
        const auto* number = std::get_if<std::int64_t>(&attribute.value);
        if (attribute.name == "transB" && number != nullptr) transposes = *number != 0;
        const auto* factor = std::get_if<float>(&attribute.value);
        if (factor == nullptr || *factor == 1.0f) continue;
        if (attribute.name == "beta") scales_bias = true;
        if (attribute.name != "alpha") continue;
        if (!(*factor > 0.0f)) return;  // no codes of the weight are its products
        for (float& scale : noted.grid->scales) scale *= *factor;
    }
    if (noted.grid->is_per_channel()) {
        if (noted.grid->axis != detail::channel_axis_in_file(node_.op_type, transposes))
            throw Error("the scales of its weight are along axis " + std::to_string(noted.grid->axis) +
                        ", which is not the axis of the output channels");
        noted.grid->axis = layer->weight_channel_axis();
    }
    if (has_input(2) && find(2, "bias").constant != nullptr && !scales_bias) {
        const auto bias = state_.coded.find(find(2, "bias").constant);
        const auto count = static_cast<std::size_t>(layer->out_channels());
        if (bias != state_.coded.end() && bias->second.codes.size() == count) {
            noted.bias_codes = bias->second.codes;
            noted.bias_scales = bias->second.grid.scales;
        }
    }
    state_.layers[name] = std::move(noted);
}

INTQ_INLINE void NodeImport::call_module(nn::ModulePtr module, graph::ArgumentList args, Dims dims,
                                         const std::string& method) {
    const std::string name = state_.names.create(node_);
    note_layer(name, *module);
    nn::add_module(state_.root, name, std::move(module));
    set_output({.node = &state_.next_node().call_module(name, std::move(args), method), .dims = std::move(dims)});
}

/// Calls a module and keeps its name.
INTQ_INLINE void NodeImport::call_noted(std::set<std::string>& names, nn::ModulePtr module, graph::ArgumentList args,
                                        Dims dims) {
    call_module(std::move(module), std::move(args), std::move(dims));
    if (!node_.outputs.empty() && !node_.outputs[0].empty())
        names.insert(state_.values[node_.outputs[0]].node->target());
}

INTQ_INLINE void NodeImport::call_constant_norm(nn::ModulePtr norm, graph::ArgumentList args, Dims dims) {
    call_noted(state_.constant_norms, std::move(norm), std::move(args), std::move(dims));
}

INTQ_INLINE void NodeImport::call_average_of_values(nn::ModulePtr pool, graph::ArgumentList args, Dims dims) {
    call_noted(state_.averages_of_values, std::move(pool), std::move(args), std::move(dims));
}

INTQ_INLINE void NodeImport::call_function(const nn::Function& function, graph::ArgumentList args, Dims dims) {
    set_output({.node = &make_function(function, std::move(args), true), .dims = std::move(dims)});
}

/// "" for a node without a name, so that the function chooses one.
INTQ_INLINE std::string NodeImport::function_name() const {
    if (node_.name.empty()) return {};
    std::string name = qualified_name_of(node_);
    std::replace(name.begin(), name.end(), '.', '_');
    return name;
}

INTQ_INLINE graph::Node& NodeImport::make_function(const nn::Function& function, graph::ArgumentList args,
                                                   bool is_main) {
    return state_.next_node().call_function(function, std::move(args), is_main ? function_name() : std::string());
}

INTQ_INLINE graph::Node& NodeImport::make_module(nn::ModulePtr module, graph::ArgumentList args) {
    const std::string name = state_.names.create(node_);
    nn::add_module(state_.root, name, std::move(module));
    return state_.next_node().call_module(name, std::move(args));
}

INTQ_INLINE graph::Node& NodeImport::make_size(graph::Node& value, std::size_t axis) {
    return state_.next_node().call_method(nn::size_function, {value, static_cast<std::int64_t>(axis)});
}

INTQ_INLINE graph::Node& NodeImport::make_extent(index_t unknown) {
    for (const auto& [name, value] : state_.values) {
        if (value.node == nullptr || !value.dims || unknown == -1) continue;
        const auto axis = std::find(value.dims->begin(), value.dims->end(), unknown);
        if (axis != value.dims->end())
            return make_size(*value.node, static_cast<std::size_t>(axis - value.dims->begin()));
    }
    throw Error("its shape holds an extent that is known only when the model runs");
}

INTQ_INLINE void NodeImport::set_output(ImportedValue value, std::size_t output) {
    if (value.dims) check_dims("its output", *value.dims);
    value.is_indices = value.is_indices || reads_indices();
    if (output < node_.outputs.size() && !node_.outputs[output].empty())
        state_.values[node_.outputs[output]] = std::move(value);
}

INTQ_INLINE void NodeImport::set_items(graph::Node& tuple, const std::vector<Dims>& dims) {
    for (std::size_t i = 0; i < node_.outputs.size() && i < dims.size(); ++i) {
        if (node_.outputs[i].empty()) continue;
        if (dims[i]) check_dims("output " + std::to_string(i + 1), *dims[i]);
        graph::Node& item =
            state_.next_node().call_function(nn::getitem_function, {tuple, static_cast<std::int64_t>(i)});
        state_.values[node_.outputs[i]] = {.node = &item, .dims = dims[i], .is_indices = reads_indices()};
    }
}

INTQ_INLINE graph::Node& NodeImport::add_buffer(std::size_t i, std::string_view what, std::size_t rank) {
    return add_buffer_of(finite_constant(i, what), rank);
}

INTQ_INLINE graph::Node& NodeImport::add_made_buffer(FileTensor tensor, std::size_t rank) {
    count_copied(tensor.data.size());
    state_.made_constants.push_back(std::move(tensor));
    return add_buffer_of(state_.made_constants.back(), rank);
}

INTQ_INLINE graph::Node& NodeImport::add_buffer_of(const FileTensor& tensor, std::size_t rank) const {
    graph::Graph& graph = state_.next_node();
    std::string& name = state_.buffers[{&tensor, rank}];
    if (!name.empty()) return graph.get_attr(name);
    Shape shape;
    while (shape.rank + static_cast<int>(tensor.dims.size()) < static_cast<int>(rank))
        shape.extents[static_cast<std::size_t>(shape.rank++)] = 1;
    for (const index_t extent : tensor.dims) {
        if (shape.rank == max_rank)
            throw Error("the constant has shape " + describe_shape(tensor.dims) + ", more than " +
                        std::to_string(max_rank) + " axes");
        shape.extents[static_cast<std::size_t>(shape.rank++)] = extent;
    }
    name = "constant_" + std::to_string(state_.root.buffers().size());
    state_.root.add_buffer(name, to_tensor(tensor, shape));
    return graph.get_attr(name);
}

INTQ_INLINE void NodeImport::set_constant(FileTensor tensor) {
    state_.constant_bytes += tensor.data.size();
    state_.made_constants.push_back(std::move(tensor));
    const FileTensor& kept = state_.made_constants.back();
    set_output({.constant = &kept, .dims = kept.dims});
}

INTQ_INLINE void NodeImport::set_folded(FileTensor tensor, std::optional<CodedConstant> coded, std::size_t output) {
    index_t most = detail::max_folded;
    for (std::size_t i = 0; i < input_count(); ++i)
        if (has_input(i) && has_elements(i)) most = (std::max)(most, find(i, "input").constant->size());
    if (tensor.size() > most)
        throw Error("its result, a constant of shape " + describe_shape(tensor.dims) + ", has more than " +
                    std::to_string(most) + " elements");
    count_copied(tensor.data.size());
    state_.made_constants.push_back(std::move(tensor));
    const FileTensor& kept = state_.made_constants.back();
    if (coded) state_.coded.emplace(&kept, *std::move(coded));
    set_output({.constant = &kept, .dims = kept.dims}, output);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_nodes)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_NODES_NODE_IMPORT_HPP
