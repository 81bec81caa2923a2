// SPDX-License-Identifier: MIT
//
// The state of a calibration in a file, so that it can go on later. Layer: quantization (docs/workflow.md section 1).
#ifndef INTQ_QUANTIZATION_PREPARE_CALIBRATION_FILE_HPP
#define INTQ_QUANTIZATION_PREPARE_CALIBRATION_FILE_HPP

#include <cstddef>
#include <filesystem>
#include <string>

#include "intq/io/safetensors.hpp"
#include "intq/nn/model/module.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// Writes what the observers of a model have seen, and the shapes of its inputs, as safetensors; the file appears
/// complete or not at all.
///
///     const auto report = calibrate(*prepared, source, {.most = 100});
///     save_calibration("state.safetensors", *prepared, report.done);
///     …                                                                     // another day
///     const std::size_t done = load_calibration("state.safetensors", *prepared);
///     calibrate(*prepared, source, {.first = done});                        // the bits of one run
///
/// @param batches  that are done
void save_calibration(const std::filesystem::path& path, nn::Module& model, std::size_t batches);

/// Loads the states in the file into the observers of a model, prepared alike, and takes the qparams from them. Throws,
/// and changes nothing, for a file that is damaged or from another model's observers: other names, other classes,
/// states that contradict themselves or that no data produces, missing shapes of the inputs.
///
/// @return the number of batches that are done
std::size_t load_calibration(const std::filesystem::path& path, nn::Module& model);

/// The content of the file.
io::Safetensors make_calibration(nn::Module& model, std::size_t batches);

/// load_calibration() on the content of a file.
/// @param where  the file, for messages
std::size_t restore_calibration(const io::Safetensors& content, const std::string& where, nn::Module& model);

/// Adds the states of other observers, from a model that was prepared alike and ran on other data, as Observer::merge()
/// does. The shapes of the inputs stay. Throws as load_calibration() does, and if observers cannot be merged, and then
/// changes nothing.
///
/// @return the number of batches that they have seen
std::size_t merge_calibration(const io::Safetensors& content, const std::string& where, nn::Module& model);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_prepare)

#    include <algorithm>
#    include <charconv>
#    include <memory>
#    include <set>
#    include <system_error>
#    include <vector>

#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/nearest_names.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/fake_quantize/grid_choice.hpp"
#    include "intq/quantization/observers/observer.hpp"
#    include "intq/quantization/prepare/prepared_model.hpp"
#    include "intq/tensor/npy.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

inline constexpr const char* calibration_format = "intq calibration 1";

/// The observers of a model with their qualified names.
INTQ_INLINE std::vector<nn::Named<Observer*>> observers_of(nn::Module& model) {
    std::vector<nn::Named<Observer*>> result;
    for (const auto& module : model.named_modules())
        if (auto* observer = dynamic_cast<Observer*>(module.value)) result.push_back({module.name, observer});
    return result;
}

}  // namespace detail

INTQ_INLINE io::Safetensors make_calibration(nn::Module& model, std::size_t batches) {
    io::Safetensors content;
    content.metadata["format"] = detail::calibration_format;
    content.metadata["batches"] = std::to_string(batches);
    for (const auto& [name, observer] : detail::observers_of(model)) {
        content.metadata["observer " + name] = observer->type_name();
        for (const auto& buffer : observer->buffers())
            if (buffer.value.defined())
                content.arrays.push_back({nn::join_path(name, buffer.name), to_array(buffer.value)});
    }
    if (const Tensor* shapes = model.find_tensor(input_shapes_name))
        content.arrays.push_back({input_shapes_name, to_array(*shapes)});
    return content;
}

INTQ_INLINE void save_calibration(const std::filesystem::path& path, nn::Module& model, std::size_t batches) {
    io::write_safetensors(path, make_calibration(model, batches));
}

