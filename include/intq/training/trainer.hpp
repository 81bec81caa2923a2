// SPDX-License-Identifier: MIT
//
// Trainer: epochs of batches, with checkpoints that resume to the same bits. Layer: training.
#ifndef INTQ_TRAINING_TRAINER_HPP
#define INTQ_TRAINING_TRAINER_HPP

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "intq/core/dtype.hpp"
#include "intq/core/executor.hpp"
#include "intq/graph/graph_module.hpp"
#include "intq/io/progress.hpp"
#include "intq/nn/model/value.hpp"
#include "intq/tensor/tensor.hpp"
#include "intq/training/autograd.hpp"
#include "intq/training/internal/checkpoint.hpp"
#include "intq/training/loss.hpp"
#include "intq/training/optimizer.hpp"
#include "intq/training/schedule.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

/// The loss of a batch, from the model's output and the numbers of its samples.
using LossFunction = std::function<Loss(const Tensor& output, std::span<const index_t> samples)>;

struct EpochReport {
    std::int64_t epoch = 0;
    double mean_loss = 0.0;  // of its batches
    double rate = 0.0;       // of its last step
};

struct TrainerOptions {
    std::int64_t epochs = 1;
    index_t batch_size = 32;
    std::uint64_t seed = 0;
    bool shuffle = true;
    bool drop_last = true;  // a last batch with fewer samples is left out, because of batch norm
    Schedule rate = constant_rate(0.01);
    /// Where the state is saved: at the start, after every `checkpoint_every` epochs and before an error leaves fit().
    /// Empty: nowhere.
    std::filesystem::path checkpoint{};
    std::int64_t checkpoint_every = 1;
    /// Changes the input of a batch; `seed` is derived from the trainer's and the step.
    std::function<Tensor(const Tensor& batch, std::uint64_t seed)> augment{};
    /// The same for a model with several inputs.
    std::function<void(std::vector<Tensor>& batch, std::uint64_t seed)> augment_inputs{};
    /// Replaces Autograd::forward() if set, for example by an ExactForward: std::ref(exact).
    std::function<nn::Value(Autograd& autograd, std::span<const nn::Value> inputs)> forward{};
    /// Which of the samples of a batch this process runs; empty: all. See distributed::data_parallel().
    std::function<std::span<const index_t>(std::span<const index_t> samples)> share{};
    /// Called before the step of each batch with its loss and its gradients, which it may change.
    std::function<void(Loss& loss, Gradients& gradients)> after_backward{};
    std::function<void(const EpochReport&)> on_epoch{};
    AutogradOptions autograd{};
    Executor executor = serial;  // the bits do not depend on it
    io::ShowProgress progress = io::ShowProgress::on_terminal;
};

/// Trains a graph: forward, loss, backward, optimizer, batch after batch.
///
///     training::Trainer trainer(*graph::symbolic_trace(model), optimizer, {.epochs = 20});
///     trainer.fit(images, [&](const Tensor& logits, std::span<const index_t> samples) { … });
///
/// The course follows only from the model's state, the optimizer's, the position and the seed. A checkpoint holds all
/// of them, so resumed training has the same bits as uninterrupted training, on any number of threads.
///
/// A loss, gradient or step that is not finite is an Error that names epoch, batch and the parameter, or the first node
/// whose value is not finite. After it, and after any exception from a user's function, parameters, buffers and
/// position are as before that batch, in the checkpoint too.
class Trainer {
public:
    /// Model and optimizer must outlive this.
    Trainer(graph::GraphModule& model, Optimizer& optimizer, TrainerOptions options);

    /// Runs from the position to the end of the last epoch.
    ///
    /// @param inputs  samples along axis 0
    void fit(const Tensor& inputs, const LossFunction& loss);
    /// @param inputs  of a model with several inputs: one tensor for each, with the same samples along axis 0
    void fit(std::span<const Tensor> inputs, const LossFunction& loss);

    const TrainingPosition& position() const noexcept { return position_; }
    void save(const std::filesystem::path& path);
    /// Continues from a checkpoint; nothing is changed on failure.
    void load(const std::filesystem::path& path);

private:
    void check_same_course(const TrainingPosition& other, const std::string& where) const;
    void run_batch(std::span<const Tensor> inputs, std::span<const index_t> samples, const LossFunction& loss);
    void run_epoch(std::span<const Tensor> inputs, const LossFunction& loss);
    std::vector<nn::Value> batch_of(std::span<const Tensor> inputs, std::span<const index_t> samples) const;
    void check_finite(const Loss& loss) const;
    static void check_finite(const Gradients& gradients);

