// SPDX-License-Identifier: MIT
//
// GELU as exporters write it where ONNX has no operator for it, below opset 20. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_NODES_GELU_BY_PARTS_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_NODES_GELU_BY_PARTS_HPP

#include <map>

#include "intq/interop/onnx/read/model.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// The Gelus of a graph, by the last node of each. Its other nodes stay where another node reads them.
///
///     x · (1 + Erf(x / √2)) · 1/2
///     x · (1 + Tanh(√(2/π) · (x + 0.044715 · x³))) · 1/2    approximate "tanh"
///
/// The factors may come in any order. A quotient may be the product with the reciprocal, and the other way round. The
/// numbers are float32's within a millionth; with others it is no GELU.
std::map<const Node*, Node> gelus_by_parts(const Graph& graph);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_nodes)

#    include <cmath>
#    include <optional>
#    include <string>
#    include <utility>

#    include "intq/interop/onnx/internal/nodes/constants_of.hpp"
#    include "intq/interop/onnx/internal/nodes/tanh_of_gelu.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Reads the nodes once, in their order.
class GeluSearch {
public:
    explicit GeluSearch(const Graph& graph) : constants_(graph) {
        for (const Node& node : graph.nodes)
            if (is_of_onnx(node)) add(node);
    }

    std::map<const Node*, Node> take() { return std::move(found_); }

private:
    /// The factors of the GELU of x that a value is the product of.
    struct Product {
        std::string x;
        bool has_x = false, has_curve = false, has_half = false;
        bool is_tanh = false;  // the curve is 1 + Tanh(…), not 1 + Erf(…)
    };

    void add(const Node& node) {
        if (node.outputs.size() != 1 || constants_.add(node)) return;
        tanhs_.add(node, constants_);
        if (node.op_type == "Erf" && node.inputs.size() == 1) {
            if (const auto x = divided_.find(node.inputs[0]); x != divided_.end()) erfs_[node.outputs[0]] = x->second;
            return;
        }
        if (node.inputs.size() != 2) return;
        if (node.op_type == "Add") return add_sum(node);
        if (node.op_type == "Mul" || node.op_type == "Div") add_product(node);
    }

    /// The value and the factor of a product or quotient with a number.
    std::optional<std::pair<std::string, double>> scaled(const Node& node) const {
        for (const std::size_t c : {1u, 0u}) {
            const std::optional<double> number = constants_.number(node.inputs[c]);
            if (!number) continue;
            if (node.op_type == "Mul") return std::pair(node.inputs[1 - c], *number);
            if (c == 1 && *number != 0.0) return std::pair(node.inputs[0], 1.0 / *number);
        }
        return std::nullopt;
    }

    void add_sum(const Node& node) {
        for (const std::size_t c : {1u, 0u}) {
            if (constants_.number(node.inputs[c]) != 1.0) continue;
            const auto erf = erfs_.find(node.inputs[1 - c]);
            const std::string* const tanh = tanhs_.find(node.inputs[1 - c]);
            if (erf != erfs_.end()) products_[node.outputs[0]] = {.x = erf->second, .has_curve = true};
            if (tanh != nullptr) products_[node.outputs[0]] = {.x = *tanh, .has_curve = true, .is_tanh = true};
        }
    }

    Product product_of(const std::string& value) const {
        const auto known = products_.find(value);
        return known != products_.end() ? known->second : Product{.x = value, .has_x = true};
    }

    void add_product(const Node& node) {
        Product product;
        if (const auto value = scaled(node)) {
            if (std::fabs(value->second - std::sqrt(0.5)) < 1e-6) divided_[node.outputs[0]] = value->first;
            product = product_of(value->first);
            if (value->second != 0.5 || product.has_half) return;
            product.has_half = true;
        } else {
            if (node.op_type != "Mul") return;
            Product a = product_of(node.inputs[0]), b = product_of(node.inputs[1]);
            // x may be half of another value.
            if (a.has_curve && node.inputs[1] == a.x) b = {.x = a.x, .has_x = true};
            if (b.has_curve && node.inputs[0] == b.x) a = {.x = b.x, .has_x = true};
            const bool are_apart =
                !(a.has_x && b.has_x) && !(a.has_curve && b.has_curve) && !(a.has_half && b.has_half);
            if (a.x != b.x || !are_apart) return;
            product = {a.x, a.has_x || b.has_x, a.has_curve || b.has_curve, a.has_half || b.has_half,
                       a.is_tanh || b.is_tanh};
        }
        if (!(product.has_x && product.has_curve && product.has_half)) {
            products_[node.outputs[0]] = product;
            return;
        }
        found_[&node] = {.op_type = "Gelu",
                         .name = node.name,
                         .domain = {},
                         .inputs = {product.x},
                         .outputs = node.outputs,
                         .attributes = {{"approximate", std::string(product.is_tanh ? "tanh" : "none")}},
                         .position = node.position};
    }

    ConstantsOf constants_;
    TanhOfGelu tanhs_;
    std::map<std::string, std::string> divided_, erfs_;  // x of x / √2, and of Erf(x / √2)
    std::map<std::string, Product> products_;
    std::map<const Node*, Node> found_;
};

}  // namespace detail

INTQ_INLINE std::map<const Node*, Node> gelus_by_parts(const Graph& graph) { return detail::GeluSearch(graph).take(); }

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_nodes)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_NODES_GELU_BY_PARTS_HPP
