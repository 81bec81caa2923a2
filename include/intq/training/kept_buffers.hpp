// SPDX-License-Identifier: MIT
//
// KeptBuffers: what a forward pass moves besides its result, to be put back. Layer: training.
#ifndef INTQ_TRAINING_KEPT_BUFFERS_HPP
#define INTQ_TRAINING_KEPT_BUFFERS_HPP

#include "intq/nn/model/state_dict.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

/// The buffers of a model (running statistics, observers, counters) as they were when this was made.
class KeptBuffers {
public:
    /// The model must outlive this.
    explicit KeptBuffers(nn::Module& model) : model_(model) {
        for (const auto& buffer : model.named_buffers()) buffers_.push_back({buffer.name, buffer.value->clone()});
    }

    void restore() {
        for (const auto& buffer : buffers_) {
            Tensor& tensor = *model_.find_tensor(buffer.name);
            if (buffer.value.defined())
                nn::assign(tensor, buffer.value);
            else
                tensor = Tensor();
        }
    }

private:
    nn::Module& model_;
    std::vector<nn::Named<Tensor>> buffers_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

#endif  // INTQ_TRAINING_KEPT_BUFFERS_HPP