    graph::GraphModule& model_;
    Optimizer& optimizer_;
    TrainerOptions options_;
    Autograd autograd_;
    TrainingPosition position_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(training)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <numeric>
#    include <utility>
#    include <vector>

#    include "intq/io/error.hpp"
#    include "intq/io/safetensors.hpp"
#    include "intq/tensor/current_executor.hpp"
#    include "intq/tensor/random.hpp"
#    include "intq/training/batches.hpp"
#    include "intq/training/kept_buffers.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE Trainer::Trainer(graph::GraphModule& model, Optimizer& optimizer, TrainerOptions options)
    : model_(model), optimizer_(optimizer), options_(std::move(options)), autograd_(model, options_.autograd) {
    const auto check_least = [](const char* name, std::int64_t given, std::int64_t least) {
        if (given < least)
            throw Error(std::string("Trainer: ") + name + " must be at least " + std::to_string(least) + ", given " +
                        std::to_string(given));
    };
    check_least("batch_size", options_.batch_size, 1);
    check_least("epochs", options_.epochs, 0);
    check_least("checkpoint_every", options_.checkpoint_every, 1);
    if (!options_.rate) throw Error("Trainer: the options have no function for the rate");
    position_.batch_size = options_.batch_size;
    position_.seed = options_.seed;
}

INTQ_INLINE void Trainer::save(const std::filesystem::path& path) {
    io::write_safetensors(path, make_checkpoint(model_, optimizer_, position_));
}

INTQ_INLINE void Trainer::load(const std::filesystem::path& path) {
    const io::Safetensors file = io::read_safetensors(path);
    check_same_course(read_position(file, path.string()), path.string());
    position_ = restore_checkpoint(file, path.string(), model_, optimizer_);
}

INTQ_INLINE void Trainer::check_same_course(const TrainingPosition& other, const std::string& where) const {
    const auto check_equal = [&](const char* what, std::uint64_t given, std::uint64_t expected) {
        if (given != expected)
            throw Error(where, std::string("the checkpoint is of another training: its ") + what + " is " +
                                   std::to_string(given) + ", expected " + std::to_string(expected));
    };
    check_equal("batch size", static_cast<std::uint64_t>(other.batch_size),
                static_cast<std::uint64_t>(options_.batch_size));
    check_equal("seed", other.seed, options_.seed);
}

INTQ_INLINE void Trainer::fit(const Tensor& inputs, const LossFunction& loss) { fit(std::span(&inputs, 1), loss); }

INTQ_INLINE void Trainer::fit(std::span<const Tensor> inputs, const LossFunction& loss) {
    if (!loss) throw Error("Trainer: no loss function is given");
    const std::size_t expected = model_.graph().placeholders().size();
    if (inputs.empty() || inputs.size() > expected)
        throw Error("Trainer: the model has " + std::to_string(expected) + " inputs, given " +
                    std::to_string(inputs.size()));
    const index_t samples = inputs[0].rank() > 0 ? inputs[0].extent(0) : 0;
    for (std::size_t i = 1; i < inputs.size(); ++i)
        if (inputs[i].rank() == 0 || inputs[i].extent(0) != samples)
            throw Error("Trainer: input " + std::to_string(i + 1) + " is " + to_string(inputs[i].shape()) +
                        ", and the first input has " + std::to_string(samples) + " samples");
    if (inputs.size() > 1 && options_.augment)
        throw Error("Trainer: augment is for a model with one input; use augment_inputs");
    if (samples < (options_.drop_last ? options_.batch_size : 1))
        throw Error("Trainer: " + std::to_string(samples) + " samples do not fill a batch of " +
                    std::to_string(options_.batch_size));
    if (position_.samples != 0 && position_.samples != samples)
        throw Error("Trainer: the training began with " + std::to_string(position_.samples) + " samples, given " +
                    std::to_string(samples));
    position_.samples = samples;
    const ExecutorScope scope(options_.executor);
    model_.train();
    if (!options_.checkpoint.empty()) save(options_.checkpoint);
    while (position_.epoch < options_.epochs) {
        run_epoch(inputs, loss);
        const bool is_due = position_.epoch % options_.checkpoint_every == 0 || position_.epoch == options_.epochs;
        if (is_due && !options_.checkpoint.empty()) save(options_.checkpoint);
    }
}

INTQ_INLINE std::vector<nn::Value> Trainer::batch_of(std::span<const Tensor> inputs,
                                                     std::span<const index_t> samples) const {
    std::vector<Tensor> batch;
    for (const Tensor& input : inputs) batch.push_back(gather(input, samples));
    const std::uint64_t seed = random_bits(options_.seed, 2 * static_cast<std::uint64_t>(position_.step) + 1);
    if (options_.augment) batch[0] = options_.augment(batch[0], seed);
    if (options_.augment_inputs) options_.augment_inputs(batch, seed);
    return {batch.begin(), batch.end()};
}

INTQ_INLINE void Trainer::run_epoch(std::span<const Tensor> inputs, const LossFunction& loss) {
    const index_t samples = position_.samples, size = options_.batch_size;
    const index_t batches = options_.drop_last ? samples / size : (samples + size - 1) / size;
    const std::int64_t epoch = position_.epoch;
    // Without shuffling, samples keep their order.
    const auto order = options_.shuffle
                           ? shuffled_order(samples, random_bits(options_.seed, 2 * static_cast<std::uint64_t>(epoch)))
                           : [&] {
                                 std::vector<index_t> all(static_cast<std::size_t>(samples));
                                 std::iota(all.begin(), all.end(), index_t{0});
                                 return all;
                             }();
    io::Progress progress("epoch " + std::to_string(epoch + 1) + " of " + std::to_string(options_.epochs), batches,
                          options_.progress);
    for (; position_.batch < batches; ++position_.batch, ++position_.step) {
        const auto first = static_cast<std::size_t>(position_.batch * size);
        run_batch(inputs,
                  std::span(order).subspan(first, (std::min)(static_cast<std::size_t>(size), order.size() - first)),
                  loss);
        progress.update(position_.batch + 1);
    }
    const EpochReport report{epoch, position_.epoch_loss / static_cast<double>(batches),
                             options_.rate(position_.step - 1)};
    ++position_.epoch;
    position_.batch = 0;
    position_.epoch_loss = 0.0;
    if (options_.on_epoch) options_.on_epoch(report);
}

INTQ_INLINE void Trainer::run_batch(std::span<const Tensor> inputs, std::span<const index_t> samples,
                                    const LossFunction& loss) {
    // A forward pass moves running statistics and observers: an error must not leave them changed.
    KeptBuffers buffers(model_);
    const auto go_back = [&] {
        buffers.restore();
        if (!options_.checkpoint.empty()) save(options_.checkpoint);
    };
    try {
        const std::span<const index_t> own = options_.share ? options_.share(samples) : samples;
        const std::vector<nn::Value> batch = batch_of(inputs, own);
        const Tensor output =
            (options_.forward ? options_.forward(autograd_, batch) : autograd_.forward(batch)).tensor();
        Loss value = loss(output, own);
        check_finite(value);
        if (!value.gradient.defined()) throw Error("the loss has no gradient");
        Gradients gradients = autograd_.backward(value.gradient);
        check_finite(gradients);
        if (options_.after_backward) {
            options_.after_backward(value, gradients);
            check_finite(gradients);
        }
        optimizer_.step(model_.named_parameters(), gradients.parameters, options_.rate(position_.step));
        position_.epoch_loss += value.value;
    } catch (const Error& error) {
        go_back();
        throw Error("epoch " + std::to_string(position_.epoch + 1) + ", batch " + std::to_string(position_.batch + 1),
                    error);
    } catch (...) {
        go_back();
        throw;
    }
}

INTQ_INLINE void Trainer::check_finite(const Loss& loss) const {
    if (std::isfinite(loss.value)) return;
    const std::string node = autograd_.first_non_finite();
    throw Error("the loss is not finite; " + (node.empty() ? "the values of all nodes are"
                                                           : "the first value that is not is the output of " + node));
}

INTQ_INLINE void Trainer::check_finite(const Gradients& gradients) {
    for (const auto& [name, gradient] : gradients.parameters) {
        const auto values = gradient.flat<float>();
        if (std::any_of(values.begin(), values.end(), [](float x) { return !std::isfinite(x); }))
            throw Error("the gradient of " + name + " is not finite");
    }
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

#endif  // INTQ_DEFINES(training)
#endif  // INTQ_TRAINING_TRAINER_HPP
