// SPDX-License-Identifier: MIT
//
// Tape: values that modules keep for the backward pass, while somebody records. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_MODEL_TAPE_HPP
#define INTQ_NN_MODEL_TAPE_HPP

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "intq/nn/model/value.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

class Module;

/// The values that a module kept of a call, by name.
using KeptValues = std::map<std::string, Value, std::less<>>;

/// The values that the modules of a forward pass keep for its backward pass, besides inputs and output.
///
/// A module keeps a value with keep_on_tape(). Values that the modules below it keep in the same call are separate.
/// Whoever records takes the values right after the call:
///
///     nn::Tape tape;
///     const nn::TapeScope recording(&tape);
///     const nn::Value y = dropout(x);
///     const nn::KeptValues kept = tape.take(dropout);
class Tape {
public:
    /// Replaces the module's value of this name.
    void keep(const Module& module, std::string_view name, Value value);
    /// Takes the module's values off the tape; empty where there are none.
    KeptValues take(const Module& module);
    /// Drops values that nobody took.
    void clear() noexcept { kept_.clear(); }

private:
    std::map<const Module*, KeptValues> kept_;
};

namespace detail {

/// The tape of this thread: one in the whole program.
Tape*& tape_of_thread() noexcept;

}  // namespace detail

/// The tape for values of modules that this thread calls; null unless a TapeScope lives.
inline Tape* current_tape() noexcept { return detail::tape_of_thread(); }

/// Sets this thread's tape while the object lives; null for none.
class TapeScope {
public:
    explicit TapeScope(Tape* tape) noexcept : former_(detail::tape_of_thread()) { detail::tape_of_thread() = tape; }
    ~TapeScope() { detail::tape_of_thread() = former_; }
    TapeScope(const TapeScope&) = delete;
    TapeScope& operator=(const TapeScope&) = delete;

private:
    Tape* former_;
};

/// Keeps a value of a module's call on this thread's tape; without a tape nothing is kept.
void keep_on_tape(const Module& module, std::string_view name, Value value);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_model)

#    include <utility>

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE void Tape::keep(const Module& module, std::string_view name, Value value) {
    kept_[&module].insert_or_assign(std::string(name), std::move(value));
}

INTQ_INLINE KeptValues Tape::take(const Module& module) {
    auto kept = kept_.extract(&module);
    return kept.empty() ? KeptValues() : std::move(kept.mapped());
}

namespace detail {

INTQ_INLINE Tape*& tape_of_thread() noexcept {
    thread_local Tape* tape = nullptr;
    return tape;
}

}  // namespace detail

INTQ_INLINE void keep_on_tape(const Module& module, std::string_view name, Value value) {
    if (Tape* const tape = current_tape()) tape->keep(module, name, std::move(value));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_DEFINES(nn_model)
#endif  // INTQ_NN_MODEL_TAPE_HPP
