// SPDX-License-Identifier: MIT
//
// Real numbers that an ONNX graph computes from a position alone, such as the cosines and sines of rotary positions, as
// rows of a table. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_POSITION_TABLES_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_POSITION_TABLES_HPP

#include <optional>

#include "intq/interop/onnx/read/model.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// The model with a Gather in place of each value that is computed from one position p and constants; none where it has
/// no such.
///
///     v = f(Cast(p))   becomes   Reshape(Gather(table, p), shape of v),   table[i] = f(i) for i = 0 … length - 1
///
/// f is any operator that is computed on constants. The position is one for each sample, which the graph compares with
/// a constant range, or by which it copies a row into a cache: the length is the least of these. Values stay as they
/// are where the file does not say it, and where f has another operator.
///
/// Cost     f for each place
std::optional<Model> with_position_tables(const Model& model);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <iterator>
#    include <map>
#    include <set>
#    include <span>
#    include <string>
#    include <string_view>
#    include <utility>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/interop/onnx/internal/nodes/constants_of.hpp"
#    include "intq/interop/onnx/internal/nodes/graph_editor.hpp"
#    include "intq/interop/onnx/internal/nodes/node_import.hpp"
#    include "intq/interop/onnx/internal/nodes/position_value.hpp"
#    include "intq/interop/onnx/internal/operators.hpp"
#    include "intq/interop/onnx/internal/operators/fold.hpp"
#    include "intq/interop/onnx/internal/read/limits.hpp"
#    include "intq/io/error.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// The tables of one position.
class PositionTables {
public:
    PositionTables(const Model& model, const ValueInfo& position)
        : model_(model), graph_(model.graph), position_(position), constants_(model.graph) {
        for (const ValueInfo& input : graph_.inputs) inputs_.insert(input.name);
        for (const FileTensor& tensor : graph_.initializers) inputs_.erase(tensor.name);
        for (const Node& node : graph_.nodes) add(node);
        for (const ValueInfo& output : graph_.outputs)
            if (reals_.count(output.name) != 0) ends_.insert(output.name);
        keep_what_ends_need();
    }

    /// The values that others than these read, as rows for each place; empty where one cannot be computed.
    std::map<std::string, FileTensor> run() {
        if (ends_.empty() || length_ < 1 || length_ > max_places) return {};
        std::map<std::string, FileTensor> tables;
        try {
            for (index_t place = 0; place < length_; ++place) compute(place, tables);
        } catch (const Error&) {
            return {};  // the import says of the nodes what is not supported
        }
        return tables;
    }

private:
    static constexpr index_t max_places = index_t{1} << 16;
    static constexpr std::uint64_t max_bytes = std::uint64_t{1} << 30;  // of what is computed for all places

    /// Follows what is made of the position, and what is constant.
    void add(const Node& node) {
        constants_.add(node);
        bool is_constant = true, is_real = false, is_of_position = false;
        for (const std::string& name : node.inputs) {
            const bool depends = name == position_.name || of_position_.count(name) != 0;
            is_of_position = is_of_position || depends;
            is_real = is_real || reals_.count(name) != 0;
            is_constant = is_constant && (name.empty() || depends || known_.count(name) != 0 ||
                                          (constants_.tensor(name) != nullptr && inputs_.count(name) == 0));
        }
        if (!is_of_position) {
            if (!is_constant) return;
            known_.insert(node.outputs.begin(), node.outputs.end());
            return wanted_.push_back(&node);
        }
        note_length(node);
        is_real =
            is_real || (node.op_type == "Cast" && integers_of_attribute(node, "to") == std::vector<std::int64_t>{1});
        if (!is_constant || !is_of_onnx(node) || node.outputs.size() != 1 || node.outputs[0].empty()) {
            for (const std::string& name : node.inputs)
                if (reals_.count(name) != 0) ends_.insert(name);
            return;
        }
        of_position_.insert(node.outputs[0]);
        if (is_real) reals_.insert(node.outputs[0]);
        wanted_.push_back(&node);
    }

