// SPDX-License-Identifier: MIT
#include "intq/nn/model/module.hpp"

#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using test::message_of;

namespace {

std::string names_of(const std::vector<nn::Named<nn::Module*>>& modules) {
    std::string text;
    for (const auto& module : modules) text += "[" + module.name + "]";
    return text;
}

}  // namespace

TEST_CASE("Modules have qualified names, parents before children") {
    nn::Sequential model{std::make_shared<test::BasicBlock>(2, 1)};
    CHECK(names_of(model.named_modules()) == "[][0][0.conv1][0.bn1][0.relu][0.conv2][0.bn2][0.skip_add]");
    CHECK(model.find("0.conv2").type_name() == "Conv2d");
    CHECK(&model.find("") == &model);
    const auto parameters = model.named_parameters();
    CHECK(parameters.size() == 6);
    CHECK(parameters[0].name == "0.conv1.weight");
    CHECK(model.named_buffers()[1].name == "0.bn1.running_var");
    CHECK(model.find_tensor("0.bn2.running_mean") == &model.find("0.bn2").tensor("running_mean"));
    CHECK(model.find_tensor("0.bn2.nothing") == nullptr);
}

namespace {

struct Walk {
    std::size_t modules = 0, characters = 0, moves_of_the_name = 0;
};

/// What a walk over a model does; a copy of a name stands elsewhere in memory than the name.
Walk walk_over(nn::Module& model) {
    Walk walk;
    const char* place = nullptr;
    nn::for_each_module(model, [&](const std::string& name, const nn::Module&) {
        ++walk.modules;
        walk.characters += name.size();
        walk.moves_of_the_name += name.data() == place ? 0 : 1;
        place = name.data();
    });
    return walk;
}

}  // namespace

TEST_CASE("A walk over a model visits each module once and keeps one name, whatever its depth and width") {
    constexpr std::size_t depth = 2000, width = 100000;
    nn::ModulePtr deep = std::make_shared<nn::Identity>();
    for (std::size_t i = 0; i < depth; ++i) deep = std::make_shared<nn::Sequential>(nn::Sequential{deep});
    const Walk down = walk_over(*deep);
    CHECK(down.modules == depth + 1);
    CHECK(down.characters == depth * depth);  // 0 and 1, 3, … 2 depth - 1
    CHECK(down.moves_of_the_name <= 16);      // it doubles until it holds 2 depth characters

    nn::Sequential wide;
    for (std::size_t i = 0; i < width; ++i) wide.append(std::make_shared<nn::Identity>());
    const Walk across = walk_over(wide);
    CHECK(across.modules == width + 1);
    CHECK(across.moves_of_the_name <= 2);

    const auto listed = deep->named_modules();
    CHECK(listed.size() == depth + 1);
    std::size_t kept = 0;
    for (const auto& module : listed) kept += module.name.capacity();
    CHECK(kept <= depth * depth + 16 * listed.size());  // the names of the list and no room beside them
    CHECK(deep->named_parameters().empty());
    deep->eval();
    CHECK_FALSE(deep->find(listed.back().name).training());
}

TEST_CASE("A child is a slot: another class can be put into it at any depth") {
    nn::Sequential model{std::make_shared<test::BasicBlock>(2, 1)};
    model.eval();
    const intq::Tensor x = test::random_tensor(Shape(1, 2, 4, 4), 7);
    const intq::Tensor before = model(x).tensor();
    model.replace_child("0.conv2", std::make_shared<nn::Identity>());
    CHECK(model.find("0.conv2").type_name() == "Identity");
    CHECK(test::largest_difference(before, model(x).tensor()) > 0);
}

TEST_CASE("A wrong name is an error that lists the names that exist") {
    nn::Sequential model{std::make_shared<test::BasicBlock>(2, 1)};
    CHECK(message_of<Error>([&] { model.find("0.conv3"); }) ==
          "no module \"0.conv3\": BasicBlock has no child \"conv3\"; its children: conv1, bn1, relu, conv2, bn2, "
          "skip_add");
    CHECK(message_of<Error>([&] {
              model.replace_child("1.conv", std::make_shared<nn::ReLU>());
          }).find("its children: 0") != std::string::npos);
    CHECK(message_of<Error>([&] {
              model.find("0.bn1").tensor("gamma");
          }).find("parameters: weight, bias; buffers: running_mean, running_var") != std::string::npos);
    CHECK_THROWS_AS(model.add_child("a.b", std::make_shared<nn::ReLU>()), Error);
    CHECK_THROWS_AS(model.add_child("0", std::make_shared<nn::ReLU>()), Error);
}

TEST_CASE("clone gives a model of its own and keeps what was shared") {
    const auto shared = test::make_conv(2, 2, 3, 5);
    const auto tied = test::make_conv(2, 2, 3, 6);
    tied->set_weight(shared->weight());
    nn::Sequential model{shared, shared, tied};
    model.eval();
    const intq::Tensor x = test::random_tensor(Shape(1, 2, 4, 4), 7);

    const auto copy = nn::clone(static_cast<const nn::Module&>(model));
    CHECK(copy->type_name() == "Sequential");
    CHECK_FALSE(copy->training());
    CHECK(test::largest_difference(model(x).tensor(), (*copy)(x).tensor()) == 0);
    CHECK(copy->child("0") == copy->child("1"));
    CHECK(copy->child("0") != model.child("0"));
    CHECK(copy->child("0")->tensor("weight").shares_buffer_with(copy->child("2")->tensor("weight")));
    CHECK_FALSE(copy->child("0")->tensor("weight").shares_buffer_with(shared->weight()));

    copy->child("0")->tensor("weight").flat<float>()[0] += 1.0f;
    CHECK(test::largest_difference(model(x).tensor(), (*copy)(x).tensor()) > 0);
    CHECK(names_of(copy->named_modules()) == "[][0][2]");
}

TEST_CASE("train and eval reach all modules below") {
    test::ResidualNet model;
    CHECK_FALSE(model.find("layer1.1.bn2").training());
    model.train();
    CHECK(model.find("layer1.1.bn2").training());
}

TEST_CASE("Values say what they are when something else is asked") {
    const nn::Value tuple(nn::Value::Tuple{1.5, true});
    CHECK(message_of<Error>([&] { tuple.tensor(); }) == "expected a tensor, given a tuple");
    CHECK(tuple.tuple()[0].number() == 1.5);
    CHECK(tuple.tuple()[1].boolean());
    CHECK(nn::Value(3).integer() == 3);
    CHECK(nn::Value(intq::Tensor::full(Shape(1), 2.0f)) > 1);
    CHECK_FALSE(static_cast<bool>(nn::Value(intq::Tensor::full(Shape(1), 0.0f))));
    CHECK(message_of<Error>([] { nn::ReLU()(nn::Value(2.0)); }) == "expected a tensor, given a number");
    const nn::FloatFunctional functional;
    CHECK(message_of<Error>([] { nn::FloatFunctional().dispatch("div", {}); }).find("given \"div\"") !=
          std::string::npos);
}

TEST_CASE("A layer is made with checked options") {
    CHECK(message_of<Error>([] {
              nn::Conv2d({3, 4, nn::square_window(3), 2});
          }).find("cannot be split into 2 groups") != std::string::npos);
    CHECK_THROWS_AS(nn::Conv2d({1, 1, nn::square_window(0)}), Error);
    CHECK_THROWS_AS(nn::Linear({0, 1}), Error);
    CHECK_THROWS_AS(nn::MaxPool2d(nn::square_window(2, 0)), Error);
    CHECK_THROWS_AS(nn::Dropout(1.0), Error);
}
