// SPDX-License-Identifier: MIT
//
// code_intervals: between which codes each channel of a program stays, whatever its inputs are. Layer: program
// (docs/constant_channels.md).
#ifndef INTQ_PROGRAM_INTERNAL_CODE_INTERVALS_HPP
#define INTQ_PROGRAM_INTERNAL_CODE_INTERVALS_HPP

#include <cstdint>
#include <vector>

#include "intq/kernels/packing/packed_conv2d.hpp"
#include "intq/kernels/table/rows.hpp"
#include "intq/runtime/program.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

/// Codes from `lowest` to `highest`, both among them.
struct CodeInterval {
    std::int32_t lowest = 0, highest = 0;

    bool is_constant() const noexcept { return lowest == highest; }
    friend bool operator==(const CodeInterval&, const CodeInterval&) = default;
};

/// The intervals of a tensor's channels; none for a tensor of other types than int8 and int16.
using ChannelIntervals = std::vector<CodeInterval>;

/// Channels of a tensor, as its memory counts them: element e of an image is of channel e mod channels. That is axis 1
/// of images (channels last) and of vectors, and the last axis of rows. 1 for tensors of other ranks and for planes.
index_t channels_of(const runtime::ProgramTensor& tensor);

/// For each tensor of a program, the interval of each of its channels:
///
///     layer       the requantized ends of  bias[o] + sum over w·(x - zp),  x between the ends of its channel, and the
///                 zero point where the window reaches into padding
///     other       the operator's own results for the ends of its operands, by its CodesFollow
///     input       its type's codes, or the bounds that were stated for it
///
/// @param table  its kernels run operators without weights; one that describes another machine's will do
///
/// Result   no run leaves an interval. Without padding and branches that meet again, each end is reached
/// Cost     two to four runs of the operators without weights, and O(weights)
std::vector<ChannelIntervals> code_intervals(const runtime::Program& program, const kernels::KernelTable& table);

/// What an operator with CodesFollow::ends, corners or each_code, of one operand, makes of each code of an interval:
/// results[i] is of code lowest + i.
std::vector<std::int32_t> results_of_codes(const runtime::Program& program, const kernels::KernelTable& table,
                                           const runtime::Instruction& instruction, CodeInterval codes);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(program)

#    include <algorithm>
#    include <cstddef>
#    include <cstring>
#    include <span>

#    include "intq/kernels/operators/conv.hpp"
#    include "intq/kernels/operators/operator_table.hpp"
#    include "intq/kernels/packing/read_packed.hpp"
#    include "intq/program/program_copy.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE index_t channels_of(const runtime::ProgramTensor& tensor) {
    const int rank = tensor.shape.rank;
    if (tensor.layout == Layout::channels_last) return rank >= 2 && rank <= 4 ? tensor.shape[1] : 1;
    return rank == 3 ? tensor.shape[2] : 1;
}

namespace detail {

INTQ_INLINE bool has_codes(const runtime::ProgramTensor& tensor) {
    return tensor.dtype == DType::int8 || tensor.dtype == DType::int16;
}

/// The codes of a tensor's type.
INTQ_INLINE CodeInterval codes_of_type(const runtime::ProgramTensor& tensor) {
    return {static_cast<std::int32_t>(lowest_code(tensor.dtype)),
            static_cast<std::int32_t>(highest_code(tensor.dtype))};
}
/// Those in the range of its grid.
INTQ_INLINE CodeInterval codes_of_range(const runtime::ProgramTensor& tensor) {
    return {static_cast<std::int32_t>(tensor.qparams.quant_min()),
            static_cast<std::int32_t>(tensor.qparams.quant_max())};
}

INTQ_INLINE void write_code(std::byte* data, DType dtype, index_t at, std::int32_t code) {
    if (dtype == DType::int8)
        reinterpret_cast<std::int8_t*>(data)[at] = static_cast<std::int8_t>(code);
    else
        reinterpret_cast<std::int16_t*>(data)[at] = static_cast<std::int16_t>(code);
}
INTQ_INLINE std::int32_t read_code(const std::byte* data, DType dtype, index_t at) {
    return dtype == DType::int8 ? std::int32_t{reinterpret_cast<const std::int8_t*>(data)[at]}
                                : std::int32_t{reinterpret_cast<const std::int16_t*>(data)[at]};
}

/// One operator of a program in an arena of its own, for one image.
class LoneOperator {
public:
    LoneOperator(const runtime::Program& program, const kernels::KernelTable& table,
                 const runtime::Instruction& instruction)
        : table_(table), instruction_(instruction) {
        const auto operands = program.operands_of(instruction);
        for (const std::int32_t operand : operands) add(program.tensor(operand));
        add(program.tensor(instruction.output));
    }
    /// The same of an operator of one operand, for vectors of `count` codes.
    LoneOperator(const runtime::Program& program, const kernels::KernelTable& table,
                 const runtime::Instruction& instruction, index_t count)
        : LoneOperator(program, table, instruction) {
        end_ = 0;
        for (runtime::ProgramTensor& tensor : tensors_) {
            tensor.shape = Shape(1, count);
            tensor.layout = Layout::channels_last;
            place(tensor);
        }
    }

