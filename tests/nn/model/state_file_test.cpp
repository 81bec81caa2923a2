// SPDX-License-Identifier: MIT
//
// State dictionaries as files. The names are those of PyTorch's state_dict() of the same layers, without
// num_batches_tracked, which PyTorch adds where a dictionary lacks it.
#include "intq/nn/model/state_file.hpp"

#include <algorithm>
#include <set>

#include "intq/graph/tracer.hpp"
#include "intq/io/safetensors.hpp"
#include "intq/tensor/npy.hpp"
#include "io/temporary_folder.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using Catch::Matchers::Contains;
using intq::Tensor;
using test::message_of;

namespace {

/// Convolution, batch norm, dropout, an LSTM of two layers and both directions with dropout, and one linear layer in
/// two slots.
nn::ModulePtr make_network() {
    const auto shared = std::make_shared<nn::Linear>(nn::LinearOptions{6, 6});
    nn::LSTMOptions lstm{4, 3, 2, true, false, true};
    lstm.dropout = 0.25;
    return test::make_model({{"conv", std::make_shared<nn::Conv2d>(nn::Conv2dOptions{1, 4, nn::square_window(3)})},
                             {"bn", std::make_shared<nn::BatchNorm2d>(nn::BatchNormOptions{4})},
                             {"drop", std::make_shared<nn::Dropout>()},
                             {"rnn", std::make_shared<nn::LSTM>(lstm)},
                             {"first", shared},
                             {"second", shared}},
                            [](test::LambdaModel& m, nn::Arguments x) {
                                const nn::Value y = m.call("drop", m.call("bn", m.call("conv", x[0])));
                                return m.call("second", m.call("first", m.call("rnn", nn::mean(y, {2}))[0]));
                            });
}

std::vector<float> values_of(const nn::StateDict& state) {
    std::vector<float> all;
    for (const auto& item : state) {
        const auto values = item.value.flat<float>();
        all.insert(all.end(), values.begin(), values.end());
    }
    return all;
}

}  // namespace

TEST_CASE("A state dictionary as a file has PyTorch's names and comes back to the last bit") {
    const test::TemporaryFolder folder;
    const nn::ModulePtr model = make_network();
    nn::save_state_dict(*model, folder / "state.safetensors");

    std::set<std::string> expected{"conv.weight",    "conv.bias",    "bn.weight",  "bn.bias",       "bn.running_mean",
                                   "bn.running_var", "first.weight", "first.bias", "second.weight", "second.bias"};
    for (const char* part : {"weight_ih", "weight_hh", "bias_ih", "bias_hh"})
        for (const char* suffix : {"_l0", "_l0_reverse", "_l1", "_l1_reverse"})
            expected.insert(std::string("rnn.") + part + suffix);
    const io::Safetensors file = io::read_safetensors(folder / "state.safetensors");
    std::set<std::string> names;
    for (const auto& array : file.arrays) names.insert(array.name);
    CHECK(names == expected);
    CHECK(file.metadata.at("format") == "pt");
    CHECK(file.at("rnn.weight_ih_l1_reverse").shape == std::vector<index_t>{12, 6});

    const nn::ModulePtr other = make_network();
    CHECK(values_of(nn::state_dict(*other)) != values_of(nn::state_dict(*model)));
    nn::load_state_dict(*other, folder / "state.safetensors");
    CHECK(values_of(nn::state_dict(*other)) == values_of(nn::state_dict(*model)));
    CHECK(other->child("first") == other->child("second"));
    other->eval(), model->eval();
    const Tensor x = test::random_tensor(Shape(2, 1, 6, 6), 3);
    CHECK(test::largest_difference((*other)(x).tensor(), (*model)(x).tensor()) == 0);
    // The dictionary itself, which has each module once.
    CHECK(nn::read_state_dict(folder / "state.safetensors").size() == 26);
    nn::save_state_dict(nn::state_dict(*model), folder / "once.safetensors");
    CHECK(nn::read_state_dict(folder / "once.safetensors").size() == 24);
    nn::load_state_dict(*other, folder / "once.safetensors");
}

TEST_CASE("The counts of dropouts are no part of a state dictionary, and are of a whole state") {
    const nn::ModulePtr model = make_network();
    const auto has = [](const nn::StateDict& state, const std::string& name) {
        return std::any_of(state.begin(), state.end(), [&](const auto& item) { return item.name == name; });
    };
    for (const char* name : {"drop.calls", "rnn.calls"}) {
        CHECK_FALSE(has(nn::state_dict(*model), name));
        CHECK(has(nn::whole_state(*model), name));
    }
    model->find_tensor("drop.calls")->flat<std::int64_t>()[0] = 5;
    nn::load_state_dict(*model, nn::state_dict(*make_network()));
    CHECK(model->find_tensor("drop.calls")->flat<std::int64_t>()[0] == 5);
    nn::load_state_dict(*model, nn::whole_state(*make_network()));
    CHECK(model->find_tensor("drop.calls")->flat<std::int64_t>()[0] == 0);
}

