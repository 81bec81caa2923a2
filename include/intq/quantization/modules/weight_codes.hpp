// SPDX-License-Identifier: MIT
//
// The int8 codes of a weight, as buffers of a module. Layer: quantization.
#ifndef INTQ_QUANTIZATION_MODULES_WEIGHT_CODES_HPP
#define INTQ_QUANTIZATION_MODULES_WEIGHT_CODES_HPP

#include <string>

#include "intq/nn/model/module.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// Symmetric int8 codes of a weight by its range, carrying their qparams.
///
///     s = max(|w|) / 127.5, of each channel of an axis, or of all where the axis is -1
Tensor quantize_weight(const Tensor& weight, int axis);

/// Adds the codes of a weight as the buffer `name`, and their scales as <name>_scale.
void add_codes(nn::Module& module, const std::string& name, const Tensor& weight, int axis);

/// The codes of add_codes(), carrying the scales of their buffer, which a state dictionary may have changed.
Tensor codes_of(const nn::Module& module, const std::string& name);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_modules)

#    include <cstddef>
#    include <utility>
#    include <vector>

#    include "intq/arith/quantize.hpp"
#    include "intq/observers/min_max.hpp"
#    include "intq/tensor/quantize.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE Tensor quantize_weight(const Tensor& weight, int axis) {
    const Shape blocks = tensor_detail::blocks_around(weight, axis);
    std::vector<float> memory(static_cast<std::size_t>(observers::range_memory_size(axis < 0 ? 1 : blocks[1])));
    observers::MinMaxRange range(memory, axis < 0 ? observers::per_tensor : 1);
    const Tensor seen = weight.reshape(blocks);
    throw_if_failed(range.update(seen.view<float, 3>()), "quantize_weight of " + to_string(weight.shape()));
    OwnedQParams qparams = OwnedQParams::per_tensor(1.0f, DType::int8);
    qparams.axis = axis;
    qparams.scales.clear();
    for (std::size_t c = 0; c < range.lowest().size(); ++c)
        qparams.scales.push_back(
            value_or_throw(arith::qparams_from_range(range.lowest()[c], range.highest()[c]), "quantize_weight").scale);
    return quantize(weight, qparams, {});
}

INTQ_INLINE void add_codes(nn::Module& module, const std::string& name, const Tensor& weight, int axis) {
    const Tensor codes = quantize_weight(weight, axis);
    const std::vector<float>& scales = codes.qparams()->scales;
    module.add_buffer(name, codes);
    module.add_buffer(name + "_scale", Tensor::from(Shape(static_cast<index_t>(scales.size())), scales));
}

INTQ_INLINE Tensor codes_of(const nn::Module& module, const std::string& name) {
    Tensor codes = module.tensor(name);
    OwnedQParams qparams = codes.qparams().value();
    const auto scales = module.tensor(name + "_scale").flat<float>();
    qparams.scales.assign(scales.begin(), scales.end());
    codes.set_qparams(std::move(qparams));
    return codes;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_modules)
#endif  // INTQ_QUANTIZATION_MODULES_WEIGHT_CODES_HPP
