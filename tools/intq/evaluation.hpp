// SPDX-License-Identifier: MIT
//
// What is measured of a model's outputs: classes, agreement, and SQNR.
#ifndef INTQ_TOOLS_INTQ_EVALUATION_HPP
#define INTQ_TOOLS_INTQ_EVALUATION_HPP

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "options.hpp"

namespace intq_tool {

using intq::index_t;

/// Index of the largest element of each row of (N, classes).
inline std::vector<index_t> classes_of(const Tensor& logits) {
    if (logits.rank() != 2)
        throw intq::Error("the model's output has shape " + intq::to_string(logits.shape()) +
                          ", expected (N, classes)");
    const auto values = logits.flat<float>();
    const auto width = static_cast<std::size_t>(logits.extent(1));
    std::vector<index_t> classes;
    for (std::size_t row = 0; row < static_cast<std::size_t>(logits.extent(0)); ++row) {
        const auto first = values.begin() + static_cast<std::ptrdiff_t>(row * width);
        classes.push_back(std::max_element(first, first + static_cast<std::ptrdiff_t>(width)) - first);
    }
    return classes;
}

inline index_t count_equal(const std::vector<index_t>& a, const std::vector<index_t>& b) {
    index_t equal = 0;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) equal += a[i] == b[i] ? 1 : 0;
    return equal;
}

/// Whether an output is indices, of an argmax, which are compared by how many are equal.
inline bool are_indices(const Tensor& output) {
    return output.dtype() == intq::DType::int32 || output.dtype() == intq::DType::int64;
}

/// The indices of an output; whole numbers as run_real() gives them, too.
inline std::vector<index_t> indices_of(const Tensor& output) {
    const Tensor values = output.contiguous();
    std::vector<index_t> indices;
    const auto take = [&](const auto from) { indices.assign(from.begin(), from.end()); };
    if (values.dtype() == intq::DType::int64)
        take(values.flat<std::int64_t>());
    else if (values.dtype() == intq::DType::int32)
        take(values.flat<std::int32_t>());
    else
        for (const float index : values.flat<float>()) indices.push_back(static_cast<index_t>(index));
    return indices;
}

/// Adds how many indices of each such output are those of the float model.
inline void report_indices(Report& report, const std::vector<std::string>& names, const std::vector<Tensor>& expected,
                           const std::vector<Tensor>& given) {
    std::vector<std::vector<std::string>> rows;
    for (std::size_t i = 0; i < expected.size(); ++i)
        if (are_indices(expected[i]))
            rows.push_back({names.at(i), std::to_string(count_equal(indices_of(expected[i]), indices_of(given.at(i)))),
                            std::to_string(expected[i].size())});
    if (!rows.empty())
        report.table("indices", {{"output"}, {"as in float", intq::io::Align::right}, {"of", intq::io::Align::right}},
                     rows);
}

/// SQNR in dB; infinite where all numbers are equal, also where all are 0.
inline double sqnr_of(const Tensor& expected, const Tensor& given) {
    const Tensor a = expected.contiguous(), b = given.contiguous();
    const auto x = a.flat<float>(), y = b.flat<float>();
    if (std::equal(x.begin(), x.end(), y.begin(), y.end())) return std::numeric_limits<double>::infinity();
    return static_cast<double>(intq::numeric_suite::compute_sqnr(x, y));
}

/// The less; NaN is the worst.
inline double worse_sqnr(double a, double b) { return a < b || a != a ? a : b; }

/// Throws for an SQNR that says that nothing was compared.
inline void require_number(const std::string& what, double sqnr) {
    if (sqnr != sqnr)
        throw intq::Error(what,
                          "the SQNR is NaN: on these samples outputs hold NaN or infinity, in float or in integers");
}

}  // namespace intq_tool

#endif  // INTQ_TOOLS_INTQ_EVALUATION_HPP
