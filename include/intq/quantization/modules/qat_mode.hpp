// SPDX-License-Identifier: MIT
//
// QATMode: the treatment of batch norm in quantization-aware training. Layer: quantization
// (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_MODULES_QAT_MODE_HPP
#define INTQ_QUANTIZATION_MODULES_QAT_MODE_HPP

#include <cstdint>
#include <string>

#include "intq/nn/model/module.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// How a layer with weights w and the batch norm behind it are trained, with k = gamma / sqrt(running_var + eps):
///
///     fuse_bn               y = conv(x, FQ(w'), b')               w', b' folded once, before the training
///     with_bn               y = bn(conv(x, FQ(w), b))             deployed: codes of FQ(w)·k, scales times |k|
///     with_bn_reverse_fold  y = bn(conv(x, FQ(w·k) / k, b))       deployed: codes of FQ(w·k)
///
/// With reverse folding the weight has the folded weight's grid, so folding during training (fold_batch_norms())
/// changes nothing; a channel with k = 0 uses w itself. The batch norm of both stays a child "bn" of the layer and
/// learns; conversion folds its running statistics.
///
/// A batch norm that no layer takes is frozen by fuse_bn, as the depthwise convolution of its running statistics. The
/// other two modes train it as a batch norm; in evaluation, and when deployed, that convolution runs with its weight
/// rounded (BatchNormConv2d).
///
/// Source   the names are Horizon's; with_bn_reverse_fold is PyTorch's QAT ConvBn2d, docs/torch_semantics.md section 5
enum class QATMode : std::uint8_t { fuse_bn, with_bn, with_bn_reverse_fold };

constexpr const char* name_of(QATMode mode) noexcept {
    return mode == QATMode::fuse_bn ? "fuse_bn" : mode == QATMode::with_bn ? "with_bn" : "with_bn_reverse_fold";
}

/// The treatment by a mode of a batch norm that no layer takes, for reports.
constexpr const char* treatment_of_norm(QATMode mode) noexcept {
    return mode == QATMode::fuse_bn
               ? "no layer takes it: its statistics are frozen, and it is a depthwise convolution in training too"
               : "no layer takes it: it is trained on batch statistics, and a depthwise convolution in evaluation";
}

/// The default mode of prepare's options; fuse_bn unless set. Calibration keeps batch norms too, so that the training
/// that follows finds the quantizers it needs.
void set_qat_mode(QATMode mode);
QATMode get_qat_mode();

/// The same by name.
void set_qat_mode(const std::string& name);

/// All batch norms of a model, also those inside fused layers, use and keep the running statistics from now on,
/// whatever train() says; gamma and beta go on learning.
void freeze_bn_stats(nn::Module& model);
/// Undoes it.
void update_bn_stats(nn::Module& model);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_modules)

#    include <atomic>

#    include "intq/io/error.hpp"
#    include "intq/nn/layers/norm.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE std::atomic<QATMode>& current_qat_mode() {
    static std::atomic<QATMode> mode{QATMode::fuse_bn};
    return mode;
}

}  // namespace detail

INTQ_INLINE void set_qat_mode(QATMode mode) { detail::current_qat_mode() = mode; }

INTQ_INLINE QATMode get_qat_mode() { return detail::current_qat_mode(); }

INTQ_INLINE void set_qat_mode(const std::string& name) {
    for (const QATMode mode : {QATMode::fuse_bn, QATMode::with_bn, QATMode::with_bn_reverse_fold})
        if (name == name_of(mode)) return set_qat_mode(mode);
    throw Error("the QAT modes are fuse_bn, with_bn and with_bn_reverse_fold; given \"" + name + "\"");
}

INTQ_INLINE void freeze_bn_stats(nn::Module& model) {
    nn::for_each_module(model, [](const std::string&, nn::Module& module) {
        if (auto* norm = dynamic_cast<nn::BatchNorm*>(&module)) norm->freeze_statistics();
    });
}

INTQ_INLINE void update_bn_stats(nn::Module& model) {
    nn::for_each_module(model, [](const std::string&, nn::Module& module) {
        if (auto* norm = dynamic_cast<nn::BatchNorm*>(&module)) norm->freeze_statistics(false);
    });
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_modules)
#endif  // INTQ_QUANTIZATION_MODULES_QAT_MODE_HPP
