// SPDX-License-Identifier: MIT
//
// Functions of one element as exporters write them in several nodes: PyTorch's default export has no operator of ONNX
// for some of its modules, and models write others by hand. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_NODES_FUNCTIONS_BY_PARTS_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_NODES_FUNCTIONS_BY_PARTS_HPP

#include <map>

#include "intq/interop/onnx/read/model.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// The functions of a graph that are written in parts, by the last node of each. Its other nodes stay where another
/// node reads them.
///
///     Where(x > 20, x, Softplus(x))                  Softplus; also of beta · x and over beta
///     Where(x > 0, x, a · x)                         LeakyRelu; also Max(x, a · x) of an a in [0, 1]
///     Where(x > 0, x, alpha · (Exp(x) - 1))          Elu
///     Where(x > t, x, t), Where(x < t, x, t)         Relu, or Clip
///     Cast(x > 0) · x                                Relu
///     x / (1 + Abs(x))                               Softsign
///     Where(Abs(x) > t, x - t · Sign(x), 0)          Shrink
///     Sign(x) · Abs(x)                               Identity
///
/// Conditions may have their operands exchanged, hold the equality, and be negated; each function is continuous at its
/// threshold, so that this changes no value. Factors and terms may be exchanged, and a quotient be the product with the
/// reciprocal. Softplus may have a threshold above 20 as well, where both are x up to 3e-9.
std::map<const Node*, Node> functions_by_parts(const Graph& graph);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_nodes)

#    include <algorithm>
#    include <cmath>
#    include <optional>
#    include <set>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/interop/onnx/internal/nodes/constants_of.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Reads the nodes once, in their order.
class FunctionSearch {
public:
    explicit FunctionSearch(const Graph& graph) : constants_(graph) {
        std::set<std::string> constants;
        for (const FileTensor& tensor : graph.initializers) constants.insert(tensor.name);
        for (const ValueInfo& input : graph.inputs)
            if (constants.count(input.name) == 0) computed_.insert(input.name);
        for (const Node& node : graph.nodes) {
            if (is_of_onnx(node) && node.outputs.size() == 1 && !constants_.add(node)) add(node);
            const bool is_computed = node.op_type != "Shape" &&
                                     std::any_of(node.inputs.begin(), node.inputs.end(),
                                                 [&](const std::string& name) { return computed_.count(name) != 0; });
            if (is_computed) computed_.insert(node.outputs.begin(), node.outputs.end());
        }
    }

    std::map<const Node*, Node> take() { return std::move(found_); }

private:
    /// Where x is above a number, or below it.
    struct Condition {
        std::string x;
        double number = 0;
        bool is_above = true;
    };
    struct Scaled {
        std::string x;
        double factor = 1;
    };

    void add(const Node& node) {
        const std::string& op = node.op_type;
        if (node.inputs.size() == 1) return add_of_one(node);
        if (op == "Where" && node.inputs.size() == 3) return add_where(node);
        if (node.inputs.size() != 2) return;
        if (op == "Greater" || op == "GreaterOrEqual") return add_condition(node, true);
        if (op == "Less" || op == "LessOrEqual") return add_condition(node, false);
        if (op == "Add") return add_sum(node);
        if (op == "Sub") return add_difference(node);
        if (op == "Mul") return add_product(node);
        if (op == "Div") return add_quotient(node);
        if (op == "Max") return add_maximum(node);
    }

    void add_of_one(const Node& node) {
        const std::string &op = node.op_type, &x = node.inputs[0], &y = node.outputs[0];
        if (op == "Softplus") softplus_[y] = x;
        if (op == "Exp") exps_[y] = x;
        if (op == "Abs") abs_[y] = x;
        if (op == "Sign") signs_[y] = x;
        if (op == "Relu")
            if (const std::string* const of = find(abs_, x)) abs_[y] = *of;
        const Condition* const condition = find(conditions_, x);
        if (condition == nullptr) return;
        Condition other = *condition;
        if (op == "Cast" && is_float(node))
            casts_[y] = std::move(other);
        else if (op == "Not") {
            other.is_above = !other.is_above;
            conditions_[y] = std::move(other);
        }
    }

    template <class T> static const T* find(const std::map<std::string, T>& map, const std::string& value) {
        const auto found = map.find(value);
        return found == map.end() ? nullptr : &found->second;
    }
    static bool is_float(const Node& cast) { return integers_of_attribute(cast, "to") == std::vector<std::int64_t>{1}; }

    void add_condition(const Node& node, bool is_above) {
        for (const std::size_t c : {1u, 0u})
            if (const auto number = constants_.number(node.inputs[c]))
                conditions_[node.outputs[0]] = {node.inputs[1 - c], *number, (c == 1) == is_above};
    }

    void add_sum(const Node& node) {
        for (const std::size_t c : {1u, 0u}) {
            const std::optional<double> number = constants_.number(node.inputs[c]);
            const std::string& term = node.inputs[1 - c];
            if (const std::string* const x = find(abs_, term); x && number == 1.0) above_one_[node.outputs[0]] = *x;
            if (const std::string* const x = find(exps_, term); x && number == -1.0) expm1_[node.outputs[0]] = *x;
        }
    }

    void add_difference(const Node& node) {
        const std::string &x = node.inputs[0], &y = node.outputs[0];
        if (const std::string* const of = find(exps_, x); of && constants_.number(node.inputs[1]) == 1.0)
            expm1_[y] = *of;
        const Scaled* const step = find(scaled_, node.inputs[1]);
        const std::string* const sign = step == nullptr ? nullptr : find(signs_, step->x);
        if (sign != nullptr && *sign == x) shrunk_[y] = {x, step->factor};
    }

