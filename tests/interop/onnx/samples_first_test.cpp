// SPDX-License-Identifier: MIT
//
// Moves that take the samples from axis 0 and back, as exporters of attention write them: the values stay, and programs
// take them.
#include "intq/interop/onnx/internal/nodes/samples_first.hpp"

#include <functional>

#include "interop/onnx_builder.hpp"
#include "intq/arith/fp32.hpp"
#include "intq/interop/onnx/import.hpp"
#include "intq/interop/onnx/read/read.hpp"
#include "intq/nn.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using test::attribute;
using test::int64_tensor;
using test::Message;
using test::node;

namespace {

constexpr index_t tokens = 5, heads = 2, width = 3;

Message scalar(const std::string& name, std::int64_t value) {
    return Message().integer(2, test::int64).integers(7, {value}).text(8, name);
}

std::shared_ptr<graph::GraphModule> module_of(const test::ModelParts& parts) {
    return interop::onnx::import_model(interop::onnx::parse_model(test::model(parts).bytes(), "m"));
}

/// x (N, T, 3·heads·width) as (3, N, heads, T, width), and `more`.
test::ModelParts parts_of(std::vector<Message> more, std::vector<Message> constants = {}) {
    test::ModelParts parts{
        .nodes = {node("Reshape", {"x", "split"}, {"r"}, {}, "r"),
                  node("Transpose", {"r"}, {"t"}, {attribute("perm", std::vector<std::int64_t>{2, 0, 3, 1, 4})}, "t")},
        .initializers = {int64_tensor("split", {0, tokens, 3, heads, width}), int64_tensor("zero", {0}),
                         int64_tensor("one", {1}), int64_tensor("two", {2}), int64_tensor("three", {3})},
        .inputs = {test::value_info("x", {-1, tokens, 3 * heads * width})}};
    for (Message& message : more) parts.nodes.push_back(std::move(message));
    for (Message& message : constants) parts.initializers.push_back(std::move(message));
    return parts;
}

/// Part i of x as (N, heads, T, width).
nn::Value part(const nn::Value& x, index_t i) {
    const nn::Value whole = nn::reshape(x, {-1, tokens, 3, heads, width});
    return nn::permute(nn::reshape(nn::slice(whole, 2, i, i + 1), {-1, tokens, heads, width}), {0, 2, 1, 3});
}

/// The module computes `expected`, and its program on each target that takes it is near it.
void check(const test::ModelParts& parts, const std::function<nn::Value(const nn::Value&)>& expected) {
    const auto module = module_of(parts);
    const Tensor x = test::random_tensor(Shape(3, tokens, 3 * heads * width), 4);
    const Tensor y = expected(x).tensor();
    CHECK(test::largest_difference((*module)(x).tensor(), y) == 0.0);
    quantization::add_stubs(*module);
    const kernels::KernelTable& table = *test::scalar_tables().tables[0];
    const auto prepared = quantization::prepare_calibration_fx(
        *module, quantization::get_default_qconfig_mapping(table.policy(), DType::int8), table.policy());
    quantization::calibrate(*prepared, x, 2);
    const auto lowered = quantization::lower(quantization::convert_fx(*prepared), table, 3);
    CHECK(test::sqnr(y, lowered.run(x)) > 30.0);
}

Message squeeze(const std::string& from, const std::string& to) {
    return node("Squeeze", {from, "zero"}, {to}, {}, to);
}

}  // namespace

TEST_CASE("Parts of queries, keys and values are selected before the samples are moved") {
    const auto second = [](const nn::Value& x) { return part(x, 1); };
    check(parts_of({node("Slice", {"t", "one", "two", "zero"}, {"s"}, {}, "s"), squeeze("s", "y")}), second);
    check(parts_of({node("Slice", {"t", "one", "two"}, {"s"}, {}, "s"), squeeze("s", "y")}), second);
    check(parts_of({node("Gather", {"t", "index"}, {"y"}, {attribute("axis", 0)}, "g")}, {scalar("index", 1)}), second);
    check(parts_of({node("Split", {"t", "sizes"}, {"a", "b", "c"}, {attribute("axis", 0)}, "split"), squeeze("b", "y")},
                   {int64_tensor("sizes", {1, 1, 1})}),
          second);
    check(parts_of({node("Gather", {"t", "index"}, {"q"}, {}, "q"), node("Gather", {"t", "last"}, {"v"}, {}, "v"),
                    node("Add", {"q", "v"}, {"y"}, {}, "sum")},
                   {scalar("index", 0), scalar("last", -1)}),
          [](const nn::Value& x) { return part(x, 0) + part(x, 2); });
}

TEST_CASE("A Transpose that puts the samples back is one of the value before, also behind elements of an axis") {
    const auto back = [](const char* from) {
        return node("Transpose", {from}, {"y"}, {attribute("perm", std::vector<std::int64_t>{1, 3, 0, 2, 4})}, "back");
    };
    const auto whole = [](const nn::Value& x) {
        return nn::permute(nn::reshape(x, {-1, tokens, 3, heads, width}), {0, 1, 2, 3, 4});
    };
    check(parts_of({back("t")}), whole);
    const auto taken = [&](const nn::Value& x) {
        const nn::Value of_x = whole(x);
        return nn::cat({nn::slice(of_x, 2, 2, 3), nn::slice(of_x, 2, 0, 1), nn::slice(of_x, 2, 0, 1)}, 2);
    };
    check(parts_of({node("GatherND", {"t", "places"}, {"g"}, {}, "take"), back("g")},
                   {Message().integers(1, {3, 1}).integer(2, test::int64).integers(7, {2, 0, 0}).text(8, "places")}),
          taken);
}

