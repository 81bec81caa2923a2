// SPDX-License-Identifier: MIT
//
// The parameters and buffers of a model on several ranks. Layer: distributed (docs/distributed.md).
#ifndef INTQ_DISTRIBUTED_INTERNAL_MODEL_STATE_HPP
#define INTQ_DISTRIBUTED_INTERNAL_MODEL_STATE_HPP

#include <string>

#include "intq/distributed/ranks/communicator.hpp"
#include "intq/nn/model/module.hpp"

namespace intq::distributed {
inline namespace INTQ_HOSTED_ABI {

/// A checksum of the names, shapes and bytes of a model's parameters. Ranks compare it, because a rank with another
/// model would compute a wrong result.
std::string fingerprint(nn::Module& model);

/// Copies the buffers of rank 0 to every rank.
/// @throws Error on every rank for models with other buffers
void broadcast_buffers(nn::Module& model, Communicator& communicator);

/// Copies the parameters and buffers of rank 0 to every rank.
/// @throws Error on every rank for models with other parameters or buffers
void broadcast_state(nn::Module& model, Communicator& communicator);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::distributed

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(distributed)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <cstdio>
#    include <span>
#    include <string_view>
#    include <vector>

#    include "intq/io/safetensors.hpp"
#    include "intq/nn/model/state_dict.hpp"
#    include "intq/tensor/npy.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::distributed {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// FNV-1a: against another model, not against an attacker.
INTQ_INLINE void add_to_checksum(std::uint64_t& sum, std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) sum = (sum ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3u;
}

INTQ_INLINE void broadcast_tensors(const std::vector<nn::Named<Tensor*>>& tensors, const char* what,
                                   Communicator& communicator) {
    std::string names;
    for (const auto& tensor : tensors) names += tensor.name + "\n";
    communicator.check_equal(what, names);
    const bool gives = communicator.rank() == 0;
    io::Safetensors content;
    for (const auto& tensor : tensors)
        if (gives && tensor.value->defined()) content.arrays.push_back({tensor.name, to_array(*tensor.value)});
    std::vector<std::byte> bytes = gives ? io::serialize_safetensors(content) : std::vector<std::byte>();
    communicator.broadcast(bytes);
    if (gives) return;
    content = io::parse_safetensors(bytes, "rank 0");
    for (const auto& tensor : tensors) {
        const auto given = std::find_if(content.arrays.begin(), content.arrays.end(),
                                        [&](const io::NamedArray& array) { return array.name == tensor.name; });
        if (given == content.arrays.end())
            *tensor.value = Tensor();
        else
            nn::assign(*tensor.value, to_tensor(given->array, tensor.name));
    }
}

}  // namespace detail

INTQ_INLINE std::string fingerprint(nn::Module& model) {
    std::uint64_t sum = 0xcbf29ce484222325u;
    for (const auto& parameter : model.named_parameters()) {
        const Tensor& tensor = *parameter.value;
        const std::string shape = parameter.name + " " + to_string(tensor.shape());
        detail::add_to_checksum(sum, std::as_bytes(std::span(shape)));
        if (!tensor.defined()) continue;
        detail::add_to_checksum(
            sum, {reinterpret_cast<const std::byte*>(tensor.data()), static_cast<std::size_t>(tensor.bytes())});
    }
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(sum));
    return text;
}

INTQ_INLINE void broadcast_buffers(nn::Module& model, Communicator& communicator) {
    detail::broadcast_tensors(model.named_buffers(), "the names of the model's buffers", communicator);
}

INTQ_INLINE void broadcast_state(nn::Module& model, Communicator& communicator) {
    detail::broadcast_tensors(model.named_parameters(), "the names of the model's parameters", communicator);
    broadcast_buffers(model, communicator);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::distributed

#endif  // INTQ_DEFINES(distributed)
#endif  // INTQ_DISTRIBUTED_INTERNAL_MODEL_STATE_HPP
