// SPDX-License-Identifier: MIT
//
// kernel_table: the kernels of one target and backend. Layer: kernels (docs/design.md section 5).
//
// Rows name what a kernel is keyed on: requantize policy, types, fused add. Each family defines its rows beside its
// kernels; here they are gathered. Code that chooses an operator at run time (a program, the tests, the benches) reads
// rows; a kernel that has no row does not exist.
#ifndef INTQ_KERNELS_TABLE_KERNEL_TABLE_HPP
#define INTQ_KERNELS_TABLE_KERNEL_TABLE_HPP

#include "intq/arith/bpu.hpp"
#include "intq/arith/fp32.hpp"
#include "intq/arith/litert.hpp"
#include "intq/arith/tflite.hpp"
#include "intq/kernels/conv/conv_rows.hpp"
#include "intq/kernels/conv/stage.hpp"
#include "intq/kernels/matmul/matmul.hpp"
#include "intq/kernels/streaming/dequantize.hpp"
#include "intq/kernels/streaming/elementwise.hpp"
#include "intq/kernels/streaming/embedding.hpp"
#include "intq/kernels/streaming/layer_norm.hpp"
#include "intq/kernels/streaming/move.hpp"
#include "intq/kernels/streaming/quantize_nchw.hpp"
#include "intq/kernels/streaming/softmax.hpp"
#include "intq/kernels/streaming/unary.hpp"
#include "intq/kernels/table/rows.hpp"
#include "intq/kernels/window/pool.hpp"
#include "intq/kernels/window/pool_sums.hpp"
#include "intq/kernels/window/resize.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

/// All kernels of a target on a backend.
template <class TargetType, class Backend>
requires arith::Target<TargetType>
inline constexpr KernelTable kernel_table{Backend::name,
                                          packing_rules<TargetType, Backend>(),
                                          detail::conv_rows<TargetType, Backend>,
                                          detail::add_rows<TargetType, Backend>,
                                          detail::requantize_rows<TargetType, Backend>,
                                          detail::clamp_rows<Backend>,
                                          detail::pool_rows<TargetType, Backend>,
                                          detail::pool_sum_rows<TargetType, Backend>,
                                          detail::quantize_rows<TargetType, Backend>,
                                          detail::dequantize_rows<Backend>,
                                          detail::mul_rows<TargetType, Backend>,
                                          detail::look_up_rows<Backend>,
                                          detail::interpolate_rows<TargetType, Backend>,
                                          detail::softmax_rows<TargetType, Backend>,
                                          detail::move_rows<Backend>,
                                          detail::pad_rows<Backend>,
                                          detail::layer_norm_rows<TargetType, Backend>,
                                          detail::matmul_rows<TargetType, Backend>,
                                          detail::embedding_rows<Backend>,
                                          detail::log_softmax_rows<TargetType, Backend>,
                                          detail::index_copy_rows<Backend>,
                                          detail::argmax_rows<Backend>,
                                          &detail::stage_input<Backend>};

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_TABLE_KERNEL_TABLE_HPP
