// SPDX-License-Identifier: MIT
//
// state_dict: the parameters and buffers of a model by qualified name. Layer: nn.
#ifndef INTQ_NN_MODEL_STATE_DICT_HPP
#define INTQ_NN_MODEL_STATE_DICT_HPP

#include <set>
#include <string>
#include <vector>

#include "intq/nn/model/module.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

using StateDict = std::vector<Named<Tensor>>;

/// The parameters, then the persistent buffers (Module::add_buffer()), that are defined; copies.
StateDict state_dict(Module& model);
/// The same with all buffers: what a training resumes from.
StateDict whole_state(Module& model);

/// Gives a model the tensors of a state dictionary, all or none of them: where a module throws for what it was given
/// (Module::tensors_changed()), all have their former values again.
///
/// A tensor that is undefined in the model (a scale before any data) takes whatever the dictionary has, and stays
/// undefined where it has none. A buffer that is not persistent may be missing, and stays. A module may take the state
/// of another class (Module::adapt_state()): a quantizer that learns its scale starts from the scale of a calibrated
/// quantizer.
///
/// @throws Error naming the tensor or the module: one that the model or the dictionary lacks, another shape or dtype, a
///         parameter that is not finite, what a module refuses
///
/// Memory   a copy of what the model had
void load_state_dict(Module& model, const StateDict& state);
/// Throws what load_state_dict() would; changes nothing.
///
/// Memory   a copy of the model
void check_state_dict(Module& model, const StateDict& state);

/// Copies values into a tensor's memory where it has the same shape and dtype, so that others who hold it see them;
/// else the tensor becomes a copy.
void assign(Tensor& to, const Tensor& from);

/// The names of the buffers that are not persistent.
std::set<std::string> transient_names(Module& model);

/// Null when there is none of this name.
const Tensor* find_named(const StateDict& state, const std::string& name);

namespace detail {

/// The parameters, then the buffers, of all modules.
std::vector<Named<Tensor*>> all_tensors(Module& model);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_model)

#    include <algorithm>
#    include <cmath>
#    include <cstring>
#    include <map>
#    include <utility>

#    include "intq/io/error.hpp"
#    include "intq/io/nearest_names.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// A state dictionary by name. Of two entries with one name, the first counts.
using StateByName = std::map<std::string, Tensor>;

INTQ_INLINE const Tensor* find_named(const StateByName& state, const std::string& name) {
    const auto item = state.find(name);
    return item == state.end() ? nullptr : &item->second;
}

INTQ_INLINE std::vector<Named<Tensor*>> all_tensors(Module& model) {
    auto tensors = model.named_parameters();
    for (const auto& buffer : model.named_buffers()) tensors.push_back(buffer);
    return tensors;
}

}  // namespace detail

INTQ_INLINE const Tensor* find_named(const StateDict& state, const std::string& name) {
    for (const auto& item : state)
        if (item.name == name) return &item.value;
    return nullptr;
}

INTQ_INLINE std::set<std::string> transient_names(Module& model) {
    std::set<std::string> names;
    for_each_module(model, [&](const std::string& name, const Module& module) {
        for (const auto& buffer : module.buffers())
            if (!module.is_persistent(buffer.name)) names.insert(join_path(name, buffer.name));
    });
    return names;
}

INTQ_INLINE StateDict whole_state(Module& model) {
    StateDict state;
    for (const auto& tensor : detail::all_tensors(model))
        if (tensor.value->defined()) state.push_back({tensor.name, tensor.value->clone()});
    return state;
}

INTQ_INLINE StateDict state_dict(Module& model) {
    StateDict state = whole_state(model);
    const std::set<std::string> transient = transient_names(model);
    std::erase_if(state, [&](const Named<Tensor>& item) { return transient.count(item.name) != 0; });
    return state;
}

