// SPDX-License-Identifier: MIT
//
// Moves of an ONNX graph that take the samples from axis 0 and put them back, as moves that keep them there. Exporters
// write attention so: PyTorch's qkv.permute(2, 0, 3, 1, 4).unbind(0). Keys that are transposed as one list of matrices
// are read so by reshape() of operators/reshape.hpp. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_NODES_SAMPLES_FIRST_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_NODES_SAMPLES_FIRST_HPP

#include <optional>

#include "intq/interop/onnx/read/model.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// The model with the same values and other moves; none if no node changes.
///
///     Slice, Split, Squeeze or Gather of one element, of axis a of Transpose(x, p) where p moves axis 0
///         Transpose of the same of axis p[a] of x, by p without the axes that are gone
///     GatherND of the first axes of Transpose(x, p), whose indices are a grid: those of an axis depend on it alone
///         Transpose of a Gather of each of these axes of x, by p
///     ScatterND of the first axis of Transpose(x, p) with updates u
///         Transpose of the same of axis p[0] of x, which its attribute axis says, with u moved as x is, by p
///     Transpose(Transpose(x, p), q)
///         Transpose(x, p[q]), or Identity
///     Unsqueeze of axis 0 of Reshape(x, s)
///         Reshape(x, (1, s))
///
/// Nodes that nothing reads any more are left where they are.
///
/// Memory   a copy of the model, if a node changes
std::optional<Model> with_samples_first(const Model& model);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_nodes)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <map>
#    include <set>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/interop/onnx/internal/nodes/constants_of.hpp"
#    include "intq/interop/onnx/internal/nodes/graph_editor.hpp"
#    include "intq/interop/onnx/internal/nodes/position_value.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

using Axes = std::vector<std::int64_t>;

/// Reads the nodes once, in their order, and writes others.
class SamplesFirst {
public:
    explicit SamplesFirst(const Graph& graph) : constants_(graph), editor_(graph) {
        for (const Node& node : graph.nodes)
            if (!is_of_onnx(node) || constants_.add(node) || !rewrite(node)) keep(node);
    }

    bool has_changed() const noexcept { return editor_.has_changed(); }
    Model apply_to(const Model& model) { return editor_.apply_to(model); }

private:
    struct Turned {
        std::string x;
        Axes axes;
    };

    bool rewrite(const Node& node) {
        if (node.inputs.empty() || node.outputs.empty()) return false;
        if (node.op_type == "Unsqueeze") return rewrite_unsqueeze(node);
        const auto turned = turned_.find(node.inputs[0]);
        if (turned == turned_.end()) return false;
        const Turned from = turned->second;
        if (node.op_type == "Slice") return rewrite_slice(node, from);
        if (node.op_type == "Squeeze") return rewrite_squeeze(node, from);
        if (node.op_type == "Gather") return rewrite_gather(node, from);
        if (node.op_type == "Split") return rewrite_split(node, from);
        if (node.op_type == "GatherND") return rewrite_gather_nd(node, from);
        if (node.op_type == "ScatterND") return rewrite_scatter_nd(node, from);
        if (node.op_type == "Transpose") return rewrite_transpose(node, from);
        return false;
    }

