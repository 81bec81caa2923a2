// SPDX-License-Identifier: MIT
//
// Calibration by several ranks, with the bits of one; observers that join ranks while they train. Layer: distributed
// (docs/distributed.md).
#ifndef INTQ_DISTRIBUTED_CALIBRATE_HPP
#define INTQ_DISTRIBUTED_CALIBRATE_HPP

#include <cstdint>
#include <memory>
#include <span>

#include "intq/distributed/ranks/communicator.hpp"
#include "intq/quantization/observers/observer.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepared_model.hpp"

namespace intq::distributed {
inline namespace INTQ_HOSTED_ABI {

/// Runs a prepared model over batches as quantization::calibrate() does, with the batches divided: rank r of n takes
/// batches r, r + n, r + 2n, … of the source, and asks it for no others. Then the observers are joined, and every rank
/// has the state, the scales and the report of a single rank that ran all batches.
///
/// Earlier data of the observers is taken from rank 0. `progress` and the bar count the batches of this rank.
///
/// @throws Error on every rank, and the buffers of the model are as before: where a rank failed; for sources, options
///         or parameters that differ between ranks; for an observer to which the order of the batches matters (moving
///         averages, PyTorch's histogram), or that joins ranks by itself (is_sync_quantize); for a set without data
///
/// Result   the same bits for any number of ranks
/// Memory   besides a single rank's, the state of the observers of all ranks
quantization::CalibrationReport calibrate(quantization::PreparedModel& model, const quantization::BatchSource& source,
                                          Communicator& communicator,
                                          const quantization::CalibrationOptions& options = {});

/// The reduction for `is_sync_quantize`: scales follow from the ranges of all ranks after each batch. Each
/// rank runs equally many batches, none empty, inside Communicator::together(), which data_parallel() sees to.
class RankReduction : public quantization::StateReduction {
public:
    /// The communicator must outlive this.
    explicit RankReduction(Communicator& communicator) : communicator_(communicator) {}
    void minimum(std::span<float> values) override { communicator_.minimum(values); }
    void maximum(std::span<float> values) override { communicator_.maximum(values); }
    void sum(std::span<std::int64_t> values) override { communicator_.sum(values); }

private:
    Communicator& communicator_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::distributed

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(distributed)

#    include <algorithm>
#    include <cstddef>
#    include <cstring>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/distributed/internal/model_state.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/safetensors.hpp"
#    include "intq/nn/model/module.hpp"
#    include "intq/quantization/prepare/calibration_file.hpp"
#    include "intq/tensor/npy.hpp"
#    include "intq/tensor/tensor.hpp"
#    include "intq/training/kept_buffers.hpp"

namespace intq::distributed {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE std::vector<nn::Named<quantization::Observer*>> observers_of(nn::Module& model) {
    std::vector<nn::Named<quantization::Observer*>> result;
    for (const auto& module : model.named_modules())
        if (auto* observer = dynamic_cast<quantization::Observer*>(module.value))
            result.push_back({module.name, observer});
    return result;
}

/// Throws for an observer whose states cannot be joined, before any data is read: two copies of it try.
INTQ_INLINE void check_can_merge(const nn::Named<quantization::Observer*>& observer) {
    const auto& options = observer.value->options();
    if (options.is_sync_quantize)
        throw Error(observer.name, observer.value->type_name() +
                                       " joins the ranks after every batch (is_sync_quantize); "
                                       "distributed::calibrate joins them once, so switch that off");
    Shape shape(1);
    for (; shape.rank <= options.ch_axis; ++shape.rank) shape[shape.rank] = 1;
    const auto copy = [&] {
        const auto one = std::static_pointer_cast<quantization::Observer>(
            nn::clone(static_cast<const nn::Module&>(*observer.value)));
        one->reset_min_max_vals();
        one->observe(Tensor::full(shape, 1.0f));
        return one;
    };
    try {
        copy()->merge(*copy());
    } catch (const Error& error) {
        throw Error(observer.name, error);
    }
}

/// The batches of one rank.
class RankCalibration {
public:
    RankCalibration(quantization::PreparedModel& model, const quantization::BatchSource& source,
                    Communicator& communicator, const quantization::CalibrationOptions& options)
        : model_(model), source_(source), communicator_(communicator), options_(options) {}

    quantization::CalibrationReport run() {
        check_ranks();
        if (communicator_.rank() != 0)
            for (const auto& observer : observers_of(model_)) observer.value->reset_min_max_vals();
        run_share();
        join();
        // No batch is left: this makes the report, and puts the quantizers into validation.
        return quantization::calibrate(model_, source_, {.first = last(), .most = 0});
    }

private:
    std::size_t last() const { return options_.first + (std::min)(options_.most, source_.count - options_.first); }

    void check_ranks() {
        communicator_.check_equal(
            "distributed::calibrate: the number of batches, or the range of them to run,",
            std::to_string(source_.count) + " " + std::to_string(options_.first) + " " + std::to_string(options_.most));
        if (source_.count == 0 || options_.first > source_.count)
            quantization::calibrate(model_, source_, options_);  // which throws
        communicator_.check_equal("distributed::calibrate: the model", fingerprint(model_));
        for (const auto& observer : observers_of(model_)) check_can_merge(observer);
    }

    void run_share() {
        const auto rank = static_cast<std::size_t>(communicator_.rank()),
                   size = static_cast<std::size_t>(communicator_.size());
        const std::size_t batches = last() - options_.first;
        const std::size_t own = batches > rank ? (batches - rank + size - 1) / size : 0;
        // Batch 0 of the share does not exist and counts as done: a rank may have no data where the others have some.
        quantization::BatchSource share{own + 1, {}, {}};
        share.inputs = [&](std::size_t i) {
            const std::size_t number = options_.first + rank + (i - 1) * size;
            const std::vector<nn::Value> batch = source_.values(number);
            std::vector<Tensor> tensors;
            for (const nn::Value& input : batch) tensors.push_back(input.tensor());
            if (quantization::has_data(batch)) last_filled_ = static_cast<std::int64_t>(number);
            return tensors;
        };
        quantization::CalibrationOptions options{.first = 1, .show = options_.show};
        if (options_.progress)
            options.progress = [this](std::size_t done, std::size_t total) { options_.progress(done - 1, total - 1); };
        quantization::calibrate(model_, share, options);
    }

    void join() {
        const Blocks last_filled = communicator_.gather(std::as_bytes(std::span(&last_filled_, 1)));
        const Blocks states =
            communicator_.gather(io::serialize_safetensors(quantization::make_calibration(model_, source_.count)));
        // The shapes of the inputs are those of the last batch.
        std::int64_t newest = -1;
        io::Safetensors shapes;
        for (std::size_t rank = 0; rank < states.size(); ++rank) {
            const std::string where = "rank " + std::to_string(rank);
            const io::Safetensors state = io::parse_safetensors(states[rank], where);
            if (rank == 0)
                quantization::restore_calibration(state, where, model_);
            else
                quantization::merge_calibration(state, where, model_);
            std::int64_t number = 0;
            std::memcpy(&number, last_filled[rank].data(), sizeof number);
            if (rank == 0 || number > newest) shapes = state, newest = number;
        }
        if (newest < 0 && options_.first == 0 && last() != 0)
            throw Error("calibrate: the calibration set is empty; give at least one batch");
        const char* const name = quantization::input_shapes_name;
        *model_.find_tensor(name) = to_tensor(shapes.at(name), name);
    }

    quantization::PreparedModel& model_;
    const quantization::BatchSource& source_;
    Communicator& communicator_;
    const quantization::CalibrationOptions& options_;
    std::int64_t last_filled_ = -1;  // of this rank's batches with data
};

}  // namespace detail

INTQ_INLINE quantization::CalibrationReport calibrate(quantization::PreparedModel& model,
                                                      const quantization::BatchSource& source,
                                                      Communicator& communicator,
                                                      const quantization::CalibrationOptions& options) {
    training::KeptBuffers before(model);
    quantization::CalibrationReport report;
    try {
        communicator.together([&] { report = detail::RankCalibration(model, source, communicator, options).run(); });
    } catch (...) {
        before.restore();
        throw;
    }
    return report;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::distributed

#endif  // INTQ_DEFINES(distributed)
#endif  // INTQ_DISTRIBUTED_CALIBRATE_HPP