namespace detail {

/// No training gives such a parameter.
INTQ_INLINE void check_finite_parameters(Module& model, const StateByName& state) {
    for (const auto& parameter : model.named_parameters()) {
        const Tensor* given = find_named(state, parameter.name);
        if (given == nullptr || given->dtype() != DType::float32) continue;
        const Tensor values = given->contiguous();
        const auto all = values.flat<float>();
        const auto bad = std::find_if(all.begin(), all.end(), [](float value) { return !std::isfinite(value); });
        if (bad != all.end())
            throw Error(parameter.name, "element " + std::to_string(bad - all.begin()) + " is NaN or infinite");
    }
}

INTQ_INLINE std::string lacking(const std::string& name, const StateByName& state) {
    std::vector<std::string> known;
    for (const auto& item : state) known.push_back(item.first);
    return "the state dictionary lacks this tensor of the model" +
           (known.empty() ? "" : "; the nearest it has are " + nearest_names(name, known));
}

/// What can be said of a dictionary without writing it.
INTQ_INLINE void check_tensors(Module& model, const StateByName& state) {
    const std::set<std::string> transient = transient_names(model);
    std::set<std::string> names;
    for (const auto& tensor : all_tensors(model)) {
        const Tensor* given = find_named(state, tensor.name);
        names.insert(tensor.name);
        if (!tensor.value->defined()) continue;
        if (given == nullptr && transient.count(tensor.name) != 0) continue;
        if (given == nullptr) throw Error(tensor.name, lacking(tensor.name, state));
        if (!(given->shape() == tensor.value->shape()) || given->dtype() != tensor.value->dtype())
            throw Error(tensor.name, std::string("the state dictionary has ") + name_of(given->dtype()) + " " +
                                         to_string(given->shape()) + ", the model " + name_of(tensor.value->dtype()) +
                                         " " + to_string(tensor.value->shape()));
    }
    for (const auto& [name, tensor] : state)
        if (names.count(name) == 0) throw Error(name, "the model has no parameter or buffer of this name");
    check_finite_parameters(model, state);
}

/// What `call` throws of a module has the module's name.
template <class Call> void name_refusal(const std::string& module, const Call& call) {
    try {
        call();
    } catch (const Error& error) {
        throw Error(module, error);
    }
}

INTQ_INLINE void tell_modules(Module& model) {
    for (const auto& module : model.named_modules())
        name_refusal(module.name, [&] { module.value->tensors_changed(); });
}

/// The dictionary as the modules of the model take it.
INTQ_INLINE StateByName adapted(Module& model, const StateDict& given) {
    StateByName state;
    for (const auto& item : given)
        if (!state.emplace(item.name, item.value).second)
            throw Error(item.name, "the state dictionary has this name twice");
    for (const auto& module : model.named_modules()) {
        const std::string prefix = module.name.empty() ? "" : module.name + ".";
        const auto first = state.lower_bound(prefix);
        auto last = first;
        StateDict own;
        for (; last != state.end() && last->first.rfind(prefix, 0) == 0; ++last)
            own.push_back({last->first.substr(prefix.size()), last->second});
        name_refusal(module.name, [&] { module.value->adapt_state(own); });
        state.erase(first, last);
        for (auto& item : own) state.emplace(prefix + item.name, std::move(item.value));
    }
    return state;
}

}  // namespace detail

INTQ_INLINE void check_state_dict(Module& model, const StateDict& state) {
    load_state_dict(*clone(static_cast<const Module&>(model)), state);
}

INTQ_INLINE void load_state_dict(Module& model, const StateDict& given_state) {
    const detail::StateByName state = detail::adapted(model, given_state);
    detail::check_tensors(model, state);
    struct Former {
        Tensor* slot;
        Tensor tensor, values;  // the tensor itself, which others may hold, and a copy
    };
    std::vector<Former> former;
    for (const auto& tensor : detail::all_tensors(model))
        if (detail::find_named(state, tensor.name) != nullptr)
            former.push_back({tensor.value, *tensor.value, tensor.value->defined() ? tensor.value->clone() : Tensor()});
    try {
        for (const auto& tensor : detail::all_tensors(model))
            if (const Tensor* given = detail::find_named(state, tensor.name)) assign(*tensor.value, *given);
        detail::tell_modules(model);
    } catch (...) {
        for (Former& one : former) {
            if (one.tensor.defined()) assign(one.tensor, one.values);
            *one.slot = one.tensor;
        }
        detail::tell_modules(model);
        throw;
    }
}

INTQ_INLINE void assign(Tensor& to, const Tensor& from) {
    if (to.defined() && to.shape() == from.shape() && to.dtype() == from.dtype() && to.layout() == from.layout()) {
        std::memcpy(to.data(), from.data(), static_cast<std::size_t>(from.bytes()));
    } else {
        to = from.clone();
    }
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_DEFINES(nn_model)
#endif  // INTQ_NN_MODEL_STATE_DICT_HPP
