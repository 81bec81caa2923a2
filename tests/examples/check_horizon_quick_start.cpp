// SPDX-License-Identifier: MIT
//
// Compares the files that examples/horizon_quick_start wrote with tests/golden/horizon_quick_start.json, which PyTorch
// and numpy computed.
//
//     check_horizon_quick_start <golden file> <folder>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace {

using nlohmann::json;

int faults = 0;

void check(bool right, const std::string& what) {
    if (right) return;
    std::cerr << "wrong: " << what << "\n";
    ++faults;
}

std::vector<std::string> cells_of(const std::string& line) {
    std::vector<std::string> cells;
    std::size_t start = 0;
    for (std::size_t end; (end = line.find(", ", start)) != std::string::npos; start = end + 2)
        cells.push_back(line.substr(start, end - start));
    cells.push_back(line.substr(start));
    return cells;
}

void check_layers(const json& layers, const std::string& folder) {
    std::ifstream file(folder + "/compare_per_layer_out.csv");
    std::string line;
    std::getline(file, line);
    const std::vector<std::string> titles = cells_of(line);
    std::size_t row = 0;
    for (; std::getline(file, line); ++row) {
        const std::vector<std::string> cells = cells_of(line);
        if (row >= layers.size() || cells.size() != titles.size()) break;
        const json& layer = layers[row];
        const std::string name = layer.at("mod_name");
        for (std::size_t i = 0; i < titles.size(); ++i) {
            if (!layer.contains(titles[i])) continue;
            const std::string where = name + " " + titles[i] + ": " + cells[i];
            if (titles[i] == "mod_name" || layer.at(titles[i]).is_null()) {
                check(cells[i] == (titles[i] == "mod_name" ? name : ""), where);
                continue;
            }
            const double expected = layer.at(titles[i]), value = std::strtod(cells[i].c_str(), nullptr);
            // A quotient by a value near 0 multiplies the last bit of a float sum.
            const double part = titles[i] == "Rtol" ? 1e-3 : 2e-6;
            check(std::abs(value - expected) <= 1e-7 + part * std::abs(expected),
                  where + ", expected " + std::to_string(expected));
            check(cells[i].size() > 8 && cells[i][cells[i].size() - 8] == '.', where + " has not seven decimals");
        }
    }
    check(row == layers.size(), "the table has " + std::to_string(row) + " rows");
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
