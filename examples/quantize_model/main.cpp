// SPDX-License-Identifier: MIT
//
// From a trained float model to integers: reads an ONNX file and images, quantizes for one or all targets, and
// prints what it cost, target by target and layer by layer.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arguments.hpp"
#include "evaluation.hpp"

namespace {

using namespace intq;
using namespace quantize_model;
using intq::Tensor;

/// Images per batch of calibration.
constexpr index_t calibration_batch = 20;
/// Images that the table of layers is made from.
constexpr index_t layer_images = 200;

struct Data {
    Tensor calibration, images;
    std::optional<std::vector<index_t>> labels;
};

/// x = (pixel / 255 - mean) / deviation
Tensor normalized(const std::string& path, const Tensor& pixels, const Arguments& arguments) {
    const index_t channels = pixels.extent(1);
    for (const std::vector<float>* numbers : {&arguments.mean, &arguments.deviation})
        if (numbers->size() != 1 && static_cast<index_t>(numbers->size()) != channels)
            throw Error(path, std::string(numbers->empty() ? "images are uint8: give " : "expected ") +
                                  (numbers == &arguments.mean ? "--mean" : "--deviation") + " with one number, or " +
                                  std::to_string(channels) + ", one for each channel" +
                                  (numbers->empty() ? "" : ", given " + std::to_string(numbers->size())));
    return intq::normalize_images(pixels, arguments.mean, arguments.deviation);
}

/// Finite float samples of one shape, (N, C, H, W) or any other that begins with N.
Tensor read_images(const std::string& path, const Arguments& arguments) {
    Tensor images = intq::load_npy(path);
    const bool is_uint8 = images.dtype() == DType::uint8;
    if ((images.dtype() != DType::float32 && !is_uint8) || images.rank() < 2)
        throw Error(path,
                    std::string("images must be float32 or uint8, (N, C, H, W), and other samples (N, …); given ") +
                        name_of(images.dtype()) + " " + intq::to_string(images.shape()));
    if (is_uint8) return normalized(path, images, arguments);
    if (!arguments.mean.empty() || !arguments.deviation.empty())
        throw Error(path, "--mean and --deviation are for uint8 images, and these are float32");
    const Tensor row = images.reshape(Shape(images.size()));
    throw_if_failed(kernels::check_finite(row.view<float, 1>(), OpKind::quantize), path);
    return images;
}

std::vector<index_t> read_labels(const std::string& path, index_t count) {
    const Tensor labels = intq::load_npy(path);
    if (labels.rank() != 1 || labels.extent(0) != count)
        throw Error(path, "expected one label for each of " + std::to_string(count) + " images, given shape " +
                              intq::to_string(labels.shape()));
    std::vector<index_t> classes;
    const auto take = [&](auto values) { classes.assign(values.begin(), values.end()); };
    if (labels.dtype() == DType::int64)
        take(labels.flat<std::int64_t>());
    else if (labels.dtype() == DType::int32)
        take(labels.flat<std::int32_t>());
    else if (labels.dtype() == DType::uint8)
        take(labels.flat<std::uint8_t>());
    else
        throw Error(path, std::string("labels must be int64, int32 or uint8, given ") + name_of(labels.dtype()));
    return classes;
}

Data read_data(const Arguments& arguments) {
    Data data;
    data.calibration = read_images(arguments.calibration, arguments);
    if (arguments.calibration_count > 0)
        data.calibration =
            data.calibration.batch(0, std::min<index_t>(arguments.calibration_count, data.calibration.extent(0)));
    if (data.calibration.size() == 0)
        throw Error(arguments.calibration, "the calibration set is empty; give at least one image");
    data.images = read_images(arguments.images, arguments);
    if (data.images.size() == 0) throw Error(arguments.images, "there are no images to test on");
    if (arguments.labels != "none") data.labels = read_labels(arguments.labels, data.images.extent(0));
    return data;
}

/// Fuses, calibrates and converts the model for one configuration.
quantization::QuantizedGraph quantize_for(const Configuration& configuration, const graph::GraphModule& model,
                                          const Tensor& calibration) {
    // Few images calibrate here: each counts in full, where the default's moving average would forget all but the
    // first.
    quantization::QConfig qconfig = quantization::get_default_qconfig(configuration.kernels->policy(),
                                                                      configuration.dtype, configuration.weight_dtype);
    qconfig.output->options.observer_options.scheme = configuration.scheme;
    qconfig.output->options.observer = quantization::observer_factory<quantization::MinMaxObserver>();
    const auto mapping = quantization::QConfigMapping().set_global(qconfig);
    const auto prepared = quantization::prepare_calibration_fx(model, mapping, configuration.kernels->policy());
    io::Progress progress(configuration.target + " calibration", calibration.extent(0));
    quantization::calibrate(*prepared, calibration, calibration_batch, [&](std::size_t done, std::size_t) {
        progress.update(static_cast<std::int64_t>(done) * calibration_batch);
    });
    return quantization::convert_fx(*prepared);
}

std::string percent(index_t part, index_t whole) {
    return fmt::format("{:.2f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string accuracy(const Tensor& logits, const Data& data) {
    return data.labels ? percent(count_equal(classes_of(logits), *data.labels), data.images.extent(0)) : "-";
}

struct Timed {
    Tensor logits;
    double microseconds_per_image;
};

Timed timed(index_t images, const std::function<Tensor()>& run) {
    const auto start = std::chrono::steady_clock::now();
    Tensor logits = run();
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
    return {logits, time.count() / static_cast<double>(images)};
}

index_t float_bytes(graph::GraphModule& model) {
    index_t bytes = 0;
    for (const auto& parameter : model.named_parameters()) bytes += parameter.value->bytes();
    for (const auto& buffer : model.named_buffers()) bytes += buffer.value->bytes();
    return bytes;
}

/// A table of targets, and the reason of the first configuration that refused, where all did.
struct Comparison {
    io::TextTable table;
    std::optional<std::string> refusal;
};

/// One row for float, one for each configuration: what it gives, or why it refuses the model.
Comparison compare_targets(const std::vector<Configuration>& configurations, graph::GraphModule& model,
                           const graph::GraphModule& with_stubs, const Data& data, const Arguments& arguments) {
    using io::Align;
    io::TextTable table({{"target"},
                         {"dtype"},
                         {"scheme"},
                         {"accuracy", Align::right},
                         {"correct", Align::right},
                         {"as float", Align::right},
                         {"SQNR dB", Align::right},
                         {"model bytes", Align::right},
                         {"arena bytes, 1 image", Align::right},
                         {"us/image", Align::right},
                         {""}});
    const index_t count = data.images.extent(0);
    const auto correct = [&](const Tensor& logits) {
        return data.labels ? fmt::format("{}/{}", count_equal(classes_of(logits), *data.labels), count)
                           : std::string("-");
    };
    const Timed reference = timed(count, [&] { return run_float(model, data.images, arguments.batch); });
    const auto float_classes = classes_of(reference.logits);
    table.add_row({"float", "float32", "-", accuracy(reference.logits, data), correct(reference.logits),
                   percent(count, count), "-", std::to_string(float_bytes(model)), "-",
                   fmt::format("{:.1f}", reference.microseconds_per_image), ""});
    const auto add = [&](const Configuration& configuration) {
        const auto quantized = quantize_for(configuration, with_stubs, data.calibration);
        const auto lowered = quantization::lower(quantized, *configuration.kernels, arguments.batch);
        // What a board needs, which runs one image at a time.
        const auto of_one = quantization::lower(quantized, *configuration.kernels, 1);
        const Timed result = timed(count, [&] { return lowered.run(data.images); });
        const float sqnr = numeric_suite::compute_sqnr(std::as_const(reference.logits).flat<float>(),
                                                       std::as_const(result.logits).flat<float>());
        table.add_row({configuration.kernels->policy().name, name_of(configuration.dtype), configuration.scheme_name(),
                       accuracy(result.logits, data), correct(result.logits),
                       percent(count_equal(classes_of(result.logits), float_classes), count),
                       fmt::format("{:.2f}", static_cast<double>(sqnr)),
                       std::to_string(lowered.program().packed_bytes()), std::to_string(of_one.program().arena_bytes()),
                       fmt::format("{:.1f}", result.microseconds_per_image), ""});
    };
    std::optional<std::string> refusal;
    std::size_t refused = 0;
    for (const Configuration& configuration : configurations) try {
            add(configuration);
        } catch (const Error& error) {
            ++refused;
            if (!refusal) refusal = error.what();
            table.add_row({configuration.kernels->policy().name, name_of(configuration.dtype),
                           configuration.scheme_name(), "-", "-", "-", "-", "-", "-", "-",
                           std::string("refused: ") + error.what()});
        }
    if (refused < configurations.size()) refusal.reset();
    return {std::move(table), refusal};
}

/// The layers of one configuration beside those of the fused float model.
io::TextTable compare_layers(const Configuration& configuration, const graph::GraphModule& with_stubs,
                             const Data& data) {
    using io::Align;
    io::TextTable table(
        {{"layer"}, {"type"}, {"dtype"}, {"scale", Align::right}, {"SQNR dB", Align::right}, {"cosine", Align::right}});
    const Tensor images = data.images.batch(0, std::min(layer_images, data.images.extent(0)));
    const auto fused = quantization::fuse_fx(with_stubs, {.fused_add = configuration.kernels->policy().fused_add});
    const LayerValues expected = float_layers(*fused, images);
    const auto lowered = quantization::lower(quantize_for(configuration, with_stubs, data.calibration),
                                             *configuration.kernels, images.extent(0));
    for (const LayerRecord& layer : integer_layers(lowered.program(), images)) {
        const auto known = expected.find(layer.name);
        std::string sqnr = "-", cosine = "-";
        if (known != expected.end() && known->second.size() == layer.values.size()) {
            sqnr = fmt::format("{:.2f}", static_cast<double>(numeric_suite::compute_sqnr(known->second, layer.values)));
            cosine = fmt::format(
                "{:.6f}", static_cast<double>(numeric_suite::compute_cosine_similarity(known->second, layer.values)));
        }
        table.add_row({layer.name, layer.type, layer.dtype, layer.scale, sqnr, cosine});
    }
    return table;
}

std::vector<Configuration> chosen(const Arguments& arguments) {
    std::vector<Configuration> result;
    for (const Configuration& configuration : all_configurations())
        if ((arguments.target.empty() || arguments.target == configuration.target) &&
            (arguments.dtype.empty() || arguments.dtype == name_of(configuration.dtype)) &&
            (arguments.scheme.empty() || arguments.scheme == configuration.scheme_name()))
            result.push_back(configuration);
    if (result.empty())
        throw Error("no configuration here has what --target, --dtype and --scheme ask for: " + arguments.target + " " +
                    arguments.dtype + " " + arguments.scheme + "; see --help");
    return result;
}

void run(const Arguments& arguments) {
    const std::vector<Configuration> configurations = chosen(arguments);
    const auto model = interop::onnx::import_file(arguments.model);
    const Data data = read_data(arguments);
    const auto with_stubs = quantization::traced_clone(*model);
    quantization::add_stubs(*with_stubs);

    std::printf("%s\n%lld calibration images, %lld test images of shape %s, backend %s\n\n", arguments.model.c_str(),
                static_cast<long long>(data.calibration.extent(0)), static_cast<long long>(data.images.extent(0)),
                intq::to_string(data.images.shape()).c_str(), all_configurations()[0].kernels->backend);
    const Comparison targets = compare_targets(configurations, *model, *with_stubs, data, arguments);
    std::fputs(targets.table.str(io::TableStyle::simple).c_str(), stdout);
    if (targets.refusal) throw Error(*targets.refusal);

    if (arguments.layers == "none") return;
    const std::string wanted = arguments.target.empty() ? arguments.layers : arguments.target;
    for (const Configuration& configuration : configurations)
        if (configuration.target == wanted) {
            std::printf("\nlayers of %s, %s, %s, against float\n", wanted.c_str(), name_of(configuration.dtype),
                        configuration.scheme_name());
            try {
                const io::TextTable layers = compare_layers(configuration, *with_stubs, data);
                std::fputs(layers.str(io::TableStyle::simple).c_str(), stdout);
            } catch (const Error& error) {
                std::printf("refused: %s\n", error.what());
            }
            return;
        }
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app;
    Arguments arguments;
    add_options(app, arguments);
    try {
        app.parse(argc, argv);
        run(arguments);
        return 0;
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 1;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "quantize_model: %s\n", error.what());
        return 1;
    }
}
