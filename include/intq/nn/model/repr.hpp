// SPDX-License-Identifier: MIT
//
// to_string(module): a model as text, as PyTorch prints one. Layer: nn.
#ifndef INTQ_NN_MODEL_REPR_HPP
#define INTQ_NN_MODEL_REPR_HPP

#include <span>
#include <string>

#include "intq/nn/model/module.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

/// The type of a module with its extra_repr(), then its children by name, each one indented below it.
///
///     Sequential(
///       (0): ReLU()
///       (1): MinMaxObserver(min_val=-1, max_val=2)
///     )
std::string to_string(const Module& module);

/// The shortest form that reads back as the same number: "0.1".
std::string repr_of(float number);

/// One number as it is; "[]" for none, "[0.5, 2]" for several.
std::string repr_of(std::span<const float> numbers);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_model)

#    include <cstddef>
#    include <system_error>

#    include "intq/io/describe.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Two blanks behind each line break.
INTQ_INLINE std::string indented(const std::string& text) {
    std::string result;
    for (const char c : text) {
        result += c;
        if (c == '\n') result += "  ";
    }
    return result;
}

}  // namespace detail

INTQ_INLINE std::string to_string(const Module& module) {
    const std::string extra = module.extra_repr();
    std::string text = module.type_name() + "(";
    if (module.children().empty() && extra.find('\n') == std::string::npos) return text + extra + ")";
    if (!extra.empty()) text += "\n  " + detail::indented(extra);
    for (const auto& child : module.children())
        text += "\n  (" + child.name + "): " + detail::indented(to_string(*child.value));
    return text + "\n)";
}

INTQ_INLINE std::string repr_of(float number) { return shortest_text(number); }

INTQ_INLINE std::string repr_of(std::span<const float> numbers) {
    if (numbers.size() == 1) return repr_of(numbers[0]);
    std::string text = "[";
    for (std::size_t i = 0; i < numbers.size(); ++i) text += (i == 0 ? "" : ", ") + repr_of(numbers[i]);
    return text + "]";
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_DEFINES(nn_model)
#endif  // INTQ_NN_MODEL_REPR_HPP
