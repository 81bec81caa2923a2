// SPDX-License-Identifier: MIT
//
// Ranks that are processes of MPI. intq.hpp does not include this header, because it needs MPI's own <mpi.h>. Layer:
// distributed (docs/distributed.md).
#ifndef INTQ_DISTRIBUTED_MPI_MPI_COMMUNICATOR_HPP
#define INTQ_DISTRIBUTED_MPI_MPI_COMMUNICATOR_HPP

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <vector>

#include "intq/core/abi.hpp"
#include "intq/distributed/ranks/communicator.hpp"

namespace intq::distributed {
inline namespace INTQ_HOSTED_ABI {

/// The ranks of an MPI communicator. Its messages do not mix with others of the program, because it has its own
/// duplicate. An error inside MPI ends all ranks, as is MPI's default.
///
/// One thread of each rank uses it. MPI is initialized before it is made, and finalized after its end.
class MpiCommunicator : public Communicator {
public:
    explicit MpiCommunicator(MPI_Comm group = MPI_COMM_WORLD) {
        MPI_Comm_dup(group, &group_);
        MPI_Comm_rank(group_, &rank_);
        MPI_Comm_size(group_, &size_);
    }
    ~MpiCommunicator() override { MPI_Comm_free(&group_); }

    int rank() const noexcept override { return rank_; }
    int size() const noexcept override { return size_; }

protected:
    Blocks exchange(std::span<const std::byte> own) noexcept override {
        Blocks all(static_cast<std::size_t>(size_));
        std::uint64_t length = own.size();
        std::vector<std::uint64_t> lengths(all.size());
        MPI_Allgather(&length, 1, MPI_UINT64_T, lengths.data(), 1, MPI_UINT64_T, group_);
        for (int from = 0; from < size_; ++from) {
            std::vector<std::byte>& block = all[static_cast<std::size_t>(from)];
            if (from == rank_)
                block.assign(own.begin(), own.end());
            else
                block.resize(static_cast<std::size_t>(lengths[static_cast<std::size_t>(from)]));
            // MPI counts in int.
            constexpr std::size_t piece = std::size_t{1} << 30;
            for (std::size_t first = 0; first < block.size(); first += piece)
                MPI_Bcast(block.data() + first, static_cast<int>((std::min)(piece, block.size() - first)), MPI_BYTE,
                          from, group_);
        }
        return all;
    }

private:
    MPI_Comm group_ = MPI_COMM_NULL;
    int rank_ = 0;
    int size_ = 1;
};

/// MPI from here to the end of the scope.
///
///     int main(int argc, char** argv) {
///         distributed::MpiSession mpi(argc, argv);
///         try {
///             distributed::MpiCommunicator all;
///             all.together([&] { … });
///
/// A rank that leaves the scope by an exception ends all ranks, because the others may be waiting for it. Catch inside
/// to print a message.
class MpiSession {
public:
    MpiSession(int& argc, char**& argv) : exceptions_(std::uncaught_exceptions()) {
        int provided = 0;
        MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    }
    MpiSession(const MpiSession&) = delete;
    MpiSession& operator=(const MpiSession&) = delete;
    ~MpiSession() {
        if (std::uncaught_exceptions() > exceptions_) MPI_Abort(MPI_COMM_WORLD, 1);
        MPI_Finalize();
    }

private:
    int exceptions_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::distributed

#endif  // INTQ_DISTRIBUTED_MPI_MPI_COMMUNICATOR_HPP