    std::size_t operands() const noexcept { return tensors_.size() - 1; }
    const runtime::ProgramTensor& tensor(std::size_t i) const { return tensors_[i]; }
    const runtime::ProgramTensor& output() const { return tensors_.back(); }
    std::byte* data(const runtime::ProgramTensor& tensor) { return arena().data() + tensor.offset; }

    void run() {
        std::vector<std::int32_t> operands;
        for (std::size_t i = 0; i < this->operands(); ++i) operands.push_back(static_cast<std::int32_t>(i));
        const kernels::ProgramOperator& row = *kernels::find_operator(instruction_.op);
        kernels::OperatorCall call{table_,
                                   instruction_.op,
                                   tensors_,
                                   operands,
                                   static_cast<std::int32_t>(operands.size()),
                                   instruction_.params.data,
                                   1,
                                   arena().data(),
                                   {},
                                   &serial};
        AlignedBytes scratch(row.workspace_size != nullptr ? row.workspace_size(call) : 0);
        call.workspace = scratch.workspace();
        row.run(call);
    }

private:
    void add(runtime::ProgramTensor tensor) {
        place(tensor);
        tensors_.push_back(tensor);
    }
    void place(runtime::ProgramTensor& tensor) {
        tensor.shape[0] = 1;
        tensor.offset = end_;
        end_ = round_up(end_ + tensor.bytes(), buffer_alignment);
    }
    AlignedBytes& arena() {
        if (arena_.size() < end_) arena_ = AlignedBytes(end_);
        return arena_;
    }

    const kernels::KernelTable& table_;
    const runtime::Instruction& instruction_;
    std::vector<runtime::ProgramTensor> tensors_;  // operands, then the output
    index_t end_ = 0;
    AlignedBytes arena_;
};

/// Computes the intervals of one tensor after the other.
class IntervalPass {
public:
    IntervalPass(const runtime::Program& program, const kernels::KernelTable& table)
        : program_(program), table_(table), intervals_(program.tensors.size()) {}

    std::vector<ChannelIntervals> run() {
        for (const std::int32_t input : program_.inputs) {
            const runtime::ProgramTensor& tensor = program_.tensor(input);
            set_all(input, tensor.has_stated_bounds ? codes_of_range(tensor) : codes_of_type(tensor));
        }
        for (const runtime::Instruction& instruction : program_.instructions) visit(instruction);
        return std::move(intervals_);
    }

private:
    ChannelIntervals& of(std::int32_t tensor) { return intervals_[static_cast<std::size_t>(tensor)]; }
    void set_all(std::int32_t tensor, CodeInterval interval) {
        if (!has_codes(program_.tensor(tensor))) return;
        of(tensor).assign(static_cast<std::size_t>(channels_of(program_.tensor(tensor))), interval);
    }

    void visit(const runtime::Instruction& instruction) {
        const runtime::ProgramTensor& y = program_.tensor(instruction.output);
        if (!has_codes(y)) return;
        const auto operands = program_.operands_of(instruction);
        const bool reads_codes = std::all_of(operands.begin(), operands.end(),
                                             [&](std::int32_t operand) { return has_codes(program_.tensor(operand)); });
        const kernels::CodesFollow follow =
            reads_codes ? kernels::find_operator(instruction.op)->codes : kernels::CodesFollow::range;
        switch (follow) {
            case kernels::CodesFollow::weighted_sum:
                return visit_layer(instruction);
            case kernels::CodesFollow::ends:
                return visit_ends(instruction);
            case kernels::CodesFollow::corners:
                return visit_corners(instruction);
            case kernels::CodesFollow::each_code:
                return visit_each_code(instruction);
            case kernels::CodesFollow::range:
                break;
        }
        set_all(instruction.output, instruction.op == OpKind::quantize ? codes_of_range(y) : codes_of_type(y));
    }

