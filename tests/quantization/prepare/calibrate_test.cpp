// SPDX-License-Identifier: MIT
//
// Calibration by batches: stopping and going on, files of state, findings, what a bad batch leaves, what a batch costs.
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <new>

#include "intq/arith/fp32.hpp"
#include "intq/io/safetensors.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/observers/observer_modules.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/calibration_file.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/tensor/npy.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

namespace {
long allocations = 0;
}  // namespace

void* operator new(std::size_t size) {
    ++allocations;
    if (void* memory = std::malloc(size)) return memory;
    throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

using namespace intq;
using namespace intq::quantization;
using test::message_of;
using test::random_tensor;

namespace {

/// conv, relu, conv between stubs.
std::shared_ptr<PreparedModel> prepared_with(const ObserverFactory& observer, const ObserverOptions& options = {}) {
    const auto model = test::make_model({{"quant", std::make_shared<nn::QuantStub>()},
                                         {"first", test::make_conv(2, 4, 3, 1)},
                                         {"relu", std::make_shared<nn::ReLU>()},
                                         {"second", test::make_conv(4, 3, 1, 2)},
                                         {"dequant", std::make_shared<nn::DeQuantStub>()}},
                                        [](test::LambdaModel& m, nn::Arguments x) {
                                            const nn::Value a = m.call("relu", m.call("first", m.call("quant", x[0])));
                                            return m.call("dequant", m.call("second", a));
                                        });
    QConfig qconfig = get_default_calib_qconfig();
    qconfig.output->options.observer = observer;
    qconfig.output->options.observer_options = options;
    return prepare_calibration_fx(*model, QConfigMapping().set_global(qconfig), target::fp32::policy);
}

BatchSource source_of(std::size_t count) {
    return {count, [](std::size_t i) {
                return random_tensor(Shape(2, 2, 6, 6), static_cast<unsigned>(i), 1.0f + static_cast<float>(i % 3));
            }};
}

/// All buffers of a model, as bytes.
std::map<std::string, std::string> state_of(nn::Module& model) {
    std::map<std::string, std::string> state;
    for (const auto& buffer : model.named_buffers())
        state[buffer.name].assign(reinterpret_cast<const char*>(buffer.value->data()),
                                  static_cast<std::size_t>(buffer.value->bytes()));
    return state;
}

std::filesystem::path scratch_folder(const std::string& name) {
    const auto folder = std::filesystem::temp_directory_path() / ("intq_calibrate_test_" + name);
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    return folder;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("A calibration that stops, is saved, and goes on in another model ends with the bits of one run") {
    const auto file = scratch_folder("resume") / "state.safetensors";
    for (const NamedObserver& row : observer_table().rows()) {
        INFO(row.name);
        const auto whole = prepared_with(row.per_tensor), first = prepared_with(row.per_tensor),
                   second = prepared_with(row.per_tensor);
        const CalibrationReport all = calibrate(*whole, source_of(7));
        CHECK((all.complete() && all.unseen.empty()));
        const CalibrationReport part = calibrate(*first, source_of(7), {.most = 3});
        CHECK((part.done == 3 && part.total == 7 && !part.complete()));
        save_calibration(file, *first, part.done);
        CHECK((state_of(*first) != state_of(*whole)) == (row.name != "fixed_scale"));
        const std::size_t done = load_calibration(file, *second);
        CHECK(done == 3);
        CHECK(state_of(*second) == state_of(*first));
        CHECK(calibrate(*second, source_of(7), {.first = done}).complete());
        CHECK(state_of(*second) == state_of(*whole));
    }
    const auto torch = prepared_with(observer_factory<HistogramObserver>(), {.compatibility = Compatibility::torch});
    const auto other = prepared_with(observer_factory<HistogramObserver>(), {.compatibility = Compatibility::torch});
    calibrate(*torch, source_of(2));
    save_calibration(file, *torch, 2);
    CHECK(load_calibration(file, *other) == 2);
    CHECK(state_of(*torch) == state_of(*other));
}

TEST_CASE("A state that is damaged or another model's is refused, and the model stays as it was") {
    const auto file = scratch_folder("refuse") / "state.safetensors";
    const auto model = prepared_with(observer_factory<KLObserver>());
    calibrate(*model, source_of(2));
    save_calibration(file, *model, 2);
    const io::Safetensors good = io::read_safetensors(file);
    const auto fresh = prepared_with(observer_factory<KLObserver>());
    const auto before = state_of(*fresh);
    const auto refusal = [&](auto&& change) {
        io::Safetensors content = good;
        change(content);
        io::write_safetensors(file, content);
        const std::string message = message_of<Error>([&] { load_calibration(file, *fresh); });
        CHECK(state_of(*fresh) == before);
        CHECK(has(message, "state.safetensors"));
        return message;
    };
    const auto array = [](io::Safetensors& content, const std::string& ending) -> io::NpyArray& {
        for (auto& each : content.arrays)
            if (each.name.ends_with(ending)) return each.array;
        throw Error("no array " + ending);
    };
    CHECK(has(refusal([](auto& c) { c.metadata.erase("format"); }), "not the state of a calibration"));
    CHECK(has(refusal([](auto& c) { c.metadata["batches"] = "2x"; }), "not a number"));
    CHECK(has(refusal([](auto& c) { c.metadata["batches"] = "-1"; }), "not a number"));
    CHECK(has(refusal([](auto& c) { c.metadata["observer nowhere"] = "KLObserver"; }), "no \"observer nowhere\""));
    CHECK(has(refusal([](auto& c) { c.metadata.erase(std::prev(c.metadata.end())); }), "the model has one"));
    CHECK(has(refusal([](auto& c) { std::prev(c.metadata.end())->second = "MSEObserver"; }), "\"MSEObserver\""));
    CHECK(has(refusal([](auto& c) { c.arrays.push_back({"stray", c.arrays[0].array}); }), "\"stray\""));
    CHECK(has(refusal([&](auto& c) { array(c, "histogram").bytes[7] ^= std::byte{128}; }), "contradicts"));
    // Two counts of 2^62, whose sum overflows, and one that leaves no room for more data.
    CHECK(
        has(refusal([&](auto& c) { array(c, "histogram").bytes[7] = array(c, "histogram").bytes[15] = std::byte{64}; }),
            "contradicts"));
    CHECK(has(refusal([&](auto& c) { array(c, "histogram").bytes[7] = std::byte{16}; }), "contradicts"));
    CHECK(has(refusal([&](auto& c) { array(c, "grid").bytes[1] ^= std::byte{1}; }), "contradicts"));
    CHECK(has(refusal([&](auto& c) {
                  const float bad = NAN;
                  std::memcpy(array(c, "min_val").bytes.data(), &bad, 4);
              }),
              "the range of channel 0"));
    CHECK(has(refusal([&](auto& c) { array(c, "prepared_input_shapes").bytes[15] = std::byte{128}; }),  // rank < 0
              "row 0 is not the shape of an input"));
    CHECK(has(refusal([&](auto& c) { array(c, "prepared_input_shapes") = array(c, "min_val"); }),
              "does not fit a model with as many inputs"));
    CHECK(has(refusal([](auto& c) { c.arrays.pop_back(); }), "only one is there"));
    CHECK(has(refusal([](auto& c) { c.metadata["batches"] = "18446744073709551615"; }),
              "the number of batches is 18446744073709551615, expected at most"));
    CHECK(has(refusal([](auto& c) {
                  std::erase_if(c.arrays, [](const auto& each) { return each.name == "prepared_input_shapes"; });
              }),
              "it has no prepared_input_shapes"));
    CHECK(has(refusal([&](auto& c) { array(c, "histogram").shape = {2048}; }), "expected int64 (1, 2048)"));
    // An affine range whose width is no float: each end is finite, and no scale follows from them.
    const ObserverOptions affine{.scheme = arith::QuantScheme::affine};
    const auto wide = prepared_with(observer_factory<MinMaxObserver>(), affine);
    calibrate(*wide, source_of(1));
    io::Safetensors content = make_calibration(*wide, 1);
    const float low = -3e38f, high = 3e38f;
    const std::string first = "activation_post_process_0.activation_post_process.";
    std::memcpy(array(content, first + "min_val").bytes.data(), &low, 4);
    std::memcpy(array(content, first + "max_val").bytes.data(), &high, 4);
    const auto taker = prepared_with(observer_factory<MinMaxObserver>(), affine);
    const auto untouched = state_of(*taker);
    CHECK(has(message_of<Error>([&] { restore_calibration(content, "wide", *taker); }), "wide: activation_post"));
    CHECK(state_of(*taker) == untouched);
    const auto other = prepared_with(observer_factory<MSEObserver>());
    io::write_safetensors(file, good);
    CHECK(has(message_of<Error>([&] { load_calibration(file, *other); }), "the model's a MSEObserver"));
    CHECK(load_calibration(file, *fresh) == 2);
}

TEST_CASE("A folder of .npy files is read one batch after the other, in the order of the names") {
    const auto folder = scratch_folder("folder");
    const BatchSource source = source_of(3);
    for (std::size_t i = 0; i < 3; ++i)
        io::write_npy(folder / ("batch" + std::to_string(i) + ".npy"), intq::to_array(source.batch(i)));
    std::ofstream(folder / "notes.txt") << "not a batch";
    const auto model = prepared_with(observer_factory<MovingAverageMinMaxObserver>()),
               expected = prepared_with(observer_factory<MovingAverageMinMaxObserver>());
    std::vector<std::size_t> seen;
    calibrate(*model, npy_batches(folder), {.progress = [&](std::size_t done, std::size_t) { seen.push_back(done); }});
    calibrate(*expected, source);
    CHECK(seen == std::vector<std::size_t>{1, 2, 3});
    CHECK(state_of(*model) == state_of(*expected));
    CHECK(has(message_of<Error>([&] { npy_batches(scratch_folder("none")); }), "no .npy file"));
    CHECK(has(message_of<Error>([&] { npy_batches(folder / "missing"); }), "cannot be read"));
}

TEST_CASE("A batch with NaN names the node, and no observer keeps any of it") {
    const auto model = prepared_with(observer_factory<MSEObserver>());
    calibrate(*model, source_of(2));
    const auto before = state_of(*model);
    intq::Tensor bad = random_tensor(Shape(1, 2, 6, 6), 4, 50.0f);
    bad.flat<float>()[3] = NAN;
    CHECK(has(message_of<Error>([&] { calibrate(*model, std::vector<intq::Tensor>{bad}); }),
              "activation_post_process_0"));
    CHECK(state_of(*model) == before);
    // The input is finite and the convolution's output is not: the first quantizer had seen the batch already.
    const intq::Tensor huge = intq::Tensor::full(Shape(1, 2, 6, 6), 3e38f);
    CHECK(has(message_of<Error>([&] { calibrate(*model, std::vector<intq::Tensor>{huge}); }), "element"));
    CHECK(state_of(*model) == before);
}

TEST_CASE("The modules are looked up once a calibration, so a batch costs the same among any number of them") {
    const auto allocations_of = [](std::size_t batches, int idle) {
        const auto model = prepared_with(observer_factory<MinMaxObserver>());
        // Modules that no node calls; each look at all of them makes their names.
        for (int i = 0; i < idle; ++i) model->add_child("idle_" + std::to_string(i), std::make_shared<nn::Identity>());
        const long before = allocations;
        calibrate(*model, source_of(batches));
        return allocations - before;
    };
    allocations_of(1, 1);  // what is made once a process
    const long of_a_batch = allocations_of(4, 10) - allocations_of(3, 10);
    CHECK(of_a_batch > 0);
    CHECK(allocations_of(4, 400) - allocations_of(3, 400) == of_a_batch);
}

TEST_CASE("A set without data is refused; a source is not asked for more than it has") {
    const auto model = prepared_with(observer_factory<MinMaxObserver>());
    const std::vector<intq::Tensor> empty{intq::Tensor::empty(Shape(0, 2, 6, 6))};
    CHECK(has(message_of<Error>([&] { calibrate(*model, std::vector<intq::Tensor>{}); }),
              "the calibration set is empty"));
    CHECK(has(message_of<Error>([&] { calibrate(*model, empty); }), "the calibration set is empty"));
    CHECK(has(message_of<Error>([&] { calibrate(*model, source_of(2), {.first = 3}); }), "3 batches"));
    CHECK_THROWS_AS(calibrate(*model, random_tensor(Shape(4, 2, 6, 6), 1), 0), Error);
    CHECK(
        has(message_of<Error>([&] { calibrate(*model, BatchSource{2}); }), "BatchSource: it has no function `batch`"));
    CHECK(calibrate(*model, random_tensor(Shape(5, 2, 6, 6), 1), 2).total == 3);
}

TEST_CASE("Other methods are read without another pass, cliffs and quantizers without data are reported") {
    const auto model = prepared_with(observer_factory<StatisticsObserver>());
    calibrate(*model, source_of(4));
    const auto scale = [&] { return model->find_tensor("activation_post_process_0.scale")->flat<float>()[0]; };
    const float extremes = scale();
    CHECK(set_range_method(*model, RangeMethod::clip_std) == 2);
    CHECK(scale() < extremes);
    const auto direct = prepared_with(observer_factory<ClipStdObserver>());
    calibrate(*direct, source_of(4));
    CHECK(scale() == direct->find_tensor("activation_post_process_0.scale")->flat<float>()[0]);

    const auto cliff = prepared_with(observer_factory<PercentileObserver>(), {.percentile = 99.8});
    intq::Tensor outliers = random_tensor(Shape(100, 2, 6, 6), 3);
    for (std::size_t i = 0; i < 11; ++i) outliers.flat<float>()[i * 131] = 40.0f;  // 0.15 % of the values
    const CalibrationReport report = calibrate(*cliff, std::vector<intq::Tensor>{outliers});
    REQUIRE(!report.cliffs.empty());
    CHECK(report.cliffs[0].quantizer == "activation_post_process_0");
    CHECK(has(to_string(report), "activation_post_process_0 (after quant), channel 0: the range ["));
    CHECK(has(to_string(report), "is on a cliff"));
    CHECK(report.unseen.empty());

    // A tail in which no percentile stands out: not a cliff, and named nevertheless.
    const auto clipped = prepared_with(observer_factory<PercentileObserver>(), {.percentile = 99});
    intq::Tensor tail = intq::Tensor::zeros(Shape(100, 2, 6, 6));
    const auto values = tail.flat<float>();
    for (std::size_t i = 0; i < values.size() / 2; ++i)
        values[2 * i] = std::pow((static_cast<float>(i) + 0.5f) / 3600.0f, -0.4f) - 1.0f;
    const CalibrationReport clips = calibrate(*clipped, std::vector<intq::Tensor>{tail});
    REQUIRE(!clips.cliffs.empty());
    CHECK(clips.cliffs[0].quantizer == "activation_post_process_0");
    CHECK_FALSE(clips.cliffs[0].choice.cliff.is_cliff());
    CHECK(has(to_string(clips), " % of the range of its data, and its squared error is "));

    const auto untouched = prepared_with(observer_factory<PercentileObserver>());
    const CalibrationReport nothing = calibrate(*untouched, source_of(1), {.most = 0});
    CHECK(nothing.unseen.size() == 4);
    CHECK(has(to_string(nothing), "0 of 1 batches"));
    CHECK(has(to_string(nothing), "saw no data; its scale is 1"));
}
