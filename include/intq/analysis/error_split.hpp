// SPDX-License-Identifier: MIT
//
// error_split: the error of each operator in parts, one for each cause that quantization has. Layer: analysis
// (docs/debugging.md).
#ifndef INTQ_ANALYSIS_ERROR_SPLIT_HPP
#define INTQ_ANALYSIS_ERROR_SPLIT_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "intq/analysis/analysed_model.hpp"
#include "intq/analysis/call_inputs.hpp"
#include "intq/analysis/layer_pairs.hpp"
#include "intq/quantization/prepare/prepared_model.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

/// The causes of an operator's error, in the order in which they are switched on.
enum class ErrorPart : std::uint8_t { inherited, weight_rounding, input_clipping, input_rounding, requantization };
inline constexpr std::size_t error_part_count = 5;

/// "inherited", "weight_rounding", "input_clipping", "input_rounding", "requantization".
const char* name_of(ErrorPart part);

/// The parts of one operator's error in numbers. Each norm is the square root of the sum of squares over all elements.
struct OperatorErrorSplit {
    LayerPair pair{};
    std::string mod_name, op_type;                 // of the prepared model
    double signal = 0.0;                           // norm of what the baseline gives
    double total = 0.0;                            // norm of the error
    std::array<double, error_part_count> norms{};  // of the parts, whose sum is the error: they may cancel each other
    /// What each part has of the error: its inner product with the error, over the error's square. They add up to 1,
    /// and a part that makes the error smaller is below 0. 0 without an error.
    std::array<double, error_part_count> shares{};

    double norm(ErrorPart part) const { return norms[static_cast<std::size_t>(part)]; }
    double share(ErrorPart part) const { return shares[static_cast<std::size_t>(part)]; }
    /// The part with the largest share.
    ErrorPart largest() const;
};

/// The parts of one operator as tensors: float64, of the shape of its output. Of an operator with several outputs, that
/// of the first.
struct ErrorTensors {
    LayerPair pair{};
    std::array<Tensor, error_part_count> parts{};
    Tensor baseline{};  // what the baseline gives

    const Tensor& part(ErrorPart part) const { return parts[static_cast<std::size_t>(part)]; }
};

struct ErrorSplitOptions {
    /// Sees the tensors of each operator, which are dropped behind it.
    std::function<void(const ErrorTensors&)> visit{};
};

/// Splits the error of each operator of a prepared model on a case. With y(x, w) what the operator computes in real
/// numbers, x0 and w its input and weight in the baseline:
///
///     inherited         y(x1, w)  - baseline    x1: what arrives from the program's earlier operators, before it is
///                                               quantized for this one
///     weight rounding   y(x1, w~) - y(x1, w)    w~: the weight on its grid
///     input clipping    y(x2, w~) - y(x1, w~)   x2: x1 cut off at the ends of its grid
///     input rounding    y(x3, w~) - y(x2, w~)   x3: the codes that the program's operator reads
///     requantization    y~ - y(x3, w~)          y~: what the program's operator gives
///
/// Each part is the difference of two runs, and none is what is left over. The last one holds the operator's own output
/// quantizer; to its reader, the same rounding is that of an input. A QuantStub is its quantizer: it has parts of the
/// input alone.
///
/// @param baseline  a float model, or another one that corresponds
/// @param model     prepared and calibrated; it is as before when the call ends
/// @param table     kernels of the target that the model was prepared for
/// @throws Error as pair_layers() and ExactSimulation do
///
/// Memory   the codes of all operators of the model, and the outputs of the baseline that wait for their partners
/// Cost     two runs of the models, and four of each operator
std::vector<OperatorErrorSplit> split_error(const AnalysedModel& baseline, quantization::PreparedModel& model,
                                            const kernels::KernelTable& table, const CallInputs& inputs,
                                            const ErrorSplitOptions& options = {});

/// {"mod_name": …, "op_type": …, "signal": …, "total": …, "norms": {"inherited": …, …}, "shares": {…}}
std::string to_json(const OperatorErrorSplit& split);
/// A list of them.
std::string to_json(const std::vector<OperatorErrorSplit>& splits);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_ANALYSIS_ERROR_SPLIT_HPP
