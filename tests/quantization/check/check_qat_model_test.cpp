// SPDX-License-Identifier: MIT
//
// check_qat_model on models with one flaw each: each is found, named, and nothing else is.
#include "intq/quantization/check/check_qat_model.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include "intq/arith/bpu.hpp"
#include "intq/arith/fp32.hpp"
#include "intq/io/file.hpp"
#include "intq/nn.hpp"
#include "intq/quantization/eager/fuse_eager.hpp"
#include "intq/quantization/eager/prepare_eager.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/prepare/prepare_qat.hpp"
#include "intq/quantization/qconfig/qconfig_factories.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"
#include "io/temporary_folder.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using Catch::Matchers::Contains;
using test::make_conv;
using test::message_of;
using test::stubbed;

namespace {

constexpr arith::PolicyRecord bayes = target::bpu<march::bayes>::policy;

std::string text_of_file(const std::filesystem::path& path) {
    const auto bytes = io::read_file(path);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Standard output goes to a file as long as this lives.
class StdoutToFile {
public:
    explicit StdoutToFile(const std::filesystem::path& file) {
        std::fflush(stdout);
        former_ = dup(STDOUT_FILENO);
        std::FILE* const captured = std::fopen(file.c_str(), "wb");
        dup2(fileno(captured), STDOUT_FILENO);
        std::fclose(captured);
    }
    StdoutToFile(const StdoutToFile&) = delete;
    StdoutToFile& operator=(const StdoutToFile&) = delete;
    ~StdoutToFile() {
        std::fflush(stdout);
        dup2(former_, STDOUT_FILENO);
        close(former_);
    }

private:
    int former_;
};

/// What `act` prints on standard output.
template <class Act> std::string printed_by(const std::filesystem::path& file, const Act& act) {
    {
        const StdoutToFile captured(file);
        act();
    }
    return text_of_file(file);
}

std::vector<std::string> messages_of(const ModelCheck& check) {
    std::vector<std::string> messages;
    for (const UnusualQConfig& row : check.unusual) messages.push_back(row.name + ": " + row.message);
    return messages;
}

std::size_t calls_of(const ModelCheck& check, const std::string& name) {
    for (const ModuleCalls& module : check.calls)
        if (module.name == name) return module.count;
    return SIZE_MAX;
}

nn::ModulePtr conv_relu() {
    return stubbed({{"conv", make_conv(3, 4, 3, 1)}},
                   [](test::LambdaModel& m, nn::Arguments x) { return nn::relu(m.call("conv", x[0])); });
}

}  // namespace

TEST_CASE("The check of a model as it should be has the documents' tables and no finding") {
    const auto prepared = prepare_calibration_fx(*conv_relu(), bayes);
    const ModelCheck check = inspect_qat_model(*prepared);
    CHECK(check.fusable.empty());
    CHECK(messages_of(check).empty());
    CHECK(to_string(check) ==
          "All fusable modules are fused in model!\n"
          "\n"
          "All modules in the model run exactly once.\n"
          "\n"
          "Each layer out qconfig:\n"
          "+-------------+----------------+-------------+-----------+----------------+-----------------------------+\n"
          "| Module Name | Module Type    | Input dtype | out dtype | ch_axis        | observer                    |\n"
          "|-------------+----------------+-------------+-----------+----------------+-----------------------------|\n"
          "| quant       | QuantStub      | [float32]   | [qint8]   | -1             | MovingAverageMinMaxObserver |\n"
          "| conv        | qat.ConvReLU2d | [qint8]     | [qint8]   | -1             | MovingAverageMinMaxObserver |\n"
          "| dequant     | DeQuantStub    | [qint8]     | [float32] | qconfig = None |                             |\n"
          "+-------------+----------------+-------------+-----------+----------------+-----------------------------+\n"
          "\n"
          "Weight qconfig:\n"
          "+-------------+----------------+--------------+---------+--------------------------+\n"
          "| Module Name | Module Type    | weight dtype | ch_axis | observer                 |\n"
          "|-------------+----------------+--------------+---------+--------------------------|\n"
          "| conv        | qat.ConvReLU2d | qint8        |       0 | PerChannelMinMaxObserver |\n"
          "+-------------+----------------+--------------+---------+--------------------------+\n");
}

TEST_CASE(
    "A shared layer that could not be fused is named with its group and its calls; an unused one is called 0 times") {
    const auto model = stubbed({{"conv", make_conv(4, 4, 3, 1, 1, 1, false)},
                                {"bn1", test::make_batch_norm<nn::BatchNorm2d>(4, 2)},
                                {"bn2", test::make_batch_norm<nn::BatchNorm2d>(4, 5)},
                                {"spare", make_conv(4, 4, 3, 9)}},
                               [](test::LambdaModel& m, nn::Arguments x) {
                                   const nn::Value y = nn::relu(m.call("bn1", m.call("conv", x[0])));
                                   return nn::relu(m.call("bn2", m.call("conv", y)));
                               });
    const ModelCheck check = inspect_qat_model(*prepare_calibration_fx(*model, bayes));
    REQUIRE(check.fusable.size() == 2);
    CHECK(check.fusable[0][0].name == "conv(shared)");
    CHECK(check.fusable[0][1].name == "bn1");
    CHECK(check.fusable[1][1].name == "bn2");
    CHECK(calls_of(check, "conv") == 2);
    CHECK(calls_of(check, "bn1") == 1);
    CHECK(calls_of(check, "spare") == 0);
    const std::string text = to_string(check);
    CHECK_THAT(text, Contains("Fusable modules are listed below:\nname          type\n------------  ----------"));
    CHECK_THAT(text, Contains("Each module called times:\nname     called times\n"));
    CHECK_THAT(text, Contains("\nconv                2\n") && Contains("\nspare               0\n"));
    CHECK_THAT(text, Contains("| conv(1) "));
}

TEST_CASE("Groups that a user did not fuse among modules are found, and are gone when they are fused") {
    const auto make = [] {
        const auto model = stubbed(
            {{"conv", make_conv(3, 4, 3, 1, 1, 1, false)},
             {"bn", test::make_batch_norm<nn::BatchNorm2d>(4, 2)},
             {"relu", std::make_shared<nn::ReLU>()}},
            [](test::LambdaModel& m, nn::Arguments x) { return m.call("relu", m.call("bn", m.call("conv", x[0]))); });
        return model;
    };
    const ModelCheck unfused = inspect_qat_model(*prepare_calibration(make(), bayes));
    REQUIRE(unfused.fusable.size() == 1);
    REQUIRE(unfused.fusable[0].size() == 3);
    CHECK(unfused.fusable[0][2].name == "relu");
    const nn::ModulePtr fused = fuse_modules(make(), {{"conv", "bn", "relu"}});
    const ModelCheck check = inspect_qat_model(*prepare_calibration(fused, bayes));
    CHECK(check.fusable.empty());
    CHECK(calls_of(check, "conv") == 1);
}

TEST_CASE("Each unusual configuration is named, and no other") {
    using Messages = std::vector<std::string>;
    QConfigMapping mapping = get_default_qconfig_mapping(bayes);
    SECTION("a fixed scale") {
        const auto prepared = prepare_calibration_fx(*conv_relu(), bayes);
        dynamic_cast<FakeQuantize&>(prepared->find("activation_post_process_0")).set_qparams(0.25f);
        CHECK(messages_of(inspect_qat_model(*prepared)) == Messages{"quant: Fixed scale 0.25"});
    }
    SECTION("int16 beside int8, and a weight of 16 bits") {
        mapping.set_module_name("conv", get_default_calib_qconfig(DType::int16, DType::int8));
        const auto check = inspect_qat_model(*prepare_calibration_fx(*conv_relu(), mapping, bayes));
        CHECK(messages_of(check) == Messages{"conv: Input dtype qint8, out dtype qint16"});
    }
    SECTION("a layer before a DeQuantStub that gives codes") {
        const auto model = stubbed({{"conv", make_conv(3, 4, 3, 1)}},
                                   [](test::LambdaModel& m, nn::Arguments x) { return m.call("conv", x[0]); });
        CHECK(messages_of(inspect_qat_model(*prepare_calibration_fx(*model, bayes))).empty());
        mapping.set_module_name("conv", get_default_qconfig(bayes));
        CHECK(messages_of(inspect_qat_model(*prepare_calibration_fx(*model, mapping, bayes))) ==
              Messages{"conv: Output before a DeQuantStub is qint8, not of high precision"});
    }
    SECTION("a depthwise convolution per tensor") {
        const auto model = stubbed({{"conv", make_conv(4, 4, 3, 1, 1, 4)}}, [](test::LambdaModel& m, nn::Arguments x) {
            return nn::relu(m.call("conv", x[0]));
        });
        CHECK(messages_of(inspect_qat_model(*prepare_calibration_fx(*model, bayes))).empty());
        QConfig per_tensor = get_default_qconfig(bayes);
        per_tensor.weight->options.observer = observer_factory<MinMaxObserver>();
        per_tensor.weight->options.observer_options.ch_axis = -1;
        mapping.set_global(per_tensor);
        CHECK(messages_of(inspect_qat_model(*prepare_calibration_fx(*model, mapping, bayes))) ==
              Messages{"conv: Depthwise convolution with a weight per tensor"});
    }
    SECTION("dead and huge channels") {
        const auto conv = make_conv(3, 6, 3, 1);
        Tensor weight = conv->weight().clone();
        for (std::size_t i = 0; i < 27; ++i) weight.flat<float>()[27 + i] = 0.0f;
        for (std::size_t i = 0; i < 27; ++i) weight.flat<float>()[4 * 27 + i] *= 1000.0f;
        conv->set_weight(weight);
        const auto model = stubbed(
            {{"conv", conv}}, [](test::LambdaModel& m, nn::Arguments x) { return nn::relu(m.call("conv", x[0])); });
        CHECK(messages_of(inspect_qat_model(*prepare_calibration_fx(*model, bayes))) ==
              Messages{"conv: Dead channels 1", "conv: Channels 4 are at least 100 times the median channel"});
    }
    SECTION("a relu in front of an add") {
        const auto model = stubbed({{"conv", make_conv(4, 4, 3, 1)}, {"skip", std::make_shared<nn::FloatFunctional>()}},
                                   [](test::LambdaModel& m, nn::Arguments x) {
                                       return nn::call_add(m, "skip", nn::relu(m.call("conv", x[0])), x[0]);
                                   });
        CHECK(messages_of(inspect_qat_model(*prepare_calibration_fx(*model, bayes))) ==
              Messages{"skip[add]: relu before add: %conv"});
    }
    SECTION("no activation quantizer") {
        mapping.set_module_name("second", std::nullopt);
        const auto model = stubbed(
            {{"first", make_conv(3, 4, 3, 1)}, {"second", make_conv(4, 4, 3, 2)}, {"third", make_conv(4, 4, 3, 3)}},
            [](test::LambdaModel& m, nn::Arguments x) {
                return m.call("third", m.call("second", nn::relu(m.call("first", x[0]))));
            });
        CHECK(messages_of(inspect_qat_model(*prepare_calibration_fx(*model, mapping, bayes))) ==
              Messages{"second: No activation quantizer"});
    }
}

TEST_CASE("The check is printed and saved; prepare_qat(_fx) prints it with verbose, and calibration does not") {
    const test::TemporaryFolder folder;
    const auto prepared = prepare_calibration_fx(*conv_relu(), bayes);
    const std::string text = to_string(inspect_qat_model(*prepared));
    const Tensor image = test::random_tensor(Shape(1, 3, 5, 5), 1);
    const std::string printed = printed_by(
        folder / "printed", [&] { check_qat_model(*prepared, std::array{image}, true, folder / "deep" / "folder"); });
    CHECK(printed == text);
    CHECK(text_of_file(folder / "deep" / "folder" / "model_check_result.txt") == text);

    PrepareOptions options;
    options.verbose = 1;
    const auto by_graph = printed_by(folder / "printed", [&] { prepare_qat_fx(*conv_relu(), bayes, options); });
    CHECK_THAT(by_graph, Contains("Each layer out qconfig:"));
    PrepareModulesOptions modules;
    modules.verbose = 1;
    const auto model = stubbed({{"conv", make_conv(3, 4, 3, 1)}},
                               [](test::LambdaModel& m, nn::Arguments x) { return m.call("conv", x[0]); });
    CHECK_THAT(printed_by(folder / "printed", [&] { prepare_qat(model, bayes, modules); }),
               Contains("Each layer out qconfig:"));
    CHECK(printed_by(folder / "printed", [&] { prepare_qat_fx(*conv_relu(), bayes); }).empty());
}

TEST_CASE("The check leaves the model as it is, and refuses what it cannot check") {
    const test::TemporaryFolder folder;
    const auto prepared = prepare_qat_fx(*conv_relu(), bayes);
    const std::size_t nodes = prepared->graph().size();
    const Tensor image = test::random_tensor(Shape(1, 3, 5, 5), 1), other = test::random_tensor(Shape(1, 5, 5, 5), 1);
    inspect_qat_model(*prepared, std::array{image});
    CHECK(prepared->graph().size() == nodes);
    CHECK(prepared->training());
    CHECK_FALSE(dynamic_cast<FakeQuantize&>(prepared->find("activation_post_process_0")).has_qparams());

    const nn::ModulePtr in_float = conv_relu();
    CHECK_THAT(message_of<Error>([&] { inspect_qat_model(*in_float); }), Contains("has no quantizers"));
    CHECK_THAT(message_of<Error>([&] { inspect_qat_model(*prepared, std::array{other}); }),
               Contains("check_qat_model: example_inputs") && Contains("conv"));
    io::write_file(folder / "file", "text");
    const auto save = [&] { check_qat_model(*prepared, {}, true, folder / "file" / "below"); };
    CHECK_THAT(message_of<Error>([&] { printed_by(folder / "printed", save); }),
               Contains("below") && Contains("cannot"));
}
