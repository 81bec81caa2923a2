// SPDX-License-Identifier: MIT
//
// Layer norm and RMS norm as exporters write them where ONNX has no operator for it, below opsets 17 and 23. Layer:
// interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_NODES_NORM_BY_PARTS_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_NODES_NORM_BY_PARTS_HPP

#include <map>

#include "intq/interop/onnx/read/model.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// The LayerNormalizations and RMSNormalizations of a graph, by the last node of each. Its other nodes stay where
/// another node reads them.
///
///     (x - ReduceMean(x)) / Sqrt(ReduceMean((x - ReduceMean(x))²) + eps) · weight + bias
///     x / Sqrt(ReduceMean(x²) + eps) · weight
///
/// The means are over the last axes, and are kept. Axes that are counted from the front are the last ones if the file
/// says so of the rank; the norm's axis is then counted from the front as well, so that a wrong rank is refused where
/// the shape is known. Weight and bias are constants with the extents of those axes, none of which is 1. Operands may
/// be exchanged. A square is a Pow by 2 or a product, a quotient may be the product with the Reciprocal or with the
/// quotient of 1. Without a weight it is none.
std::map<const Node*, Node> norms_by_parts(const Graph& graph);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_nodes)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <cstdint>
#    include <optional>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/interop/onnx/internal/nodes/constants_of.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Reads the nodes once, in their order.
class NormSearch {
public:
    explicit NormSearch(const Graph& graph) : graph_(graph), constants_(graph) {
        for (const ValueInfo& input : graph.inputs)
            if (input.has_shape) shapes_.emplace(input.name, input.shape);
        for (const Node& node : graph.nodes)
            if (is_of_onnx(node) && node.outputs.size() == 1 && !constants_.add(node)) add(node);
    }

    std::map<const Node*, Node> take() { return std::move(found_); }

private:
    /// What a value is, of the last `axes` axes of x, or of x less its mean over them.
    struct Part {
        std::string x;
        std::size_t axes = 0;
        std::int64_t first = 0;  // of the axes: from the front, or below 0
        bool is_centered = false;
        double epsilon = 0;
        std::string weight{};
    };
    using Parts = std::map<std::string, Part>;

    void add(const Node& node) {
        const std::string& op = node.op_type;
        if (op == "ReduceMean") return add_mean(node);
        if (op == "Sqrt" || op == "Reciprocal") {
            if (node.inputs.size() == 1)
                pass(op == "Sqrt" ? shifted_ : roots_, op == "Sqrt" ? roots_ : inverses_, node);
            return;
        }
        if (node.inputs.size() != 2) return;
        if (op == "Sub") return add_difference(node);
        if (op == "Pow" && constants_.number(node.inputs[1]) == 2.0) squares_[node.outputs[0]] = node.inputs[0];
        if (op == "Div") return add_quotient(node);
        if (op == "Mul") return add_product(node);
        if (op == "Add") return add_sum(node);
    }

    static const Part* find(const Parts& parts, const std::string& value) {
        const auto found = parts.find(value);
        return found == parts.end() ? nullptr : &found->second;
    }

    /// What was known of the node's only input is known of its output.
    static void pass(const Parts& from, Parts& to, const Node& node) {
        if (const Part* const part = find(from, node.inputs[0])) to[node.outputs[0]] = *part;
    }

    /// As the file says; 0 where it does not.
    std::int64_t known_rank(const std::string& value) const {
        for (const auto* shapes : {&shapes_, &graph_.shapes})
            if (const auto found = shapes->find(value); found != shapes->end())
                return static_cast<std::int64_t>(found->second.size());
        return 0;
    }
    /// The same, also of the value that is squared, and of the value whose mean was subtracted.
    std::int64_t rank_of(const std::string& value) const {
        const auto square = squares_.find(value);
        const std::string& of_square = square == squares_.end() ? value : square->second;
        const Part* const difference = find(differences_, of_square);
        return (std::max)({known_rank(value), known_rank(of_square), difference ? known_rank(difference->x) : 0});
    }

    /// The last axes that a ReduceMean which keeps its axes is over; none for another one.
    std::optional<Part> last_axes(const Node& node) const {
        if (integers_of_attribute(node, "keepdims") == std::vector<std::int64_t>{0}) return std::nullopt;
        const std::vector<std::int64_t> axes =
            constants_.integers(node, 1, "axes").value_or(std::vector<std::int64_t>());
        const auto count = static_cast<std::int64_t>(axes.size());
        const bool from_front = std::any_of(axes.begin(), axes.end(), [](std::int64_t axis) { return axis >= 0; });
        const std::int64_t rank = from_front ? rank_of(node.inputs[0]) : 0;
        if (axes.empty() || (from_front && rank < count)) return std::nullopt;
        std::vector<bool> is_there(axes.size());
        for (const std::int64_t axis : axes) {
            if (axis >= 0 && axis >= rank) return std::nullopt;
            const std::int64_t from_end = axis < 0 ? axis : axis - rank;
            if (from_end < -count || is_there[static_cast<std::size_t>(from_end + count)]) return std::nullopt;
            is_there[static_cast<std::size_t>(from_end + count)] = true;
        }
        return Part{.x = node.inputs[0], .axes = axes.size(), .first = rank - count};
    }