    void keep_what_ends_need() {
        std::set<std::string> needed = ends_;
        std::vector<const Node*> kept;
        for (auto node = wanted_.rbegin(); node != wanted_.rend(); ++node) {
            const auto& outputs = (*node)->outputs;
            if (std::none_of(outputs.begin(), outputs.end(), [&](const auto& name) { return needed.count(name) != 0; }))
                continue;
            needed.insert((*node)->inputs.begin(), (*node)->inputs.end());
            kept.push_back(*node);
        }
        wanted_.assign(kept.rbegin(), kept.rend());
        for (const FileTensor& tensor : graph_.initializers)
            if (needed.count(tensor.name) != 0) tensors_.push_back(&tensor);
    }

    /// A range or a cache, of which the position is a place.
    void note_length(const Node& node) {
        static const std::set<std::string_view> relations{"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"};
        const bool compares = relations.count(node.op_type) != 0;
        for (std::size_t i = 0; compares && i < node.inputs.size(); ++i)
            if (const FileTensor* const range = constants_.tensor(node.inputs[i]); range && range->size() > 1)
                note_length(range->size());
        const bool copies = node.op_type == "ScatterND" || node.op_type == "ScatterElements";
        if (!copies || node.inputs.empty()) return;
        const std::vector<index_t> shape = shape_of(node.inputs[0]);
        const auto axis = integers_of_attribute(node, "axis").value_or(std::vector<std::int64_t>{0});
        const auto rank = static_cast<std::int64_t>(shape.size());
        const std::int64_t at = axis.empty() ? 0 : axis[0] < 0 ? axis[0] + rank : axis[0];
        if (at >= 0 && at < rank && shape[static_cast<std::size_t>(at)] > 0)
            note_length(shape[static_cast<std::size_t>(at)]);
    }
    /// As the file says it; empty where it does not.
    std::vector<index_t> shape_of(const std::string& value) const {
        for (const ValueInfo& input : graph_.inputs)
            if (input.name == value) return input.shape;
        const auto shape = graph_.shapes.find(value);
        return shape == graph_.shapes.end() ? std::vector<index_t>() : shape->second;
    }
    void note_length(index_t length) { length_ = length_ == 0 ? length : (std::min)(length_, length); }

    /// Appends a row to each table.
    void compute(index_t place, std::map<std::string, FileTensor>& tables) const {
        ImportState state;
        state.opset = model_.opset;
        state.node_count = graph_.nodes.size();
        for (const FileTensor* tensor : tensors_)
            state.values.emplace(tensor->name, ImportedValue{.constant = tensor, .dims = tensor->dims});
        const FileTensor at = position_at(place);
        state.values[position_.name] = {.constant = &at, .dims = at.dims};
        for (const Node* node : wanted_) {
            NodeImport import(*node, state);
            if (operators::fold_constants(import)) {
                import.check_attributes_are_read();
                continue;
            }
            const auto* const row =
                std::find_if(std::begin(onnx_operators), std::end(onnx_operators),
                             [&](const OnnxOperator& each) { return node->op_type == each.op_type; });
            if (row == std::end(onnx_operators)) throw Error("it is not computed on constants");
            row->import(import);
            import.check_attributes_are_read();
        }
        const auto places = static_cast<std::uint64_t>(length_);
        if (state.copied_bytes > max_bytes / places || wanted_.size() > max_folded / places)
            throw Error("it would be computed too often");
        for (const std::string& name : ends_) {
            const FileTensor* const value = state.values.at(name).constant;
            if (value == nullptr || value->dtype != DType::float32 || value->size() * length_ > max_folded)
                throw Error("it is no constant");
            FileTensor& table = tables[name];
            if (place == 0) table = {.name = {}, .dtype = DType::float32, .dims = value->dims, .data = {}};
            if (table.dims != value->dims || !is_of_one(value->dims)) throw Error("it is not of one position");
            table.data.insert(table.data.end(), value->data.begin(), value->data.end());
        }
    }
    /// Whether a value may be the row of a table: axis 0 of a value of more axes is that of the samples.
    static bool is_of_one(const std::vector<index_t>& dims) { return dims.size() < 2 || dims[0] == 1; }

