// SPDX-License-Identifier: MIT
//
// A result as lines for people, or as one JSON object.
#include <cstdio>

#include "options.hpp"

namespace intq_tool {

using namespace intq;

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
