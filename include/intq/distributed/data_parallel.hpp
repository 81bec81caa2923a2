// SPDX-License-Identifier: MIT
//
// Data-parallel training: each rank runs a part of every batch, and all take the same step. Layer: distributed
// (docs/distributed.md).
#ifndef INTQ_DISTRIBUTED_DATA_PARALLEL_HPP
#define INTQ_DISTRIBUTED_DATA_PARALLEL_HPP

#include "intq/distributed/ranks/communicator.hpp"
#include "intq/graph/graph_module.hpp"
#include "intq/training/trainer.hpp"

namespace intq::distributed {
inline namespace INTQ_HOSTED_ABI {

/// Options for a Trainer that shares the work of each batch with other ranks. All ranks pass the same samples to fit().
///
///     communicator.together([&] {
///         training::Trainer trainer(model, optimizer, distributed::data_parallel(options, model, communicator));
///         trainer.fit(images, loss);
///     });
///
/// Rank r of n runs the r-th of n equal parts of each batch. The loss of a part is the mean over its samples, as
/// training::cross_entropy returns it, so the mean over the ranks is the batch's. Gradients and losses are averaged in
/// the order of the ranks (Communicator::mean), and every rank takes the same step. Then every rank takes the buffers
/// of rank 0, such as running statistics and observers; batch norm takes its statistics from the part of its rank.
///
/// The call itself copies the parameters and buffers of rank 0 to every rank. Only rank 0 writes checkpoints and
/// shows progress; to resume, all ranks load the checkpoint. The caller's `after_backward` sees the loss and the
/// gradients of the whole batch.
///
/// @throws Error on every rank for a batch size that the number of ranks does not divide, without drop_last, for
///         models with other parameters, and for a course (seed, batch size, epochs) that differs between ranks
///
/// Result   the same bits on all ranks, and from run to run with the same number of ranks. Another number sums in
///          another order and so has other bits; one rank has the bits of a Trainer without ranks
/// Cost     each rank receives the gradients of all, and after each batch the buffers of rank 0
training::TrainerOptions data_parallel(training::TrainerOptions options, graph::GraphModule& model,
                                       Communicator& communicator);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::distributed

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(distributed)

#    include <cstddef>
#    include <span>
#    include <string>
#    include <utility>

#    include "intq/distributed/internal/model_state.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/progress.hpp"

namespace intq::distributed {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE void check_course(const training::TrainerOptions& options, Communicator& communicator) {
    communicator.check_equal("data_parallel: the seed, the number of epochs, or the batch size",
                             std::to_string(options.seed) + " " + std::to_string(options.epochs) + " " +
                                 std::to_string(options.batch_size) + (options.shuffle ? " shuffled" : ""));
    if (options.batch_size % communicator.size() != 0)
        throw Error("data_parallel: batches of " + std::to_string(options.batch_size) +
                    " samples cannot be divided into equal parts for " + std::to_string(communicator.size()) +
                    " ranks");
    if (!options.drop_last)
        throw Error("data_parallel: drop_last must be on, because a smaller last batch has no equal parts");
}

/// The means of all ranks.
INTQ_INLINE void join_gradients(training::Loss& loss, training::Gradients& gradients, Communicator& communicator) {
    communicator.mean(std::span(&loss.value, 1));
    std::string names;
    for (const auto& [name, gradient] : gradients.parameters) names += name + " " + to_string(gradient.shape()) + "\n";
    communicator.check_equal("data_parallel: the set of parameters with a gradient", names);
    for (auto& [name, gradient] : gradients.parameters) {
        gradient = gradient.contiguous().clone();  // others may hold the same memory
        communicator.mean(gradient.flat<float>());
    }
}

}  // namespace detail

INTQ_INLINE training::TrainerOptions data_parallel(training::TrainerOptions options, graph::GraphModule& model,
                                                   Communicator& communicator) {
    detail::check_course(options, communicator);
    broadcast_state(model, communicator);
    if (communicator.rank() != 0) {
        options.checkpoint.clear();
        options.progress = io::ShowProgress::never;
    }
    options.share = [&communicator](std::span<const index_t> samples) {
        const std::size_t part = samples.size() / static_cast<std::size_t>(communicator.size());
        return samples.subspan(static_cast<std::size_t>(communicator.rank()) * part, part);
    };
    options.after_backward = [&communicator, &model, then = std::move(options.after_backward)](
                                 training::Loss& loss, training::Gradients& gradients) {
        detail::join_gradients(loss, gradients, communicator);
        broadcast_buffers(model, communicator);
        if (then) then(loss, gradients);
    };
    return options;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::distributed

#endif  // INTQ_DEFINES(distributed)
#endif  // INTQ_DISTRIBUTED_DATA_PARALLEL_HPP