    FileTensor position_at(index_t place) const {
        FileTensor at{.name = position_.name, .dtype = position_.dtype, .dims = position_.shape, .data = {}};
        const auto narrow = static_cast<std::int32_t>(place);
        const auto wide = static_cast<std::int64_t>(place);
        const auto bytes =
            at.dtype == DType::int32 ? std::as_bytes(std::span(&narrow, 1)) : std::as_bytes(std::span(&wide, 1));
        at.data.assign(bytes.begin(), bytes.end());
        return at;
    }

    const Model& model_;
    const Graph& graph_;
    const ValueInfo& position_;
    ConstantsOf constants_;
    std::set<std::string> inputs_, known_;       // of the graph, and made of constants
    std::set<std::string> of_position_, reals_;  // made of the position and constants, and those of them in float32
    std::set<std::string> ends_;                 // reals that other nodes read
    std::vector<const Node*> wanted_;            // that the ends need
    std::vector<const FileTensor*> tensors_;     // the same
    index_t length_ = 0;
};

/// Puts rows of tables in place of the nodes that make values.
class TableWriter {
public:
    TableWriter(const Model& model, const ValueInfo& position, const std::map<std::string, FileTensor>& tables)
        : model_(model), position_(position), tables_(tables), editor_(model.graph) {}

    Model run() {
        for (const Node& node : model_.graph.nodes) {
            const auto table = node.outputs.empty() ? tables_.end() : tables_.find(node.outputs[0]);
            table == tables_.end() ? editor_.keep(node) : write(node, table->second);
        }
        return editor_.apply_to(model_);
    }

private:
    void write(const Node& node, const FileTensor& values) {
        std::vector<std::int64_t> dims(values.dims.begin(), values.dims.end());
        std::int64_t width = 1;
        for (const std::int64_t extent : dims) width *= extent;
        FileTensor table = values;
        table.dims = {static_cast<index_t>(table.size() / width), width};
        std::string place = position_.name;
        if (position_.shape.empty())
            place = editor_.add(node, "Reshape", {place, editor_.constant(std::vector<std::int64_t>{1}, node)}, {},
                                ".place");
        Node rows = GraphEditor::in_place_of(node, "Gather", {editor_.constant(std::move(table), node), place},
                                             {{"axis", std::int64_t{0}}}, ".table");
        const bool is_row = dims.size() < 3;  // (1, width), or fewer axes, which are the same beside values of three
        rows.outputs = {is_row ? node.outputs[0] : editor_.fresh(node.outputs[0])};
        const std::string made = rows.outputs[0];
        editor_.push(std::move(rows));
        if (is_row) return;
        Node shaped = GraphEditor::in_place_of(node, "Reshape", {made, editor_.constant(dims, node)});
        shaped.outputs = {node.outputs[0]};
        editor_.push(std::move(shaped));
    }

    const Model& model_;
    const ValueInfo& position_;
    const std::map<std::string, FileTensor>& tables_;
    GraphEditor editor_;
};

INTQ_INLINE std::optional<Model> with_position_tables(const Model& model) {
    std::optional<Model> result;
    constexpr std::size_t most_positions = 8;  // each takes a pass over the nodes
    const std::set<std::string> positions = position_inputs(model.graph);
    if (positions.size() > most_positions) return std::nullopt;
    for (const ValueInfo& input : model.graph.inputs) {
        const bool is_one = input.shape.empty() || (input.shape.size() == 1 && input.shape[0] == 1);
        if (positions.count(input.name) == 0 || !is_one) continue;
        const Model& read = result ? *result : model;
        const std::map<std::string, FileTensor> tables = PositionTables(read, input).run();
        if (!tables.empty()) result = TableWriter(read, input, tables).run();
    }
    return result;
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_POSITION_TABLES_HPP
