// SPDX-License-Identifier: MIT
//
// The table of gradients: one row per operator. Layer: training.
#ifndef INTQ_TRAINING_GRADIENTS_HPP
#define INTQ_TRAINING_GRADIENTS_HPP

#include <span>
#include <vector>

#include "intq/core/op_params.hpp"
#include "intq/nn/layers/conv.hpp"
#include "intq/nn/layers/linear.hpp"
#include "intq/nn/layers/move.hpp"
#include "intq/training/gradients/context.hpp"
#include "intq/training/gradients/internal/conv.hpp"
#include "intq/training/gradients/internal/elementwise.hpp"
#include "intq/training/gradients/internal/lstm.hpp"
#include "intq/training/gradients/internal/move.hpp"
#include "intq/training/gradients/internal/norm.hpp"
#include "intq/training/gradients/internal/pool.hpp"
#include "intq/training/gradients/internal/quantize.hpp"
#include "intq/training/gradients/internal/reduce.hpp"
#include "intq/training/gradients/internal/softmax.hpp"
#include "intq/training/gradients/internal/unary.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

/// The gradients of the operators of a graph, by the names of graph::operator_of.
///
/// @tparam T  float or double: the dtype of all tensors, and of the parameters of the modules
///
/// Result   convolution, linear, matmul and lstm: products as in the forward pass; the others in T, sums in double
template <class T>
inline constexpr GradientRow gradient_rows[] = {
    {"conv2d", &detail::conv2d_backward<T>, &is_a<nn::Conv2d>},
    {"conv1d", &detail::conv1d_backward<T>, &is_a<nn::Conv1d>},
    {"conv3d", &detail::conv3d_backward<T>, &is_a<nn::Conv3d>},
    {"conv_transpose1d", &detail::conv_transpose1d_backward<T>, &is_a<nn::ConvTranspose1d>},
    {"conv_transpose2d", &detail::conv_transpose2d_backward<T>, &is_a<nn::ConvTranspose2d>},
    {"conv_transpose3d", &detail::conv_transpose3d_backward<T>, &is_a<nn::ConvTranspose3d>},
    {"linear", &detail::linear_backward<T>, &is_a<nn::Linear>},
    {"functional_linear", &detail::functional_linear_backward<T>},
    {"matmul", &detail::matmul_backward<T>},
    {"lstm", &detail::lstm_backward<T>},
    {"embedding", &detail::embedding_backward<T>},
    {"functional_embedding", &detail::functional_embedding_backward<T>},
    {"index_copy", &detail::index_copy_backward<T>},
    {"batch_norm1d", &detail::batch_norm_backward<T>},
    {"batch_norm2d", &detail::batch_norm_backward<T>},
    {"batch_norm3d", &detail::batch_norm_backward<T>},
    {"BNReLU1d", &detail::batch_norm_backward<T>},
    {"BNReLU61d", &detail::batch_norm_backward<T>},
    {"BNReLU2d", &detail::batch_norm_backward<T>},
    {"BNReLU62d", &detail::batch_norm_backward<T>},
    {"BNReLU3d", &detail::batch_norm_backward<T>},
    {"BNReLU63d", &detail::batch_norm_backward<T>},
    {"layer_norm", &detail::run_norm_backward<T>},
    {"rms_norm", &detail::run_norm_backward<T>},
    {"group_norm", &detail::run_norm_backward<T>},
    {"instance_norm", &detail::run_norm_backward<T>},
    {"softmax", &detail::softmax_backward<T>},
    {"log_softmax", &detail::log_softmax_backward<T>},
    {"max_pool2d", &detail::max_pool2d_backward<T>},
    {"avg_pool2d", &detail::avg_pool2d_backward<T>},
    {"adaptive_avg_pool2d", &detail::adaptive_avg_pool2d_backward<T>},
    {"interpolate", &detail::interpolate_backward<T>},
    {"sum", &detail::reduce_backward<T, false>},
    {"mean", &detail::reduce_backward<T, true>},
    {"flatten", &detail::reshape_backward},
    {"reshape", &detail::reshape_backward},
    {"permute", &detail::moved_backward<T, nn::permute_function>},
    {"transpose", &detail::moved_backward<T, nn::transpose_function>},
    {"slice", &detail::moved_backward<T, nn::slice_function>},
    {"expand", &detail::moved_backward<T, nn::expand_function>},
    {"split", &detail::moved_backward<T, nn::split_function>},
    {"chunk", &detail::moved_backward<T, nn::chunk_function>},
    {"getitem", &detail::getitem_backward<T>},
    {"pad", &detail::pad_backward<T>},
    {"cat", &detail::cat_backward<T>},
    {"add", &detail::add_backward<T>},
    {"add_relu", &detail::add_relu_backward<T>},
    {"sub", &detail::sub_backward<T>},
    {"maximum", &detail::extreme_backward<T, true>},
    {"minimum", &detail::extreme_backward<T, false>},
    {"mul", &detail::mul_backward<T>},
    {"relu", &detail::relu_backward<T>},
    {"relu6", &detail::relu6_backward<T>},
    {"clamp", &detail::clamp_backward<T>},
    {"masked_fill", &detail::masked_fill_backward<T>},
    {"causal_fill", &detail::causal_fill_backward<T>},
    detail::unary_gradient<T, TableFunction::sigmoid>,
    detail::unary_gradient<T, TableFunction::tanh>,
    detail::unary_gradient<T, TableFunction::hard_sigmoid>,
    detail::unary_gradient<T, TableFunction::hard_swish>,
    detail::unary_gradient<T, TableFunction::hard_tanh>,
    detail::unary_gradient<T, TableFunction::leaky_relu>,
    detail::unary_gradient<T, TableFunction::elu>,
    detail::unary_gradient<T, TableFunction::silu>,
    detail::unary_gradient<T, TableFunction::softplus>,
    detail::unary_gradient<T, TableFunction::mish>,
    detail::unary_gradient<T, TableFunction::selu>,
    detail::unary_gradient<T, TableFunction::celu>,
    detail::unary_gradient<T, TableFunction::softsign>,
    detail::unary_gradient<T, TableFunction::tanhshrink>,
    detail::unary_gradient<T, TableFunction::abs>,
    detail::unary_gradient<T, TableFunction::neg>,
    detail::unary_gradient<T, TableFunction::square>,
    detail::unary_gradient<T, TableFunction::gelu_erf>,  // of both kinds, which share their name
    detail::unary_gradient<T, TableFunction::exp>,
    detail::unary_gradient<T, TableFunction::erf>,
    detail::unary_gradient<T, TableFunction::log>,
    detail::unary_gradient<T, TableFunction::sqrt>,
    detail::unary_gradient<T, TableFunction::rsqrt>,
    detail::unary_gradient<T, TableFunction::reciprocal>,
    {"argmax", &detail::refuse_backward},
    {"size", &detail::no_backward},
    {"floordiv", &detail::no_backward},
    {"identity", &detail::identity_backward},
    {"dropout", &detail::dropout_backward<T>},
    {"quant_stub", &detail::identity_backward},
    {"dequant_stub", &detail::identity_backward},
};

