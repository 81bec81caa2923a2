// SPDX-License-Identifier: MIT
//
// Ranks in one process: a single one, or threads that simulate processes. Layer: distributed (docs/distributed.md).
#ifndef INTQ_DISTRIBUTED_RANKS_THREAD_RANKS_HPP
#define INTQ_DISTRIBUTED_RANKS_THREAD_RANKS_HPP

#include <cstddef>
#include <functional>
#include <span>

#include "intq/distributed/ranks/communicator.hpp"

namespace intq::distributed {
inline namespace INTQ_HOSTED_ABI {

/// The group of one rank: code for many ranks runs on it, with the same results.
class SingleRank : public Communicator {
public:
    int rank() const noexcept override { return 0; }
    int size() const noexcept override { return 1; }

protected:
    INTQ_INLINE Blocks exchange(std::span<const std::byte> own) noexcept override;
};

/// Runs `work` on threads, one for each rank, inside Communicator::together(). For tests, and to try what will run
/// on processes; a model is changed by one thread only, so each rank needs its own.
///
/// @throws rank 0's exception where a rank failed, after all threads have ended; Error for a number below 1
void run_thread_ranks(int ranks, const std::function<void(Communicator&)>& work);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::distributed

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(distributed_ranks)

#    include <barrier>
#    include <exception>
#    include <future>
#    include <string>
#    include <thread>
#    include <vector>

#    include "intq/io/error.hpp"

namespace intq::distributed {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE Blocks SingleRank::exchange(std::span<const std::byte> own) noexcept { return {{own.begin(), own.end()}}; }

namespace detail {

/// The state that the threads share.
struct ThreadGroup {
    explicit ThreadGroup(int ranks) : blocks(static_cast<std::size_t>(ranks)), barrier(ranks) {}
    Blocks blocks;
    std::barrier<> barrier;
};

class ThreadRank : public Communicator {
public:
    ThreadRank(ThreadGroup& group, int rank) : group_(group), rank_(rank) {}
    int rank() const noexcept override { return rank_; }
    int size() const noexcept override { return static_cast<int>(group_.blocks.size()); }

protected:
    Blocks exchange(std::span<const std::byte> own) noexcept override {
        group_.blocks[static_cast<std::size_t>(rank_)].assign(own.begin(), own.end());
        group_.barrier.arrive_and_wait();
        Blocks all = group_.blocks;
        group_.barrier.arrive_and_wait();
        return all;
    }

private:
    ThreadGroup& group_;
    int rank_;
};

}  // namespace detail

INTQ_INLINE void run_thread_ranks(int ranks, const std::function<void(Communicator&)>& work) {
    if (ranks < 1) throw Error("run_thread_ranks: expected at least 1 rank, given " + std::to_string(ranks));
    if (!work) throw Error("run_thread_ranks: there is no work");
    detail::ThreadGroup group(ranks);
    std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks));
    // No rank begins before all threads exist, because the system may refuse one.
    std::promise<bool> start;
    const std::shared_future<bool> may_start = start.get_future().share();
    const auto run = [&](int rank) {
        if (!may_start.get()) return;
        detail::ThreadRank communicator(group, rank);
        try {
            communicator.together([&] { work(communicator); });
        } catch (...) {
            errors[static_cast<std::size_t>(rank)] = std::current_exception();
        }
    };
    std::vector<std::thread> threads;
    const auto finish = [&](bool starts) {
        start.set_value(starts);
        for (std::thread& thread : threads) thread.join();
    };
    try {
        for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(run, rank);
    } catch (...) {
        finish(false);
        throw;
    }
    finish(true);
    for (const std::exception_ptr& error : errors)
        if (error != nullptr) std::rethrow_exception(error);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::distributed

#endif  // INTQ_DEFINES(distributed_ranks)
#endif  // INTQ_DISTRIBUTED_RANKS_THREAD_RANKS_HPP
