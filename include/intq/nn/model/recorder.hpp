// SPDX-License-Identifier: MIT
//
// Recorder: receives the operations on a proxy; graph's tracer implements it. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_MODEL_RECORDER_HPP
#define INTQ_NN_MODEL_RECORDER_HPP

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "intq/io/error.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

class Module;
class Value;

/// A function that a graph can name: the target of a call_function or call_method node.
///
/// An instance is an `inline constexpr` object (nn/layers/ has the library's); a graph keeps its address.
struct Function {
    std::string_view name;
    Value (*evaluate)(std::span<const Value> arguments);
};

/// Forward hooks of a module by their numbers, from `first` to before `last`.
struct HookRange {
    std::size_t first = 0, last = 0;
    bool holds(std::size_t hook) const noexcept { return first <= hook && hook < last; }
    bool is_empty() const noexcept { return first == last; }
};

/// Thrown when data is asked of a value that has none while a model is traced.
class TracingError : public Error {
public:
    using Error::Error;
};

/// Records the calls that are made on its proxies.
class Recorder {
public:
    virtual ~Recorder() = default;

    /// Called instead of `module`'s method and its forward hooks, except those in `traced`, when an argument holds a
    /// proxy of this recorder.
    virtual Value record_module(Module& module, std::string_view method, std::span<const Value> arguments,
                                HookRange traced) = 0;
    virtual Value record_function(const Function& function, std::span<const Value> arguments) = 0;
    virtual Value record_method(const Function& function, std::span<const Value> arguments) = 0;

    /// Qualified name and type of the module whose forward is being traced, e.g. "layer1.0 (BasicBlock)".
    virtual std::string current_module() const = 0;
};

/// A value that a model will have when it runs: output number `output` of the recorder's item `id`.
struct Proxy {
    Recorder* recorder = nullptr;
    std::int64_t id = 0;
    int output = 0;
};

/// Throws the TracingError for a proxy that was used as `use`, e.g. "the condition of an if".
[[noreturn]] void throw_data_needed(const Proxy& proxy, std::string_view use);

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_model)

INTQ_INLINE void throw_data_needed(const Proxy& proxy, std::string_view use) {
    throw TracingError("symbolically traced values cannot be used as " + std::string(use) + " (in the forward of " +
                       proxy.recorder->current_module() +
                       "): while a model is traced its values have no data. Ways out: decide by something that is "
                       "known before the model runs (an option, a shape given to the constructor); move the "
                       "data-dependent code into a module and name that module or its type as a leaf in TraceOptions; "
                       "or keep it outside of the traced model");
}

#endif  // INTQ_DEFINES(nn_model)

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_NN_MODEL_RECORDER_HPP
