// SPDX-License-Identifier: MIT
#include "options.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>

namespace intq_tool {

using namespace intq;
using namespace intq::quantization;
using intq::Tensor;

namespace {

/// Samples in one batch of calibration, and in one run in float.
constexpr index_t batch_size = 16;

DType dtype_of(const std::string& name) { return name == "int16" ? DType::int16 : DType::int8; }

}  // namespace

// --- data -----------------------------------------------------------------------------------------------------------

void DataOptions::add_to(CLI::App& command, const std::string& what, bool is_required) {
    auto* data =
        command.add_option("--data", path, what + ", .npy: float32, or uint8 images with --mean and --deviation")
            ->option_text("FILE");
    if (is_required) data->required();
    command
        .add_option("--mean", mean,
                    "of uint8 images: x = (pixel / 255 - MEAN) / DEVIATION; one number, or one a channel")
        ->option_text("NUMBER...");
    command.add_option("--deviation", deviation, "see --mean")->check(CLI::PositiveNumber)->option_text("NUMBER...");
    command.add_option("--count", count, "use only the first COUNT samples")
        ->check(CLI::PositiveNumber)
        ->option_text("COUNT");
}

Tensor DataOptions::read() const {
    Tensor samples = load_npy(path);
    const bool is_uint8 = samples.dtype() == DType::uint8;
    if ((samples.dtype() != DType::float32 && !is_uint8) || samples.rank() < 2 || samples.size() == 0)
        throw Error(path, std::string("expected float32 or uint8 samples (N, ...), given ") + name_of(samples.dtype()) +
                              " " + intq::to_string(samples.shape()));
    if (is_uint8 == (mean.empty() || deviation.empty()))
        throw Error(path, is_uint8 ? "images are uint8: give --mean and --deviation"
                                   : "--mean and --deviation are for uint8 images, and these are float32");
    if (count > 0) samples = samples.batch(0, std::min<index_t>(count, samples.extent(0)));
    if (is_uint8) return normalize_images(samples, mean, deviation);
    const Tensor row = samples.contiguous().reshape(Shape(samples.size()));
    throw_if_failed(kernels::check_finite(row.view<float, 1>(), OpKind::quantize), path);
    return samples;
}

// --- targets --------------------------------------------------------------------------------------------------------

std::vector<std::string> target_names() {
    std::vector<std::string> names;
    const program::BackendTables best = program::runnable_tables().front();
    for (const kernels::KernelTable* table : best.tables) names.emplace_back(table->policy().name);
    return names;
}

const kernels::KernelTable& find_table(const std::string& target, const std::string& backend) {
    const std::string wanted = backend.empty() ? program::best_table<target::fp32>().backend : backend;
    for (const program::BackendTables& tables : program::runnable_tables())
        if (tables.name == wanted)
            for (const kernels::KernelTable* table : tables.tables)
                if (table->policy().name == target) return *table;
    throw Error("this CPU runs no kernels of the target " + target + " and the backend " + wanted);
}

// --- models ---------------------------------------------------------------------------------------------------------

std::shared_ptr<graph::GraphModule> read_model(const std::string& path) {
    const auto model = interop::onnx::import_file(path);
    model->eval();
    add_stubs(*model);
    return model;
}

Tensor run_float(graph::GraphModule& model, const Tensor& samples) {
    std::vector<Tensor> parts;
    for (index_t first = 0; first < samples.extent(0); first += batch_size) {
        const index_t count = std::min(batch_size, samples.extent(0) - first);
        const nn::Value value = model(samples.batch(first, count));
        const std::vector<Tensor> outputs = nn::tensors_of(value);
        if (outputs.size() != 1)
            throw Error("the model gives " + std::to_string(outputs.size()) + " outputs; this command takes one");
        parts.push_back(outputs.front());
    }
    return nn::float_operators::cat(parts, 0);
}

ProgramFile read_program_file(const std::string& path, const std::string& backend) {
    std::string reason;
    for (const program::BackendTables& tables : program::runnable_tables()) {
        if (!backend.empty() && tables.name != backend) continue;
        for (const kernels::KernelTable* table : tables.tables) try {
                deploy::ProgramOfFile file = deploy::read_program(path, *table);
                return {std::move(file.program), file.golden, table};
            } catch (const Error& error) {
                reason = error.what();
            }
    }
    throw Error(reason.empty() ? "this CPU runs no kernels of the backend " + backend : reason);
}

void QuantizeOptions::add_to(CLI::App& command) {
    command.add_option("--target", target, "the arithmetic; default: fp32")
        ->check(CLI::IsMember(target_names()))
        ->option_text("NAME");
    command.add_option("--dtype", dtype, "codes of activations: int8 or int16; default: int8")
        ->check(CLI::IsMember({"int8", "int16"}))
        ->option_text("TYPE");
    command.add_option("--scheme", scheme, "affine or symmetric activations; default: the target's")
        ->check(CLI::IsMember({"affine", "symmetric"}))
        ->option_text("NAME");
    command.add_option("--observer", observer, "how a range is chosen, such as min_max, percentile, kl or mse")
        ->option_text("NAME");
    command.add_option("--int16", int16, "layers whose outputs are int16, by name")->option_text("LAYER...");
    command.add_option("--float", in_float, "layers that stay in float, by name")->option_text("LAYER...");
    command.add_flag("--equalize", equalize, "equalize the weights of neighbouring layers first");
    command.add_flag("--bias-correction", correct_bias, "correct the mean of each layer's error");
    command.add_flag("--adaround", adaround, "choose the rounding of each weight by the layer's output");
}

const kernels::KernelTable& QuantizeOptions::table(bool is_portable) const {
    return find_table(target, is_portable ? "scalar" : "");
}

QConfigMapping QuantizeOptions::mapping() const {
    const arith::PolicyRecord& policy = table().policy();
    const auto qconfig_of = [&](DType type) {
        QConfig qconfig = get_default_qconfig(policy, type, DType::int8);
        ObserverOptions& output = qconfig.output->options.observer_options;
        if (!scheme.empty())
            output.scheme = scheme == "affine" ? arith::QuantScheme::affine : arith::QuantScheme::symmetric;
        // A moving average would forget all but the first of few batches.
        qconfig.output->options.observer = observer_table().at(observer.empty() ? "min_max" : observer).per_tensor;
        return qconfig;
    };
    QConfigMapping mapping = QConfigMapping().set_global(qconfig_of(dtype_of(dtype)));
    for (const std::string& layer : int16) mapping.set_module_name(layer, qconfig_of(DType::int16));
    for (const std::string& layer : in_float) mapping.set_module_name(layer, std::nullopt);
    return mapping;
}

std::shared_ptr<PreparedModel> prepare(const graph::GraphModule& model, const Tensor& calibration,
                                       const QuantizeOptions& options) {
    const arith::PolicyRecord& policy = options.table().policy();
    const auto fused = fuse_fx(model, {.fused_add = policy.fused_add});
    if (options.equalize) improve::equalize(*fused);
    const auto prepared = prepare_calibration_fx(*fused, options.mapping(), policy);
    const BatchSource batches = batches_of(calibration, batch_size);
    io::Progress progress("calibration", calibration.extent(0));
    calibrate(*prepared, calibration, batch_size, [&](std::size_t done, std::size_t) {
        progress.update(std::min<std::int64_t>(static_cast<std::int64_t>(done) * batch_size, calibration.extent(0)));
    });
    if (options.adaround) improve::adaround(*prepared, batches);
    if (options.correct_bias) improve::correct_bias(*prepared, batches);
    return prepared;
}

// --- results --------------------------------------------------------------------------------------------------------

void Report::member(const std::string& name, const std::string& json) {
    members_ += (members_.empty() ? "" : ", ") + io::write_json_string(name) + ": " + json;
}

void Report::text(const std::string& name, const std::string& value) {
    lines_ += name + ": " + value + "\n";
    member(name, io::write_json_string(value));
}

void Report::number(const std::string& name, double value, const std::string& unit) {
    char digits[64];
    std::snprintf(digits, sizeof digits, "%.7g", value);
    lines_ += name + ": " + digits + (unit.empty() ? "" : " " + unit) + "\n";
    member(name, value - value == 0 ? digits : "null");
}

void Report::count(const std::string& name, long long value, const std::string& unit) {
    lines_ += name + ": " + std::to_string(value) + (unit.empty() ? "" : " " + unit) + "\n";
    member(name, std::to_string(value));
}

void Report::table(const std::string& name, const std::vector<std::string>& columns,
                   const std::vector<std::vector<std::string>>& rows) {
    std::vector<io::TextTable::Column> titles;
    for (const std::string& column : columns) titles.push_back({column});
    io::TextTable text(titles);
    std::string json;
    for (const auto& row : rows) {
        text.add_row(row);
        std::string object;
        for (std::size_t i = 0; i < columns.size(); ++i)
            object += (i == 0 ? "" : ", ") + io::write_json_string(columns[i]) + ": " + io::write_json_string(row[i]);
        json += (json.empty() ? "{" : ", {") + object + "}";
    }
    lines_ += "\n" + text.str(io::TableStyle::simple);
    member(name, "[" + json + "]");
}

void Report::print() const {
    if (is_json_)
        std::printf("{%s}\n", members_.c_str());
    else
        std::fputs(lines_.c_str(), stdout);
}

}  // namespace intq_tool