namespace detail {

/// A file's buffers for one observer: tried on a copy, which refuses contradictions.
INTQ_INLINE std::shared_ptr<Observer> loaded_observer(const Observer& observer, const std::string& name,
                                                      const io::Safetensors& content, std::set<std::string>& known,
                                                      const std::string& where) {
    const auto copy = std::static_pointer_cast<Observer>(nn::clone(static_cast<const nn::Module&>(observer)));
    for (auto& buffer : copy->buffers()) {
        const std::string key = nn::join_path(name, buffer.name);
        known.insert(key);
        buffer.value = Tensor();
        for (const io::NamedArray& array : content.arrays)
            if (array.name == key) buffer.value = to_tensor(array.array, where + ": " + key);
    }
    try {
        copy->check_state();
        if (!copy->options().is_sync_quantize) copy->calculate_qparams();
    } catch (const Error& error) {
        throw Error(where + ": " + name, error.what());
    }
    return copy;
}

/// The file's shapes of inputs for a model that keeps them; undefined for a model that does not.
INTQ_INLINE Tensor loaded_shapes(nn::Module& model, const io::Safetensors& content, std::set<std::string>& known,
                                 const std::string& where) {
    const Tensor* own = model.find_tensor(input_shapes_name);
    if (own == nullptr) return {};
    known.insert(input_shapes_name);
    for (const io::NamedArray& array : content.arrays) {
        if (array.name != input_shapes_name) continue;
        const Tensor given = to_tensor(array.array, where + ": " + input_shapes_name);
        if (given.dtype() != own->dtype() || !(given.shape() == own->shape()))
            throw Error(where, std::string(input_shapes_name) + " does not fit a model with as many inputs");
        try {
            shapes_of_tensor(given);
        } catch (const Error& error) {
            throw Error(where, error.what());
        }
        return given;
    }
    throw Error(where, std::string("it has no ") + input_shapes_name + ", the shapes of the model's inputs");
}

/// An impossibly large number of batches means a damaged file.
inline constexpr std::size_t max_batches = std::size_t{1} << 53;

INTQ_INLINE std::size_t batches_in(const io::Safetensors& content, const std::string& where) {
    const auto format = content.metadata.find("format"), batches = content.metadata.find("batches");
    if (format == content.metadata.end() || format->second != calibration_format || batches == content.metadata.end())
        throw Error(where, "this is not the state of a calibration");
    std::size_t count = 0;
    const std::string& text = batches->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error != std::errc() || end != text.data() + text.size())
        throw Error(where, "the number of batches is not a number: " + in_quotes(text));
    if (count > max_batches)
        throw Error(where, "the number of batches is " + text + ", expected at most " + std::to_string(max_batches));
    return count;
}

}  // namespace detail

INTQ_INLINE std::size_t load_calibration(const std::filesystem::path& path, nn::Module& model) {
    return restore_calibration(io::read_safetensors(path), path.string(), model);
}

namespace detail {

/// The content of a file for a model, checked as a whole.
struct LoadedCalibration {
    std::size_t batches = 0;
    std::vector<nn::Named<Observer*>> own{};          // the model's
    std::vector<std::shared_ptr<Observer>> loaded{};  // the file's, one for each
    Tensor shapes{};
};

INTQ_INLINE LoadedCalibration loaded_calibration(const io::Safetensors& content, const std::string& where,
                                                 nn::Module& model) {
    LoadedCalibration result{batches_in(content, where), observers_of(model)};
    std::set<std::string> known{"format", "batches"};
    std::vector<std::string> names;
    for (const auto& [name, observer] : result.own) {
        const std::string key = "observer " + name;
        known.insert(key);
        names.push_back(name);
        const auto type = content.metadata.find(key);
        if (type == content.metadata.end())
            throw Error(where, "it has no observer \"" + name + "\", the model has one");
        if (type->second != observer->type_name())
            throw Error(where, "its observer \"" + name + "\" is a " + in_quotes(type->second) + ", the model's a " +
                                   observer->type_name());
        result.loaded.push_back(loaded_observer(*observer, name, content, known, where));
    }
    result.shapes = loaded_shapes(model, content, known, where);
    for (const auto& [key, value] : content.metadata)
        if (known.count(key) == 0)
            throw Error(
                where,
                "the model has no " + in_quotes(key) +
                    (names.empty() ? "; it has no observers, so prepare it first"
                                   : "; the nearest are " +
                                         nearest_names(key.substr((std::min)(key.find(' ') + 1, key.size())), names)));
    for (const io::NamedArray& array : content.arrays)
        if (known.count(array.name) == 0)
            throw Error(where, "the model has no observer's buffer " + in_quotes(array.name));
    return result;
}

/// Copies the states of other observers into the model's, and takes the qparams from them.
INTQ_INLINE void take_states(const LoadedCalibration& from, nn::Module& model) {
    for (std::size_t i = 0; i < from.own.size(); ++i) {
        auto& buffers = from.own[i].value->buffers();
        for (std::size_t b = 0; b < buffers.size(); ++b) buffers[b].value = from.loaded[i]->buffers()[b].value;
    }
    for (const auto& module : model.named_modules())
        if (auto* quantizer = dynamic_cast<FakeQuantize*>(module.value)) quantizer->update_qparams();
    choose_grids_again(model);
}

}  // namespace detail

INTQ_INLINE std::size_t restore_calibration(const io::Safetensors& content, const std::string& where,
                                            nn::Module& model) {
    const detail::LoadedCalibration from = detail::loaded_calibration(content, where, model);
    if (from.shapes.defined()) *model.find_tensor(input_shapes_name) = from.shapes;
    detail::take_states(from, model);
    return from.batches;
}

INTQ_INLINE std::size_t merge_calibration(const io::Safetensors& content, const std::string& where, nn::Module& model) {
    detail::LoadedCalibration from = detail::loaded_calibration(content, where, model);
    for (std::size_t i = 0; i < from.own.size(); ++i) {
        const auto& [name, observer] = from.own[i];
        const auto joined = std::static_pointer_cast<Observer>(nn::clone(static_cast<const nn::Module&>(*observer)));
        try {
            joined->merge(*from.loaded[i]);
        } catch (const Error& error) {
            throw Error(where + ": " + name, error.what());
        }
        from.loaded[i] = joined;
    }
    detail::take_states(from, model);
    return from.batches;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_prepare)
#endif  // INTQ_QUANTIZATION_PREPARE_CALIBRATION_FILE_HPP
