// SPDX-License-Identifier: MIT
//
// Random initial weights. Layer: training.
#ifndef INTQ_TRAINING_INITIALIZE_HPP
#define INTQ_TRAINING_INITIALIZE_HPP

#include <cstdint>

#include "intq/nn/model/module.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

/// Sets the weights and biases of all layers to random numbers, as PyTorch does for conv and linear: uniform in
/// ±1/sqrt(n), where n is the number of weights of one output. The seed and the order of the layers determine the
/// numbers. Modules without weights stay as they are.
void initialize(nn::Module& model, std::uint64_t seed);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(training)

#    include <cmath>
#    include <random>

#    include "intq/nn/layers/weighted.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE void initialize(nn::Module& model, std::uint64_t seed) {
    std::mt19937_64 generator(seed);
    for (const auto& module : model.named_modules()) {
        auto* layer = dynamic_cast<nn::Weighted*>(module.value);
        if (layer == nullptr) continue;
        const double bound = 1.0 / std::sqrt(static_cast<double>(layer->weight().size() / layer->out_channels()));
        for (auto& parameter : layer->parameters())
            for (float& value : parameter.value.flat<float>())
                value = static_cast<float>((static_cast<double>(generator() >> 11) * 0x1p-52 - 1.0) * bound);
    }
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

#endif  // INTQ_DEFINES(training)
#endif  // INTQ_TRAINING_INITIALIZE_HPP
