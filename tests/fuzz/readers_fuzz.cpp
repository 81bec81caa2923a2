// SPDX-License-Identifier: MIT
//
// libFuzzer targets of all readers of files, chosen by the first argument, so that clang compiles the headers once:
//
//     readers_fuzz npy|npz|safetensors|tensor|onnx|tflite|calibration|checkpoint -max_total_time=60 <corpus folder>
//
// Any bytes are a file, or an Error. What was read keeps its promises, and what was refused changed nothing. Built with
// clang only: tests/fuzz/CMakeLists.txt has the flags.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "intq/arith/fp32.hpp"
#include "intq/arith/litert.hpp"
#include "intq/graph/tracer.hpp"
#include "intq/interop/onnx/import.hpp"
#include "intq/interop/onnx/write/write.hpp"
#include "intq/interop/tflite/float_model.hpp"
#include "intq/interop/tflite/import.hpp"
#include "intq/io/npy.hpp"
#include "intq/io/npz.hpp"
#include "intq/io/safetensors.hpp"
#include "intq/kernels/table/kernel_table.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/observers/observer_modules.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/calibration_file.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/runtime/check.hpp"
#include "intq/simd/base/tags.hpp"
#include "intq/tensor/npy.hpp"
#include "intq/training/internal/checkpoint.hpp"
#include "intq/training/optimizer.hpp"
#include "support/small_models.hpp"

namespace {

using namespace intq;
using Bytes = std::span<const std::byte>;

/// A promise that is broken; libFuzzer keeps the input.
void demand(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "broken: %s\n", what);
    __builtin_trap();
}

void fuzz_npy(Bytes file) {
    const io::NpyArray array = io::parse_npy(file, "fuzz");
    const io::NpyArray again = io::parse_npy(io::serialize_npy(array), "again");
    demand(again.dtype == array.dtype && again.shape == array.shape && again.bytes == array.bytes, "npy is read again");
}

void fuzz_npz(Bytes file) {
    const auto arrays = io::parse_npz(file, "fuzz");
    const std::vector<std::byte> written = io::serialize_npz(arrays);
    demand(io::serialize_npz(io::parse_npz(written, "again")) == written, "npz is read again");
}

void fuzz_safetensors(Bytes file) {
    const io::Safetensors content = io::parse_safetensors(file, "fuzz");
    const auto again = io::parse_safetensors(io::serialize_safetensors(content), "again");
    demand(again.metadata == content.metadata && again.arrays.size() == content.arrays.size(), "metadata");
    for (const io::NamedArray& item : content.arrays) {
        const io::NpyArray& other = again.at(item.name);
        demand(other.dtype == item.array.dtype && other.shape == item.array.shape && other.bytes == item.array.bytes,
               "an array is read again");
    }
}

/// A .npy file as a tensor, in both layouts.
void fuzz_tensor(Bytes file) {
    const io::NpyArray array = io::parse_npy(file, "fuzz");
    const intq::Tensor tensor = to_tensor(array, "fuzz");
    const io::NpyArray back = to_array(tensor.to_layout(Layout::channels_last));
    demand(back.dtype == array.dtype && back.shape == array.shape && back.bytes == array.bytes, "a tensor is an array");
    const intq::Tensor flat = tensor.reshape(Shape(tensor.size()));
    demand(flat.clone().bytes() == static_cast<index_t>(array.bytes.size()), "a flat tensor has all bytes");
}

void fuzz_onnx(Bytes file) {
    const interop::onnx::Model model = interop::onnx::parse_model(file, "fuzz");
    std::vector<std::byte> written;
    try {
        written = interop::onnx::serialize_model(model);
    } catch (const Error&) {  // an attribute that holds a graph, a value without a dtype
    }
    if (!written.empty())
        demand(interop::onnx::serialize_model(interop::onnx::parse_model(written, "again")) == written,
               "what is written is read again");
    const auto module = interop::onnx::import_model(model);
    module->graph().lint(module.get());
}

/// A program that passes its check, a graph, or an Error.
void fuzz_tflite(Bytes file) {
    constexpr interop::tflite::Limits limits{.tensor_bytes = 1 << 20, .total_bytes = 1 << 22, .copied_bytes = 1 << 20};
    const auto& table = kernels::kernel_table<target::litert, simd::scalar>;
    const auto model = interop::tflite::parse_model(file, "fuzz");
    try {
        const auto module = interop::tflite::import_float_model(model, limits);
        module->graph().lint(module.get());
    } catch (const Error&) {  // a model of codes, as most are
    }
    const auto imported = interop::tflite::import_program(model, table, {.limits = limits, .bounds = {}});
    demand(runtime::check_program(imported.program->program(), table).ok(), "an imported program passes its check");
}

/// Changes of a sound file, eleven bytes each: where, how, and a value of eight bytes. A file from nothing seldom
/// passes the first check.
std::vector<std::byte> changed(const std::vector<std::byte>& sound, Bytes edits) {
    std::vector<std::byte> file = sound;
    for (std::size_t at = 0; at + 11 <= edits.size(); at += 11) {
        std::uint16_t where = 0;
        std::memcpy(&where, edits.data() + at, 2);
        const std::size_t width = std::size_t{1} << (std::to_integer<unsigned>(edits[at + 2]) % 4);
        const std::size_t first = where % file.size();
        std::memcpy(file.data() + first, edits.data() + at + 3, std::min(width, file.size() - first));
    }
    return file;
}