/// The gradients of the quantizers of a prepared model, whose arithmetic is defined in binary32.
inline constexpr GradientRow quantizer_gradient_rows[] = {
    {"FakeQuantize", &detail::fake_quantize_backward},
    {"CalibFakeQuantize", &detail::identity_backward},
    {"FollowingFakeQuantize", &detail::fake_quantize_backward},
    {"InputGridFakeQuantize", &detail::fake_quantize_backward},
    {"GridChoiceFakeQuantize", &detail::grid_choice_backward},
    {"LSQFakeQuantize", &detail::lsq_backward},
    {"PACTFakeQuantize", &detail::pact_backward},
};

/// Both tables in one, for float32; the caller's rows come last and win.
/// @throws Error  for a row without a function
std::vector<GradientRow> all_gradient_rows(std::span<const GradientRow> more = {});

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(training)

#    include <iterator>
#    include <string>

#    include "intq/io/error.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::vector<GradientRow> all_gradient_rows(std::span<const GradientRow> more) {
    std::vector<GradientRow> rows(std::begin(gradient_rows<float>), std::end(gradient_rows<float>));
    rows.insert(rows.end(), std::begin(quantizer_gradient_rows), std::end(quantizer_gradient_rows));
    for (const GradientRow& row : more) {
        if (row.backward == nullptr)
            throw Error("the gradient row of \"" + std::string(row.op) + "\" has no function `backward`");
        rows.push_back(row);
    }
    return rows;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

#endif  // INTQ_DEFINES(training)
#endif  // INTQ_TRAINING_GRADIENTS_HPP
