// SPDX-License-Identifier: MIT
#include "instruction_times.hpp"

#include <fmt/format.h>

#include <numeric>

#include "intq/io/text_table.hpp"
#include "support/clock.hpp"

namespace intq_bench {

namespace {

using intq::OpKind;
using intq::io::Align;
using intq::io::TextTable;

/// The samples of a hook that is called at the end of each instruction.
struct Samples {
    std::vector<std::vector<double>> seconds;
    double last = 0.0;

    static void take(void* context, const intq::runtime::Program&, intq::index_t instruction, const void*,
                     intq::index_t) {
        auto& self = *static_cast<Samples*>(context);
        const double end = now();
        self.seconds[static_cast<std::size_t>(instruction)].push_back(end - self.last);
        self.last = now();
    }
};

bool has_weights(const intq::runtime::Instruction& instruction) {
    return instruction.op == OpKind::conv2d || instruction.op == OpKind::linear;
}

/// Quantizing and moving, without arithmetic between codes.
bool is_memory(OpKind op) {
    switch (op) {
        case OpKind::quantize:
        case OpKind::quantize_image:
        case OpKind::dequantize:
        case OpKind::requantize:
        case OpKind::cat:
        case OpKind::flatten:
        case OpKind::layout_change:
        case OpKind::pad:
        case OpKind::slice:
        case OpKind::permute:
        case OpKind::reshape:
            return true;
        default:
            return false;
    }
}

}  // namespace

InstructionTimes measure_instructions(const LoweredNetwork& network, const intq::Executor& executor,
                                      const PeakLoop* peak, int runs) {
    Samples samples;
    samples.seconds.resize(network.program().instructions.size());
    std::vector<double> behind, rates;
    for (int run = 0; run < runs; ++run) {
        if (peak != nullptr) rates.push_back(rate_now(*peak));
        samples.last = now();
        network.run(executor, {&Samples::take, &samples});
        behind.push_back(now() - samples.last);
    }
    InstructionTimes times;
    for (const std::vector<double>& seconds : samples.seconds) times.seconds.push_back(median(seconds));
    times.behind = median(behind);
    if (peak != nullptr) times.peak_rate = median(rates);
    return times;
}

void print_instructions(const LoweredNetwork& network, const InstructionTimes& one, const InstructionTimes* two) {
    std::vector<TextTable::Column> columns{
        {"instruction"}, {"operator"}, {"us", Align::right}, {"GOP/s", Align::right}};
    if (two != nullptr) columns.push_back({"two threads", Align::right});
    TextTable table(columns);
    for (std::size_t i = 0; i < one.seconds.size(); ++i) {
        const intq::runtime::Instruction& instruction = network.program().instructions[i];
        const double seconds = one.seconds[i];
        std::string rate = "-";
        if (has_weights(instruction))
            rate = fmt::format("{:.0f}", shape_of(network.program(), instruction).operations() / seconds * 1e-9);
        std::vector<std::string> cells{instruction.name, name_of(instruction.op), fmt::format("{:.1f}", seconds * 1e6),
                                       rate};
        if (two != nullptr) cells.push_back(fmt::format("{:.2f} x", seconds / two->seconds[i]));
        table.add_row(cells);
    }
    fmt::print("{}\n", table.str(intq::io::TableStyle::simple));
}

TimeSplit split_of(const LoweredNetwork& network, const InstructionTimes& times) {
    TimeSplit split;
    split.rest = times.behind;
    for (std::size_t i = 0; i < times.seconds.size(); ++i) {
        const intq::runtime::Instruction& instruction = network.program().instructions[i];
        const double seconds = times.seconds[i];
        if (!has_weights(instruction)) {
            (is_memory(instruction.op) ? split.memory : split.rest) += seconds;
        } else if (const LayerShape shape = shape_of(network.program(), instruction); shape.is_depthwise()) {
            split.depthwise += seconds;
        } else {
            split.dots += shape.operations() / times.peak_rate;
            split.around += seconds - shape.operations() / times.peak_rate;
        }
    }
    const double all = std::accumulate(times.seconds.begin(), times.seconds.end(), times.behind);
    for (double* const part : {&split.dots, &split.around, &split.depthwise, &split.memory, &split.rest}) *part /= all;
    return split;
}

void print_splits(const std::vector<NamedSplit>& splits) {
    if (splits.empty()) return;
    fmt::print(
        "Shares of one run on one thread, in %. Layers: convolutions and linear layers that are not depthwise.\n"
        "dots       operations of the layers / peak of the dot product, measured just before each run\n"
        "around     the remaining time of the layers: loads, epilogues, stores, their start\n"
        "depthwise  time of the depthwise layers\n"
        "memory     time of quantize, dequantize and what only moves codes\n"
        "rest       time of all other instructions (pools) and of the return\n\n");
    TextTable table({{"network"},
                     {"dots", Align::right},
                     {"around", Align::right},
                     {"depthwise", Align::right},
                     {"memory", Align::right},
                     {"rest", Align::right}});
    for (const auto& [network, split] : splits) {
        std::vector<std::string> cells{network};
        for (const double part : {split.dots, split.around, split.depthwise, split.memory, split.rest})
            cells.push_back(fmt::format("{:.1f}", part * 100.0));
        table.add_row(cells);
    }
    fmt::print("{}\n", table.str(intq::io::TableStyle::simple));
}

}  // namespace intq_bench
