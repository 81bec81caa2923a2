// SPDX-License-Identifier: MIT
//
// State dictionaries as safetensors files, which PyTorch reads and writes. Layer: nn.
#ifndef INTQ_NN_MODEL_STATE_FILE_HPP
#define INTQ_NN_MODEL_STATE_FILE_HPP

#include <filesystem>

#include "intq/nn/model/state_dict.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

/// Writes the state dictionary of a model. PyTorch loads it into a model with the same layers and names:
///
///     model.load_state_dict(safetensors.torch.load_file(path))
///
/// A module in several places is written under the name of each, as in PyTorch.
///
/// @throws Error as io::write_safetensors()
void save_state_dict(Module& model, const std::filesystem::path& path);
void save_state_dict(const StateDict& state, const std::filesystem::path& path);

/// Reads a state dictionary, such as one that safetensors.torch.save_file() wrote.
///
/// @throws Error as io::read_safetensors(), and for more than max_rank axes
StateDict read_state_dict(const std::filesystem::path& path);

/// Loads the tensors of such a file into a model, all or none of them.
///
/// @throws Error naming the file: as read_state_dict() and load_state_dict(), and where the names of one module have
///         different values
void load_state_dict(Module& model, const std::filesystem::path& path);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_model)

#    include <algorithm>
#    include <map>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/io/error.hpp"
#    include "intq/io/safetensors.hpp"
#    include "intq/tensor/npy.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Every slot of a model with the module in it.
INTQ_INLINE void collect_slots(const Module& module, const std::string& path, std::vector<Named<const Module*>>& out) {
    out.push_back({path, &module});
    for (const auto& child : module.children()) collect_slots(*child.value, join_path(path, child.name), out);
}

/// "a.b.weight" -> "a.b", "weight".
INTQ_INLINE std::pair<std::string, std::string> split_path(const std::string& name) {
    const std::size_t dot = name.rfind('.');
    if (dot == std::string::npos) return {"", name};
    return {name.substr(0, dot), name.substr(dot + 1)};
}

/// The dictionary under the first name of each module.
INTQ_INLINE StateDict under_first_names(const Module& model, const StateDict& state) {
    std::vector<Named<const Module*>> places;
    collect_slots(model, "", places);
    std::map<const Module*, std::string> first;
    std::map<std::string, std::string> first_of;  // by place
    for (const auto& slot : places) first_of[slot.name] = first.emplace(slot.value, slot.name).first->second;
    StateDict result;
    for (const auto& item : state) {
        const auto [path, tensor] = split_path(item.name);
        const auto slot = first_of.find(path);
        const std::string name = slot == first_of.end() ? item.name : join_path(slot->second, tensor);
        const Tensor* const known = find_named(result, name);
        if (known == nullptr)
            result.push_back({name, item.value});
        else if (to_array(*known).bytes != to_array(item.value).bytes)
            throw Error(item.name, "it differs from another name of the same tensor, " + name);
    }
    return result;
}

}  // namespace detail

INTQ_INLINE void save_state_dict(const StateDict& state, const std::filesystem::path& path) {
    io::Safetensors file;
    file.metadata["format"] = "pt";  // as in PyTorch's files; some readers require it
    for (const auto& item : state) file.arrays.push_back({item.name, to_array(item.value)});
    io::write_safetensors(path, file);
}

INTQ_INLINE void save_state_dict(Module& model, const std::filesystem::path& path) {
    std::vector<Named<const Module*>> places;
    detail::collect_slots(model, "", places);
    StateDict state;
    for (const auto& slot : places)
        for (const auto* list : {&slot.value->parameters(), &slot.value->buffers()})
            for (const auto& item : *list)
                if (item.value.defined() && slot.value->is_persistent(item.name))
                    state.push_back({join_path(slot.name, item.name), item.value});
    save_state_dict(state, path);
}

INTQ_INLINE StateDict read_state_dict(const std::filesystem::path& path) {
    StateDict state;
    for (const auto& item : io::read_safetensors(path).arrays)
        state.push_back({item.name, to_tensor(item.array, path.string() + ": " + item.name)});
    return state;
}

INTQ_INLINE void load_state_dict(Module& model, const std::filesystem::path& path) {
    const StateDict state = read_state_dict(path);
    try {
        load_state_dict(model, detail::under_first_names(model, state));
    } catch (const Error& error) {
        throw Error(path.string(), error);
    }
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_DEFINES(nn_model)
#endif  // INTQ_NN_MODEL_STATE_FILE_HPP
