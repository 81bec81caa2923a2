// SPDX-License-Identifier: MIT
//
// Whether lowering_report(), which sees no data, says of a model what prepare, convert and lower say of it on data.
#ifndef INTQ_TESTS_INTEROP_SWEEP_AGREEMENT_HPP
#define INTQ_TESTS_INTEROP_SWEEP_AGREEMENT_HPP

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "intq/graph/graph_module.hpp"
#include "intq/interop/onnx/import.hpp"
#include "intq/kernels/table/kernel_table.hpp"
#include "intq/program/backends/best_table.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/lowering_report.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"
#include "intq/tensor/npy.hpp"
#include "support/small_models.hpp"

namespace intq::test {

/// Why a model becomes no program on these samples; empty where it becomes one.
inline std::string refusal_on_data(const graph::GraphModule& model, const kernels::KernelTable& table, DType dtype,
                                   const std::vector<intq::Tensor>& samples) {
    using namespace quantization;
    try {
        const auto mapping = get_default_qconfig_mapping(table.policy(), dtype);
        const auto prepared = prepare_calibration_fx(model, mapping, table.policy());
        calibrate(*prepared, batches_of(samples, samples.at(0).extent(0)));
        const LoweredModel lowered = lower(convert_fx(*prepared), table, samples.at(0).extent(0));
        return lowered.tail() == nullptr ? "" : "its last operators stay in float";
    } catch (const Error& error) {
        return error.what();
    }
}

inline quantization::LoweringReport report_without_data(const graph::GraphModule& model,
                                                        const kernels::KernelTable& table, DType dtype,
                                                        const std::vector<intq::Tensor>& samples) {
    quantization::PrepareOptions options;
    for (const intq::Tensor& each : samples) options.example_inputs.push_back(intq::Tensor::zeros(each.shape()));
    const auto mapping = quantization::get_default_qconfig_mapping(table.policy(), dtype);
    return quantization::lowering_report(model, mapping, table.policy(), options);
}

/// What is wrong between the two; empty where they agree: what the data refuses, the report refuses or names among what
/// depends on calibration, and what it refuses, the data does.
inline std::string disagreement(const quantization::LoweringReport& report, const std::string& on_data) {
    if (on_data.find("is NaN or infinite") != std::string::npos) return "";  // the samples are no data for this model
    if (report.lowers() && !on_data.empty()) {
        const auto is_named = [&](const auto& item) { return on_data.find(item.layer) != std::string::npos; };
        const auto& open = report.undecided;
        return std::any_of(open.begin(), open.end(), is_named) ? "" : "the report refuses nothing; on data: " + on_data;
    }
    if (!report.lowers() && on_data.empty())
        return "on data nothing is refused; the report: " + report.refusals[0].layer + ": " + report.refusals[0].reason;
    for (const auto* list : {&report.refusals, &report.undecided})
        for (const quantization::Refusal& item : *list)
            if (item.layer.empty() || item.type.empty() || item.reason.empty()) return "a row without layer or reason";
    return "";
}

/// Asks both of a model for every target, in int8 and int16; appends what they do not agree on.
inline void compare_verdicts(const std::string& name, const graph::GraphModule& model,
                             const std::vector<intq::Tensor>& samples, std::vector<std::string>& wrong) {
    const program::BackendTables best = program::runnable_tables().front();
    for (const kernels::KernelTable* table : best.tables)
        for (const DType dtype : {DType::int8, DType::int16}) {
            const std::string on_data = refusal_on_data(model, *table, dtype, samples);
            std::string difference;
            try {
                difference = disagreement(report_without_data(model, *table, dtype, samples), on_data);
            } catch (const Error& error) {  // the model in float does not take that many samples
                if (on_data.empty()) difference = std::string("the report throws: ") + error.what();
            }
            if (!difference.empty())
                wrong.push_back(name + ", " + table->policy().name + ", " + name_of(dtype) + ": " + difference);
        }
}

/// Random samples of the shape of a tensor, four of them.
inline intq::Tensor samples_like(const intq::Tensor& one, unsigned seed) {
    Shape shape = one.shape();
    shape[0] = 4;
    return random_tensor(shape, seed);
}

/// Every model of golden/models; gives how many there are.
inline int compare_golden_models(std::vector<std::string>& wrong) {
    const std::filesystem::path models = std::string(INTQ_TESTS_DIR) + "/golden/models";
    std::ifstream manifest(models / "manifest.txt");
    std::string line;
    int asked = 0;
    while (std::getline(manifest, line)) {
        std::istringstream words(line);
        std::string name, input;
        words >> name >> input;
        const auto model = interop::onnx::import_file(models / (name + ".onnx"));
        quantization::add_stubs(*model);
        compare_verdicts(name, *model, {samples_like(load_npy(models / input), 7)}, wrong);
        ++asked;
    }
    return asked;
}

}  // namespace intq::test

#endif  // INTQ_TESTS_INTEROP_SWEEP_AGREEMENT_HPP
