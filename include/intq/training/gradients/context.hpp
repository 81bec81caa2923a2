// SPDX-License-Identifier: MIT
//
// The inputs of an operator's gradient, and where it puts its results. Layer: training.
#ifndef INTQ_TRAINING_GRADIENTS_CONTEXT_HPP
#define INTQ_TRAINING_GRADIENTS_CONTEXT_HPP

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "intq/core/shape.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/nn/model/tape.hpp"
#include "intq/nn/model/value.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

class GradientContext;

/// The gradient of one operator.
///
/// To add an operator's gradient, add such a row to gradient_rows (training/gradients.hpp). Anything it needs besides
/// inputs and output is kept on the tape by the operator's module (nn/model/tape.hpp).
struct GradientRow {
    std::string_view op;  // as graph::operator_of names it
    void (*backward)(GradientContext& context);
    /// Also modules of other names: fused and prepared forms of a layer. Null: none.
    bool (*matches)(const nn::Module& module) = nullptr;
};

/// A call of an operator, as the forward pass left it.
struct FinishedCall {
    nn::Module* module = nullptr;  // null for a function or method
    nn::Arguments inputs;
    const nn::Value* output = nullptr;
    nn::KeptValues kept{};  // by the module, on the tape of the forward pass
};

/// One backward step: reads a call and the gradients of its outputs, and receives the gradients of its inputs and
/// parameters.
class GradientContext {
public:
    /// @param gradients  one for each tensor of the output, in the order of a flattened tuple; undefined where nothing
    ///                   depends on that tensor
    /// @param wanted     whether the gradient of an argument is needed; empty: all are
    /// @param rows       the table, or the rows needed by an operator that holds others (held_quantizer_row)
    GradientContext(const FinishedCall& call, std::span<const Tensor> gradients, std::span<const GradientRow> rows,
                    std::vector<bool> wanted = {});

    nn::Module& module() const;
    bool has_module() const noexcept { return call_.module != nullptr; }
    template <class ModuleType> ModuleType& module_as() const {
        if (auto* typed = dynamic_cast<ModuleType*>(&module())) return *typed;
        throw_other_type();
    }
    const nn::Arguments& inputs() const noexcept { return call_.inputs; }
    const Tensor& input(std::size_t argument) const { return call_.inputs.tensor(argument); }
    const Tensor& output() const { return call_.output->tensor(); }
    /// The value that the module kept on the tape under a name; none where it kept nothing.
    nn::Value kept(std::string_view name) const;
    /// The same for a tensor that the module always keeps. Throws the Error of a call that was not recorded.
    Tensor kept_tensor(std::string_view name) const;
    /// The gradient of tensor number `output` of the output; undefined where nothing depends on it.
    const Tensor& gradient(std::size_t output = 0) const { return gradients_[output]; }
    std::span<const GradientRow> rows() const noexcept { return rows_; }

    /// Whether the gradient of an argument is needed; an operator may provide it in any case.
    bool wants(std::size_t argument) const noexcept {
        return argument < inputs_.size() && (wanted_.empty() || wanted_[argument]);
    }
    /// The gradient of an argument, or of a tensor of an argument that is a tuple.
    void add_input(std::size_t argument, Tensor gradient, std::size_t item = 0);
    /// The gradient of a parameter, identified by its memory.
    void add_parameter(const Tensor& parameter, Tensor gradient);

    /// By argument, then by element of a tuple.
    const std::vector<std::vector<Tensor>>& input_gradients() const noexcept { return inputs_; }
    const std::vector<std::pair<Tensor, Tensor>>& parameter_gradients() const noexcept { return parameters_; }

private:
    [[noreturn]] void throw_other_type() const;

    const FinishedCall& call_;
    std::span<const Tensor> gradients_;
    std::span<const GradientRow> rows_;
    std::vector<bool> wanted_;
    std::vector<std::vector<Tensor>> inputs_;
    std::vector<std::pair<Tensor, Tensor>> parameters_;
};

/// The row of an operator by its name, or else by its module; null if there is none. Later rows come first, so that a
/// user's can replace the library's.
const GradientRow* find_gradient(std::span<const GradientRow> rows, std::string_view op, const nn::Module* module);

/// For GradientRow::matches: a module of the type M or one derived from it.
template <class ModuleType> bool is_a(const nn::Module& module) {
    return dynamic_cast<const ModuleType*>(&module) != nullptr;
}

namespace detail {

/// Throws the Error of a gradient whose size differs from its tensor's.
void check_gradient_shape(const Shape& gradient, const Shape& expected);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(training_gradients)

#    include <string>

#    include "intq/io/error.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE GradientContext::GradientContext(const FinishedCall& call, std::span<const Tensor> gradients,
                                             std::span<const GradientRow> rows, std::vector<bool> wanted)
    : call_(call), gradients_(gradients), rows_(rows), wanted_(std::move(wanted)), inputs_(call.inputs.size()) {}

INTQ_INLINE nn::Module& GradientContext::module() const {
    if (call_.module == nullptr) throw Error("this gradient is for a module, given a function");
    return *call_.module;
}

INTQ_INLINE void GradientContext::throw_other_type() const {
    throw Error("this gradient is not for a module of type " + module().type_name());
}

INTQ_INLINE nn::Value GradientContext::kept(std::string_view name) const {
    const auto found = call_.kept.find(name);
    return found == call_.kept.end() ? nn::Value() : found->second;
}

INTQ_INLINE Tensor GradientContext::kept_tensor(std::string_view name) const {
    const nn::Value value = kept(name);
    if (!value.is_tensor())
        throw Error("the call kept no \"" + std::string(name) + "\" on a tape; was its forward pass recorded?");
    return value.tensor();
}

INTQ_INLINE void GradientContext::add_input(std::size_t argument, Tensor gradient, std::size_t item) {
    auto& items = inputs_.at(argument);
    if (items.size() <= item) items.resize(item + 1);
    items[item] = std::move(gradient);
}

INTQ_INLINE void GradientContext::add_parameter(const Tensor& parameter, Tensor gradient) {
    parameters_.emplace_back(parameter, std::move(gradient));
}

INTQ_INLINE const GradientRow* find_gradient(std::span<const GradientRow> rows, std::string_view op,
                                             const nn::Module* module) {
    for (std::size_t i = rows.size(); i-- > 0;)
        if (rows[i].op == op) return &rows[i];
    for (std::size_t i = rows.size(); module != nullptr && i-- > 0;)
        if (rows[i].matches != nullptr && rows[i].matches(*module)) return &rows[i];
    return nullptr;
}

namespace detail {

INTQ_INLINE void check_gradient_shape(const Shape& gradient, const Shape& expected) {
    if (!(gradient == expected))
        throw Error("a gradient has shape " + to_string(gradient) + ", expected " + to_string(expected));
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

#endif  // INTQ_DEFINES(training_gradients)
#endif  // INTQ_TRAINING_GRADIENTS_CONTEXT_HPP
