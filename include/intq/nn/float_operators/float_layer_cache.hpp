// SPDX-License-Identifier: MIT
//
// Where a layer keeps its packed form between calls. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_FLOAT_OPERATORS_FLOAT_LAYER_CACHE_HPP
#define INTQ_NN_FLOAT_OPERATORS_FLOAT_LAYER_CACHE_HPP

#include <memory>
#include <mutex>

#include "intq/core/abi.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

class PackedFloatLayer;

/// The packed form that the last call of a float convolution or linear layer ran.
///
/// Several threads may use one object. A copy begins empty, because it belongs to another layer.
class FloatLayerCache {
public:
    FloatLayerCache() = default;
    FloatLayerCache(const FloatLayerCache&) noexcept {}
    FloatLayerCache& operator=(const FloatLayerCache&) noexcept { return *this; }

    /// Null before the first call.
    std::shared_ptr<const PackedFloatLayer> get() const {
        const std::lock_guard lock(mutex_);
        return layer_;
    }
    void set(std::shared_ptr<const PackedFloatLayer> layer) {
        const std::lock_guard lock(mutex_);
        layer_.swap(layer);
    }

private:
    mutable std::mutex mutex_;
    std::shared_ptr<const PackedFloatLayer> layer_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

#endif  // INTQ_NN_FLOAT_OPERATORS_FLOAT_LAYER_CACHE_HPP
