// SPDX-License-Identifier: MIT
//
// Firmware that measures a generated model (docs/to_a_microcontroller.md section 7): it tests itself, runs its first
// golden image some times, and prints the fewest cycles of each layer. Layers that run row by row share a line.
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "board.hpp"
#include "cycles.hpp"
#include "model.hpp"

namespace {

constexpr int runs = 3;
constexpr auto& instructions = model::data::instructions;
constexpr std::uint32_t never = 0xFFFFFFFF;

constexpr std::uint32_t fewest(std::uint32_t a, std::uint32_t b) { return a < b ? a : b; }

struct Measurement {
    struct Layer {
        std::uint32_t cycles = never;
        std::int32_t together = 0;  // instructions of the line; 0 where another line has them
    };

    board::CycleCounter counter;
    std::uint32_t reading = never, begin = 0;  // cycles that two readings are apart; the last reading
    Layer layers[std::size(instructions)];
    const void* given[std::size(model::data::inputs)] = {};

    Measurement() {
        for (int i = 0; i < 16; ++i) {
            begin = counter.now();
            reading = fewest(reading, counter.now() - begin);
        }
    }
    void run() {
        intq::runtime::StepHook hook{see, this};
        if constexpr (!model::program.groups.empty()) hook.run_group = run_rows;
        begin = counter.now();
        model::data::run_all(given, hook);
    }

private:
    void end(std::int32_t first, std::int32_t count) {
        const std::uint32_t spent = counter.now() - begin;
        Layer& layer = layers[first];
        layer = {fewest(layer.cycles, spent < reading ? 0 : spent - reading), count};
        begin = counter.now();
    }
    static void see(void* context, std::size_t instruction) {
        static_cast<Measurement*>(context)->end(static_cast<std::int32_t>(instruction), 1);
    }
    static void run_rows(void* context, const intq::runtime::RowGroup& group, const intq::runtime::GroupStep* steps) {
        auto& self = *static_cast<Measurement*>(context);
        intq::runtime::generated::detail::run_group_steps(model::program, group, model::arena, self.given, steps);
        self.end(group.first, group.count);
    }
};

/// A number to the right of ten columns.
void print_column(std::uint32_t number) {
    for (std::uint32_t least = 1000000000; least > number && least > 1; least /= 10) board::print(" ");
    board::print(number);
}

void print_table(const Measurement& measured) {
    board::print("counter: ");
    board::print(measured.counter.name());
    board::print("\n    cycles  layer\n");
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < std::size(instructions); ++i) {
        const Measurement::Layer& layer = measured.layers[i];
        if (layer.together == 0) continue;
        sum += layer.cycles;
        print_column(layer.cycles);
        board::print("  ");
        board::print(instructions[i].name);
        if (layer.together > 1) {
            board::print(" to ");
            board::print(instructions[i + static_cast<std::size_t>(layer.together) - 1].name);
            board::print(", row by row");
        }
        board::print("\n");
    }
    print_column(sum);
    board::print("  all\n");
}

}  // namespace

extern "C" void count_wrap() { board::systick_wraps = board::systick_wraps + 1; }

int main() {
    const auto result = model::self_test();
    if (!result) {
        board::print("self test failed: ");
        board::print(result.constants_are_whole ? result.layer : "constants");
        board::print("\n");
        return 1;
    }
    if (model::data::golden().count == 0) {
        board::print("the header has no golden image to run: write it with --data\n");
        return 1;
    }
    Measurement measured;
    intq::runtime::write_inputs(model::program, model::arena, model::data::golden().inputs, measured.given);
    for (int i = 0; i < runs; ++i) measured.run();
    board::print("self test passed\n");
    print_table(measured);
    return 0;
}
