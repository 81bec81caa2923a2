// SPDX-License-Identifier: MIT
//
// Calibration, training and sensitivity on threads that stand for ranks, against one process without ranks.
#include <array>
#include <atomic>
#include <cmath>
#include <mutex>

#include "distributed/tasks.hpp"
#include "intq/distributed/ranks/thread_ranks.hpp"
#include "intq/quantization/observers/range_observers.hpp"
#include "io/temporary_folder.hpp"
#include "support/catch.hpp"

using namespace intq;
using namespace intq::distributed;
using namespace intq::quantization;
using Catch::Matchers::Contains;
using intq::Tensor;
using test::message_of;
using test::distributed::Bytes;
using test::distributed::TrainingTask;

namespace {

/// What each rank's work gives.
template <class Result, class Work> std::vector<Result> on_ranks(int ranks, const Work& work) {
    std::vector<Result> results(static_cast<std::size_t>(ranks));
    run_thread_ranks(ranks, [&](Communicator& all) { results[static_cast<std::size_t>(all.rank())] = work(all); });
    return results;
}

}  // namespace

TEST_CASE("Ranks calibrate to the bits of one process, with every observer that can be joined") {
    int joined = 0;
    for (const NamedObserver& row : observer_table().rows()) {
        INFO(row.name);
        std::string refused;
        const auto model = test::distributed::prepared_model(row.name);
        calibrate(*model, test::distributed::batches());
        const Bytes expected = test::distributed::calibration_bytes(*model);
        for (const int ranks : {2, 12}) {  // 12 ranks for 9 batches
            if (ranks == 12 && row.name != std::string("mse")) continue;
            std::vector<Bytes> results;
            try {
                results = on_ranks<Bytes>(
                    ranks, [&](Communicator& all) { return test::distributed::calibrate(all, row.name); });
            } catch (const Error& error) {
                refused = error.what();
                break;
            }
            for (const Bytes& result : results) CHECK(result == expected);
            ++joined;
        }
        // A moving average depends on the order of the batches.
        CHECK((refused.find("order of the batches") != std::string::npos) ==
              (std::string(row.name).find("ema") != std::string::npos ||
               std::string(row.name).find("moving") != std::string::npos));
    }
    CHECK(joined >= 8);
}

TEST_CASE("Ranks resume a calibration, and stop where they are told to") {
    const auto whole = test::distributed::prepared_model();
    calibrate(*whole, test::distributed::batches());
    const Bytes expected = test::distributed::calibration_bytes(*whole);
    const auto results = on_ranks<Bytes>(3, [](Communicator& all) {
        const auto model = test::distributed::prepared_model();
        const auto part = distributed::calibrate(*model, test::distributed::batches(), all, {.most = 5});
        const auto rest = distributed::calibrate(*model, test::distributed::batches(), all, {.first = part.done});
        if (part.done != 5 || part.total != 9 || part.complete() || !rest.complete() || !rest.unseen.empty())
            throw Error("the report is wrong");
        return test::distributed::calibration_bytes(*model);
    });
    for (const Bytes& result : results) CHECK(result == expected);
}

TEST_CASE("A batch that cannot be read stops all ranks, and leaves every model as it was") {
    std::array<std::string, 3> messages;
    std::atomic<int> unchanged = 0;
    CHECK_THROWS_AS(run_thread_ranks(3,
                                     [&](Communicator& all) {
                                         const auto model = test::distributed::prepared_model();
                                         calibrate(*model, test::distributed::batches(), {.most = 2});
                                         const Bytes before = test::distributed::calibration_bytes(*model);
                                         BatchSource source = test::distributed::batches();
                                         source.batch = [batch = source.batch](std::size_t i) {
                                             if (i == 7) throw Error("batch 7", "the file is cut off");
                                             return batch(i);
                                         };
                                         messages[static_cast<std::size_t>(all.rank())] =
                                             message_of<Error>([&] { distributed::calibrate(*model, source, all); });
                                         if (test::distributed::calibration_bytes(*model) == before) ++unchanged;
                                     }),
                    Error);
    CHECK(unchanged == 3);
    CHECK(messages[0] == "rank 1: batch 7: the file is cut off");
    CHECK(messages[1] == "batch 7: the file is cut off");
    CHECK(messages[2] == messages[0]);
}

