// SPDX-License-Identifier: MIT
//
// Options of TFLite's operators that mean the same to both importers, except windows (window.hpp). Layer: interop.
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_NODES_OPTIONS_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_NODES_OPTIONS_HPP

#include "intq/io/flatbuffer.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

/// Where the cells of a resized image lie.
struct ResizePlaces {
    bool corners = false, half_pixel = false;
};

/// @tparam Options  fields::ResizeBilinear or fields::ResizeNearest
template <class Options> ResizePlaces resize_places(const io::FlatTable& options) {
    return {options.flag(Options::align_corners), options.flag(Options::half_pixel)};
}

/// Throws for a mode of MIRROR_PAD other than REFLECT.
void require_reflect(const io::FlatTable& options);

/// Throws for a FULLY_CONNECTED whose weight is shuffled for one kind of CPU.
void require_rows_of_inputs(const io::FlatTable& options);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_tflite_nodes)

#    include <cstdint>

#    include "intq/interop/tflite/internal/read/fields.hpp"
#    include "intq/io/error.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE void require_reflect(const io::FlatTable& options) {
    if (options.number<std::int8_t>(fields::MirrorPad::mode, 0) != 0)
        throw Error("its mode is not REFLECT; SYMMETRIC, which repeats the outermost cell, is not supported");
}

INTQ_INLINE void require_rows_of_inputs(const io::FlatTable& options) {
    if (options.number<std::int8_t>(fields::FullyConnected::weights_format, 0) != 0)
        throw Error("weights in another order than rows of inputs are not supported");
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_DEFINES(interop_tflite_nodes)
#endif  // INTQ_INTEROP_TFLITE_INTERNAL_NODES_OPTIONS_HPP