    /// Axes of the transposed value as those of x; none if one does not exist, is named twice, or counts the samples.
    static std::optional<Axes> before(const Turned& from, const Axes& axes) {
        const auto rank = static_cast<std::int64_t>(from.axes.size());
        std::set<std::int64_t> known;
        Axes result;
        for (const std::int64_t axis : axes) {
            if (axis < -rank || axis >= rank) return std::nullopt;
            result.push_back(from.axes[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)]);
            if (result.back() == 0 || !known.insert(result.back()).second) return std::nullopt;
        }
        return result;
    }
    /// The order of the axes that are left.
    static Axes without(const Axes& order, const Axes& gone) {
        Axes left;
        for (const std::int64_t axis : order) {
            if (std::find(gone.begin(), gone.end(), axis) != gone.end()) continue;
            left.push_back(axis - std::count_if(gone.begin(), gone.end(), [&](auto other) { return other < axis; }));
        }
        return left;
    }

    bool rewrite_slice(const Node& node, const Turned& from) {
        if (node.inputs.size() < 3) return false;
        std::optional<Axes> axes;
        if (node.inputs.size() > 3 && !node.inputs[3].empty()) {
            axes = constants_.integers(node.inputs[3]);
        } else if (const auto starts = constants_.integers(node.inputs[1])) {
            axes.emplace();
            for (std::size_t i = 0; i < starts->size(); ++i) axes->push_back(static_cast<std::int64_t>(i));
        }
        const std::optional<Axes> own = axes ? before(from, *axes) : std::nullopt;
        if (!own) return false;
        Node slice = node;
        slice.inputs[0] = from.x;
        slice.inputs.resize((std::max)(slice.inputs.size(), std::size_t{4}));
        slice.inputs[3] = editor_.constant(*own, node);
        push_turned(std::move(slice), node, from.axes);
        return true;
    }
    bool rewrite_squeeze(const Node& node, const Turned& from) {
        const std::optional<Axes> axes = constants_.integers(node, 1, "axes");
        const std::optional<Axes> own = axes ? before(from, *axes) : std::nullopt;
        if (!own || own->empty()) return false;
        Node squeeze = node;
        squeeze.inputs[0] = from.x;
        if (node.inputs.size() > 1)
            squeeze.inputs[1] = editor_.constant(*own, node);
        else
            GraphEditor::set(squeeze, "axes", *own);
        push_turned(std::move(squeeze), node, without(from.axes, *own));
        return true;
    }
    bool rewrite_gather(const Node& node, const Turned& from) {
        const FileTensor* const index = node.inputs.size() == 2 ? constants_.tensor(node.inputs[1]) : nullptr;
        if (index == nullptr || index->dtype != DType::int64 || !index->dims.empty()) return false;
        const std::optional<Axes> own = before(from, integers_of_attribute(node, "axis").value_or(Axes{0}));
        if (!own || own->size() != 1) return false;
        Node gather = node;
        gather.inputs[0] = from.x;
        GraphEditor::set(gather, "axis", own->front());
        push_turned(std::move(gather), node, without(from.axes, *own));
        return true;
    }
    bool rewrite_split(const Node& node, const Turned& from) {
        const std::optional<Axes> own = before(from, integers_of_attribute(node, "axis").value_or(Axes{0}));
        if (!own || own->size() != 1) return false;
        Node split = node;
        split.inputs[0] = from.x;
        GraphEditor::set(split, "axis", own->front());
        for (std::string& output : split.outputs)
            if (!output.empty()) output = editor_.fresh(output);
        const std::vector<std::string> pieces = split.outputs;
        push(std::move(split));
        for (std::size_t i = 0; i < pieces.size(); ++i)
            if (!pieces[i].empty()) push(transpose(node, i, pieces[i], from.axes));
        return true;
    }

    /// The indices of each axis, of indices (n_1, ..., n_k, k) that are a grid of k axes; none for others.
    static std::vector<Axes> grid_of(const FileTensor& indices) {
        const std::size_t rank = indices.dims.size();
        if (indices.dtype != DType::int64 || rank < 2 || indices.size() < 1 ||
            indices.dims.back() != static_cast<index_t>(rank - 1))
            return {};
        const auto values = indices.as<std::int64_t>();
        std::vector<Axes> grid;
        std::size_t within = values.size();
        for (std::size_t axis = 0; axis + 1 < rank; ++axis) {
            const auto extent = static_cast<std::size_t>(indices.dims[axis]);
            within /= extent;  // what a step along this axis passes
            Axes along(extent);
            for (std::size_t i = 0; i < extent; ++i) along[i] = values[i * within + axis];
            for (std::size_t i = axis; i < values.size(); i += rank - 1)
                if (values[i] != along[i / within % extent]) return {};
            grid.push_back(std::move(along));
        }
        return grid;
    }
    /// The names of constants with the indices of each axis, which nodes with the same indices share.
    const std::vector<std::string>& grid_constants(const FileTensor& indices, const Node& node) {
        const auto [grid, is_new] = grids_.try_emplace(node.inputs[1]);
        if (is_new)
            for (const Axes& along : grid_of(indices)) grid->second.push_back(editor_.constant(along, node));
        return grid->second;
    }
    bool rewrite_gather_nd(const Node& node, const Turned& from) {
        const FileTensor* const indices = node.inputs.size() == 2 ? constants_.tensor(node.inputs[1]) : nullptr;
        if (indices == nullptr || integers_of_attribute(node, "batch_dims").value_or(Axes{0}) != Axes{0}) return false;
        const std::vector<std::string>& grid = grid_constants(*indices, node);
        Axes first(grid.size());
        for (std::size_t axis = 0; axis < first.size(); ++axis) first[axis] = static_cast<std::int64_t>(axis);
        const std::optional<Axes> own = before(from, first);
        if (grid.empty() || !own) return false;
        std::string x = from.x;
        for (std::size_t axis = 0; axis < grid.size(); ++axis) {
            Node gather = GraphEditor::in_place_of(node, "Gather", {x, grid[axis]}, {{"axis", (*own)[axis]}});
            x = editor_.fresh(node.outputs[0]);
            gather.outputs = {x};
            push(std::move(gather));
        }
        push(transpose(node, 0, x, from.axes));
        return true;
    }
    bool rewrite_scatter_nd(const Node& node, const Turned& from) {
        if (node.inputs.size() != 3 || constants_.tensor(node.inputs[1]) != nullptr) return false;
        Axes back(from.axes.size());  // of the updates, to the order of x
        for (std::size_t axis = 0; axis < back.size(); ++axis)
            back[static_cast<std::size_t>(from.axes[axis])] = static_cast<std::int64_t>(axis);
        std::string updates = node.inputs[2];
        if (const auto turned = turned_.find(updates); turned != turned_.end()) {
            if (turned->second.axes.size() != back.size()) return false;
            for (std::int64_t& axis : back) axis = turned->second.axes[static_cast<std::size_t>(axis)];
            updates = turned->second.x;
        }
        if (!is_identity(back)) {
            Node moved = transpose(node, 0, updates, back);
            updates = moved.outputs[0] = editor_.fresh(node.outputs[0]);
            push(std::move(moved));
        }
        Node scatter = node;
        scatter.inputs[0] = from.x;
        scatter.inputs[2] = updates;
        GraphEditor::set(scatter, scatter_axis, from.axes[0]);
        push_turned(std::move(scatter), node, from.axes);
        return true;
    }
    static bool is_identity(const Axes& axes) { return std::is_sorted(axes.begin(), axes.end()); }
    bool rewrite_unsqueeze(const Node& node) {
        const std::optional<Axes> axes = constants_.integers(node, 1, "axes");
        const auto reshape = reshapes_.find(node.inputs[0]);
        if (axes != Axes{0} || reshape == reshapes_.end()) return false;
        Axes shape = reshape->second.shape;
        shape.insert(shape.begin(), 1);
        Node made{.op_type = "Reshape",
                  .name = node.name,
                  .domain = {},
                  .inputs = {reshape->second.x, editor_.constant(shape, node)},
                  .outputs = node.outputs,
                  .attributes = {},
                  .position = node.position};
        push(std::move(made));
        return true;
    }
    bool rewrite_transpose(const Node& node, const Turned& from) {
        const std::optional<Axes> order = permutation_of(node);
        if (!order || order->size() != from.axes.size()) return false;
        Node both = node;
        both.inputs[0] = from.x;
        Axes axes;
        for (const std::int64_t axis : *order) axes.push_back(from.axes[static_cast<std::size_t>(axis)]);
        if (is_identity(axes)) {
            both.op_type = "Identity";
            both.attributes.clear();
        } else {
            GraphEditor::set(both, "perm", std::move(axes));
        }
        push(std::move(both));
        return true;
    }

    /// A node in the place of another one, with a name of its own for its output, and the Transpose behind it.
    void push_turned(Node made, const Node& node, const Axes& order) {
        made.outputs = {editor_.fresh(node.outputs[0])};
        const std::string x = made.outputs[0];
        push(std::move(made));
        push(transpose(node, 0, x, order));
    }
    static Node transpose(const Node& node, std::size_t output, const std::string& x, const Axes& order) {
        Node made = GraphEditor::in_place_of(node, "Transpose", {x}, {{"perm", order}}, ".turned");
        made.outputs = {node.outputs[output]};
        return made;
    }

    void push(Node node) {
        remember(node);
        editor_.push(std::move(node));
    }
    void keep(const Node& node) {
        remember(node);
        editor_.keep(node);
    }
    /// Keeps what later nodes ask for.
    void remember(const Node& node) {
        if (!is_of_onnx(node) || node.inputs.empty() || node.outputs.size() != 1) return;
        if (node.op_type == "Transpose") add_transpose(node);
        if (node.op_type == "Reshape") add_reshape(node);
    }
    void add_transpose(const Node& node) {
        const std::optional<Axes> axes = permutation_of(node);
        if (axes && axes->front() != 0) turned_[node.outputs[0]] = {node.inputs[0], *axes};
    }

    /// Of a target without 0 and -1, which mean other extents where an axis comes before them.
    void add_reshape(const Node& node) {
        const std::optional<Axes> shape = node.inputs.size() == 2 ? constants_.integers(node.inputs[1]) : std::nullopt;
        if (!shape || shape->size() >= static_cast<std::size_t>(max_rank)) return;
        if (std::all_of(shape->begin(), shape->end(), [](std::int64_t extent) { return extent > 0; }))
            reshapes_[node.outputs[0]] = {node.inputs[0], *shape};
    }

    struct Reshaped {
        std::string x;
        Axes shape;
    };
    std::map<std::string, Reshaped> reshapes_;

    ConstantsOf constants_;
    GraphEditor editor_;
    std::map<std::string, Turned> turned_;
    std::map<std::string, std::vector<std::string>> grids_;  // by the name of the indices
};

}  // namespace detail

INTQ_INLINE std::optional<Model> with_samples_first(const Model& model) {
    detail::SamplesFirst rewritten(model.graph);
    if (!rewritten.has_changed()) return std::nullopt;
    return rewritten.apply_to(model);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_nodes)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_NODES_SAMPLES_FIRST_HPP