    void add_product(const Node& node) {
        for (const std::size_t c : {1u, 0u}) {
            const std::string &a = node.inputs[c], &b = node.inputs[1 - c];
            if (const auto number = constants_.number(a)) scaled_[node.outputs[0]] = {b, *number};
            const Condition* const factor = find(casts_, a);
            if (factor != nullptr && factor->x == b && factor->number == 0.0 && factor->is_above)
                found(node, "Relu", b);
            const std::string *const sign = find(signs_, a), *const size = find(abs_, b);
            if (sign != nullptr && size != nullptr && *sign == *size) found(node, "Identity", *sign);
        }
    }

    void add_quotient(const Node& node) {
        if (const auto number = constants_.number(node.inputs[1]); number && *number != 0.0)
            scaled_[node.outputs[0]] = {node.inputs[0], 1.0 / *number};
        const std::string* const x = find(above_one_, node.inputs[1]);
        if (x != nullptr && *x == node.inputs[0]) found(node, "Softsign", *x);
    }

    void add_maximum(const Node& node) {
        for (const std::size_t c : {1u, 0u}) {
            const Scaled* const scaled = find(scaled_, node.inputs[c]);
            if (scaled != nullptr && scaled->x == node.inputs[1 - c] && scaled->factor >= 0.0 && scaled->factor <= 1.0)
                found(node, "LeakyRelu", scaled->x, {{"alpha", static_cast<float>(scaled->factor)}});
        }
    }

    void add_where(const Node& node) {
        const Condition* const condition = find(conditions_, node.inputs[0]);
        if (condition == nullptr) return;
        const std::string& above = node.inputs[condition->is_above ? 1 : 2];
        const std::string& below = node.inputs[condition->is_above ? 2 : 1];
        if (add_softplus(node, *condition, above, below) || add_shrink(node, *condition, above, below)) return;
        const std::string& x = condition->x;
        if (below == x && constants_.number(above) == condition->number) {
            found(node, "Clip", x);
            if (Node* const clip = last_found(node)) clip->inputs = {x, "", above};
        }
        if (above != x) return;
        if (constants_.number(below) == condition->number) {
            found(node, "Clip", x);
            if (Node* const clip = last_found(node)) clip->inputs = {x, below};
        } else if (condition->number == 0.0) {
            const Scaled* const scaled = find(scaled_, below);
            const std::string* const power = find(expm1_, scaled == nullptr ? below : scaled->x);
            const auto factor = static_cast<float>(scaled == nullptr ? 1.0 : scaled->factor);
            if (scaled != nullptr && scaled->x == x) found(node, "LeakyRelu", x, {{"alpha", factor}});
            if (power != nullptr && *power == x) found(node, "Elu", x, {{"alpha", factor}});
        }
    }

    bool add_softplus(const Node& node, const Condition& condition, const std::string& above,
                      const std::string& below) {
        if (condition.number < 20.0) return false;
        const Scaled* const quotient = find(scaled_, below);
        const std::string* const of = find(softplus_, quotient == nullptr ? below : quotient->x);
        if (of == nullptr || *of != condition.x) return false;
        const Scaled* const product = quotient == nullptr ? nullptr : find(scaled_, *of);
        const bool is_plain = quotient == nullptr && above == *of;
        const bool is_scaled = product != nullptr && product->x == above && product->factor > 0.0 &&
                               std::fabs(product->factor * quotient->factor - 1.0) < 1e-6;
        if (!is_plain && !is_scaled) return false;
        found(node, "Softplus", above, {{"beta", static_cast<float>(is_plain ? 1.0 : product->factor)}});
        return true;
    }

    bool add_shrink(const Node& node, const Condition& condition, const std::string& above, const std::string& below) {
        const std::string* const x = find(abs_, condition.x);
        const Scaled *const shrunk = find(shrunk_, above), *const zero = find(scaled_, below);
        const bool is_zero =
            constants_.number(below) == 0.0 || (zero != nullptr && x && zero->x == *x && zero->factor == 0.0);
        if (x == nullptr || shrunk == nullptr || shrunk->x != *x || !is_zero) return false;
        if (shrunk->factor != condition.number || !(condition.number > 0.0)) return false;
        const auto number = static_cast<float>(condition.number);
        found(node, "Shrink", *x, {{"lambd", number}, {"bias", number}});
        return true;
    }

    /// A function of a constant is one, and is computed in its parts.
    void found(const Node& node, const char* op_type, const std::string& x, std::vector<Attribute> attributes = {}) {
        if (computed_.count(x) == 0) return;
        found_[&node] = {.op_type = op_type,
                         .name = node.name,
                         .domain = {},
                         .inputs = {x},
                         .outputs = node.outputs,
                         .attributes = std::move(attributes),
                         .position = node.position};
    }
    Node* last_found(const Node& node) {
        const auto last = found_.find(&node);
        return last == found_.end() ? nullptr : &last->second;
    }

    ConstantsOf constants_;
    std::set<std::string> computed_;                                    // values that depend on an input of the graph
    std::map<std::string, std::string> softplus_, exps_, abs_, signs_;  // x of each
    std::map<std::string, std::string> above_one_, expm1_;              // of 1 + |x|, and of exp(x) - 1
    std::map<std::string, Scaled> scaled_, shrunk_;                     // of f · x, and of x - f · sign(x)
    std::map<std::string, Condition> conditions_, casts_;
    std::map<const Node*, Node> found_;
};

}  // namespace detail

INTQ_INLINE std::map<const Node*, Node> functions_by_parts(const Graph& graph) {
    return detail::FunctionSearch(graph).take();
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_nodes)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_NODES_FUNCTIONS_BY_PARTS_HPP
