// SPDX-License-Identifier: MIT
//
// Firmware that runs a generated model (docs/to_a_microcontroller.md): it tests itself first, runs one image, and
// prints which class is the largest, and what was used of the stack.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "board.hpp"
#include "model.hpp"

namespace {

constexpr auto elements(std::int32_t tensor) {
    return static_cast<std::size_t>(model::data::tensors[tensor].shape.size());
}

// A model reads pixels or real numbers.
constexpr bool reads_pixels = model::data::tensors[model::data::inputs[0]].dtype == intq::DType::uint8;
std::conditional_t<reads_pixels, std::uint8_t, float> image[elements(model::data::inputs[0])];
float logits[elements(model::data::outputs[0])];

// Words below the stack's end are painted, and read again afterwards.
constexpr std::uint32_t paint = 0xC0FFEE00;

struct PaintedStack {
    static constexpr std::ptrdiff_t words = 2048;
    volatile std::uint32_t* end;

    PaintedStack() {
        asm volatile("mov %0, sp" : "=r"(end));
        for (std::ptrdiff_t i = 1; i <= words; ++i) *(end - i) = paint;
    }
    /// Bytes below the end that were written since.
    std::size_t used() const {
        std::ptrdiff_t i = words;
        while (i > 0 && *(end - i) == paint) --i;
        return static_cast<std::size_t>(i) * sizeof paint;
    }
};

__attribute__((noinline)) void run_model() { model::run(image, logits); }

__attribute__((noinline)) bool passes_self_test() {
    const auto result = model::self_test();
    if (result) return true;
    board::print("self test failed: ");
    board::print(result.constants_are_whole ? result.layer : "constants");
    board::print("\n");
    return false;
}

}  // namespace

int main() {
    const PaintedStack stack;
    if (!passes_self_test()) return 1;
    run_model();
    const std::size_t used = stack.used();
    std::size_t best = 0;
    for (std::size_t i = 1; i < elements(model::data::outputs[0]); ++i)
        if (logits[i] > logits[best]) best = i;
    board::print("self test passed\nclass of an empty image: ");
    board::print(best);
    board::print("\narena: ");
    board::print(model::arena_bytes);
    board::print(" bytes\nimage and logits: ");
    board::print(sizeof image + sizeof logits);
    board::print(" bytes\nstack: ");
    board::print(used);
    board::print(" bytes\n");
    return 0;
}
