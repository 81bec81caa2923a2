// SPDX-License-Identifier: MIT
//
// Compares the files that examples/horizon_quick_start wrote with tests/golden/horizon_quick_start.json, which PyTorch
// and numpy computed.
//
//     check_horizon_quick_start <golden file> <folder>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "../support/csv.hpp"

namespace {

using nlohmann::json;

int faults = 0;

void check(bool right, const std::string& what) {
    if (right) return;
    std::cerr << "wrong: " << what << "\n";
    ++faults;
}

void check_layers(const json& layers, const std::string& folder) {
    std::ifstream file(folder + "/compare_per_layer_out.csv", std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const intq::test::CsvRows table = intq::test::read_csv(text);
    check(table.size() == layers.size() + 1, "the table has " + std::to_string(table.size()) + " records");
    for (std::size_t row = 1; row < std::min(table.size(), layers.size() + 1); ++row)
        for (std::size_t i = 0; i < table[0].size(); ++i) {
            const std::string &title = table[0][i], &cell = table[row][i];
            const json& layer = layers[row - 1];
            const std::string name = layer.at("mod_name");
            if (!layer.contains(title)) continue;
            const std::string where = name + " " + title + ": " + cell;
            if (title == "mod_name" || layer.at(title).is_null()) {
                check(cell == (title == "mod_name" ? name : ""), where);
                continue;
            }
            const double expected = layer.at(title), value = std::strtod(cell.c_str(), nullptr);
            // A quotient by a value near 0 multiplies the last bit of a float sum.
            const double part = title == "Rtol" ? 1e-3 : 2e-6;
            check(std::abs(value - expected) <= 1e-7 + part * std::abs(expected),
                  where + ", expected " + std::to_string(expected));
        }
}

void check_sensitivity(const json& list, const std::string& folder) {
    std::ifstream file(folder + "/sensitive_ops.txt");
    std::string line;
    std::getline(file, line);
    check(line.find("op_name") == 0 && line.find("sensitive_type") < line.find("op_type") &&
              line.find("op_type") < line.find("L1"),
          "titles: " + line);
    std::getline(file, line);
    for (const json& row : list) {
        std::getline(file, line);
        std::istringstream words(line);
        std::string name, type, op_type;
        double metric = 0;
        words >> name >> type >> op_type >> metric;
        check(name == row.at("op_name") && type == row.at("sensitive_type"), line);
        check(std::abs(metric - row.at("L1").get<double>()) <= 1e-7 + 2e-6 * metric, line);
    }
    check(!std::getline(file, line), "more rows: " + line);
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 3) return 2;
    std::ifstream golden_file(arguments[1]);
    const json golden = json::parse(golden_file);
    const std::string folder = arguments[2];
    check_layers(golden.at("layers"), folder);
    check_sensitivity(golden.at("sensitivity"), folder);
    for (const char* name : {"model_check_result.txt", "abnormal_layer_advisor.txt", "compare_per_layer_out.txt",
                             "badcase.safetensors", "sensitive_ops.json", "baseline_model/statistic.txt",
                             "analysis_model/statistic.txt", "profile/statistic.txt"})
        check(std::ifstream(folder + "/" + name).good(), std::string(name) + " is missing");
    std::printf("%d faults\n", faults);
    return faults == 0 ? 0 : 1;
}
