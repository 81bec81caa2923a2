// SPDX-License-Identifier: MIT
//
// The executor of the float operators, which modules call without naming one. Layer: tensor.
#ifndef INTQ_TENSOR_CURRENT_EXECUTOR_HPP
#define INTQ_TENSOR_CURRENT_EXECUTOR_HPP

#include "intq/core/executor.hpp"

namespace intq {
inline namespace INTQ_HOSTED_ABI {

namespace tensor_detail {

/// The executor of this thread: one in the whole program.
Executor& executor_of_thread() noexcept;

}  // namespace tensor_detail

/// The executor of this thread's float layers (convolution, linear, batch norm, their gradients): `serial`, unless an
/// ExecutorScope lives. Their results do not depend on it.
inline const Executor& current_executor() noexcept { return tensor_detail::executor_of_thread(); }

/// Sets the executor of this thread's float operators as long as the object lives.
///
///     const ExecutorScope scope(pool.executor());
///     model(x);
class ExecutorScope {
public:
    explicit ExecutorScope(const Executor& executor) : former_(tensor_detail::executor_of_thread()) {
        tensor_detail::executor_of_thread() = executor;
    }
    ~ExecutorScope() { tensor_detail::executor_of_thread() = former_; }
    ExecutorScope(const ExecutorScope&) = delete;
    ExecutorScope& operator=(const ExecutorScope&) = delete;

private:
    Executor former_;
};

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(tensor)

namespace tensor_detail {

INTQ_INLINE Executor& executor_of_thread() noexcept {
    thread_local Executor executor = serial;
    return executor;
}

}  // namespace tensor_detail

#endif  // INTQ_DEFINES(tensor)

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq

#endif  // INTQ_TENSOR_CURRENT_EXECUTOR_HPP
