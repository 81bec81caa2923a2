// SPDX-License-Identifier: MIT
//
// The places of an operator that no table of the library holds: functions on views, parameters from an engine, kernels
// in tests and benches, models of files, pages. Each is demanded where the operator's row (graph/operator_rows.hpp) and
// its row in quantization say that it exists. Headers, pages and tests are read as text; the models of the ONNX tests
// are traced.
#ifndef INTQ_TESTS_GRAPH_OPERATOR_PLACES_HPP
#define INTQ_TESTS_GRAPH_OPERATOR_PLACES_HPP

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "interop/quantized_onnx/exported_zoo.hpp"
#include "interop/tflite/litert_models.hpp"
#include "intq/graph/graph_module.hpp"
#include "intq/graph/operators.hpp"
#include "intq/graph/tracer.hpp"
#include "intq/interop/tflite/internal/operators.hpp"
#include "intq/kernels/table/rows.hpp"
#include "intq/quantization/operators/operator_table.hpp"
#include "intq/quantization/operators/unary.hpp"
#include "structure/bare_text.hpp"

namespace intq::test {

using graph::OperatorRow;

// --- texts -----------------------------------------------------------------------------------------------------------

/// A file of the repository.
inline const std::string& text_of(const std::string& path) {
    static std::map<std::string, std::string> texts;
    const auto known = texts.find(path);
    if (known != texts.end()) return known->second;
    std::ifstream file(std::filesystem::path(INTQ_TESTS_DIR) / ".." / path);
    if (!file.good()) throw std::runtime_error("no file " + path);
    return texts.emplace(path, std::string(std::istreambuf_iterator<char>(file), {})).first->second;
}

/// The files of a folder, one after the other.
inline const std::string& texts_of(const std::string& folder) {
    static std::map<std::string, std::string> texts;
    std::string& text = texts[folder];
    if (text.empty())
        for (const auto& file :
             std::filesystem::directory_iterator(std::filesystem::path(INTQ_TESTS_DIR) / ".." / folder))
            text += text_of(folder + "/" + file.path().filename().string());
    return text;
}

/// The text of a page under a heading, up to the next one.
inline std::string section_of(const std::string& path, const std::string& heading) {
    const std::string& page = text_of(path);
    const std::size_t first = page.find("\n## " + heading + "\n");
    if (first == std::string::npos) throw std::runtime_error(path + " has no heading " + heading);
    return page.substr(first, page.find("\n## ", first + 1) - first);
}

/// The same texts without comments and literals.
inline std::string code_of(const std::string& text) { return Bare(text).text(); }

/// Whether a text has one of some words.
inline bool has_any(const std::string& text, const std::vector<std::string>& words) {
    return std::any_of(words.begin(), words.end(),
                       [&](const std::string& word) { return text.find(word) != std::string::npos; });
}

/// Collects sentences "file: what is missing".
class Report {
public:
    explicit Report(std::string_view op) : op_(op) {}
    void expect(bool holds, const std::string& place, const std::string& what) {
        if (!holds) sentences_.push_back(place + ": " + std::string(op_) + " " + what);
    }
    /// The same for a file in which one of some words is looked for.
    void expect_in(const std::string& file, const std::vector<std::string>& words, const std::string& what) {
        expect(has_any(text_of(file), words), file, what);
    }
    std::vector<std::string> sentences() && { return std::move(sentences_); }

private:
    std::string_view op_;
    std::vector<std::string> sentences_;
};

// --- what an operator is ---------------------------------------------------------------------------------------------

inline bool is_stub(const OperatorRow& row) { return row.name == "quant_stub" || row.name == "dequant_stub"; }

/// Of extents, which are integers: no tensor is computed.
inline bool is_of_extents(const OperatorRow& row) { return row.name == "size" || row.name == "floordiv"; }

inline const quantization::QuantizedOperator* quantized_row(std::string_view name) {
    for (const quantization::QuantizedOperator* row : quantization::quantized_operators())
        if (row->name == name) return row;
    return nullptr;
}

/// Of one element: a table of codes computes it, as all others.
inline bool is_of_one_element(const OperatorRow& row) { return quantization::operators::is_unary(row.name); }

/// Whether its integer form is an instruction of its own, and no table of codes.
inline bool has_instruction(const OperatorRow& row) {
    if (!row.has_integer_form || is_stub(row) || is_of_one_element(row)) return false;
    const auto* const quantized = quantized_row(row.name);
    return quantized == nullptr || (quantized->kind != OpKind::none && !quantized->on_host);
}

inline bool has_weights(const OperatorRow& row) {
    const auto* const quantized = quantized_row(row.name);
    return quantized != nullptr && quantized->role == quantization::Role::weighted;
}

/// The name of its instruction; its own where no row says another.
inline std::string instruction_of(const OperatorRow& row) {
    const auto* const quantized = quantized_row(row.name);
    return quantized == nullptr ? std::string(row.name) : name_of(quantized->kind);
}

struct OtherName {
    std::string_view name, other;
};

/// The other name in a list; the name itself where the list has none.
template <std::size_t Size> std::string other_name(const OtherName (&list)[Size], const std::string& name) {
    for (const OtherName& one : list)
        if (one.name == name) return std::string(one.other);
    return name;
}

/// Instructions whose kernels are of a family with another name.
inline constexpr OtherName kernel_families[] = {
    {"conv2d", "conv"},     {"linear", "conv"},    {"relu", "clamp"},   {"max_pool2d", "pool"},
    {"avg_pool2d", "pool"}, {"cat", "requantize"}, {"sub", "add"},      {"slice", "move"},
    {"permute", "move"},    {"reshape", "move"},   {"flatten", "move"}, {"expand", "move"},
};
inline std::string family_of(const OperatorRow& row) { return other_name(kernel_families, instruction_of(row)); }

/// Whether its words in TFLite copy codes: SELECT those of an operand, EMBEDDING_LOOKUP those of a table.
inline bool copies_codes(const OperatorRow& row) { return row.name == "masked_fill" || row.name == "embedding"; }

/// Whether an engine holds integers for it in TFLite: it computes new codes there, without weights.
inline bool has_given_parameters(const OperatorRow& row) {
    return has_instruction(row) && !has_weights(row) && !row.tflite.empty() && !graph::may_keep_grid(row.numbers) &&
           !copies_codes(row) && row.name != "log_softmax";  // which has another rule in TFLite's files alone
}
inline constexpr OtherName given_parameters[] = {
    {"cat", "requantize"},   // of each input
    {"sum", "mean"},         // with a multiplier that nothing divides
    {"avg_pool2d", "mean"},  // AVERAGE_POOL_2D keeps the grid of its input, so it has no integers
};

// --- kernels ---------------------------------------------------------------------------------------------------------

inline void check_views(Report& report, const OperatorRow& row) {
    if (!has_instruction(row) || has_weights(row)) return;
    const std::string op = instruction_of(row);
    if (op == "flatten" || op == "reshape") return;  // another view of the same codes
    // sub is run by add(), slices and permutations by move(): theirs is the function that makes.
    static const std::string functions = code_of(texts_of("include/intq/kernels/views")),
                             tests = code_of(text_of("tests/kernels/views/views_test.cpp")),
                             page = section_of("docs/kernels_in_your_engine.md", "Operators without weights");
    report.expect(has_any(functions, {"\nvoid " + op + "(", " make_" + op}), "kernels/views",
                  "has no function on views");
    report.expect(has_any(tests, {"::" + op + "(", "::" + op + "<", "::make_" + op}),
                  "tests/kernels/views/views_test.cpp", "has no test of its function on views");
    report.expect(has_any(page, {"\n| `" + op + "`", "\n| `" + op + "<", "`make_" + op}),
                  "docs/kernels_in_your_engine.md", "has no function on views");
}

inline void check_given(Report& report, const OperatorRow& row) {
    if (!has_given_parameters(row)) return;
    const std::string make = "make_given_" + other_name(given_parameters, std::string(row.name));
    static const std::string functions = code_of(text_of("include/intq/kernels/views/given.hpp")),
                             tests = code_of(text_of("tests/kernels/views/given_test.cpp")),
                             page = section_of("docs/kernels_in_your_engine.md", "Multipliers of your own");
    report.expect(has_any(functions, {" " + make + "("}), "kernels/views/given.hpp", "has no " + make + "()");
    report.expect(has_any(tests, {"::" + make + "<"}), "tests/kernels/views/given_test.cpp",
                  "has no test of " + make + "()");
    report.expect(has_any(page, {"`" + make + "<"}), "docs/kernels_in_your_engine.md", "has no " + make + "()");
}

inline void check_family(Report& report, const std::string& family) {
    report.expect_in("tests/support/every_row.hpp", {"table." + family + ")"}, "has kernels that nobody runs");
    report.expect_in("tests/fuzz/kernel_cases.hpp", {"{\"" + family + "\", &"}, "has kernels that nobody fuzzes");
    report.expect_in("tests/fuzz/corpus/kernels.txt", {"\n" + family + " "}, "has no case that runs first");
}

inline void check_kernel(Report& report, const OperatorRow& row) {
    if (!has_instruction(row)) return;
    const std::string family = family_of(row), op = instruction_of(row);
    bool is_family = false;
    kernels::for_each_family([&](const char* name, auto) { is_family = is_family || name == family; });
    report.expect(is_family, "kernels/table/rows.hpp", "has no family of kernels");
    check_family(report, family);
    // Layers with weights are measured by the shapes of a file.
    const std::string bench = has_weights(row) ? "bench/support/shapes.cpp" : "bench/kernels/streaming_cases.hpp";
    report.expect_in(bench, {"\"" + op + "/", "\"" + family + "/", "OpKind::" + op + ",", "OpKind::" + op + ";"},
                     "has no case");
}

// --- files -----------------------------------------------------------------------------------------------------------

/// The operators of models.
template <class Models> std::set<std::string> operators_of(const Models& models) {
    std::set<std::string> names;
    for (const auto& one : models) {
        const auto traced = graph::symbolic_trace(one.model);
        for (const graph::Node* node : traced->graph().nodes()) names.insert(graph::operator_of(*node, *traced));
    }
    return names;
}

inline void check_exported_model(Report& report, const OperatorRow& row) {
    static const std::set<std::string> operators = operators_of(exported_zoo());
    report.expect(row.onnx.empty() || operators.count(std::string(row.name)) != 0,
                  "tests/interop/quantized_onnx/exported_zoo.hpp", "is in no model");
}

inline void check_quantized_model(Report& report, const OperatorRow& row) {
    static const std::set<std::string> instructions = [] {
        std::set<std::string> result;
        for (const std::string& name : operators_of(quantized_zoo()))
            if (const OperatorRow* one = graph::find_operator_row(name)) result.insert(instruction_of(*one));
        return result;
    }();
    if (!row.onnx.empty() && has_instruction(row))
        report.expect(instructions.count(instruction_of(row)) != 0, "tests/interop/quantized_onnx/quantized_zoo.hpp",
                      "is in no model");
}

/// The operators on codes that are written; round_trip_test.cpp demands each in a file.
inline void check_operator_form(Report& report, const OperatorRow& row) {
    if (is_stub(row)) return;  // the grids of values, in both forms
    const std::string page = section_of("docs/onnx.md", "Write") + section_of("docs/onnx.md", "Read");
    graph::for_each_word(row.onnx_on_codes, [&](std::string_view word) {
        const std::string name(word), named = "has the word " + name + ", which ";
        report.expect(has_any(page, {"`" + name + "`"}), "docs/onnx.md", named + "the page has not");
        // Their sums are int32 codes without a grid, and no step has such an output.
        if (name == "ConvInteger" || name == "MatMulInteger") return;
        const std::string form = "interop/quantized_onnx/internal/operator_form.hpp";
        report.expect(has_any(text_of("include/intq/" + form), {name}), form, named + "it does not write");
        report.expect_in("tests/interop/quantized_onnx/round_trip_test.cpp", {"\"" + name + "\""},
                         named + "no file must have");
    });
}

inline void check_litert(Report& report, const OperatorRow& row) {
    const std::string page = section_of("docs/from_tflite.md", "Operators");
    graph::for_each_word(row.tflite, [&](std::string_view word) {
        const std::string name(word), named = "has the word " + name + ", which ";
        report.expect(has_any(page, {" " + name + " ", " " + name + ","}), "docs/from_tflite.md",
                      named + "its table has not");
        const auto* const one =
            std::find_if(std::begin(interop::tflite::tflite_operators), std::end(interop::tflite::tflite_operators),
                         [&](const auto& other) { return other.name == word; });
        if (one != std::end(interop::tflite::tflite_operators) && moves_nothing(one->code)) return;  // no instruction
        report.expect_in("tests/interop/tflite/litert_test.cpp", {"\"" + name + "\"", "\"" + name + " "},
                         named + "no model must have");
    });
}

}  // namespace intq::test

#endif  // INTQ_TESTS_GRAPH_OPERATOR_PLACES_HPP
