// SPDX-License-Identifier: MIT
//
// Prepared graphs against those of PyTorch's prepare_fx and prepare_qat_fx (golden/fx_graphs.json). What differs on
// purpose stands in docs/compatibility.md, whose tables are read here: a difference without a row fails, and so does a
// row without a difference.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <set>

#include "intq/arith/bpu.hpp"
#include "intq/arith/tflite.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/prepare/prepare_qat.hpp"
#include "support/catch.hpp"
#include "support/torch_zoo.hpp"

using namespace intq;
using namespace intq::quantization;
using nlohmann::json;

namespace {

constexpr arith::PolicyRecord tflite = target::tflite<>::policy;  // its add stays apart, as that of PyTorch's qnnpack
constexpr arith::PolicyRecord bayes = target::bpu<march::bayes>::policy;

using Cells = std::vector<std::string>;

/// The rows of the table under a heading of docs/compatibility.md, cell by cell; the first cell without its backticks.
std::vector<Cells> table_of(const std::string& heading) {
    std::ifstream file(INTQ_TESTS_DIR "/../docs/compatibility.md");
    REQUIRE(file);
    std::vector<Cells> rows;
    bool is_inside = false;
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("## ")) is_inside = line == "## " + heading;
        if (!is_inside || !line.starts_with("| `")) continue;
        Cells cells;
        for (std::size_t at = 1; at + 1 < line.size();) {
            const std::size_t end = line.find('|', at);
            REQUIRE(end != std::string::npos);
            cells.push_back(line.substr(at + 1, end - at - 2));
            at = end + 1;
        }
        cells[0] = cells[0].substr(1, cells[0].size() - 2);
        rows.push_back(std::move(cells));
    }
    REQUIRE(!rows.empty());
    return rows;
}

/// The first `count` cells of each row as one text: "cat: of its own".
std::set<std::string> keys_of(const std::vector<Cells>& rows, std::size_t count = 1) {
    std::set<std::string> keys;
    for (const Cells& row : rows) {
        std::string key = row[0];
        for (std::size_t i = 1; i < count; ++i) key += ": " + row[i];
        keys.insert(key);
    }
    return keys;
}

const test::TorchModel& zoo_model(const std::string& name) {
    for (const test::TorchModel& model : test::torch_zoo())
        if (model.name == name) return model;
    throw std::runtime_error("no model " + name);
}

bool is_observer(const std::string& name) { return name.starts_with("activation_post_process"); }

/// Without "fused.", and without "qat." unless the graph is one for training: calibrated layers are "qat." here, too.
std::string plain_type(std::string type, bool is_qat) {
    for (const std::string prefix : {"fused.", "qat."})
        if (type.starts_with(prefix) && (prefix != "qat." || !is_qat)) type.erase(0, prefix.size());
    return type;
}

std::string joined(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    return text;
}

/// A graph as lines. Of a quantizer they say which instance it is, by the order of the first calls, and no class.
std::string text_of(const json& nodes, bool is_qat) {
    std::vector<std::string> lines;
    for (const json& node : nodes) {
        const auto name = node.at("name").get<std::string>(), op = node.at("op").get<std::string>();
        std::string target = node.at("target").get<std::string>(), arguments;
        if (op == "call_module") target += ": " + plain_type(node.at("type").get<std::string>(), is_qat);
        if (is_observer(name)) target = "quantizer " + std::to_string(node.at("observer_instance").get<int>());
        if (op == "call_function") target = test::detail::last_part(target);
        for (const auto& argument : node.at("args"))
            arguments += (arguments.empty() ? "" : ", ") + test::detail::text_of(argument);
        lines.push_back(test::detail::line_of(op, name, target, arguments));
    }
    return joined(lines);
}

std::string text_of(PreparedModel& model, const json& golden, bool is_qat) {
    std::vector<std::string> lines;
    std::vector<const nn::Module*> instances;
    for (const graph::Node* node : model.graph().nodes()) {
        std::size_t wanted = 0;
        for (const json& stored : golden)
            if (stored.at("name") == node->name()) wanted = stored.at("args").size();
        std::string target = node->target(), arguments;
        const nn::Module* module = graph::module_of(*node, model);
        if (module != nullptr) target += ": " + plain_type(graph::type_of(*node, model), is_qat);
        if (dynamic_cast<const Quantizer*>(module) != nullptr) {
            const auto known = std::find(instances.begin(), instances.end(), module);
            target = "quantizer " + std::to_string(known - instances.begin());
            if (known == instances.end()) instances.push_back(module);
        }
        // PyTorch records keyword arguments and defaults elsewhere.
        for (std::size_t i = 0; i < node->args().size(); ++i) {
            const std::string text = graph::to_string(node->args()[i]);
            if (i < wanted || text.find('%') != std::string::npos) arguments += (i == 0 ? "" : ", ") + text;
        }
        lines.push_back(test::detail::line_of(graph::name_of(node->op()), node->name(), target, arguments));
    }
    return joined(lines);
}