TEST_CASE("What PyTorch writes is read: num_batches_tracked is a number that nothing needs") {
    const test::TemporaryFolder folder;
    const nn::ModulePtr model = make_network();
    nn::save_state_dict(*model, folder / "state.safetensors");
    io::Safetensors file = io::read_safetensors(folder / "state.safetensors");
    const std::int64_t batches[] = {17};
    file.arrays.push_back({"bn.num_batches_tracked", io::make_npy<std::int64_t>({}, batches)});
    io::write_safetensors(folder / "torch.safetensors", file);
    const nn::ModulePtr other = make_network();
    nn::load_state_dict(*other, folder / "torch.safetensors");
    CHECK(values_of(nn::state_dict(*other)) == values_of(nn::state_dict(*model)));
}

TEST_CASE("A state file that does not fit names itself and the tensor, and changes nothing") {
    const test::TemporaryFolder folder;
    const nn::ModulePtr model = make_network();
    nn::save_state_dict(*model, folder / "good.safetensors");
    const std::vector<float> before = values_of(nn::state_dict(*model));
    const auto message_with = [&](const auto& change) {
        io::Safetensors file = io::read_safetensors(folder / "good.safetensors");
        change(file);
        io::write_safetensors(folder / "bad.safetensors", file);
        return message_of<Error>([&] { nn::load_state_dict(*model, folder / "bad.safetensors"); });
    };
    const auto of = [](io::Safetensors& file, const std::string& name) -> io::NamedArray& {
        return *std::find_if(file.arrays.begin(), file.arrays.end(), [&](const auto& a) { return a.name == name; });
    };
    CHECK_THAT(message_with([&](auto& file) { of(file, "conv.bias").name = "conv.bais"; }),
               Contains("bad.safetensors: ") && Contains("conv.bias") && Contains("lacks") && Contains("conv.bais"));
    nn::StateDict twice = nn::state_dict(*model);
    twice.push_back(twice[0]);
    CHECK_THAT(message_of<Error>([&] { nn::load_state_dict(*model, twice); }),
               Contains(twice[0].name) && Contains("has this name twice"));
    CHECK_THAT(message_with([&](auto& file) {
                   of(file, "conv.bias").array = io::make_npy<float>({1}, std::vector<float>{1.0f});
               }),
               Contains("bad.safetensors: ") && Contains("conv.bias") && Contains("(1)"));
    CHECK_THAT(message_with([&](auto& file) { of(file, "second.bias").array.bytes[0] ^= std::byte{1}; }),
               Contains("bad.safetensors: ") && Contains("second.bias") && Contains("first.bias"));
    CHECK_THAT(message_of<Error>([&] { nn::load_state_dict(*model, folder / "none.safetensors"); }),
               Contains("none.safetensors"));
    CHECK(values_of(nn::state_dict(*model)) == before);
}

TEST_CASE("save_npy writes what load_npy reads") {
    const test::TemporaryFolder folder;
    const Tensor x = test::random_tensor(Shape(2, 3, 4), 5);
    save_npy(folder / "x.npy", x);
    const Tensor y = load_npy(folder / "x.npy");
    CHECK(y.shape() == x.shape());
    CHECK(test::largest_difference(x, y) == 0);
    CHECK_THAT(message_of<Error>([&] { save_npy(folder / "none.npy", Tensor()); }), Contains("none.npy"));
}

TEST_CASE("The graph of a model keeps which buffers are no part of its state") {
    const auto model = test::make_model({{"relu", std::make_shared<nn::ReLU>()}},
                                        [](test::LambdaModel& m, nn::Arguments x) { return m.call("relu", x[0]); });
    model->add_buffer("kept", Tensor::zeros(Shape(1)));
    model->add_buffer("dropped", Tensor::zeros(Shape(1)), false);
    for (const nn::ModulePtr& one :
         {nn::ModulePtr(model), nn::ModulePtr(graph::symbolic_trace(model)), nn::ModulePtr(nn::clone(model))}) {
        const nn::StateDict state = nn::state_dict(*one);
        REQUIRE(state.size() == 1);
        CHECK(state[0].name == "kept");
    }
}
