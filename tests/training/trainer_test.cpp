// SPDX-License-Identifier: MIT
//
// Trainings: that they learn, resume to the same bits, and lose nothing by an error.
#include "intq/training/trainer.hpp"
#include "intq/io/file.hpp"
#include "intq/training/batches.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "intq/graph/tracer.hpp"
#include "io/temporary_folder.hpp"
#include "support/small_models.hpp"

#include "support/catch.hpp"

using namespace intq;
using Catch::Matchers::Contains;
using intq::Tensor;

namespace {

constexpr index_t samples = 40;

/// A network with all that has a state: batch norm, dropout.
std::shared_ptr<graph::GraphModule> make_network() {
    manual_seed(9);
    const auto model = test::make_model(
        {{"conv", std::make_shared<nn::Conv2d>(nn::Conv2dOptions{1, 4, nn::square_window(3, 1, 1), 1, false})},
         {"norm", std::make_shared<nn::BatchNorm2d>(nn::BatchNormOptions{4})},
         {"dropout", std::make_shared<nn::Dropout>(0.2, 3)},
         {"fc", std::make_shared<nn::Linear>(nn::LinearOptions{64, 2})}},
        [](test::LambdaModel& m, nn::Arguments x) {
            return m.call("fc", nn::flatten(m.call("dropout", nn::relu(m.call("norm", m.call("conv", x[0])))), 1));
        });
    return graph::symbolic_trace(model);
}

/// Images whose class is whether their left half is brighter.
struct Task {
    Tensor images = test::random_tensor(Shape(samples, 1, 4, 4), 21);
    std::vector<index_t> labels;
    Task() {
        for (index_t n = 0; n < samples; ++n) {
            float sum = 0;
            for (index_t i = 0; i < 16; ++i)
                sum += (i % 4 < 2 ? 1.0f : -1.0f) * images.flat<float>()[static_cast<std::size_t>(n * 16 + i)];
            labels.push_back(sum > 0 ? 1 : 0);
        }
    }
    training::LossFunction loss() const {
        return [this](const Tensor& logits, std::span<const index_t> chosen) {
            std::vector<index_t> picked;
            for (const index_t sample : chosen) picked.push_back(labels[static_cast<std::size_t>(sample)]);
            return training::cross_entropy(logits, picked);
        };
    }
};

training::TrainerOptions options_of(std::int64_t epochs) {
    training::TrainerOptions options;
    options.epochs = epochs;
    options.batch_size = 8;
    options.seed = 4;
    options.rate = training::warm_up(3, training::cosine_rate(0.02, 40));
    options.progress = io::ShowProgress::never;
    options.augment = [](const Tensor& batch, std::uint64_t seed) {
        Tensor shifted = batch.clone();
        const float noise = static_cast<float>(seed % 1000) * 1e-5f;
        for (float& x : shifted.flat<float>()) x += noise;
        return shifted;
    };
    return options;
}

/// Everything that a training leaves, as bytes.
std::vector<std::byte> state_of(graph::GraphModule& model, const training::Optimizer& optimizer,
                                const training::Trainer& trainer) {
    return io::serialize_safetensors(training::make_checkpoint(model, optimizer, trainer.position()));
}

std::vector<std::byte> train_at_once(std::int64_t epochs, const Executor& executor = serial) {
    const Task task;
    const auto model = make_network();
    training::Adam adam;
    training::TrainerOptions options = options_of(epochs);
    options.executor = executor;
    training::Trainer trainer(*model, adam, options);
    trainer.fit(task.images, task.loss());
    return state_of(*model, adam, trainer);
}

/// Tasks on as many threads, in no order.
void run_on_threads(void*, index_t count, Executor::Task task, void* context) {
    std::vector<std::thread> threads;
    for (index_t first = 0; first < 3; ++first)
        threads.emplace_back([=] {
            for (index_t i = first; i < count; i += 3) task(context, i);
        });
    for (auto& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("A small network learns its task") {
    const Task task;
    const auto model = make_network();
    training::SGD sgd({0.9, 0.0, 0.0, true});
    training::TrainerOptions options = options_of(20);
    std::vector<double> losses;
    options.on_epoch = [&](const training::EpochReport& report) { losses.push_back(report.mean_loss); };
    training::Trainer trainer(*model, sgd, options);
    trainer.fit(task.images, task.loss());
    REQUIRE(losses.size() == 20);
    CHECK(losses.back() < losses.front() / 3);
    model->eval();
    const Tensor logits = (*model)(task.images).tensor();
    index_t right = 0;
    for (std::size_t n = 0; n < task.labels.size(); ++n)
        right += (logits.flat<float>()[2 * n + 1] > logits.flat<float>()[2 * n]) == (task.labels[n] == 1) ? 1 : 0;
    CHECK(right >= samples - 2);
}

TEST_CASE("A training that was interrupted and resumed gives the bits of one that was not, on any threads") {
    const std::vector<std::byte> at_once = train_at_once(4);
    CHECK(train_at_once(4) == at_once);
    CHECK(train_at_once(4, Executor(&run_on_threads, nullptr)) == at_once);

    const test::TemporaryFolder folder;
    const Task task;
    // Interrupted in the middle of an epoch: a loss that throws.
    const auto first = make_network();
    training::Adam first_adam;
    training::TrainerOptions options = options_of(4);
    options.checkpoint = folder / "state";
    training::Trainer stopped(*first, first_adam, options);
    int batches = 0;
    CHECK_THROWS_WITH(stopped.fit(task.images,
                                  [&](const Tensor& logits, std::span<const index_t> chosen) {
                                      if (++batches == 13) throw Error("the lamp went out");
                                      return task.loss()(logits, chosen);
                                  }),
                      Contains("epoch 3, batch 3: the lamp went out"));
    CHECK(folder.count() == 1);

    const auto second = make_network();
    training::Adam second_adam;
    training::Trainer resumed(*second, second_adam, options);
    resumed.load(folder / "state");
    CHECK(resumed.position().epoch == 2);
    CHECK(resumed.position().batch == 2);
    resumed.fit(task.images, task.loss());
    CHECK(state_of(*second, second_adam, resumed) == at_once);
    // The last checkpoint is the end; to go on from it does nothing.
    CHECK(io::read_file(folder / "state") == at_once);
    resumed.load(folder / "state");
    resumed.fit(task.images, task.loss());
    CHECK(state_of(*second, second_adam, resumed) == at_once);
}

TEST_CASE("A loss that is not finite names epoch, batch and node, and the state before it is kept") {
    const test::TemporaryFolder folder;
    Task task;
    const auto model = make_network();
    training::Adam adam;
    training::TrainerOptions options = options_of(3);
    options.checkpoint = folder / "state";
    options.shuffle = false;
    training::Trainer trainer(*model, adam, options);
    std::vector<std::byte> before;
    const auto spoil = [&](const Tensor& logits, std::span<const index_t> chosen) {
        const training::Loss loss = task.loss()(logits, chosen);
        if (trainer.position().step == 6) task.images.flat<float>()[2 * 8 * 16] = NAN;  // a sample of the next batch
        return loss;
    };
    CHECK_THROWS_WITH(
        trainer.fit(task.images, spoil),
        Contains("epoch 2, batch 3: the loss is not finite; the first value that is not is the output of node 1") &&
            Contains("placeholder[x]"));
    for (const auto& tensor : nn::detail::all_tensors(*model)) {
        INFO(tensor.name);
        if (tensor.value->dtype() != DType::float32) continue;
        for (const float value : tensor.value->flat<float>()) CHECK(std::isfinite(value));
    }
    CHECK(trainer.position().step == 7);
    CHECK(io::read_file(folder / "state") == state_of(*model, adam, trainer));
    CHECK(model->find_tensor("dropout.calls")->flat<std::int64_t>()[0] == 7);
    // The data mended, the training goes on to the bits of one that never failed.
    const Task good;
    training::TrainerOptions plain = options_of(3);
    plain.shuffle = false;
    training::Trainer resumed(*model, adam, plain);
    resumed.load(folder / "state");
    resumed.fit(good.images, good.loss());
    const auto other = make_network();
    training::Adam other_adam;
    training::Trainer at_once(*other, other_adam, plain);
    at_once.fit(good.images, good.loss());
    CHECK(state_of(*model, adam, resumed) == state_of(*other, other_adam, at_once));
}

TEST_CASE("A gradient that is not finite names its parameter") {
    const Task task;
    const auto model = make_network();
    training::Adam adam;
    training::Trainer trainer(*model, adam, options_of(1));
    CHECK_THROWS_WITH(trainer.fit(task.images,
                                  [&](const Tensor& logits, std::span<const index_t>) {
                                      return training::Loss{1.0, Tensor::full(logits.shape(), HUGE_VALF)};
                                  }),
                      Contains("epoch 1, batch 1: the gradient of") && Contains("is not finite"));
}

TEST_CASE("A step that would spoil one parameter moves none, and the checkpoint stays good") {
    const test::TemporaryFolder folder;
    const Task task;
    const auto model = make_network();
    training::Adam adam;
    training::TrainerOptions options = options_of(1);
    options.checkpoint = folder / "state";
    training::Trainer(*model, adam, options).fit(task.images, task.loss());
    // A second moment below zero has no root: the values of one parameter would be NaN.
    io::Safetensors file = io::read_safetensors(folder / "state");
    for (auto& item : file.arrays)
        if (item.name == "optimizer/exp_avg_sq/norm.weight")
            item.array = io::make_npy<float>({4}, std::vector<float>{-1.0f, -1.0f, -1.0f, -1.0f});
    io::write_safetensors(folder / "state", file);
    options.epochs = 2;
    training::Adam second;
    training::Trainer trainer(*model, second, options);
    trainer.load(folder / "state");
    const auto before = state_of(*model, second, trainer);
    CHECK_THROWS_WITH(trainer.fit(task.images, task.loss()),
                      Contains("epoch 2, batch 1: norm.weight: a step of rate") && Contains("NaN or infinite"));
    CHECK(state_of(*model, second, trainer) == before);
    CHECK(io::read_file(folder / "state") == before);
}

TEST_CASE("What a user's function throws leaves the state before the batch") {
    const test::TemporaryFolder folder;
    const Task task;
    const auto model = make_network();
    training::Adam adam;
    training::TrainerOptions options = options_of(1);
    options.checkpoint = folder / "state";
    training::Trainer trainer(*model, adam, options);
    int batches = 0;
    const auto throws = [&](const Tensor& logits, std::span<const index_t> chosen) {
        if (++batches == 3) throw std::out_of_range("a label of the user's");
        return task.loss()(logits, chosen);
    };
    CHECK_THROWS_AS(trainer.fit(task.images, throws), std::out_of_range);
    CHECK(io::read_file(folder / "state") == state_of(*model, adam, trainer));
    CHECK(model->find_tensor("dropout.calls")->flat<std::int64_t>()[0] == 2);
    trainer.fit(task.images, task.loss());
    CHECK(state_of(*model, adam, trainer) == train_at_once(1));
}

TEST_CASE("The order of samples follows from the seed, holds each once and changes from epoch to epoch") {
    const auto a = training::shuffled_order(1000, 5);
    CHECK(a == training::shuffled_order(1000, 5));
    CHECK(a != training::shuffled_order(1000, 6));
    auto sorted = a;
    std::sort(sorted.begin(), sorted.end());
    for (index_t i = 0; i < 1000; ++i) CHECK(sorted[static_cast<std::size_t>(i)] == i);
    CHECK(training::shuffled_order(0, 1).empty());
    // Each place holds each number about equally often: 6000 orders of 4.
    int counts[4][4] = {};
    for (std::uint64_t seed = 0; seed < 6000; ++seed) {
        const auto order = training::shuffled_order(4, seed);
        for (std::size_t i = 0; i < 4; ++i) ++counts[i][order[i]];
    }
    for (const auto& row : counts)
        for (const int count : row) CHECK(std::abs(count - 1500) < 200);
}

TEST_CASE("Wrong options and data are refused") {
    const Task task;
    const auto model = make_network();
    training::Adam adam;
    const auto with = [&](auto change) {
        training::TrainerOptions options = options_of(1);
        change(options);
        training::Trainer(*model, adam, options).fit(task.images.batch(0, 4), task.loss());
    };
    CHECK_THROWS_WITH(with([](auto& o) { o.batch_size = 0; }), Contains("batch_size must be at least 1, given 0"));
    CHECK_THROWS_WITH(with([](auto& o) { o.rate = nullptr; }), Contains("no function for the rate"));
    for (const double bad : {-0.1, std::nan(""), HUGE_VAL})
        CHECK_THROWS_WITH(with([&](auto& o) {
                              o.drop_last = false;
                              o.rate = training::constant_rate(bad);
                          }),
                          Contains("epoch 1, batch 1: Optimizer::step: the rate must be 0 or above"));
    training::Trainer trainer(*model, adam, options_of(1));
    CHECK_THROWS_WITH(trainer.fit(task.images, nullptr), Contains("no loss function is given"));
    const auto without_gradient = [](const Tensor&, std::span<const index_t>) { return training::Loss{1.0, {}}; };
    CHECK_THROWS_WITH(trainer.fit(task.images, without_gradient),
                      Contains("epoch 1, batch 1: the loss has no gradient"));
    CHECK_THROWS_WITH(with([](auto&) {}), Contains("4 samples do not fill a batch of 8"));
    CHECK_NOTHROW(with([](auto& o) { o.drop_last = false; }));
    const std::vector<index_t> chosen{4};
    CHECK_THROWS_WITH(training::gather(task.images.batch(0, 4), chosen), Contains("no sample 4 of 4"));
}

TEST_CASE("A checkpoint that does not fit is refused, and changes nothing") {
    const test::TemporaryFolder folder;
    const Task task;
    const auto model = make_network();
    training::Adam adam;
    training::Trainer trainer(*model, adam, options_of(1));
    trainer.fit(task.images, task.loss());
    const io::Safetensors good = training::make_checkpoint(*model, adam, trainer.position());
    const auto before = io::serialize_safetensors(good);
    const auto refuse = [&](const std::string& sentence, auto change) {
        INFO(sentence);
        io::Safetensors bad = good;
        change(bad);
        io::write_safetensors(folder / "bad", bad);
        CHECK_THROWS_WITH(trainer.load(folder / "bad"), Contains(sentence) && Contains("bad"));
        CHECK(state_of(*model, adam, trainer) == before);
    };
    const auto named = [](io::Safetensors& file, const std::string& name) -> io::NamedArray& {
        for (auto& item : file.arrays)
            if (item.name == name) return item;
        throw Error("no " + name);
    };
    refuse("not a checkpoint", [](auto& file) { file.metadata.clear(); });
    refuse("conv.weight: the state dictionary lacks", [&](auto& file) {
        std::erase_if(file.arrays, [](const auto& item) { return item.name.ends_with("conv.weight"); });
    });
    refuse("more: the model has no parameter", [&](auto& file) {
        file.arrays.push_back({"model/more", named(file, "model/fc.bias").array});
    });
    refuse("fc.bias: the state dictionary has float32 (1, 2), the model float32 (2)", [&](auto& file) {
        named(file, "model/fc.bias").array.shape = {1, 2};
    });
    refuse("there is no such parameter",
           [&](auto& file) { named(file, "optimizer/exp_avg/fc.bias").name = "optimizer/exp_avg/fc.c"; });
    refuse("fc.bias: its state exp_avg must be float32 (2), given float32 (1, 2)", [&](auto& file) {
        named(file, "optimizer/exp_avg/fc.bias").array.shape = {1, 2};
    });
    refuse("fc.bias: its state exp_avg must be float32 (2), given int64 (1)", [&](auto& file) {
        const std::int64_t seven = 7;
        named(file, "optimizer/exp_avg/fc.bias").array = io::make_npy<std::int64_t>({1}, std::span(&seven, 1));
    });
    refuse("fc.bias: its state step cannot be -1", [&](auto& file) {
        const std::int64_t before_the_first = -1;
        named(file, "optimizer/step/fc.bias").array = io::make_npy<std::int64_t>({1}, std::span(&before_the_first, 1));
    });
    refuse("fc.bias: its state lacks exp_avg_sq", [&](auto& file) {
        std::erase_if(file.arrays, [](const auto& item) { return item.name == "optimizer/exp_avg_sq/fc.bias"; });
    });
    refuse("fc.bias: its state has \"momentum_buffer\", which this Adam does not keep", [&](auto& file) {
        file.arrays.push_back({"optimizer/momentum_buffer/fc.bias", named(file, "optimizer/exp_avg/fc.bias").array});
    });
    refuse("its optimizer is SGD, expected Adam", [](auto& file) { file.metadata["optimizer"] = "SGD"; });
    refuse("its optimizer is not named", [](auto& file) { file.metadata.erase("optimizer"); });
    refuse("expected 6 numbers", [&](auto& file) {
        auto& array = named(file, "training/position").array;
        array.shape = {5};
        array.bytes.resize(40);
    });
    refuse("no array \"training/epoch_loss\"",
           [&](auto& file) { named(file, "training/epoch_loss").name = "training/other"; });
    const auto poke = [&](const std::string& name, auto value) {
        return [&named, name, value](auto& file) {
            std::memcpy(named(file, name).array.bytes.data(), &value, sizeof value);
        };
    };
    const float nan = std::numeric_limits<float>::quiet_NaN();
    refuse("fc.bias: element 0 is NaN or infinite", poke("model/fc.bias", nan));
    refuse("conv.weight: element 0 is NaN or infinite", poke("model/conv.weight", HUGE_VALF));
    refuse("fc.bias: its state exp_avg holds NaN or infinity", poke("optimizer/exp_avg/fc.bias", nan));
    refuse("the sum of the losses is not finite", poke("training/epoch_loss", static_cast<double>(nan)));
    io::write_safetensors(folder / "good", good);
    training::TrainerOptions other = options_of(1);
    other.seed = 5;
    CHECK_THROWS_WITH(training::Trainer(*model, adam, other).load(folder / "good"),
                      Contains("its seed is 4, expected 5"));
    other = options_of(1);
    other.batch_size = 4;
    CHECK_THROWS_WITH(training::Trainer(*model, adam, other).load(folder / "good"), Contains("its batch size is 8"));
    training::Trainer resumed(*model, adam, options_of(3));
    resumed.load(folder / "good");
    CHECK_THROWS_WITH(resumed.fit(task.images.batch(0, 16), task.loss()), Contains("began with 40 samples, given 16"));
    CHECK_THROWS_WITH(trainer.load(folder / "none"), Contains("cannot be opened"));
}
