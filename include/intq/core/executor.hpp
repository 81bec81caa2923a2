// SPDX-License-Identifier: MIT
//
// Executor: the parallel-for that a kernel receives. Layer: core (docs/design.md section 3).
#ifndef INTQ_CORE_EXECUTOR_HPP
#define INTQ_CORE_EXECUTOR_HPP

#include "intq/core/abi.hpp"
#include "intq/core/dtype.hpp"

namespace intq {
inline namespace INTQ_ABI {

/// Calls the function object behind `context`; an executor's threads run it.
template <class Function> void call_task(void* context, index_t i) { (*static_cast<Function*>(context))(i); }

/// Executor's call: without `run`, or for one task, a loop in the calling thread.
template <class Function>
void run_tasks(void (*run)(void*, index_t, void (*)(void*, index_t), void*), void* state, index_t count,
               Function& function) {
    if (run == nullptr || count <= 1) {
        for (index_t i = 0; i < count; ++i) function(i);
        return;
    }
    run(state, count, &call_task<Function>, const_cast<void*>(static_cast<const void*>(&function)));
}

}  // namespace INTQ_ABI
}  // namespace intq

namespace intq {
inline namespace INTQ_CORE_ABI {

/// A parallel-for behind two pointers, so that a compiled kernel can take any.
///
///     executor(count, task)  calls task(i) once for each i in [0, count), in any order, and returns when all are done
///
/// A kernel splits its work by shape only, never by the number of threads: the bits cannot depend on it.
///
/// Threads may use one executor at once where the function behind it allows it: `serial` and ThreadPool do.
class Executor {
public:
    using Task = void (*)(void* context, index_t index);
    using Run = void (*)(void* state, index_t count, Task task, void* context);

    INTQ_ALWAYS_INLINE constexpr Executor() = default;
    INTQ_ALWAYS_INLINE constexpr Executor(Run run, void* state) noexcept : run_(run), state_(state) {}

    /// Whether all tasks run in the calling thread: a kernel may then leave out work that only serves several at once.
    /// The bits must not depend on it.
    INTQ_ALWAYS_INLINE constexpr bool is_serial() const noexcept { return run_ == nullptr; }

    template <class Function> INTQ_ALWAYS_INLINE void operator()(index_t count, Function&& function) const {
        run_tasks(run_, state_, count, function);
    }

private:
    Run run_ = nullptr;
    void* state_ = nullptr;
};

/// Runs every task in the calling thread.
inline constexpr Executor serial{};

}  // namespace INTQ_CORE_ABI
}  // namespace intq

#endif  // INTQ_CORE_EXECUTOR_HPP