std::shared_ptr<PreparedModel> prepare_as_torch(const std::string& name, bool is_qat) {
    PrepareOptions options;
    options.compatibility = Compatibility::torch;
    const auto model = zoo_model(name).make();
    return is_qat ? prepare_qat_fx(*model, get_default_qconfig_mapping(), tflite, options)
                  : prepare_calibration_fx(*model, get_default_qconfig_mapping(), tflite, options);
}

/// What a comparison of all models of one mode found, by names.
struct Comparison {
    std::set<std::string> agree, named, not_built;
    int quantizers = 0;  // calls in the graphs that agree
};

/// Fails for a model that differs, unless a row names it or an operator of it has no integer form yet.
Comparison compare(const std::string& mode, const std::set<std::string>& rows) {
    const bool is_qat = mode == "qat";
    Comparison result;
    for (const json& stored : test::golden_cases("fx_graphs")) {
        if (stored.at("mode") != mode) continue;
        const auto name = stored.at("name").get<std::string>();
        INFO(mode << " " << name);
        const json& golden = stored.at("prepared");
        const auto prepared = prepare_as_torch(name, is_qat);
        const std::string given = text_of(*prepared, golden, is_qat), expected = text_of(golden, is_qat);
        if (given == expected) {
            result.agree.insert(name);
            for (const json& node : golden) result.quantizers += is_observer(node.at("name").get<std::string>());
        } else if (rows.count(name) != 0) {
            result.named.insert(name);
        } else if (!prepared->report().fallbacks.empty()) {
            const FloatFallback& fallback = prepared->report().fallbacks[0];
            result.not_built.insert(name);
            std::cout << "not built: " << name << ": " << fallback.type << ", " << fallback.reason << "\n";
        } else {
            CHECK(given == expected);
        }
    }
    std::cout << mode << ": " << result.agree.size() << " agree with " << result.quantizers << " quantizers, "
              << result.named.size() << " named with a reason, " << result.not_built.size() << " not built\n";
    CHECK(result.named == rows);
    return result;
}

}  // namespace

TEST_CASE("In torch mode quantizers and fused layers stand where prepare_fx puts them, instance by instance") {
    const auto rows = keys_of(table_of("Where torch mode is not PyTorch"));
    const Comparison found = compare("static", rows);
    CHECK(found.agree.size() + found.named.size() + found.not_built.size() == test::torch_zoo().size());
    CHECK(found.agree.size() >= 39);
    CHECK(found.quantizers >= 122);
}

TEST_CASE("In torch mode fake-quantizers and fused layers stand where prepare_qat_fx puts them") {
    const auto rows = keys_of(table_of("Where torch mode is not PyTorch in training"));
    const Comparison found = compare("qat", rows);
    CHECK(found.agree.size() + found.named.size() + found.not_built.size() == 14);
    CHECK(found.agree.size() >= 7);
    CHECK(found.quantizers >= 21);
    // Those that are named differ in the type of a layer alone.
    for (const json& stored : test::golden_cases("fx_graphs")) {
        if (stored.at("mode") != "qat" || found.named.count(stored.at("name").get<std::string>()) == 0) continue;
        const auto prepared = prepare_as_torch(stored.at("name").get<std::string>(), true);
        std::string expected = text_of(stored.at("prepared"), true);
        for (const std::string norm : {": BatchNorm2d", ": BNReLU2d"})  // one that no layer takes
            if (const std::size_t at = expected.find(norm); at != std::string::npos) expected.insert(at + 2, "qat.");
        for (const char* norm : {"Bn2d", "Bn1d", "Bn"})
            if (const std::size_t at = expected.find(norm); at != std::string::npos)
                expected.replace(at, std::string(norm).size(), std::string(norm) == "Bn2d" ? "2d" : "");
        CHECK(text_of(*prepared, stored.at("prepared"), true) == expected);
    }
}

