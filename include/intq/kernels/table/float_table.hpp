// SPDX-License-Identifier: MIT
//
// FloatTable: the float kernels of a backend as function pointers: convolution and linear for calibration, training
// and baselines. They depend on no target. Layer: kernels (docs/design.md section 5).
#ifndef INTQ_KERNELS_TABLE_FLOAT_TABLE_HPP
#define INTQ_KERNELS_TABLE_FLOAT_TABLE_HPP

#include <span>

#include "intq/kernels/conv/conv_rows.hpp"
#include "intq/kernels/packing/pack_float.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// The float kernels of one backend, and the packing that they read.
struct FloatTable {
    const char* backend = "";
    FloatPacking packing{};
    std::span<const ConvRow> conv{};
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

template <class Backend>
inline constexpr FloatTable float_table{Backend::name, float_packing<Backend>(), detail::float_conv_rows<Backend>};

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_TABLE_FLOAT_TABLE_HPP
