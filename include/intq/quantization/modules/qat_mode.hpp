// SPDX-License-Identifier: MIT
//
// QATMode: what becomes of batch norm in quantization-aware training. Layer: quantization (WORKFLOW section 4).
#ifndef INTQ_QUANTIZATION_MODULES_QAT_MODE_HPP
#define INTQ_QUANTIZATION_MODULES_QAT_MODE_HPP

#include <atomic>

#include "intq/io/error.hpp"
#include "intq/quantization/modules/fold_batch_norm.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// How a layer with weights w and the batch norm behind it are trained, with k = gamma / sqrt(running_var + eps):
///
///     fuse_bn               y = conv(x, FQ(w'), b')               w', b' folded once, before the training
///     with_bn               y = bn(conv(x, FQ(w), b))             deployed: codes of FQ(w)·k, scales times |k|
///     with_bn_reverse_fold  y = bn(conv(x, FQ(w·k) / k, b))       deployed: codes of FQ(w·k)
///
/// With reverse folding the weight's grid is that of the folded weight, so that folding in the middle of a training
/// (fold_batch_norms()) changes nothing; a channel with k = 0 uses w itself. The batch norm of both stays a child "bn"
/// of the layer and learns; conversion folds its running statistics.
///
/// Source   the names are Horizon's; with_bn_reverse_fold is PyTorch's QAT ConvBn2d, torch-semantics 3.10
enum class QATMode : std::uint8_t { fuse_bn, with_bn, with_bn_reverse_fold };

constexpr const char* name_of(QATMode mode) noexcept {
    return mode == QATMode::fuse_bn ? "fuse_bn" : mode == QATMode::with_bn ? "with_bn" : "with_bn_reverse_fold";
}

namespace detail {

inline std::atomic<QATMode> current_qat_mode{QATMode::fuse_bn};

}  // namespace detail

/// The mode of prepare where PrepareOptions name none; fuse_bn unless set. Calibration keeps batch norms too, so that
/// the training that follows finds the quantizers it needs.
inline void set_qat_mode(QATMode mode) { detail::current_qat_mode = mode; }
inline QATMode get_qat_mode() { return detail::current_qat_mode; }

/// The same by name.
inline void set_qat_mode(const std::string& name) {
    for (const QATMode mode : {QATMode::fuse_bn, QATMode::with_bn, QATMode::with_bn_reverse_fold})
        if (name == name_of(mode)) return set_qat_mode(mode);
    throw Error("the QAT modes are fuse_bn, with_bn and with_bn_reverse_fold; given \"" + name + "\"");
}

/// All batch norms of a model, also those inside fused layers, use and keep the running statistics from now on,
/// whatever train() says; gamma and beta go on learning.
inline void freeze_bn_stats(nn::Module& model) {
    for (const auto& module : model.named_modules())
        if (auto* norm = dynamic_cast<nn::BatchNorm*>(module.value)) norm->freeze_statistics();
}
/// Undoes it.
inline void update_bn_stats(nn::Module& model) {
    for (const auto& module : model.named_modules())
        if (auto* norm = dynamic_cast<nn::BatchNorm*>(module.value)) norm->freeze_statistics(false);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_QUANTIZATION_MODULES_QAT_MODE_HPP
