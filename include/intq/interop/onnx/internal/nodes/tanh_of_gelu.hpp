// SPDX-License-Identifier: MIT
//
// The hyperbolic tangent within GELU's approximation, as exporters write it in parts. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_NODES_TANH_OF_GELU_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_NODES_TANH_OF_GELU_HPP

#include <cmath>
#include <map>
#include <optional>
#include <string>

#include "intq/interop/onnx/internal/nodes/constants_of.hpp"
#include "intq/interop/onnx/read/model.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Reads nodes in their order, and knows which values are
///
///     Tanh(√(2/π) · (x + 0.044715 · x³))
///
/// The cube is a Pow or a product, the factors may come in any order, and x may be factored out of the sum. The
/// numbers are float32's within a millionth.
class TanhOfGelu {
public:
    void add(const Node& node, const ConstantsOf& constants);

    /// x of such a value; null for another one.
    const std::string* find(const std::string& value) const {
        const auto found = tanhs_.find(value);
        return found == tanhs_.end() ? nullptr : &found->second;
    }

private:
    /// factor · x^degree, or factor · (x + 0.044715 · x³), or factor · (1 + 0.044715 · x²)
    struct Term {
        std::string x;
        int degree = 1;
        double factor = 1;
    };
    using Terms = std::map<std::string, Term>;

    static constexpr double cubic = 0.044715;

    static const Term* find(const Terms& terms, const std::string& value) {
        const auto found = terms.find(value);
        return found == terms.end() ? nullptr : &found->second;
    }
    static bool is_near(double a, double b) { return std::fabs(a - b) < 1e-6; }

    void add_power(const Node& node, const ConstantsOf& constants);
    void add_sum(const Node& node, const ConstantsOf& constants);
    void add_product(const Node& node, const ConstantsOf& constants);
    void scale(const std::string& value, double number, const std::string& result);
    void multiply(const std::string& a, const std::string& b, const std::string& result);

    Terms powers_, sums_, quotients_;  // quotients are sums over x
    std::map<std::string, std::string> tanhs_;
};

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_nodes)

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE void TanhOfGelu::add(const Node& node, const ConstantsOf& constants) {
    if (node.outputs.size() != 1) return;
    if (node.op_type == "Tanh" && node.inputs.size() == 1) {
        const Term* const sum = find(sums_, node.inputs[0]);
        constexpr double two_over_pi = 0.63661977236758134308;
        if (sum != nullptr && is_near(sum->factor, std::sqrt(two_over_pi))) tanhs_[node.outputs[0]] = sum->x;
    }
    if (node.inputs.size() != 2) return;
    if (node.op_type == "Pow") add_power(node, constants);
    if (node.op_type == "Add") add_sum(node, constants);
    if (node.op_type == "Mul") add_product(node, constants);
}

INTQ_INLINE void TanhOfGelu::add_power(const Node& node, const ConstantsOf& constants) {
    const std::optional<double> exponent = constants.number(node.inputs[1]);
    if (exponent == 2.0 || exponent == 3.0)
        powers_[node.outputs[0]] = {.x = node.inputs[0], .degree = exponent == 2.0 ? 2 : 3};
}

INTQ_INLINE void TanhOfGelu::add_sum(const Node& node, const ConstantsOf& constants) {
    for (const std::size_t c : {0u, 1u}) {
        const std::string &one = node.inputs[c], &other = node.inputs[1 - c];
        const Term* const power = find(powers_, other);
        if (power == nullptr || !is_near(power->factor, cubic)) continue;
        if (power->degree == 3 && power->x == one) sums_[node.outputs[0]] = {.x = one};
        if (power->degree == 2 && constants.number(one) == 1.0) quotients_[node.outputs[0]] = {.x = power->x};
    }
}

INTQ_INLINE void TanhOfGelu::add_product(const Node& node, const ConstantsOf& constants) {
    for (const std::size_t c : {0u, 1u}) {
        const std::string &one = node.inputs[c], &other = node.inputs[1 - c];
        if (const auto number = constants.number(one))
            scale(other, *number, node.outputs[0]);
        else
            multiply(one, other, node.outputs[0]);
    }
}

/// A value that is nothing else yet becomes a multiple of itself.
INTQ_INLINE void TanhOfGelu::scale(const std::string& value, double number, const std::string& result) {
    for (Terms* const terms : {&sums_, &quotients_, &powers_}) {
        const Term* const term = find(*terms, value);
        if (term == nullptr || (terms == &powers_ && term->degree == 1)) continue;
        Term scaled = *term;
        scaled.factor *= number;
        (*terms)[result] = scaled;
        return;
    }
    powers_[result] = {.x = value, .degree = 1, .factor = number};
}

/// A power of b, or a value itself, times b.
INTQ_INLINE void TanhOfGelu::multiply(const std::string& a, const std::string& b, const std::string& result) {
    if (a == b) powers_[result] = {.x = b, .degree = 2};
    const Term* const power = find(powers_, a);
    if (power != nullptr && power->x == b && power->degree < 3)
        powers_[result] = {.x = b, .degree = power->degree + 1, .factor = power->factor};
    const Term* const quotient = find(quotients_, a);
    if (quotient == nullptr) return;
    if (quotient->x == b) sums_[result] = *quotient;
    const Term* const multiple = find(powers_, b);
    if (multiple != nullptr && multiple->degree == 1 && multiple->x == quotient->x)
        sums_[result] = {.x = quotient->x, .factor = quotient->factor * multiple->factor};
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_nodes)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_NODES_TANH_OF_GELU_HPP
