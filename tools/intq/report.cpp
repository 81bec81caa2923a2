// SPDX-License-Identifier: MIT
//
// A result as lines for people, or as one JSON object.
#include <charconv>
#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "options.hpp"

namespace intq_tool {

using namespace intq;

std::string digits(const char* format, double value) {
    if (value != value) return "nan";  // which printf may give a sign
    char text[64];
    std::snprintf(text, sizeof text, format, value);
    return text;
}

namespace {

/// Text in JSON. A name out of a file may hold bytes that are no UTF-8.
std::string json_text(const std::string& text) { return io::write_json_string(is_utf8(text) ? text : printable(text)); }

/// A number in JSON, with the digits that people see; "inf", "-inf" and "nan" are strings.
std::string json_of(double value, const std::string& text) {
    return value - value == 0.0 ? text : io::write_json_number(value);
}

/// A cell in JSON: a number where it is one.
std::string cell(const io::TextTable::Column& column, const std::string& text) {
    if (column.align != io::Align::right) return json_text(text);
    double value = 0.0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || stop != text.data() + text.size()) return io::write_json_string(text);
    return json_of(value, text);
}

}  // namespace

void Report::text(const std::string& name, const std::string& value) {
    lines_ += name + ": " + printable(value) + "\n";
    members_.add(name, json_text(value));
}

void Report::number(const std::string& name, double value, const std::string& unit) {
    const std::string text = digits("%.7g", value);
    lines_ += name + ": " + text + (unit.empty() ? "" : " " + unit) + "\n";
    members_.add(name, json_of(value, text));
}

void Report::count(const std::string& name, long long value, const std::string& unit) {
    lines_ += name + ": " + std::to_string(value) + (unit.empty() ? "" : " " + unit) + "\n";
    members_.add(name, std::to_string(value));
}

void Report::dropped(const program::DroppedWork& work) {
    std::vector<std::vector<std::string>> rows;
    for (const std::string& name : work.copies) rows.push_back({name});
    if (!rows.empty()) table("operators that would copy their input", {{"layer"}}, rows);
    if (work.layers.empty()) return;
    count("multiplications", work.multiplications);
    count("multiplications with the channels that were left out", work.whole_multiplications);
    count("codes of weights", work.weight_bytes, "bytes");
    count("codes of weights with those channels", work.whole_weight_bytes, "bytes");
    rows.clear();
    for (const program::DroppedOfLayer& layer : work.layers)
        rows.push_back({layer.name, layer.type, std::to_string(layer.channels), std::to_string(layer.constant),
                        std::to_string(layer.unread), program::codes_text(layer)});
    table("channels that were left out",
          {{"layer"},
           {"type"},
           {"channels", io::Align::right},
           {"constant", io::Align::right},
           {"unread", io::Align::right},
           {"codes"}},
          rows);
}

void Report::flash(const runtime::Program& program, const kernels::KernelTable& table) {
    const deploy::FlashReport flash = deploy::flash_report(program, table);
    count("constants", flash.total(), "bytes");
    for (const auto& [kind, bytes] : {std::pair{"weights", flash.weights},
                                      {"bias, multiplier and shift of channels", flash.channels},
                                      {"padding", flash.padding},
                                      {"tables", flash.tables},
                                      {"records of layers", flash.records}})
        if (bytes > 0) count(kind, bytes, "bytes");
    std::vector<std::vector<std::string>> rows;
    for (const deploy::LargerTable& larger : flash.larger_tables)
        rows.push_back({larger.layer, std::to_string(larger.bytes)});
    if (!rows.empty())
        this->table("larger tables, to stay within a code", {{"layer"}, {"bytes", io::Align::right}}, rows);
}

void Report::int16_weights(const runtime::Program& program) {
    index_t layers = 0, weights = 0;
    for (const runtime::Instruction& instruction : program.instructions) {
        if (instruction.op != OpKind::conv2d && instruction.op != OpKind::linear) continue;
        const kernels::PackedConv2d& packed = instruction.params_as<kernels::ConvParams>().packed;
        if (packed.weight_dtype != DType::int16) continue;
        ++layers;
        weights += packed.out_channels * packed.group_inputs() * packed.taps();
    }
    if (layers == 0) return;
    count("layers with int16 weights", layers);
    count("codes of int16 weights", 2 * weights, "bytes, twice those of int8");
}

void Report::table(const std::string& name, const Columns& columns, const std::vector<std::vector<std::string>>& rows,
                   const std::string& title) {
    io::TextTable text(columns);
    for (const auto& row : rows) text.add_row(row);
    const auto json_row = [&](const std::vector<std::string>& row) {
        io::JsonObject object(io::JsonStyle::spaced);
        for (std::size_t i = 0; i < columns.size(); ++i) object.add(columns[i].title, cell(columns[i], row[i]));
        return object.str();
    };
    lines_ += "\n" + (title.empty() ? name : title) + "\n" + text.str(io::TableStyle::simple);
    members_.add(name, io::write_json_list(rows, json_row, io::JsonStyle::spaced));
}

void Report::improvements(const PrepareNotes& notes) {
    if (!notes.stream.empty()) {
        std::map<std::string, int> counts;
        for (const quantization::StreamLayer& layer : notes.stream) ++counts[layer.reason];
        std::string list;
        for (const auto& [reason, count] : counts)
            list += (list.empty() ? "" : ", ") + std::to_string(count) + " of " + in_quotes(reason);
        text("in int16 by the preset", std::to_string(notes.stream.size()) + " layers: " + list);
    }
    if (!notes.left.empty())
        text("left in int8 by the preset",
             std::to_string(notes.left.size()) + " of \"norm\", because the target has no norm of int16 codes");
    for (const Improvement& improvement : notes.improvements) text(improvement.name, improvement.choice);
}

void Report::warnings(const PrepareNotes& notes) {
    std::vector<std::vector<std::string>> rows;
    std::istringstream findings(to_string(notes.calibration));
    for (std::string line; std::getline(findings, line);) rows.push_back({line});
    if (!rows.empty()) table("warnings", {{"of the calibration"}}, rows);
}

void Report::print() const {
    if (is_json_)
        std::printf("%s\n", members_.str().c_str());
    else
        std::fputs(lines_.c_str(), stdout);
}

}  // namespace intq_tool
