// SPDX-License-Identifier: MIT
//
// Upsample, and the function on Values interpolate. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_LAYERS_RESIZE_HPP
#define INTQ_NN_LAYERS_RESIZE_HPP

#include <span>
#include <string>

#include "intq/nn/float_operators/resize.hpp"
#include "intq/nn/model/call.hpp"
#include "intq/nn/model/module.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

using float_operators::InterpolateOptions;
using float_operators::ScaleFactor;

/// The options in the arguments of interpolate.
float_operators::InterpolateOptions interpolate_options(const Arguments& arguments);

namespace detail {

Value evaluate_interpolate(std::span<const Value> values);

}  // namespace detail

inline constexpr Function interpolate_function{"interpolate", &detail::evaluate_interpolate};

/// @param size, scale_factor  a number or a tuple of height and width; one of them is none
/// @param mode  nearest, nearest-exact or bilinear
Value interpolate(const Value& x, const Value& size, const Value& scale_factor = {},
                  const std::string& mode = "nearest", bool align_corners = false);

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

#    include <utility>

#    include "intq/io/error.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

// One value for both sides, or two.
template <class Get> auto pair_of(const Value& value, const Get& get) {
    if (!value.is_tuple()) return std::pair(get(value), get(value));
    if (value.tuple().size() != 2)
        throw Error("interpolate: height and width are needed, given " + std::to_string(value.tuple().size()) +
                    " numbers");
    return std::pair(get(value.tuple()[0]), get(value.tuple()[1]));
}

INTQ_INLINE Value evaluate_interpolate(std::span<const Value> values) {
    const Arguments arguments(values);
    return float_operators::interpolate(arguments.tensor(0), interpolate_options(arguments));
}

}  // namespace detail

INTQ_INLINE float_operators::InterpolateOptions interpolate_options(const Arguments& arguments) {
    float_operators::InterpolateOptions options;
    if (arguments.has(1)) {
        const auto [height, width] = detail::pair_of(arguments[1], [](const Value& v) { return v.integer(); });
        options.size = Size2d{height, width};
    }
    if (arguments.has(2)) {
        const auto [height, width] = detail::pair_of(arguments[2], [](const Value& v) { return v.number(); });
        options.scale_factor = float_operators::ScaleFactor{height, width};
    }
    options.rule = float_operators::resize_rule(arguments.has(3) ? arguments[3].text() : "nearest", arguments.flag(4));
    return options;
}

INTQ_INLINE Value interpolate(const Value& x, const Value& size, const Value& scale_factor, const std::string& mode,
                              bool align_corners) {
    return call(interpolate_function, x, size, scale_factor, mode, align_corners);
}

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
