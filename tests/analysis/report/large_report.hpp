// SPDX-License-Identifier: MIT
//
// A report of many layers, with names that would be markup where a page took them for it.
#ifndef INTQ_TESTS_ANALYSIS_REPORT_LARGE_REPORT_HPP
#define INTQ_TESTS_ANALYSIS_REPORT_LARGE_REPORT_HPP

#include <cmath>
#include <string>
#include <vector>

#include "intq/analysis/model_report.hpp"
#include "kernels/oracle_bridge.hpp"

namespace intq::test {

inline constexpr const char* hostile_name = "</script><script>faults.push('a name ran')</script><b>&amp;\"'";

/// Layers of 256 channels, each worse than the one before; the fourth has values that are no numbers.
inline analysis::ModelReport large_report(std::size_t count) {
    analysis::ModelReport report;
    Draw draw(11);
    for (std::size_t k = 0; k < count; ++k) {
        const Shape shape(index_t{1}, index_t{256}, index_t{2}, index_t{4});
        std::vector<float> x, y;
        for (index_t i = 0; i < shape.size(); ++i) {
            x.push_back(draw.real(-1.0f, 3.0f));
            y.push_back(x.back() + draw.real(-1.0f, 1.0f) * 0.001f * static_cast<float>(k + 1));
        }
        analysis::ReportLayer layer;
        analysis::LayerComparison& row = layer.comparison;
        row.pair = {k, k, false};
        row.mod_name = k == 2 ? hostile_name : "stage" + std::to_string(k / 10) + ".conv" + std::to_string(k);
        row.base_op_type = row.analy_op_type = k % 2 == 0 ? "Conv2d" : "ReLU";
        row.shape = shape;
        row.metrics.add(x, y, shape);
        row.base.add(x);
        row.analy.add(y);
        if (k == 3) x[5] = y[7] = NAN;
        row.values = analysis::pair_values(x, y, shape);
        layer.step = "%" + row.mod_name + " = call_module";
        layer.shares = {0.5, 0.25, 0.0, 0.125, 0.125};
        if (k > 0) layer.inputs.push_back(k - 1);
        if (k > 4 && k % 5 == 0) layer.inputs.push_back(k - 4);
        report.layers.push_back(std::move(layer));
    }
    report.advice = {{"stage0.conv4", "found <b>out</b>", "change();"}, {hostile_name, "its name", "rename();"}};
    return report;
}

}  // namespace intq::test

#endif  // INTQ_TESTS_ANALYSIS_REPORT_LARGE_REPORT_HPP