    /// Runs the operator with each channel of operand i at the lowest code of its interval, or at the highest where bit
    /// i is set, and widens the output's intervals by the results.
    void run_at(LoneOperator& lone, const runtime::Instruction& instruction, std::uint32_t highest) {
        const auto operands = program_.operands_of(instruction);
        for (std::size_t i = 0; i < operands.size(); ++i) {
            const runtime::ProgramTensor& x = lone.tensor(i);
            const ChannelIntervals& given = of(operands[i]);
            std::byte* const to = lone.data(x);
            const auto channels = static_cast<index_t>(given.size());
            for (index_t e = 0; e < x.elements_per_image(); ++e) {
                const CodeInterval& interval = given[static_cast<std::size_t>(e % channels)];
                write_code(to, x.dtype, e, (highest >> i & 1) != 0 ? interval.highest : interval.lowest);
            }
        }
        lone.run();
        const runtime::ProgramTensor& y = lone.output();
        ChannelIntervals& result = of(instruction.output);
        const bool is_first = result.empty();
        if (is_first) result.assign(static_cast<std::size_t>(channels_of(y)), {INT32_MAX, INT32_MIN});
        for (index_t e = 0; e < y.elements_per_image(); ++e) {
            CodeInterval& interval = result[static_cast<std::size_t>(e % channels_of(y))];
            const std::int32_t code = read_code(lone.data(y), y.dtype, e);
            interval.lowest = (std::min)(interval.lowest, code);
            interval.highest = (std::max)(interval.highest, code);
        }
    }
    void visit_ends(const runtime::Instruction& instruction) {
        LoneOperator lone(program_, table_, instruction);
        run_at(lone, instruction, 0);
        run_at(lone, instruction, ~std::uint32_t{0});
    }
    /// @pre  at most two operands
    void visit_corners(const runtime::Instruction& instruction) {
        LoneOperator lone(program_, table_, instruction);
        for (std::uint32_t corner = 0; corner < std::uint32_t{1} << lone.operands(); ++corner)
            run_at(lone, instruction, corner);
    }
    void visit_each_code(const runtime::Instruction& instruction) {
        const std::int32_t operand = program_.operands_of(instruction)[0];
        const CodeInterval whole = codes_of_type(program_.tensor(operand));
        const std::vector<std::int32_t> results = results_of_codes(program_, table_, instruction, whole);
        for (const CodeInterval& x : of(operand)) {
            const auto first = results.begin() + (x.lowest - whole.lowest);
            const auto [low, high] = std::minmax_element(first, first + (x.highest - x.lowest + 1));
            of(instruction.output).push_back({*low, *high});
        }
    }

    void visit_layer(const runtime::Instruction& instruction) {
        const auto& packed = instruction.params_as<kernels::ConvParams>().packed;
        const auto operands = program_.operands_of(instruction);
        const ChannelIntervals& x = of(operands[0]);
        const CodeInterval codes{packed.codes.lowest, packed.codes.highest};
        set_all(instruction.output, codes);
        // A linear layer of images in another order than its channels knows only what all of them have in common.
        if (static_cast<index_t>(x.size()) != packed.in_channels ||
            static_cast<index_t>(of(instruction.output).size()) != packed.out_channels)
            return;
        for (index_t channel = 0; channel < packed.out_channels; ++channel) {
            const auto at = static_cast<std::size_t>(channel);
            const CodeInterval sumin = packed.has_sumin ? of(operands[1]).at(at) : CodeInterval{};
            of(instruction.output).at(at) = interval_of_channel(packed, channel, x, sumin);
        }
    }
    static CodeInterval interval_of_channel(const kernels::PackedConv2d& packed, index_t channel,
                                            const ChannelIntervals& x, CodeInterval sumin) {
        const bool reaches_padding = kernels::reaches_padding(packed);
        const index_t first = channel / packed.group_outputs() * packed.group_inputs();
        const std::int64_t bias = kernels::bias_of(packed, channel);
        std::int64_t low = bias, high = bias;
        for (index_t k = 0; k < packed.group_inputs(); ++k) {
            const CodeInterval& codes = x[static_cast<std::size_t>(first + k)];
            std::int64_t lowest = codes.lowest - packed.input_zero_point,
                         highest = codes.highest - packed.input_zero_point;
            if (reaches_padding) {
                lowest = (std::min)(lowest, std::int64_t{0});
                highest = (std::max)(highest, std::int64_t{0});
            }
            for (index_t tap = 0; tap < packed.taps(); ++tap) {
                const std::int64_t weight = kernels::weight_at(packed, channel, k, tap);
                low += weight * (weight > 0 ? lowest : highest);
                high += weight * (weight > 0 ? highest : lowest);
            }
        }
        // Codes outside the range that a layer was proven for may leave its accumulator.
        if (packed.accumulator_bits == 32 && (low < INT32_MIN || high > INT32_MAX))
            return {packed.codes.lowest, packed.codes.highest};
        return {kernels::code_of_sum(packed, channel, low, sumin.lowest),
                kernels::code_of_sum(packed, channel, high, sumin.highest)};
    }

    const runtime::Program& program_;
    const kernels::KernelTable& table_;
    std::vector<ChannelIntervals> intervals_;
};

}  // namespace detail

INTQ_INLINE std::vector<ChannelIntervals> code_intervals(const runtime::Program& program,
                                                         const kernels::KernelTable& table) {
    return detail::IntervalPass(program, table).run();
}

INTQ_INLINE std::vector<std::int32_t> results_of_codes(const runtime::Program& program,
                                                       const kernels::KernelTable& table,
                                                       const runtime::Instruction& instruction, CodeInterval codes) {
    const index_t count = index_t{codes.highest} - codes.lowest + 1;
    detail::LoneOperator lone(program, table, instruction, count);
    const runtime::ProgramTensor &x = lone.tensor(0), &y = lone.output();
    for (index_t i = 0; i < count; ++i)
        detail::write_code(lone.data(x), x.dtype, i, codes.lowest + static_cast<std::int32_t>(i));
    lone.run();
    std::vector<std::int32_t> results;
    for (index_t i = 0; i < count; ++i) results.push_back(detail::read_code(lone.data(y), y.dtype, i));
    return results;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

#endif  // INTQ_DEFINES(program)
#endif  // INTQ_PROGRAM_INTERNAL_CODE_INTERVALS_HPP