    void add_mean(const Node& node) {
        const std::optional<Part> mean = node.inputs.empty() ? std::nullopt : last_axes(node);
        if (!mean) return;
        means_[node.outputs[0]] = *mean;
        const auto square = squares_.find(node.inputs[0]);
        if (square == squares_.end()) return;
        const Part* const difference = find(differences_, square->second);
        if (difference != nullptr && difference->axes != mean->axes) return;
        Part variance = difference == nullptr ? *mean : *difference;
        if (difference == nullptr) variance.x = square->second;
        variance.first = (std::max)(variance.first, mean->first);
        variances_[node.outputs[0]] = std::move(variance);
    }

    void add_difference(const Node& node) {
        const Part* const mean = find(means_, node.inputs[1]);
        if (mean != nullptr && mean->x == node.inputs[0])
            differences_[node.outputs[0]] = {
                .x = mean->x, .axes = mean->axes, .first = mean->first, .is_centered = true};
    }

    /// The value over the root of its own square's mean.
    void add_normal(const Node& node, const std::string& value, const Part& root) {
        const Part* const difference = find(differences_, value);
        const bool fits = root.is_centered
                              ? difference != nullptr && difference->x == root.x && difference->axes == root.axes
                              : value == root.x;
        if (fits) normals_[node.outputs[0]] = root;
    }

    void add_quotient(const Node& node) {
        const Part* const root = find(roots_, node.inputs[1]);
        if (root == nullptr) return;
        add_normal(node, node.inputs[0], *root);
        if (constants_.number(node.inputs[0]) == 1.0) inverses_[node.outputs[0]] = *root;
    }

    void add_product(const Node& node) {
        if (node.inputs[0] == node.inputs[1]) squares_[node.outputs[0]] = node.inputs[0];
        for (const std::size_t c : {0u, 1u}) {
            const std::string &one = node.inputs[c], &other = node.inputs[1 - c];
            if (const Part* const inverse = find(inverses_, other)) add_normal(node, one, *inverse);
            const Part* const normal = find(normals_, one);
            if (normal == nullptr || !is_of_axes(constants_.tensor(other), normal->axes)) continue;
            Part weighted = *normal;
            weighted.weight = other;
            weighted_[node.outputs[0]] = weighted;
            add_norm(node, weighted, "");
        }
    }

    void add_sum(const Node& node) {
        for (const std::size_t c : {0u, 1u}) {
            const std::string &one = node.inputs[c], &other = node.inputs[1 - c];
            const std::optional<double> epsilon = constants_.number(other);
            if (const Part* const variance = find(variances_, one); variance && epsilon && is_epsilon(*epsilon)) {
                Part shifted = *variance;
                shifted.epsilon = *epsilon;
                shifted_[node.outputs[0]] = shifted;
            }
            const Part* const weighted = find(weighted_, one);
            if (weighted == nullptr || !weighted->is_centered) continue;
            const FileTensor *const weight = constants_.tensor(weighted->weight), *const bias =
                                                                                      constants_.tensor(other);
            if (bias != nullptr && bias->dtype == DType::float32 && bias->dims == weight->dims)
                add_norm(node, *weighted, other);
        }
    }

    static bool is_epsilon(double value) { return value >= 0.0 && std::isfinite(value); }

    /// A weight of one element is a factor of all axes.
    static bool is_of_axes(const FileTensor* weight, std::size_t axes) {
        if (weight == nullptr || weight->dtype != DType::float32 || weight->dims.size() != axes) return false;
        return std::none_of(weight->dims.begin(), weight->dims.end(), [](index_t extent) { return extent == 1; });
    }

    void add_norm(const Node& node, const Part& part, const std::string& bias) {
        Node norm{.op_type = part.is_centered ? "LayerNormalization" : "RMSNormalization",
                  .name = node.name,
                  .domain = {},
                  .inputs = {part.x, part.weight},
                  .outputs = node.outputs,
                  .attributes = {{"axis", part.first}, {"epsilon", static_cast<float>(part.epsilon)}},
                  .position = node.position};
        if (!bias.empty()) norm.inputs.push_back(bias);
        found_[&node] = std::move(norm);
    }

    const Graph& graph_;
    ConstantsOf constants_;
    std::map<std::string, std::vector<index_t>> shapes_;  // of the graph's inputs
    std::map<std::string, std::string> squares_;          // what is squared
    Parts means_, differences_;                           // of x, and x less it
    Parts variances_, shifted_, roots_, inverses_;
    Parts normals_, weighted_;
    std::map<const Node*, Node> found_;
};

}  // namespace detail

INTQ_INLINE std::map<const Node*, Node> norms_by_parts(const Graph& graph) { return detail::NormSearch(graph).take(); }

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_nodes)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_NODES_NORM_BY_PARTS_HPP
