// SPDX-License-Identifier: MIT
//
// ./dev bench --compare FIRST SECOND
#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "compare_results.hpp"

int main(int count, char** arguments) {
    if (count != 3) {
        fmt::print(stderr, "usage: ./dev bench --compare FIRST.json SECOND.json\n");
        return 2;
    }
    try {
        fmt::print("{}", intq_bench::compare_results(intq_bench::read_row_times(arguments[1]),
                                                     intq_bench::read_row_times(arguments[2])));
        return 0;
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        return 1;
    }
}
