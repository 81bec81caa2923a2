// SPDX-License-Identifier: MIT
//
// INTQ_DEFAULT_TARGET: the target of prepare, check and convert in a program that names none. This file is compiled
// with the macro set.
#include <string>

#include "intq/quantization/eager/prepare_default_target.hpp"
#include "intq/quantization/prepare/set_march.hpp"
#include "intq/quantization/qconfig/qconfig_factories.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;

// set_march(march): the march of prepare, check and convert
TEST_CASE("The macro INTQ_DEFAULT_TARGET is the target of prepare, and set_march stands above it") {
    const QConfigMapping mapping = QConfigMapping().set_global(get_default_calib_qconfig());
    const auto model = test::stubbed({{"fc", test::make_linear(4, 3, 1)}},
                                     [](test::LambdaModel& m, nn::Arguments x) { return m.call("fc", x[0]); });
    const auto target = [&] { return std::string(prepare_qat_fx(*model, mapping)->target().name); };
    CHECK(target() == "meta");
    CHECK(std::string(default_target().name) == "meta");
    const nn::ModulePtr modules = prepare_qat(model, mapping);
    CHECK(std::string(modules->attribute<arith::PolicyRecord>("prepared_target")->name) == "meta");
    CHECK(std::string(prepare_qat_fx<target::fp32>(*model, mapping)->target().name) == "fp32");
    set_march(March::bayes);
    CHECK(target() == "bayes");
    quantization::detail::current_march() = 0;
}
