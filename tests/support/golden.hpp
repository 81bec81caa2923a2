// SPDX-License-Identifier: MIT
//
// Golden files of tests/golden: {"meta": …, "cases": […]}, floats as C99 hexadecimal text.
#ifndef INTQ_TESTS_SUPPORT_GOLDEN_HPP
#define INTQ_TESTS_SUPPORT_GOLDEN_HPP

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace intq::test {

/// The cases of tests/golden/<topic>.json.
inline nlohmann::json golden_cases(const std::string& topic) {
    std::ifstream file(std::string(INTQ_TESTS_DIR) + "/golden/" + topic + ".json");
    if (!file) throw std::runtime_error("no golden file of " + topic);
    return nlohmann::json::parse(file).at("cases");
}

/// A float from its text, "nan" and "inf" too; every float32 of the files is exact as double.
inline float golden_float(const nlohmann::json& text) {
    return static_cast<float>(std::strtod(text.get<std::string>().c_str(), nullptr));
}

inline std::vector<float> golden_floats(const nlohmann::json& texts) {
    std::vector<float> result;
    for (const auto& text : texts) result.push_back(golden_float(text));
    return result;
}

/// PyTorch's counts of a row, as a dense list.
inline std::vector<float> golden_histogram(const nlohmann::json& row, std::int64_t bins) {
    if (row.contains("histogram")) return golden_floats(row.at("histogram"));
    std::vector<float> dense(static_cast<std::size_t>(bins));
    for (const auto& [bin, value] : row.at("histogram_nonzero").items()) dense[std::stoul(bin)] = golden_float(value);
    return dense;
}

/// Equal to the last bit; the sign of a zero counts.
inline bool same_bits(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); }

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
        if (!same_bits(a[i], b[i])) return false;
    return true;
}

}  // namespace intq::test

#endif  // INTQ_TESTS_SUPPORT_GOLDEN_HPP