std::map<std::string, std::string> state_of(nn::Module& model) {
    std::map<std::string, std::string> state;
    for (const auto& list : {model.named_buffers(), model.named_parameters()})
        for (const auto& item : list)
            state[item.name].assign(reinterpret_cast<const char*>(item.value->data()),
                                    static_cast<std::size_t>(item.value->bytes()));
    return state;
}

/// A model that was calibrated, and its file.
struct Calibrated {
    std::shared_ptr<quantization::PreparedModel> model;
    std::vector<std::byte> file;
};

template <class ObserverType> Calibrated calibrated() {
    const auto net = test::make_model({{"quant", std::make_shared<nn::QuantStub>()},
                                       {"first", test::make_conv(2, 4, 1, 1)},
                                       {"dequant", std::make_shared<nn::DeQuantStub>()}},
                                      [](test::LambdaModel& m, nn::Arguments x) {
                                          return m.call("dequant", m.call("first", m.call("quant", x[0])));
                                      });
    quantization::QConfig qconfig = quantization::get_default_calib_qconfig();
    qconfig.output->options.observer = quantization::observer_factory<ObserverType>();
    qconfig.output->options.observer_options.bins = 512;
    Calibrated result;
    result.model = quantization::prepare_calibration_fx(*net, quantization::QConfigMapping().set_global(qconfig),
                                                        target::fp32::policy);
    quantization::calibrate(*result.model, std::vector{test::random_tensor(Shape(2, 2, 3, 3), 1)});
    result.file = io::serialize_safetensors(quantization::make_calibration(*result.model, 1));
    return result;
}

void fuzz_calibration(Bytes input) {
    static const Calibrated models[] = {calibrated<quantization::KLObserver>(),
                                        calibrated<quantization::MovingAverageMinMaxObserver>()};
    if (input.empty()) return;
    const Calibrated& sound = models[std::to_integer<unsigned>(input[0]) % 2];
    const auto model =
        std::static_pointer_cast<quantization::PreparedModel>(nn::clone(static_cast<const nn::Module&>(*sound.model)));
    const auto before = state_of(*model);
    try {
        const auto content = io::parse_safetensors(changed(sound.file, input.subspan(1)), "fuzz");
        quantization::restore_calibration(content, "fuzz", *model);
    } catch (const Error&) {
        demand(state_of(*model) == before, "a calibration that is refused changes nothing");
        return;
    }
    // What was accepted goes on, and its observers say their ranges.
    quantization::calibrate(*model, std::vector{test::random_tensor(Shape(2, 2, 3, 3), 2)});
}

/// A model in the middle of its training, and its checkpoint.
struct Trained {
    std::shared_ptr<nn::Module> model;
    std::vector<std::byte> file;
    std::map<std::string, intq::Tensor> gradients;
};

Trained trained() {
    Trained result;
    result.model =
        test::make_model({{"a", test::make_linear(3, 2, 1)}, {"b", test::make_linear(2, 2, 2)}},
                         [](test::LambdaModel& m, nn::Arguments x) { return m.call("b", m.call("a", x[0])); });
    for (const auto& parameter : result.model->named_parameters())
        result.gradients[parameter.name] = intq::Tensor::full(parameter.value->shape(), 0.5f);
    training::Adam adam;
    adam.step(result.model->named_parameters(), result.gradients, 0.1);
    result.file = io::serialize_safetensors(training::make_checkpoint(*result.model, adam, {1, 0, 1, 8, 4, 7, 0.5}));
    return result;
}

void fuzz_checkpoint(Bytes input) {
    static const Trained sound = trained();
    const auto model = nn::clone(static_cast<const nn::Module&>(*sound.model));
    const auto before = state_of(*model);
    training::Adam adam;
    try {
        const auto content = io::parse_safetensors(changed(sound.file, input), "fuzz");
        training::restore_checkpoint(content, "fuzz", *model, adam);
    } catch (const Error&) {
        demand(state_of(*model) == before && adam.state().empty(), "a checkpoint that is refused changes nothing");
        return;
    }
    const auto restored = state_of(*model);
    try {
        adam.step(model->named_parameters(), sound.gradients, 0.1);
    } catch (const Error&) {  // a parameter that is not finite any more
        demand(state_of(*model) == restored, "a step that fails changes nothing");
    }
}

struct ReaderTarget {
    const char* name;
    void (*run)(Bytes);
};
constexpr ReaderTarget targets[] = {{"npy", &fuzz_npy},
                                    {"npz", &fuzz_npz},
                                    {"safetensors", &fuzz_safetensors},
                                    {"tensor", &fuzz_tensor},
                                    {"onnx", &fuzz_onnx},
                                    {"tflite", &fuzz_tflite},
                                    {"calibration", &fuzz_calibration},
                                    {"checkpoint", &fuzz_checkpoint}};
const ReaderTarget* chosen = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** words) {
    for (const ReaderTarget& each : targets)
        if (*count > 1 && std::strcmp((*words)[1], each.name) == 0) chosen = &each;
    if (chosen == nullptr) {
        std::fputs("the first argument must be one of", stderr);
        for (const ReaderTarget& each : targets) std::fprintf(stderr, " %s", each.name);
        std::fputs("\n", stderr);
        std::exit(2);
    }
    for (int i = 1; i + 1 < *count; ++i) (*words)[i] = (*words)[i + 1];
    --*count;
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    try {
        chosen->run(std::as_bytes(std::span(data, size)));
    } catch (const Error&) {
    }
    return 0;
}
