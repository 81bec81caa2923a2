// SPDX-License-Identifier: MIT
//
// Runs a generated header under the plugin of count_instructions.c: whole, and then with a mark behind each layer, or
// behind those that run row by row together.
// Compiled with
//
//     -DINTQ_MODEL=<name> -DINTQ_MODEL_HEADER="<name>.hpp"
//
// The marks: before and behind the run of one image, before the first layer, and behind each. It prints the checksum of
// the output of each run.
#include <cstdint>
#include <cstdio>

#include INTQ_MODEL_HEADER
#include "deploy/pattern.hpp"

/// One instruction, which the plugin knows by its name. As the hook of a run it costs a layer about six more.
extern "C" [[gnu::noinline]] void intq_mark(void*, std::size_t) noexcept { asm volatile(""); }

namespace {

/// Not a constant, for which a compiler makes a copy of the function under another name.
void (*volatile mark)(void*, std::size_t) noexcept = &intq_mark;

using namespace intq;
namespace model = INTQ_MODEL;

constexpr const runtime::ProgramTensor& input = model::data::tensors[model::data::inputs[0]];
constexpr const runtime::ProgramTensor& output = model::data::tensors[model::data::outputs[0]];
float x[static_cast<std::size_t>(input.shape.size())];
float y[static_cast<std::size_t>(output.shape.size())];

void run_group(void*, const runtime::RowGroup& group, const runtime::GroupStep* steps) {
    const void* const given[] = {x};
    runtime::generated::detail::run_group_steps(model::program, group, model::arena, given, steps);
    mark(nullptr, 0);
}

void print_checksum(const void* bytes) {
    std::printf("output %08x\n", static_cast<unsigned>(crc32({static_cast<const std::byte*>(bytes), sizeof y})));
}

}  // namespace

int main() {
    test::fill_pattern(x, input.shape.size());
    mark(nullptr, 0);
    model::run(x, y);
    mark(nullptr, 0);
    print_checksum(y);
    const void* const given[] = {x};
    static_assert(input.is_given());
    mark(nullptr, 0);
    model::data::run_all(given, {mark, nullptr, model::program.groups.empty() ? nullptr : run_group});
    print_checksum(model::arena + output.offset);
    return 0;
}