TEST_CASE("What ranks cannot join is refused on every rank before any data is read") {
    const auto refused = [](const std::function<void(Communicator&)>& work) {
        std::mutex mutex;
        std::set<std::string> messages;
        try {
            run_thread_ranks(2, [&](Communicator& all) {
                try {
                    work(all);
                } catch (const std::exception& error) {
                    const std::lock_guard lock(mutex);
                    messages.insert(error.what());
                    throw;
                }
            });
        } catch (const Error&) {
        }
        std::string text;
        for (const std::string& message : messages) text += message + "\n";
        return text;
    };
    CHECK_THAT(refused([](Communicator& all) {
                   BatchSource source = test::distributed::batches();
                   if (all.rank() == 1) source.count = 8;
                   distributed::calibrate(*test::distributed::prepared_model(), source, all);
               }),
               Contains("the number of batches") && Contains("rank 1 differs"));
    CHECK_THAT(refused([](Communicator& all) {
                   const auto model = test::distributed::prepared_model();
                   if (all.rank() == 1) model->named_parameters()[0].value->flat<float>()[0] += 1.0f;
                   distributed::calibrate(*model, test::distributed::batches(), all);
               }),
               Contains("the model of rank 1 differs"));
    CHECK_THAT(refused([](Communicator& all) {
                   BatchSource empty = test::distributed::batches();
                   empty.batch = [](std::size_t) { return Tensor::zeros(Shape(0, 3, 8, 8)); };
                   distributed::calibrate(*test::distributed::prepared_model(), empty, all);
               }),
               Contains("the calibration set is empty"));
    CHECK_THAT(refused([](Communicator& all) {
                   training::TrainerOptions options = TrainingTask::options();
                   options.batch_size = 7;
                   data_parallel(options, *test::distributed::qat_model(), all);
               }),
               Contains("batches of 7 samples") && Contains("2 ranks"));
    CHECK_THAT(refused([](Communicator& all) {
                   training::TrainerOptions options = TrainingTask::options();
                   options.seed = static_cast<std::uint64_t>(all.rank());
                   data_parallel(options, *test::distributed::qat_model(), all);
               }),
               Contains("the seed") && Contains("rank 1 differs"));
}

TEST_CASE("One rank trains to the bits of the Trainer alone; more ranks agree with each other and repeat") {
    const auto model = test::distributed::qat_model();
    const TrainingTask task;
    training::SGD sgd({0.9, 0.0, 0.0, true});
    training::Trainer trainer(*model, sgd, TrainingTask::options());
    trainer.fit(task.images, task.loss());
    const Bytes alone = io::serialize_safetensors(training::make_checkpoint(*model, sgd, trainer.position()));
    CHECK(on_ranks<Bytes>(1, &test::distributed::train)[0] == alone);
    const auto two = on_ranks<Bytes>(2, &test::distributed::train);
    CHECK(two[0] == two[1]);
    CHECK(on_ranks<Bytes>(2, &test::distributed::train) == two);
    CHECK_FALSE(two[0] == alone);
}

TEST_CASE("The gradient of ranks is that of the whole batch, to the rounding of a float sum") {
    // A float model without batch norm: its loss is a mean over samples, so the parts have the same mean.
    const auto gradient_of = [](Communicator& all) {
        const auto model = graph::symbolic_trace(
            test::make_model({{"conv", test::make_conv(3, 4, 3, 1)}, {"fc", test::make_linear(256, 3, 2)}},
                             [](test::LambdaModel& m, nn::Arguments x) {
                                 return m.call("fc", nn::flatten(nn::relu(m.call("conv", x[0])), 1));
                             }));
        std::vector<float> result;
        training::TrainerOptions options = TrainingTask::options();
        options.epochs = 1;
        options.after_backward = [&](training::Loss& loss, training::Gradients& gradients) {
            if (!result.empty()) return;
            result.push_back(static_cast<float>(loss.value));
            for (const auto& [name, gradient] : gradients.parameters)
                for (const float x : gradient.flat<float>()) result.push_back(x);
        };
        training::SGD sgd({0.0, 0.0, 0.0, false});
        const TrainingTask task;
        training::Trainer trainer(*model, sgd, data_parallel(options, *model, all));
        trainer.fit(task.images, task.loss());
        return result;
    };
    const auto whole = on_ranks<std::vector<float>>(1, gradient_of)[0];
    const auto parts = on_ranks<std::vector<float>>(4, gradient_of);
    REQUIRE(whole.size() == 1 + 3 * 4 * 9 + 4 + 256 * 3 + 3);
    float largest = 0.0f;
    for (const float x : whole) largest = std::max(largest, std::abs(x));
    // Sums of at most 8 samples and 64 pixels, of terms below the largest.
    const float bound = largest * 512 * 0x1p-24f;
    for (const auto& part : parts) {
        CHECK(part == parts[0]);
        REQUIRE(part.size() == whole.size());
        float worst = 0.0f;
        for (std::size_t i = 0; i < whole.size(); ++i) worst = std::max(worst, std::abs(part[i] - whole[i]));
        CHECK(worst <= bound);
    }
}

