// SPDX-License-Identifier: MIT
//
// Communicator: messages between the ranks of a group, and how they agree on errors. Layer: distributed
// (docs/distributed.md).
#ifndef INTQ_DISTRIBUTED_RANKS_COMMUNICATOR_HPP
#define INTQ_DISTRIBUTED_RANKS_COMMUNICATOR_HPP

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "intq/core/abi.hpp"

namespace intq::distributed {
inline namespace INTQ_HOSTED_ABI {

/// The data of each rank, in the order of the ranks.
using Blocks = std::vector<std::vector<std::byte>>;

/// A group of ranks: processes, or threads that simulate them. Each rank has its own object.
///
///     communicator.together([&] {
///         …                           // work of this rank, which may throw
///         communicator.mean(gradient);
///     });
///
/// All ranks make the same calls in the same order, inside together(). Before each call they agree that all of them are
/// present. A rank that throws says so in place of its next call, and then every rank throws; no rank waits for it.
/// Calls that do not match are an Error on every rank as well.
///
/// Sums are formed in the order of the ranks, in double for float values, and rounded once. So a group of the same
/// size repeats them to the bit. Sums of integers, minima and maxima do not depend on the size of the group.
///
/// Memory   of a reduction: 512 KiB for each rank
/// Cost     of a reduction: each rank receives the values of all
class Communicator {
public:
    Communicator() = default;
    Communicator(const Communicator&) = delete;
    Communicator& operator=(const Communicator&) = delete;
    virtual ~Communicator() = default;

    virtual int rank() const noexcept = 0;
    virtual int size() const noexcept = 0;

    /// Does the work of this rank. It returns on every rank, or throws on every rank: the work's exception where it
    /// failed, elsewhere an Error that names the first rank that failed and its message. An error inside an inner call
    /// leaves the outer ones too, even where it was caught.
    void together(const std::function<void()>& work);

    /// Throws on every rank if one has failed.
    void synchronize();
    /// The data of each rank, on every rank; the lengths may differ.
    Blocks gather(std::span<const std::byte> own);
    /// The bytes of one rank, on every rank.
    void broadcast(std::vector<std::byte>& bytes, int from = 0);
    /// Throws on every rank unless all pass the same bytes.
    /// @param what  named by the message as different
    void check_equal(std::string_view what, std::span<const std::byte> own);
    void check_equal(std::string_view what, std::string_view own);

    void sum(std::span<std::int64_t> values);
    void sum(std::span<float> values);
    void sum(std::span<double> values);
    void mean(std::span<float> values);
    void mean(std::span<double> values);
    void minimum(std::span<float> values);
    void maximum(std::span<float> values);

protected:
    /// The data of each rank, in the order of the ranks. All ranks call it equally often. It cannot fail on only one
    /// rank: one without memory ends, and ends the others as its processes or threads do.
    virtual Blocks exchange(std::span<const std::byte> own) noexcept = 0;

private:
    void agree(const std::string& call);
    template <class T, class Sum, class Join, class Finish>
    void reduce(const char* call, std::span<T> values, const Join& join, const Finish& finish);

    int depth_ = 0;        // of together()
    std::string failure_;  // that all ranks know of
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::distributed

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(distributed_ranks)

#    include <algorithm>
#    include <cstring>
#    include <exception>

#    include "intq/io/error.hpp"

namespace intq::distributed {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

// The first character of the message that a failed rank sends in place of a call.
inline constexpr char failed_mark = '!';

INTQ_INLINE std::string message_of(const std::exception_ptr& exception) {
    try {
        std::rethrow_exception(exception);
    } catch (const std::exception& error) {
        return error.what();
    } catch (...) {
        return "an exception of an unknown type";
    }
}

INTQ_INLINE std::string text_of(const std::vector<std::byte>& block) {
    return {reinterpret_cast<const char*>(block.data()), block.size()};
}

/// Why ranks that say this cannot go on; empty where they can.
INTQ_INLINE std::string disagreement(const Blocks& words) {
    for (std::size_t rank = 0; rank < words.size(); ++rank)
        if (const std::string word = text_of(words[rank]); !word.empty() && word[0] == failed_mark)
            return "rank " + std::to_string(rank) + ": " + word.substr(1);
    for (std::size_t rank = 1; rank < words.size(); ++rank)
        if (words[rank] != words[0])
            return "the ranks make different calls: rank 0 is at " + text_of(words[0]) + ", rank " +
                   std::to_string(rank) + " at " + text_of(words[rank]);
    return "";
}

}  // namespace detail

INTQ_INLINE void Communicator::agree(const std::string& call) {
    if (depth_ == 0)
        throw Error("Communicator: " + call + " is called outside of together(), where an error of another rank " +
                    "would not be heard");
    if (failure_.empty()) failure_ = detail::disagreement(exchange(std::as_bytes(std::span(call))));
    if (!failure_.empty()) throw Error(failure_);
}

INTQ_INLINE void Communicator::together(const std::function<void()>& work) {
    ++depth_;
    const std::string end = "the end of its work (level " + std::to_string(depth_) + ")";
    std::exception_ptr own;
    try {
        work();
        agree(end);
    } catch (...) {
        own = std::current_exception();
    }
    // The others have not heard of an error that no call told them.
    if (own != nullptr && failure_.empty()) {
        try {
            agree(detail::failed_mark + detail::message_of(own));
        } catch (const Error&) {  // this rank's, or an earlier one's
        }
    }
    // An inner call leaves the failure to the outer ones, which need not tell it again.
    if (--depth_ == 0) failure_.clear();
    if (own != nullptr) std::rethrow_exception(own);
}

INTQ_INLINE void Communicator::synchronize() { agree("synchronize"); }

INTQ_INLINE Blocks Communicator::gather(std::span<const std::byte> own) {
    agree("gather");
    return exchange(own);
}

INTQ_INLINE void Communicator::broadcast(std::vector<std::byte>& bytes, int from) {
    agree("broadcast from rank " + std::to_string(from));
    if (from < 0 || from >= size())
        throw Error("Communicator: broadcast from rank " + std::to_string(from) + " of " + std::to_string(size()));
    bytes = exchange(rank() == from ? std::span<const std::byte>(bytes) : std::span<const std::byte>())
                .at(static_cast<std::size_t>(from));
}

INTQ_INLINE void Communicator::check_equal(std::string_view what, std::span<const std::byte> own) {
    const Blocks all = gather(own);
    for (std::size_t rank = 1; rank < all.size(); ++rank)
        if (all[rank] != all[0])
            throw Error(std::string(what) + " of rank " + std::to_string(rank) + " differs from that of rank 0");
}

INTQ_INLINE void Communicator::check_equal(std::string_view what, std::string_view own) {
    check_equal(what, std::as_bytes(std::span(own)));
}

/// In pieces, so that the memory does not grow with the number of values.
template <class T, class Sum, class Join, class Finish>
void Communicator::reduce(const char* call, std::span<T> values, const Join& join, const Finish& finish) {
    agree(std::string(call) + " of " + std::to_string(values.size()) + " values");
    constexpr std::size_t piece = std::size_t{1} << 16;
    for (std::size_t first = 0; first < values.size(); first += piece) {
        const std::span<T> part = values.subspan(first, (std::min)(piece, values.size() - first));
        const Blocks all = exchange(std::as_bytes(part));
        const auto value = [&](std::size_t rank, std::size_t i) {
            T result;
            std::memcpy(&result, all[rank].data() + i * sizeof(T), sizeof(T));
            return static_cast<Sum>(result);
        };
        for (std::size_t i = 0; i < part.size(); ++i) {
            Sum joined = value(0, i);
            for (std::size_t rank = 1; rank < all.size(); ++rank) joined = join(joined, value(rank, i));
            part[i] = static_cast<T>(finish(joined));
        }
    }
}

namespace detail {

inline constexpr auto add = [](auto a, auto b) { return a + b; };
inline constexpr auto same = [](auto x) { return x; };

}  // namespace detail

INTQ_INLINE void Communicator::sum(std::span<std::int64_t> values) {
    // Unsigned, so that a sum out of range wraps on every rank alike.
    reduce<std::int64_t, std::uint64_t>("sum of int64", values, detail::add, detail::same);
}

INTQ_INLINE void Communicator::sum(std::span<float> values) {
    reduce<float, double>("sum of float32", values, detail::add, detail::same);
}

INTQ_INLINE void Communicator::sum(std::span<double> values) {
    reduce<double, double>("sum of float64", values, detail::add, detail::same);
}

INTQ_INLINE void Communicator::mean(std::span<float> values) {
    reduce<float, double>("mean of float32", values, detail::add, [this](double sum) { return sum / size(); });
}

INTQ_INLINE void Communicator::mean(std::span<double> values) {
    reduce<double, double>("mean of float64", values, detail::add, [this](double sum) { return sum / size(); });
}

INTQ_INLINE void Communicator::minimum(std::span<float> values) {
    reduce<float, float>(
        "minimum of float32", values, [](float a, float b) { return (std::min)(a, b); }, detail::same);
}

INTQ_INLINE void Communicator::maximum(std::span<float> values) {
    reduce<float, float>(
        "maximum of float32", values, [](float a, float b) { return (std::max)(a, b); }, detail::same);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::distributed

#endif  // INTQ_DEFINES(distributed_ranks)
#endif  // INTQ_DISTRIBUTED_RANKS_COMMUNICATOR_HPP
