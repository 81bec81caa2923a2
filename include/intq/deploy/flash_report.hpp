// SPDX-License-Identifier: MIT
//
// flash_report: the constants of a program by kind, as a board keeps them in flash. Layer: deploy.
#ifndef INTQ_DEPLOY_FLASH_REPORT_HPP
#define INTQ_DEPLOY_FLASH_REPORT_HPP

#include <string>
#include <vector>

#include "intq/kernels/table/rows.hpp"
#include "intq/runtime/program.hpp"

namespace intq::deploy {
inline namespace INTQ_HOSTED_ABI {

/// A layer whose function of int16 codes has knots in blocks: with 513 entries codes would be more than one off.
struct LargerTable {
    std::string layer;
    index_t bytes = 0;
};

/// Bytes of the constants of a program, of equal arrays once, as program files and generated headers hold them. Golden
/// runs are not among them.
struct FlashReport {
    index_t weights = 0;   // with the zeros that fill whole panels of the backend
    index_t channels = 0;  // bias, multipliers and shifts, and those of a fused add
    index_t padding = 0;   // for taps on padding: sums by tap and channel, and pixels of zero points
    index_t tables = 0;    // of codes, of a resize, and constant tensors
    /// The fields of the layers at 4 bytes, which a number and a pointer of a 32-bit board take, and the names: nearly
    /// what the structs of a generated header take there.
    index_t records = 0;
    std::vector<LargerTable> larger_tables{};  // which `tables` counts too, of equal ones one

    index_t total() const noexcept { return weights + channels + padding + tables + records; }
    /// A line for each kind that there is, the sum, and a line for each larger table.
    std::string to_text() const;
};

/// @param table  the kernels that the program is packed for
/// @pre  check_program() is ok
/// Cost  O(constants · log(arrays))
FlashReport flash_report(const runtime::Program& program, const kernels::KernelTable& table);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::deploy

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(deploy)

#    include <cstring>
#    include <set>
#    include <string_view>
#    include <utility>

#    include "intq/arith/block_table.hpp"
#    include "intq/io/error.hpp"
#    include "intq/kernels/operators/operator_table.hpp"
#    include "intq/runtime/program_file.hpp"

namespace intq::deploy {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Adds the fields of parameters to a report.
class FlashCounter {
public:
    void field(const kernels::ParamField& field) {
        constexpr index_t number = 4;  // of a 32-bit board, where a pointer has as many
        if (field.memory == nullptr) {
            report.records += field.count * (size_of(field.type) < number ? size_of(field.type) : number);
            return;
        }
        report.records += number;
        const index_t bytes = field.count * size_of(field.type);
        if (bytes == 0 || *field.memory == nullptr) return;
        const std::string_view data(static_cast<const char*>(*field.memory), static_cast<std::size_t>(bytes));
        if (seen_.insert(data).second) kind_of(field.name) += bytes;
    }

    FlashReport report{};

private:
    index_t& kind_of(std::string_view name) {
        if (name.ends_with("tap_bias") || name.ends_with("padding_row")) return report.padding;
        if (name.ends_with("weights")) return report.weights;
        if (name.ends_with("bias") || name.ends_with("words")) return report.channels;
        return report.tables;
    }

    std::set<std::string_view> seen_;
};

}  // namespace detail

INTQ_INLINE FlashReport flash_report(const runtime::Program& program, const kernels::KernelTable& table) {
    detail::FlashCounter counter;
    const auto put = [](void* self, const kernels::ParamField& field) {
        static_cast<detail::FlashCounter*>(self)->field(field);
    };
    const kernels::ParamContext context{&table.packing};
    for (const runtime::Instruction& instruction : program.instructions) {
        const kernels::ProgramOperator& row = *kernels::find_operator(instruction.op);
        for (index_t i = 0; i < runtime::param_structs(row, instruction.operand_count); ++i)
            throw_if_failed(
                row.params.visit(static_cast<const std::byte*>(instruction.params.data) + i * row.params.size, nullptr,
                                 context, {&counter, put, nullptr}),
                instruction.name);
        counter.report.records += static_cast<index_t>(std::strlen(instruction.name)) + 1;
        if (instruction.params.kind != kernels::ParamKind::look_up) continue;
        const index_t words = instruction.params_as<kernels::LookUpParams>().size;
        if (arith::is_block_table_size(words))
            counter.report.larger_tables.push_back({instruction.name, words * size_of(DType::int16)});
    }
    return counter.report;
}

INTQ_INLINE std::string FlashReport::to_text() const {
    std::string text;
    for (const auto& [kind, bytes] : {std::pair{"weights  ", weights},
                                      {"channels ", channels},
                                      {"padding  ", padding},
                                      {"tables   ", tables},
                                      {"records  ", records},
                                      {"flash    ", total()}})
        if (bytes > 0) text += std::string(kind) + std::to_string(bytes) + " bytes\n";
    for (const LargerTable& table : larger_tables)
        text +=
            "table of " + table.layer + ", larger to stay within a code: " + std::to_string(table.bytes) + " bytes\n";
    return text;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::deploy

#endif  // INTQ_DEFINES(deploy)

#endif  // INTQ_DEPLOY_FLASH_REPORT_HPP