TEST_CASE("A training whose loss fails on one rank stops on all, with every model as before that batch") {
    std::array<std::string, 2> messages;
    std::array<Bytes, 2> states;
    CHECK_THROWS_AS(run_thread_ranks(
                        2,
                        [&](Communicator& all) {
                            const auto rank = static_cast<std::size_t>(all.rank());
                            const auto model = test::distributed::qat_model();
                            const TrainingTask task;
                            training::SGD sgd({0.9, 0.0, 0.0, true});
                            training::Trainer trainer(*model, sgd, data_parallel(TrainingTask::options(), *model, all));
                            int batches = 0;
                            try {
                                trainer.fit(task.images, [&](const Tensor& logits, std::span<const index_t> samples) {
                                    if (all.rank() == 1 && ++batches == 3) throw Error("no label");
                                    return task.loss()(logits, samples);
                                });
                            } catch (const Error& error) {
                                messages[rank] = error.what();
                                states[rank] = io::serialize_safetensors(
                                    training::make_checkpoint(*model, sgd, trainer.position()));
                                throw;
                            }
                        }),
                    Error);
    CHECK_THAT(messages[0], Contains("epoch 1, batch 3") && Contains("rank 1") && Contains("no label"));
    CHECK_THAT(messages[1], Contains("epoch 1, batch 3") && Contains("no label"));
    CHECK(states[0] == states[1]);
    CHECK_FALSE(states[0].empty());
}

TEST_CASE("is_sync_quantize joins the scales of ranks in training through a RankReduction") {
    const auto ranges = on_ranks<std::vector<float>>(3, [](Communicator& all) {
        ObserverOptions options;
        options.is_sync_quantize = true;
        options.reduction = std::make_shared<RankReduction>(all);
        MinMaxObserver observer(options);
        observer.observe(test::random_tensor(Shape(100), static_cast<unsigned>(all.rank())));
        return observer.calculate_qparams().scales;
    });
    MinMaxObserver whole;
    for (unsigned rank = 0; rank < 3; ++rank) whole.observe(test::random_tensor(Shape(100), rank));
    for (const auto& scales : ranges) CHECK(scales == whole.calculate_qparams().scales);
}

TEST_CASE("Ranks find the sensitivity list of one process to the bit, each with a journal of its own") {
    const test::distributed::SensitivityTask task;
    const std::string expected =
        test::distributed::text_of(analysis::find_sensitive_operators(task.model, task.x, task.expected, task.options));
    REQUIRE(expected.size() > 200);
    for (const int ranks : {1, 2, 3})
        for (const std::string& text : on_ranks<std::string>(ranks, &test::distributed::find_sensitive_operators))
            CHECK(text == expected);
    const test::TemporaryFolder folder;
    run_thread_ranks(2, [&](Communicator& all) {
        test::distributed::SensitivityTask own;
        own.options.journal = folder / "journal";
        const auto list = distributed::find_sensitive_operators(own.model, own.x, own.expected, all, own.options);
        if (test::distributed::text_of(list) != expected) throw Error("the list is another one");
    });
    CHECK(std::filesystem::is_directory(folder / "journal" / "rank_1_of_2"));
}

TEST_CASE("Ranks that measure something else are told so, and give no list") {
    std::string message;
    try {
        run_thread_ranks(2, [](Communicator& all) {
            test::distributed::SensitivityTask own;
            if (all.rank() == 1) own.options.metric = "MSE";
            distributed::find_sensitive_operators(own.model, own.x, own.expected, all, own.options);
        });
    } catch (const Error& error) {
        message = error.what();
    }
    CHECK_THAT(message, Catch::Matchers::Contains("find_sensitive_operators: the metric"));
}
