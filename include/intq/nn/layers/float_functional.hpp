// SPDX-License-Identifier: MIT
//
// FloatFunctional: add and cat as a module, so that they can have a name, a qconfig and an observer. Layer: nn.
#ifndef INTQ_NN_LAYERS_FLOAT_FUNCTIONAL_HPP
#define INTQ_NN_LAYERS_FLOAT_FUNCTIONAL_HPP

#include "intq/nn/functional.hpp"
#include "intq/nn/module.hpp"

namespace intq::inline INTQ_ABI::nn {

/// Operators without weights as methods of a module.
///
/// It is a leaf: a graph sees a call_module node whose method is "add" or "cat", as Horizon's plug-in keeps it
/// (PyTorch's FX turns it into a function). In the forward of a model that holds one as the child "skip":
///
///     nn::call_add(*this, "skip", x, y)
class FloatFunctional : public Cloneable<FloatFunctional> {
public:
    std::string type_name() const override { return "FloatFunctional"; }
    bool is_leaf() const override { return true; }
    Value forward(Arguments) override {
        throw Error("FloatFunctional is not meant to be called; use its methods add and cat");
    }
    Value invoke(std::string_view method, Arguments arguments) override {
        if (method == "add") return add_function.evaluate(arguments.values());
        if (method == "cat") return cat_function.evaluate(arguments.values());
        throw Error("FloatFunctional has the methods add and cat, given \"" + std::string(method) + "\"");
    }

    Value add(const Value& a, const Value& b) { return dispatch("add", std::array{a, b}); }
    Value cat(const Value::Tuple& parts, int axis = 0) {
        return dispatch("cat", std::array{Value(parts), Value(axis)});
    }
};

/// The method calls on whatever module stands in a slot: it may have been replaced.
inline Value call_add(const Module& parent, std::string_view name, const Value& a, const Value& b) {
    return parent.child(name)->dispatch("add", std::array{a, b});
}
inline Value call_cat(const Module& parent, std::string_view name, const Value::Tuple& parts, int axis = 0) {
    return parent.child(name)->dispatch("cat", std::array{Value(parts), Value(axis)});
}

}  // namespace intq::inline INTQ_ABI::nn

#endif  // INTQ_NN_LAYERS_FLOAT_FUNCTIONAL_HPP
