// SPDX-License-Identifier: MIT
//
// Upsample. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_LAYERS_RESIZE_HPP
#define INTQ_NN_LAYERS_RESIZE_HPP

#include <string>

#include "intq/nn/float_operators/resize.hpp"
#include "intq/nn/model/module.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

using float_operators::InterpolateOptions;
using float_operators::ScaleFactor;

/// Resizes images, to a size or by factors:
///
///     Upsample({.scale_factor = ScaleFactor{2, 2}, .rule = float_operators::resize_rule("bilinear", false)})
class Upsample : public Cloneable<Upsample> {
public:
    explicit Upsample(const InterpolateOptions& options);

    std::string type_name() const override { return "Upsample"; }
    bool is_leaf() const override { return true; }
    const InterpolateOptions& options() const noexcept { return options_; }
    INTQ_INLINE Value forward(Arguments arguments) override;

private:
    InterpolateOptions options_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_layers)

#    include "intq/io/error.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE Upsample::Upsample(const InterpolateOptions& options) : options_(options) {
    if (options.size.has_value() == options.scale_factor.has_value())
        throw Error("Upsample: either a size or a scale factor is needed");
    float_operators::check_interpolate_options(options);
}

INTQ_INLINE Value Upsample::forward(Arguments arguments) {
    return float_operators::interpolate(arguments.tensor(0), options_);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_DEFINES(nn_layers)
#endif  // INTQ_NN_LAYERS_RESIZE_HPP