TEST_CASE("Keys that are transposed as one list of matrices are transposed for each sample") {
    const auto reshaped = [](const std::string& name) {
        return std::vector<Message>{
            node("Gather", {"t", "index"}, {"k"}, {}, "k"), node("Reshape", {"k", "list"}, {"l"}, {}, "l"),
            node("Transpose", {"l"}, {"u"}, {attribute("perm", std::vector<std::int64_t>{0, 2, 1})}, "u"),
            node("Reshape", {"u", name}, {"y"}, {}, "y")};
    };
    const std::vector<Message> constants{scalar("index", 1), int64_tensor("list", {-1, tokens, width}),
                                         int64_tensor("back", {-1, heads, width, tokens}),
                                         int64_tensor("other", {-1, heads, tokens, width})};
    check(parts_of(reshaped("back"), constants), [](const nn::Value& x) { return nn::transpose(part(x, 1), -1, -2); });
    const auto last_two = [](const test::ModelParts& parts) {
        const auto module = module_of(parts);
        const auto nodes = module->graph().nodes();
        const auto name = [&](std::size_t back) { return std::string(nodes[nodes.size() - back]->function()->name); };
        return name(3) + " " + name(2);
    };
    CHECK(last_two(parts_of(reshaped("back"), constants)) == "permute permute");   // of part() and of the keys
    CHECK(last_two(parts_of(reshaped("other"), constants)) == "permute reshape");  // other matrices: as written
}

TEST_CASE("A file whose shapes fix one sample is said to, where an example has more") {
    const auto refusal_of = [](std::vector<std::int64_t> shape) {
        test::ModelParts parts{
            .nodes = {node("Relu", {"x"}, {"r"}), node("Reshape", {"r", "shape"}, {"y"}, {}, "fixed")},
            .initializers = {int64_tensor("shape", shape)},
            .inputs = {test::value_info("x", {-1, 4, 6})}};
        const auto module = module_of(parts);
        quantization::add_stubs(*module);
        const kernels::KernelTable& table = *test::scalar_tables().tables[0];
        quantization::PrepareOptions options;
        options.example_inputs = {Tensor::of_shape(Shape(2, 4, 6))};
        try {
            quantization::prepare_calibration_fx(*module,
                                                 quantization::get_default_qconfig_mapping(table.policy(), DType::int8),
                                                 table.policy(), options);
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string("not refused");
    };
    const auto contains = [](const std::string& text) { return Catch::Matchers::Contains(text); };
    CHECK_THAT(refusal_of({2, 2, 6}), contains("cannot take the shape (2, 2, 6)") &&
                                          contains("the model takes one sample, so its shapes fix their number"));
    CHECK_THAT(refusal_of({3, 2, 6}), contains("cannot take the shape (3, 2, 6)") && !contains("takes one sample"));
}

TEST_CASE("Moves that keep the samples, select them, or are none stay as they are") {
    const auto rewritten = [](const test::ModelParts& parts) {
        return interop::onnx::with_samples_first(interop::onnx::parse_model(test::model(parts).bytes(), "m"))
            .has_value();
    };
    const auto turned = [&](std::vector<std::int64_t> perm, std::vector<Message> more) {
        test::ModelParts parts = parts_of(std::move(more), {scalar("index", 1)});
        parts.nodes[1] = node("Transpose", {"r"}, {"t"}, {attribute("perm", std::move(perm))}, "t");
        return parts;
    };
    const Message select = node("Gather", {"t", "index"}, {"y"}, {attribute("axis", 0)}, "y");
    CHECK(rewritten(turned({2, 0, 3, 1, 4}, {select})));
    CHECK_FALSE(rewritten(turned({0, 2, 3, 1, 4}, {select})));
    CHECK_FALSE(rewritten(turned({2, 0, 3, 1, 1}, {select})));
    CHECK_FALSE(rewritten(turned({2, 0, 3, 1, 7}, {select})));
    CHECK_FALSE(rewritten(turned({}, {select})));
    CHECK_FALSE(rewritten(turned({2, 0, 3, 1, 4}, {node("Gather", {"t", "index"}, {"y"}, {attribute("axis", 1)})})));
    CHECK_FALSE(rewritten(turned({2, 0, 3, 1, 4}, {node("Gather", {"t", "index"}, {"y"}, {attribute("axis", 9)})})));
    CHECK_FALSE(rewritten(turned({2, 0, 3, 1, 4}, {node("Gather", {"t", "one"}, {"y"}, {attribute("axis", 0)})})));
    CHECK_FALSE(rewritten(turned({2, 0, 3, 1, 4}, {node("Slice", {"t", "zero", "one", "x"}, {"y"})})));
    CHECK_FALSE(rewritten(turned({2, 0, 3, 1, 4}, {node("Squeeze", {"t"}, {"y"})})));
}
