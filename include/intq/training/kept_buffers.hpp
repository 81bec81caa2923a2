// SPDX-License-Identifier: MIT
//
// KeptBuffers: the buffers that a forward pass changes, to be restored. Layer: training.
#ifndef INTQ_TRAINING_KEPT_BUFFERS_HPP
#define INTQ_TRAINING_KEPT_BUFFERS_HPP

#include <vector>

#include "intq/nn/model/module.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

/// The buffers of a model (running statistics, observers, counters) as they were when this was made.
class KeptBuffers {
public:
    /// The model must outlive this.
    explicit KeptBuffers(nn::Module& model);

    void restore();

private:
    nn::Module& model_;
    std::vector<nn::Named<Tensor>> buffers_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(training)

#    include "intq/nn/model/state_dict.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE KeptBuffers::KeptBuffers(nn::Module& model) : model_(model) {
    for (const auto& buffer : model.named_buffers()) buffers_.push_back({buffer.name, buffer.value->clone()});
}

INTQ_INLINE void KeptBuffers::restore() {
    for (const auto& buffer : buffers_) {
        Tensor& tensor = *model_.find_tensor(buffer.name);
        if (buffer.value.defined())
            nn::assign(tensor, buffer.value);
        else
            tensor = Tensor();
    }
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

#endif  // INTQ_DEFINES(training)
#endif  // INTQ_TRAINING_KEPT_BUFFERS_HPP
