// SPDX-License-Identifier: MIT
//
// Misuses of the environment.
#include <cstdlib>

#include "intq/graph/tracer.hpp"
#include "intq/nn.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"
#include "usage/misuse.hpp"

using namespace intq;
using test::make_conv;
using test::random_tensor;
using test::refusal;

// CMake sets INTQ_BACKEND to a name that does not exist: the choice is made once in a process.
TEST_CASE("bad usage: a backend of the environment that does not exist") {
    REQUIRE(std::getenv("INTQ_BACKEND") != nullptr);
    const auto model = graph::symbolic_trace(test::make_model(
        {{"conv", make_conv(3, 4, 3, 1)}}, [](test::LambdaModel& m, nn::Arguments x) { return m.call("conv", x[0]); }));
    const auto run = [&] { return refusal([&] { (*model)(random_tensor(Shape(1, 3, 8, 8), 1)); }); };
    test::check_misuses({
        {"INTQ_BACKEND=avx7 in the environment of a program", run, {"INTQ_BACKEND", "avx7", "scalar"}},
    });
    CHECK(run().rfind("INTQ_BACKEND", 0) == 0);
}
