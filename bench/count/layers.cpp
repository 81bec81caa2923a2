// SPDX-License-Identifier: MIT
//
// Runs layers of a file of shapes, and loops over codes, once each on one backend, with a mark before and behind each,
// under the plugin of count_instructions.c. Prints a line for each: its name, and its products or elements.
// Compiled with
//
//     -DINTQ_COUNTED=<tag of simd>
//
//     layers <file of shapes>
//
// bench/count/layers joins the lines and the counts.
#include <cstdio>
#include <string>

#include "layer_cases.hpp"

/// One instruction, which the plugin knows by its name.
extern "C" [[gnu::noinline]] void intq_mark() noexcept { asm volatile(""); }

namespace {

using Backend = intq::simd::INTQ_COUNTED;

void (*volatile mark)() noexcept = &intq_mark;

/// Layers beyond this take an emulator too long.
constexpr double most_products = 300e6;

template <class Run> void count(const char* name, double items, Run&& run) {
    run();  // tables and pages
    mark();
    run();
    mark();
    std::printf("%s %.0f\n", name, items);
}

template <class Of> void count_loops() {
    intq_bench::visit_loops<Of>([](const char* name, double items, auto&& run) {
        count((std::string(name) + "/" + Of::name).c_str(), items, run);
    });
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) return 2;
    for (const auto& shape : intq_bench::read_shapes(argv[1]))
        if (shape.operations() / 2 <= most_products)
            intq_bench::visit_layer<Backend>(
                shape, [](const char* name, double items, auto&& run) { count(name, items, run); });
    count_loops<Backend>();
    count_loops<intq::simd::scalar>();
}