namespace {

/// Where quantizers stand: behind which node, and which one of them.
struct Placement {
    std::map<std::string, int> behind;  // by the node that they observe
    std::map<std::string, int> before;  // that of a node's first input
};

Placement placement_of(const json& nodes) {
    Placement result;
    std::map<std::string, int> instances;
    for (const json& node : nodes) {
        const auto name = node.at("name").get<std::string>();
        json first = node.at("args").empty() ? json() : node.at("args").at(0);
        if (first.is_array()) first = first.at(0);
        const std::string input = first.is_string() ? first.get<std::string>().substr(1) : "";
        if (is_observer(name)) {
            instances[name] = node.at("observer_instance").get<int>();
            result.behind[input] = instances[name];
        } else if (instances.count(input) != 0) {
            result.before[name] = instances[input];
        }
    }
    return result;
}

Placement placement_of(PreparedModel& model) {
    Placement result;
    std::map<const nn::Module*, int> instances;
    const auto instance = [&](const nn::Module* quantizer) {
        if (quantizer->has_child("source")) quantizer = quantizer->child("source").get();  // it follows that one
        return instances.emplace(quantizer, static_cast<int>(instances.size())).first->second;
    };
    for (const graph::Node* node : model.graph().nodes()) {
        if (node->inputs().empty()) continue;
        const graph::Node* input = node->inputs()[0];
        if (dynamic_cast<const Quantizer*>(graph::module_of(*node, model)) != nullptr) {
            if (input->name() == "quant") input = input->inputs()[0];
            result.behind[input->name()] = instance(graph::module_of(*node, model));
        } else if (dynamic_cast<const Quantizer*>(graph::module_of(*input, model)) != nullptr) {
            result.before[node->name()] = instance(graph::module_of(*input, model));
        }
    }
    return result;
}

/// "operator: what" for each place where two placements differ.
std::set<std::string> differences(const Placement& torch, const Placement& horizon, graph::GraphModule& traced) {
    std::set<std::string> found;
    const auto add = [&](const std::string& node, const char* what) {
        found.insert(graph::operator_of(*traced.graph().find(node), traced) + ": " + what);
    };
    const auto shares = [](const Placement& placement, const std::string& node) {
        const auto before = placement.before.find(node), behind = placement.behind.find(node);
        return before != placement.before.end() && behind != placement.behind.end() && before->second == behind->second;
    };
    for (const auto& [node, instance] : torch.behind) {
        if (horizon.behind.count(node) == 0)
            add(node, "none");
        else if (shares(torch, node) && !shares(horizon, node))
            add(node, "of its own");
    }
    for (const auto& [node, instance] : horizon.behind)
        if (torch.behind.count(node) == 0) add(node, "one");
    return found;
}

}  // namespace

TEST_CASE("In horizon mode quantizers stand elsewhere for the reasons in the document, and for no others") {
    std::set<std::string> found;
    int models = 0, quantizers = 0;
    for (const json& stored : test::golden_cases("fx_graphs")) {
        if (stored.at("mode") != "static") continue;
        const auto name = stored.at("name").get<std::string>();
        INFO(name);
        const auto with_stubs = graph::symbolic_trace(zoo_model(name).make());
        add_stubs(*with_stubs);
        const auto prepared = prepare_calibration_fx(*with_stubs, get_default_qconfig_mapping(), bayes);
        if (text_of(*prepare_as_torch(name, false), stored.at("prepared"), false) !=
            text_of(stored.at("prepared"), false))
            continue;  // another difference
        const Placement horizon = placement_of(*prepared);
        for (const std::string& difference : differences(placement_of(stored.at("prepared")), horizon,
                                                         *graph::symbolic_trace(zoo_model(name).make()))) {
            std::cout << "horizon: " << name << ": " << difference << "\n";
            found.insert(difference);
        }
        ++models;
        quantizers += static_cast<int>(horizon.behind.size());
    }
    std::cout << "horizon: " << models << " models, " << quantizers << " quantizers\n";
    CHECK(models >= 39);
    CHECK(quantizers >= 90);
    CHECK(found == keys_of(table_of("Where horizon mode is not PyTorch"), 2));
}

TEST_CASE("All recorded graphs are accounted for: dynamic quantization prepares none") {
    std::map<std::string, int> modes;
    for (const json& stored : test::golden_cases("fx_graphs")) {
        ++modes[stored.at("mode").get<std::string>()];
        if (stored.at("mode") != "dynamic") continue;
        std::cout << "not prepared: dynamic " << stored.at("name").get<std::string>() << "\n";
        // PyTorch's hold placeholders, which observe nothing, and observers of weights that are not a module's.
        for (const json& node : stored.at("prepared"))
            if (is_observer(node.at("name").get<std::string>()))
                CHECK((node.at("type") == "PlaceholderObserver" || node.at("args").at(0) == "%w"));
    }
    CHECK(modes == std::map<std::string, int>{{"static", 50}, {"qat", 14}, {"dynamic", 5}});
}
