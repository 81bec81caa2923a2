// SPDX-License-Identifier: MIT
//
// The tables of QuantAnalysis as Horizon's tool writes them. Layer: analysis (docs/workflow.md section 6).
#ifndef INTQ_ANALYSIS_INTERNAL_COMPARE_TABLES_HPP
#define INTQ_ANALYSIS_INTERNAL_COMPARE_TABLES_HPP

#include <span>
#include <string>
#include <vector>

#include "intq/analysis/causes/layer_advice.hpp"
#include "intq/analysis/compare/compare_layers.hpp"
#include "intq/analysis/compare/file_table.hpp"
#include "intq/quantization/prepare/qconfig_rules.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

/// compare_per_layer_out: the row's index, mod_name, base_op_type, analy_op_type, shape, quant_dtype, qscale,
/// Cosine, MSE, L1, KL, SQNR, Atol, Rtol, and min, max, mean and var of both models. Cells without a number are empty.
/// As .txt it is a grid, with seven decimals, and as .csv it is io::csv_text(), with all digits.
FileTable comparison_table(std::span<const LayerComparison> layers);
/// abnormal_layer_advisor: mod_name, op_type, abnormal_info, advice.
FileTable advice_table(std::span<const LayerAdvice> advice);
/// sensitive_ops: op_name, sensitive_type, op_type, and the metric under its name.
FileTable sensitivity_table(std::span<const quantization::SensitiveOperator> list, const std::string& metric);
/// sensitive_ops.json: the same with all digits; a list of objects (io::write_json_number()).
std::string sensitivity_json(std::span<const quantization::SensitiveOperator> list, const std::string& metric);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(analysis)

#    include <cstddef>
#    include <utility>

#    include "intq/io/describe.hpp"
#    include "intq/io/json_text.hpp"
#    include "intq/quantization/check/check_qat_model.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

inline constexpr const char* comparison_columns[] = {"",
                                                     "mod_name",
                                                     "base_op_type",
                                                     "analy_op_type",
                                                     "shape",
                                                     "quant_dtype",
                                                     "qscale",
                                                     "Cosine",
                                                     "MSE",
                                                     "L1",
                                                     "KL",
                                                     "SQNR",
                                                     "Atol",
                                                     "Rtol",
                                                     "base_model_min",
                                                     "analy_model_min",
                                                     "base_model_max",
                                                     "analy_model_max",
                                                     "base_model_mean",
                                                     "analy_model_mean",
                                                     "base_model_var",
                                                     "analy_model_var"};

INTQ_INLINE std::vector<TableCell> cells_of(const LayerComparison& layer, std::size_t index) {
    const auto& m = layer.metrics;
    const auto metric = [&](double value) { return layer.has_metrics() ? TableCell(value) : TableCell(""); };
    std::vector<TableCell> cells{std::to_string(index),
                                 layer.mod_name,
                                 layer.base_op_type,
                                 layer.analy_op_type,
                                 layer.pair.is_inner ? "" : to_string(layer.shape),
                                 quantization::quantized_name(layer.qparams ? layer.qparams->dtype : DType::float32),
                                 layer.qparams ? cell_of_scales(layer.qparams->scales) : TableCell(""),
                                 metric(m.cosine()),
                                 metric(m.mse()),
                                 metric(m.l1()),
                                 metric(m.kl()),
                                 metric(m.sqnr()),
                                 metric(m.atol()),
                                 metric(m.rtol())};
    for (const double value : {(layer.base.min)(), (layer.analy.min)(), (layer.base.max)(), (layer.analy.max)(),
                               layer.base.mean(), layer.analy.mean(), layer.base.var(), layer.analy.var()})
        cells.emplace_back(value);
    return cells;
}

}  // namespace detail

INTQ_INLINE FileTable comparison_table(std::span<const LayerComparison> layers) {
    std::vector<io::TextTable::Column> columns;
    for (const char* title : detail::comparison_columns) {
        const bool is_text = columns.size() >= 1 && columns.size() <= 5;
        columns.push_back({title, is_text ? io::Align::left : io::Align::right});
    }
    FileTable table(std::move(columns));
    for (std::size_t i = 0; i < layers.size(); ++i) table.add_row(detail::cells_of(layers[i], i));
    return table;
}

INTQ_INLINE FileTable advice_table(std::span<const LayerAdvice> advice) {
    FileTable table({{"mod_name"}, {"op_type"}, {"abnormal_info"}, {"advice"}});
    for (const LayerAdvice& row : advice) table.add_row({row.mod_name, row.op_type, row.abnormal_info, row.advice});
    return table;
}

INTQ_INLINE FileTable sensitivity_table(std::span<const quantization::SensitiveOperator> list,
                                        const std::string& metric) {
    FileTable table({{"op_name"}, {"sensitive_type"}, {"op_type"}, {metric, io::Align::right}}, io::TableStyle::simple);
    for (const auto& op : list) table.add_row({op.op_name, op.sensitive_type, op.op_type, op.metric});
    return table;
}

INTQ_INLINE std::string sensitivity_json(std::span<const quantization::SensitiveOperator> list,
                                         const std::string& metric) {
    const auto row = [&](const quantization::SensitiveOperator& op) {
        return "\n  " + io::JsonObject(io::JsonStyle::spaced)
                            .add_text("op_name", op.op_name)
                            .add_text("sensitive_type", op.sensitive_type)
                            .add_text("op_type", op.op_type)
                            .add(metric, io::write_json_number(op.metric))
                            .str();
    };
    std::string text = io::write_json_list(list, row);
    text.insert(text.size() - 1, "\n");
    return text + "\n";
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_DEFINES(analysis)
#endif  // INTQ_ANALYSIS_INTERNAL_COMPARE_TABLES_HPP
