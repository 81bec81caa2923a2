// SPDX-License-Identifier: MIT
//
// Checkpoints: the whole state of a training run in one safetensors file. Layer: training.
#ifndef INTQ_TRAINING_INTERNAL_CHECKPOINT_HPP
#define INTQ_TRAINING_INTERNAL_CHECKPOINT_HPP

#include <cstdint>
#include <string>

#include "intq/io/safetensors.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/training/optimizer.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

/// The position of a training run, and the values that determine how it continues.
struct TrainingPosition {
    std::int64_t epoch = 0;  // of the next batch
    std::int64_t batch = 0;  // in its epoch
    std::int64_t step = 0;   // batches of all epochs: the schedule's position
    std::int64_t samples = 0, batch_size = 0;
    std::uint64_t seed = 0;   // of the orders of samples
    double epoch_loss = 0.0;  // sum over the batches of the epoch so far
    friend bool operator==(const TrainingPosition&, const TrainingPosition&) = default;
};

/// The file's content: arrays "model/<tensor>", "optimizer/<state>/<parameter>" and "training/…".
io::Safetensors make_checkpoint(nn::Module& model, const Optimizer& optimizer, const TrainingPosition& position);

/// The position in the training run of a checkpoint.
/// @param name  of the file, for messages
/// @throws Error naming the file: no checkpoint, or a damaged position
TrainingPosition read_position(const io::Safetensors& file, const std::string& name);

/// Sets both model and optimizer, or neither.
///
/// @throws Error naming file and array: as read_position(); for tensors that the model lacks or has in another shape,
///         or that no training produces (nn::load_state_dict); for another kind of optimizer; for state of a parameter
///         that does not exist, or that the optimizer could not have made (Optimizer::check_state)
TrainingPosition restore_checkpoint(const io::Safetensors& file, const std::string& name, nn::Module& model,
                                    Optimizer& optimizer);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(training)

#    include <cmath>
#    include <cstddef>
#    include <span>
#    include <string_view>
#    include <utility>

#    include "intq/core/dtype.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/npy.hpp"
#    include "intq/nn/model/state_dict.hpp"
#    include "intq/tensor/npy.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

inline constexpr std::string_view model_prefix = "model/", optimizer_prefix = "optimizer/";
inline constexpr const char* checkpoint_format = "intq training 2";
inline constexpr const char* optimizer_key = "optimizer";
inline constexpr const char* position_array = "training/position";
inline constexpr const char* loss_array = "training/epoch_loss";

/// Of epochs, batches, steps and samples; leaves room for more.
inline constexpr std::int64_t max_position = std::int64_t{1} << 53;

/// "optimizer/exp_avg/conv.weight": state and parameter.
INTQ_INLINE std::pair<std::string, std::string> split_state_name(std::string_view name) {
    const std::string_view rest = name.substr(optimizer_prefix.size());
    const auto slash = rest.find('/');
    if (slash == std::string_view::npos) throw Error(name, "this is not a state of an optimizer");
    return {std::string(rest.substr(0, slash)), std::string(rest.substr(slash + 1))};
}

INTQ_INLINE nn::StateDict model_state(const io::Safetensors& file) {
    nn::StateDict state;
    for (const io::NamedArray& item : file.arrays)
        if (item.name.starts_with(model_prefix))
            state.push_back({item.name.substr(model_prefix.size()), to_tensor(item.array, item.name)});
    return state;
}

INTQ_INLINE Optimizer::State optimizer_state(const io::Safetensors& file, const nn::StateDict& model,
                                             const Optimizer& optimizer) {
    const auto type = file.metadata.find(optimizer_key);
    const std::string given = type == file.metadata.end() ? "not named" : type->second;
    if (given != optimizer.type_name())
        throw Error("the checkpoint is of another training: its optimizer is " + given + ", expected " +
                    optimizer.type_name());
    Optimizer::State state;
    for (const io::NamedArray& item : file.arrays) {
        if (!item.name.starts_with(optimizer_prefix)) continue;
        const auto [kind, parameter] = split_state_name(item.name);
        if (nn::find_named(model, parameter) == nullptr) throw Error(item.name, "there is no such parameter");
        state[parameter][kind] = to_tensor(item.array, item.name);
    }
    for (const auto& [parameter, kept] : state)
        optimizer.check_state(parameter, nn::find_named(model, parameter)->shape(), kept);
    return state;
}

}  // namespace detail

INTQ_INLINE TrainingPosition read_position(const io::Safetensors& file, const std::string& name) {
    const auto format = file.metadata.find("format");
    if (format == file.metadata.end() || format->second != detail::checkpoint_format)
        throw Error(name,
                    std::string("this is not a checkpoint: its format is not \"") + detail::checkpoint_format + "\"");
    try {
        const auto numbers = file.at(detail::position_array).as<std::int64_t>();
        const auto loss = file.at(detail::loss_array).as<double>();
        if (numbers.size() != 6 || loss.size() != 1) throw Error(detail::position_array, "expected 6 numbers");
        for (std::size_t i = 0; i < 5; ++i)
            if (numbers[i] < 0 || numbers[i] > detail::max_position)
                throw Error(detail::position_array, "the count " + std::to_string(numbers[i]) + " is not from 0 to " +
                                                        std::to_string(detail::max_position));
        if (!std::isfinite(loss[0]))
            throw Error(detail::loss_array, "the sum of the losses is not finite, but " + std::to_string(loss[0]));
        return {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], static_cast<std::uint64_t>(numbers[5]),
                loss[0]};
    } catch (const Error& error) {
        throw Error(name, error.what());
    }
}

INTQ_INLINE io::Safetensors make_checkpoint(nn::Module& model, const Optimizer& optimizer,
                                            const TrainingPosition& position) {
    io::Safetensors file;
    file.metadata["format"] = detail::checkpoint_format;
    file.metadata[detail::optimizer_key] = optimizer.type_name();
    for (const auto& item : nn::whole_state(model))
        file.arrays.push_back({std::string(detail::model_prefix) + item.name, to_array(item.value)});
    for (const auto& [parameter, states] : optimizer.state())
        for (const auto& [state, tensor] : states)
            file.arrays.push_back({std::string(detail::optimizer_prefix) + state + "/" + parameter, to_array(tensor)});
    const std::int64_t numbers[] = {position.epoch,   position.batch,      position.step,
                                    position.samples, position.batch_size, static_cast<std::int64_t>(position.seed)};
    file.arrays.push_back({detail::position_array, io::make_npy<std::int64_t>({6}, numbers)});
    file.arrays.push_back({detail::loss_array, io::make_npy<double>({1}, std::span(&position.epoch_loss, 1))});
    return file;
}

INTQ_INLINE TrainingPosition restore_checkpoint(const io::Safetensors& file, const std::string& name, nn::Module& model,
                                                Optimizer& optimizer) {
    const TrainingPosition position = read_position(file, name);
    try {
        const nn::StateDict state = detail::model_state(file);
        nn::check_state_dict(model, state);
        for (const std::string& buffer : nn::transient_names(model))
            if (nn::find_named(state, buffer) == nullptr)
                throw Error(buffer, "the checkpoint lacks this buffer of the model");
        Optimizer::State kept = detail::optimizer_state(file, state, optimizer);
        nn::load_state_dict(model, state);
        optimizer.set_state(std::move(kept));
    } catch (const Error& error) {
        throw Error(name, error.what());
    }
    return position;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

#endif  // INTQ_DEFINES(training)
#endif  // INTQ_TRAINING_INTERNAL_CHECKPOINT_HPP
