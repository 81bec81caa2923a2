// SPDX-License-Identifier: MIT
#include "intq/quantization/qconfig/qconfig_mapping.hpp"

#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using test::message_of;

namespace {

// The averaging constant tells entries apart.
QConfig tagged(float tag) {
    QConfig qconfig = default_qconfig();
    qconfig.output->options.observer_options.averaging_constant = tag;
    return qconfig;
}

float tag_of(const QConfigChoice& choice) {
    return choice.qconfig ? choice.qconfig->output->options.observer_options.averaging_constant : -1.0f;
}

}  // namespace

TEST_CASE("Defaults: activations per tensor, moving average 0.01; weights per channel of axis 0, min-max; symmetric") {
    const QConfig qconfig = get_default_calib_qconfig();
    CHECK_FALSE(qconfig.input.has_value());
    const auto output = qconfig.output->make({}, Compatibility::horizon),
               weight = qconfig.weight->make({}, Compatibility::horizon);
    CHECK(output->observer().type_name() == "MovingAverageMinMaxObserver");
    CHECK(output->observer().options().averaging_constant == 0.01f);
    CHECK(output->observer().options().ch_axis == -1);
    CHECK(weight->observer().type_name() == "PerChannelMinMaxObserver");
    CHECK(weight->observer().options().ch_axis == 0);
    CHECK(output->dtype() == DType::int8);
    CHECK(get_default_calib_qconfig(DType::int16).output->dtype() == DType::int16);
    CHECK(get_default_calib_qconfig(DType::int16).weight->dtype() == DType::int8);
    CHECK_FALSE(get_default_calib_out_qconfig().output.has_value());
}

TEST_CASE("The more specific entry wins: global, type, regex, name, longer name") {
    QConfigMapping mapping;
    CHECK(mapping.find({"layer1.0.conv", "Conv2d", ""}).level == QConfigLevel::none);
    mapping.set_global(tagged(0.1f));
    CHECK(tag_of(mapping.find({"layer1.0.conv", "Conv2d", ""})) == 0.1f);
    mapping.set_object_type("Conv2d", tagged(0.2f));
    CHECK(tag_of(mapping.find({"layer1.0.conv", "Conv2d", ""})) == 0.2f);
    CHECK(tag_of(mapping.find({"layer1.0.fc", "Linear", ""})) == 0.1f);
    mapping.set_module_name_regex("layer\\d", tagged(0.3f));
    mapping.set_module_name_regex("layer1", tagged(0.35f));
    CHECK(tag_of(mapping.find({"layer1.0.conv", "Conv2d", ""})) == 0.3f);
    CHECK(tag_of(mapping.find({"the.layer1", "Conv2d", ""})) == 0.2f);
    mapping.set_module_name("layer1", tagged(0.4f));
    CHECK(tag_of(mapping.find({"layer1.0.conv", "Conv2d", ""})) == 0.4f);
    CHECK(tag_of(mapping.find({"layer10.conv", "Conv2d", ""})) == 0.3f);
    mapping.set_module_name("layer1.0.conv", std::nullopt);
    CHECK_FALSE(mapping.find({"layer1.0.conv", "Conv2d", ""}).qconfig.has_value());
    CHECK(mapping.find({"layer1.0.conv", "Conv2d", ""}).level == QConfigLevel::module_name);
}

TEST_CASE("A function takes the entries of the module whose forward calls it") {
    QConfigMapping mapping;
    mapping.set_global(tagged(0.1f)).set_object_type("add", tagged(0.2f));
    CHECK(tag_of(mapping.find({"layer1", "add", "Block"})) == 0.2f);
    mapping.set_object_type("Block", tagged(0.3f));
    CHECK(tag_of(mapping.find({"layer1", "add", "Block"})) == 0.3f);
    mapping.set_module_name("layer1", tagged(0.4f));
    CHECK(tag_of(mapping.find({"layer1", "add", "Block"})) == 0.4f);
}

