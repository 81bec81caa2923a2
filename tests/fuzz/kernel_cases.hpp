// SPDX-License-Identifier: MIT
//
// Random shapes, windows and parameters for every operator: a case is an operator and a seed.
#ifndef INTQ_TESTS_FUZZ_KERNEL_CASES_HPP
#define INTQ_TESTS_FUZZ_KERNEL_CASES_HPP

#include "fuzz/cases/elementwise.hpp"
#include "fuzz/cases/functions.hpp"
#include "fuzz/cases/move.hpp"
#include "fuzz/cases/products.hpp"
#include "fuzz/cases/window.hpp"

namespace intq::test::fuzz {

struct Operator {
    const char* name;
    Outcome (*run)(const KernelTable&, Draw);
    int share = 1;  // of the cases
};
inline constexpr Operator operators[] = {
    {"conv", &run_conv, 24},
    {"add", &run_add},
    {"sub", &run_sub},
    {"mul", &run_mul},
    {"requantize", &run_requantize},
    {"clamp", &run_clamp},
    {"pool", &run_pool},
    {"pool_sums", &run_pool_sums},
    {"interpolate", &run_interpolate},
    {"look_up", &run_look_up},
    {"softmax", &run_softmax},
    {"log_softmax", &run_log_softmax},
    {"layer_norm", &run_layer_norm},
    {"matmul", &run_matmul, 2},
    {"embedding", &run_embedding},
    {"index_copy", &run_index_copy},
    {"argmax", &run_argmax},
    {"quantize", &run_quantize},
    {"dequantize", &run_dequantize},
    {"move", &run_move},
    {"pad", &run_pad},
};

inline const Operator* find_operator(const char* name) {
    for (const Operator& op : operators)
        if (std::strcmp(name, op.name) == 0) return &op;
    return nullptr;
}

}  // namespace intq::test::fuzz

#endif  // INTQ_TESTS_FUZZ_KERNEL_CASES_HPP
