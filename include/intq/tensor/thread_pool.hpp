// SPDX-License-Identifier: MIT
//
// ThreadPool: threads for the parallel-for of kernels and programs. Layer: tensor.
#ifndef INTQ_TENSOR_THREAD_POOL_HPP
#define INTQ_TENSOR_THREAD_POOL_HPP

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "intq/core/executor.hpp"
#include "intq/io/error.hpp"

namespace intq {
inline namespace INTQ_HOSTED_ABI {

/// An executor on several threads, the caller's among them.
///
///     ThreadPool pool(2);
///     program.run(images, pool.executor());
///
/// Each thread starts with a contiguous share of the tasks, so that it finds its output of the previous operator in its
/// cache, and then helps the others. Between two calls the threads look for work for spin_time, then sleep: the
/// operators of a program follow each other within microseconds, while waking a thread takes longer.
///
/// Calls from several threads wait for each other; a task that calls the executor again runs those tasks itself.
///
/// Where a task throws, no further task begins, and the call throws the first exception as soon as no thread is in a
/// task any more. The pool can be used again.
class ThreadPool {
public:
    static constexpr int max_threads = 4096;

    /// @param threads    with the caller's, from 1, which is the same as `serial`, to max_threads
    /// @param spin_time  how long an idle thread looks for work before it sleeps
    /// @throws Error for another number, or where the system starts fewer threads; those have ended then
    explicit ThreadPool(int threads, std::chrono::microseconds spin_time = std::chrono::microseconds(200));
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int threads() const noexcept { return static_cast<int>(shares_.size()); }
    /// Valid as long as the pool.
    Executor executor() noexcept { return {&run_erased, this}; }

private:
    using Clock = std::chrono::steady_clock;

    /// The tasks that a thread begins with: others take from it when they have none.
    struct alignas(64) Share {
        std::atomic<index_t> next{0};
        index_t end = 0;
    };

    static void run_erased(void* state, index_t count, Executor::Task task, void* context) {
        static_cast<ThreadPool*>(state)->run(count, task, context);
    }
    void run(index_t count, Executor::Task task, void* context);
    void work(std::size_t thread);
    void run_tasks_from(Share& share);
    void fail() noexcept;
    void end_threads() noexcept;
    void serve(std::size_t thread);
    bool join_round(std::uint32_t& seen);

    // The state of the pool in one word: the number of the call, whether threads may join it, how many have.
    static constexpr std::uint32_t one_call = 1u << 16, is_open = 1u << 15, joined = is_open - 1;
    static_assert(max_threads <= static_cast<int>(joined));
    static constexpr std::uint32_t call_of(std::uint32_t state) noexcept { return state / one_call; }

    std::vector<Share> shares_;
    std::vector<std::thread> others_;
    std::chrono::microseconds spin_time_;
    std::mutex one_caller_;
    // Read by a thread when a call begins, in one line of the cache.
    alignas(64) std::atomic<std::uint32_t> state_{0};
    std::atomic<bool> ends_{false};
    Executor::Task task_ = nullptr;
    void* context_ = nullptr;
    // The first exception of a call, written by the thread that set the flag.
    std::atomic<bool> failed_{false};
    std::exception_ptr error_;
};

// ---------------------------------------------------------------------------------------------------------------------

namespace tensor_detail {

/// Whether this thread is inside a task of a pool.
inline bool& is_in_task() noexcept {
    thread_local bool inside = false;
    return inside;
}

}  // namespace tensor_detail

inline ThreadPool::ThreadPool(int threads, std::chrono::microseconds spin_time)
    : shares_(static_cast<std::size_t>(std::clamp(threads, 0, max_threads))), spin_time_(spin_time) {
    if (threads < 1) throw Error("a ThreadPool needs at least 1 thread, given " + std::to_string(threads));
    if (threads > max_threads)
        throw Error("a ThreadPool has at most " + std::to_string(max_threads) + " threads, given " +
                    std::to_string(threads));
    others_.reserve(shares_.size() - 1);
    try {
        for (std::size_t i = 1; i < shares_.size(); ++i) others_.emplace_back([this, i] { serve(i); });
    } catch (const std::exception& error) {  // std::system_error, or std::bad_alloc
        end_threads();
        throw Error("only " + std::to_string(others_.size() + 1) + " of " + std::to_string(threads) +
                    " threads can be started: " + error.what());
    }
}

inline ThreadPool::~ThreadPool() { end_threads(); }

inline void ThreadPool::end_threads() noexcept {
    ends_ = true;
    state_.fetch_add(one_call, std::memory_order_release);
    state_.notify_all();
    for (std::thread& thread : others_) thread.join();
}

inline void ThreadPool::run(index_t count, Executor::Task task, void* context) {
    if (others_.empty() || tensor_detail::is_in_task()) {
        for (index_t i = 0; i < count; ++i) task(context, i);
        return;
    }
    const std::lock_guard lock(one_caller_);
    const auto threads = static_cast<index_t>(shares_.size());
    for (index_t i = 0; i < threads; ++i) {
        Share& share = shares_[static_cast<std::size_t>(i)];
        share.next.store(count * i / threads, std::memory_order_relaxed);
        share.end = count * (i + 1) / threads;
    }
    task_ = task;
    context_ = context;
    // No thread is still in the previous call, and none can join before the next line.
    const std::uint32_t call = call_of(state_.load(std::memory_order_relaxed)) + 1;
    state_.store(call * one_call | is_open, std::memory_order_release);
    state_.notify_all();
    work(0);
    // All tasks are taken, so only threads that joined are waited for. Yielding helps where threads outnumber
    // processors.
    state_.fetch_and(~is_open, std::memory_order_relaxed);
    for (int looks = 0; (state_.load(std::memory_order_acquire) & joined) != 0; ++looks)
        if (looks > 10000) std::this_thread::yield();
    if (failed_.exchange(false, std::memory_order_relaxed)) std::rethrow_exception(std::exchange(error_, nullptr));
}

/// The thread's own share, then the rest of the others'.
inline void ThreadPool::work(std::size_t thread) {
    tensor_detail::is_in_task() = true;
    try {
        for (std::size_t i = 0; i < shares_.size(); ++i) run_tasks_from(shares_[(thread + i) % shares_.size()]);
    } catch (...) {
        fail();
    }
    tensor_detail::is_in_task() = false;
}

inline void ThreadPool::run_tasks_from(Share& share) {
    while (share.next.load(std::memory_order_relaxed) < share.end) {
        const index_t index = share.next.fetch_add(1, std::memory_order_relaxed);
        if (index >= share.end) return;
        task_(context_, index);
    }
}

/// Keeps the present exception if it is the first one, and leaves no task to begin.
inline void ThreadPool::fail() noexcept {
    if (!failed_.exchange(true, std::memory_order_relaxed)) error_ = std::current_exception();
    for (Share& share : shares_) share.next.store(share.end, std::memory_order_relaxed);
}

inline void ThreadPool::serve(std::size_t thread) {
    for (std::uint32_t seen = 0; join_round(seen);) {
        work(thread);
        state_.fetch_sub(1, std::memory_order_release);
    }
}

/// Joins the next open call after `seen`; false when the pool ends. A thread that sleeps through 2^16 calls misses one.
inline bool ThreadPool::join_round(std::uint32_t& seen) {
    const auto sleep = Clock::now() + spin_time_;
    for (int looks = 1;; ++looks) {
        // In this order: the destructor sets ends_ before it changes the state that a sleeper waits for.
        std::uint32_t state = state_.load(std::memory_order_acquire);
        if (ends_.load(std::memory_order_relaxed)) return false;
        if ((state & is_open) != 0 && call_of(state) != seen) {
            if (!state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire)) continue;
            seen = call_of(state);
            return true;
        }
        if (looks % 64 == 0 && Clock::now() > sleep) state_.wait(state, std::memory_order_relaxed);
    }
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq

#endif  // INTQ_TENSOR_THREAD_POOL_HPP