TEST_CASE("A key that matches nothing is an error that names the nearest keys") {
    const std::vector<std::string> names{"", "stem", "layer1", "layer1.0", "layer1.0.conv1", "layer1.0.conv2", "fc"};
    const std::vector<std::string> types{"Conv2d", "Linear", "ReLU", "add"};
    const auto run = [&](const QConfigMapping& mapping) {
        for (const std::string& name : names) mapping.mark_used(mapping.find({name, "Conv2d", ""}));
        mapping.check_all_used(names, types);
    };
    run(QConfigMapping()
            .set_global(tagged(0.1f))
            .set_module_name("layer1", tagged(0.2f))
            .set_object_type("Conv2d", tagged(0.2f)));
    CHECK(message_of<Error>([&] {
              run(QConfigMapping().set_module_name("layer1.0", tagged(0.1f)).set_module_name_regex("layer1", {}));
          }).find("nothing was thrown") == 0);
    CHECK(message_of<Error>([&] {
              run(QConfigMapping().set_module_name("fc", tagged(0.1f)).set_module_name_regex("fc", tagged(0.2f)));
          }).find("the module name regex \"fc\" changes nothing. It matches fc (Conv2d)") != std::string::npos);
    CHECK(message_of<Error>([&] { run(QConfigMapping().set_module_name("layer1.0.conv3", tagged(0.1f))); }) ==
          "QConfigMapping: no operator matches the module name \"layer1.0.conv3\"; the nearest are \"layer1.0.conv1\", "
          "\"layer1.0.conv2\", \"layer1.0\"");
    CHECK(message_of<Error>([&] {
              run(QConfigMapping().set_object_type("Conv3d", tagged(0.1f)));
          }).find("the object type \"Conv3d\"; the nearest are \"Conv2d\"") != std::string::npos);
    CHECK(message_of<Error>([&] {
              run(QConfigMapping().set_module_name_regex("layer2.*", tagged(0.1f)));
          }).find("the module name regex \"layer2.*\", which must match from the start of the name; the nearest are") !=
          std::string::npos);
    CHECK(message_of<Error>([] {
              QConfigMapping().set_module_name_regex("(", std::nullopt);
          }).find("is not a regular expression") != std::string::npos);
}

TEST_CASE("Of a fused layer the first member decides input and weight, the last the output, its own name all three") {
    const std::vector<nn::FusedMember> members{
        {"a.conv", "Conv2d", ""}, {"a.bn", "BatchNorm2d", ""}, {"a.relu", "ReLU", ""}};
    const auto tags = [&](const QConfigMapping& mapping, Compatibility compatibility = Compatibility::horizon) {
        const FusedChoice choice = mapping.find_fused({"a.conv", "ConvReLU2d", ""}, members, compatibility);
        return std::pair(tag_of(choice.first), tag_of(choice.last));
    };
    using Tags = std::pair<float, float>;
    const auto global = QConfigMapping().set_global(tagged(0.1f));
    CHECK(tags(global) == Tags{0.1f, 0.1f});
    CHECK(tags(QConfigMapping(global).set_object_type("ReLU", tagged(0.2f))) == Tags{0.1f, 0.2f});
    CHECK(tags(QConfigMapping(global).set_object_type("Conv2d", tagged(0.2f))) == Tags{0.2f, 0.1f});
    CHECK(tags(QConfigMapping(global).set_module_name("a.conv", tagged(0.3f))) == Tags{0.3f, 0.3f});
    CHECK(tags(QConfigMapping(global).set_module_name("a.relu", tagged(0.3f))) == Tags{0.1f, 0.3f});
    CHECK(tags(QConfigMapping(global).set_module_name("a.bn", tagged(0.3f))) == Tags{0.1f, 0.1f});
    CHECK(tags(QConfigMapping(global).set_module_name("a", tagged(0.3f)).set_module_name("a.relu", tagged(0.4f))) ==
          Tags{0.3f, 0.4f});
    CHECK(
        tags(QConfigMapping(global).set_module_name("a.conv", tagged(0.3f)).set_module_name("a.relu", tagged(0.4f))) ==
        Tags{0.3f, 0.3f});
    CHECK(tags(QConfigMapping(global).set_module_name("a.conv", tagged(0.3f)).set_own("a.relu", tagged(0.4f))) ==
          Tags{0.3f, 0.4f});
    CHECK(tags(QConfigMapping(global).set_own("a.conv", tagged(0.3f)).set_own("a.relu", tagged(0.4f))) ==
          Tags{0.3f, 0.3f});
    CHECK(tags(QConfigMapping(global).set_object_type("ConvReLU2d", tagged(0.2f))) == Tags{0.2f, 0.2f});
    CHECK(
        tags(
            QConfigMapping(global).set_object_type("ConvReLU2d", tagged(0.2f)).set_object_type("ReLU", tagged(0.3f))) ==
        Tags{0.2f, 0.2f});
    // PyTorch 2.15: prepare_fx with an activation's eps that tells entries apart.
    CHECK(tags(QConfigMapping(global).set_object_type("ConvReLU2d", tagged(0.2f)), Compatibility::torch) ==
          Tags{0.2f, 0.2f});
    const auto types = QConfigMapping(global).set_object_type("Conv2d", tagged(0.2f));
    CHECK(message_of<Error>([&] { tags(types, Compatibility::torch); }).find("of Conv2d and ReLU one has an entry") !=
          std::string::npos);
    CHECK(tags(QConfigMapping(types).set_object_type("ReLU", tagged(0.2f)), Compatibility::torch) == Tags{0.2f, 0.2f});
    CHECK(tags(QConfigMapping(global).set_module_name("a.relu", tagged(0.4f)), Compatibility::torch) ==
          Tags{0.1f, 0.1f});
    CHECK(tags(QConfigMapping(global).set_module_name("a.conv", tagged(0.4f)), Compatibility::torch) ==
          Tags{0.4f, 0.4f});
}
