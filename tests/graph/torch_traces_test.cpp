// SPDX-License-Identifier: MIT
//
// Traced graphs against those that torch.fx records of the same models, and fused ones against PyTorch's prepared.
#include <set>

#include "intq/quantization/fuse/fuse_fx.hpp"
#include "support/catch.hpp"
#include "support/torch_zoo.hpp"

using namespace intq;
using nlohmann::json;

namespace {

std::string joined(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    return text;
}

const test::TorchModel* find(const std::string& name) {
    for (const test::TorchModel& model : test::torch_zoo())
        if (model.name == name) return &model;
    return nullptr;
}

}  // namespace

TEST_CASE("Every model of the golden file traces to torch.fx's nodes, names and arguments, and still computes") {
    std::set<std::string> compared;
    for (const json& stored : test::golden_cases("fx_traces")) {
        const auto name = stored.at("name").get<std::string>();
        INFO(name);
        const test::TorchModel* zoo = find(name);
        REQUIRE(zoo != nullptr);
        const nn::ModulePtr model = zoo->make();
        const auto traced = graph::symbolic_trace(model);
        const json& nodes = stored.at("traced");
        CHECK(joined(test::lines_of(*traced, nodes)) == joined(test::lines_of(nodes)));

        const intq::Tensor x = test::random_tensor(zoo->input, 3);
        const nn::Value expected = (*model)(x), given = (*traced)(x);
        REQUIRE(expected.is_tuple() == given.is_tuple());
        if (expected.is_tensor()) CHECK(test::largest_difference(expected.tensor(), given.tensor()) == 0);
        compared.insert(name);
    }
    CHECK(compared.size() == test::torch_zoo().size());
}

TEST_CASE("Fused graphs are PyTorch's prepared ones without their observers, but for what we fuse otherwise") {
    // What differs by design: intq has one relu for F.relu, torch.relu and the method, and fuses the relu behind linear
    // and batch norm too.
    const std::set<std::string> fused_otherwise = {"conv_torch_relu", "conv_method_relu", "linear_bn_relu"};
    quantization::FuseOptions options;
    options.fused_add = false;
    options.fused_relu6 = false;
    std::set<std::string> compared, different;
    for (const json& stored : test::golden_cases("fx_graphs")) {
        if (stored.at("mode") != "static") continue;
        const auto name = stored.at("name").get<std::string>();
        INFO(name);
        const test::TorchModel* zoo = find(name);
        REQUIRE(zoo != nullptr);
        const auto fused = quantization::fuse_fx(*zoo->make(), options);
        const json nodes = test::without_observers(stored.at("prepared"));
        const std::string given = joined(test::lines_of(*fused, nodes)), expected = joined(test::lines_of(nodes));
        if (fused_otherwise.count(name) == 0) {
            CHECK(given == expected);
        } else if (given != expected) {
            different.insert(name);
        }
        compared.insert(name);
    }
    CHECK(compared.size() == test::torch_zoo().size());
    CHECK(different == fused_otherwise);
}
