// SPDX-License-Identifier: MIT
//
// The rooms beside graph/operator_rows.hpp: each has a row for an operator, or the operator's row says that it has
// none. operator_places.hpp has the places without a table.
#include "graph/operator_places.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "intq/arith/fp32.hpp"
#include "intq/arith/tflite.hpp"
#include "intq/graph/operator_rows.hpp"
#include "intq/interop/onnx/export/internal/rows.hpp"
#include "intq/interop/onnx/internal/operators.hpp"
#include "intq/interop/tflite/internal/operators.hpp"
#include "intq/kernels/operators/operator_table.hpp"
#include "intq/nn/float_operators/unary.hpp"
#include "intq/quantization/operators/operator_table.hpp"
#include "intq/quantization/operators/unary.hpp"
#include "intq/training/gradients.hpp"
#include "support/catch.hpp"

using namespace intq;
using graph::Numbers;
using graph::OperatorRow;
using test::is_stub;
using test::quantized_row;
using test::Report;
using test::text_of;
using test::texts_of;

namespace {

bool is_unary_row(std::string_view name) {
    return std::any_of(std::begin(nn::float_operators::unary_rows), std::end(nn::float_operators::unary_rows),
                       [&](const auto& unary) { return unary.name == name; });
}

bool is_written(const OperatorRow& row) {
    return quantization::operators::is_unary(row.name) ||
           std::any_of(std::begin(interop::onnx::export_rows), std::end(interop::onnx::export_rows),
                       [&](const interop::onnx::ExportRow& one) { return one.op == row.name; });
}

void check_nn(Report& report, const OperatorRow& row) {
    const auto has = [](const std::string& folder, const std::string& text) {
        return texts_of("include/intq/" + folder).find(text) != std::string::npos;
    };
    graph::for_each_word(row.modules, [&](std::string_view module) {
        const std::string word(module), method = word.substr(word.find('.') + 1);  // "FloatFunctional.cat"
        const bool is_method = method != word && has("nn/layers", '"' + method + '"');
        report.expect(is_method || has("nn/layers", "class " + word + " ") || has("nn/layers", "using " + word + " "),
                      "nn/layers", "has the module " + word + ", which has no class");
    });
    graph::for_each_word(row.functions, [&](std::string_view function) {
        const std::string name(function);
        report.expect(is_unary_row(name) || has("nn/layers", "_function{\"" + name + "\""), "nn/layers",
                      "has the function " + name + ", which has none");
    });
}

/// Of an operator whose integer form is an instruction of its own kind.
void check_kernels(Report& report, OpKind kind) {
    const bool is_another_instruction = kind == OpKind::flatten;  // a reshape
    report.expect(is_another_instruction || kernels::find_operator(kind) != nullptr,
                  "kernels/operators/operator_table.hpp", "has no row");
    const auto takes = [&](const arith::PolicyRecord& target) {
        return std::any_of(target.constraints.begin(), target.constraints.end(),
                           [&](const arith::ConstraintRow& one) { return one.op == kind; });
    };
    report.expect(takes(target::fp32::policy) || takes(target::tflite<>::policy), "arith/constraints.hpp",
                  "has no row of a target");
}

void check_quantization(Report& report, const OperatorRow& row) {
    const std::string place = "quantization/operators/operator_table.hpp";
    const auto* const quantized = quantized_row(row.name);
    const bool has_row = quantized != nullptr || quantization::operators::is_unary(row.name);
    report.expect(has_row == row.has_integer_form, place,
                  row.has_integer_form ? "has no row" : "has a row, and has_integer_form is false");
    if (quantized == nullptr) return;  // functions of one element share a row of their own
    if (quantized->kind != OpKind::none && !quantized->on_host) check_kernels(report, quantized->kind);
    using quantization::Role;
    const bool keeps_quantizer = quantized->role == Role::shares_input || quantized->role == Role::item;
    report.expect(keeps_quantizer == (graph::moves_codes(row.numbers) || row.name == "relu" || row.name == "relu6"),
                  place, "has a role that its Numbers contradict");
    const bool may_choose = row.numbers != Numbers::computed && !graph::moves_codes(row.numbers) && row.name != "relu";
    report.expect((quantized->grid_use != nullptr) == may_choose, place,
                  may_choose ? "has no grid_use: who decides its scale?" : "has a grid_use without a reason");
}

void check_gradient(Report& report, const OperatorRow& row) {
    const auto* const gradient = training::find_gradient(
        std::span<const training::GradientRow>(training::gradient_rows<double>), row.name, nullptr);
    report.expect(gradient != nullptr, "training/gradients.hpp", "has no row");
    if (gradient != nullptr)
        report.expect((gradient->backward != &training::detail::no_backward &&
                       gradient->backward != &training::detail::refuse_backward) == row.has_gradient,
                      "training/gradients.hpp", "has a gradient where has_gradient says another thing");
}

void check_onnx(Report& report, const OperatorRow& row) {
    report.expect(is_written(row) == (!row.onnx.empty() || is_stub(row)), "interop/onnx/export/internal/rows.hpp",
                  row.onnx.empty() ? "has a row and no word of ONNX" : "has no row");
    graph::for_each_word(row.onnx, [&](std::string_view word) {
        report.expect(std::any_of(std::begin(interop::onnx::onnx_operators), std::end(interop::onnx::onnx_operators),
                                  [&](const interop::onnx::OnnxOperator& one) { return one.op_type == word; }),
                      "interop/onnx/internal/operators.hpp",
                      "has the word " + std::string(word) + ", which has no row");
    });
    graph::for_each_word(row.onnx_on_codes, [&](std::string_view word) {
        const std::string place = "interop/onnx/internal/nodes/expand_operators.hpp";
        report.expect(text_of("include/intq/" + place).find('"' + std::string(word) + '"') != std::string::npos, place,
                      "has the word " + std::string(word) + ", which has no row");
    });
}

void check_tflite(Report& report, const OperatorRow& row) {
    graph::for_each_word(row.tflite, [&](std::string_view word) {
        const std::string place = "interop/tflite/internal/operators.hpp", named = "has the word " + std::string(word);
        const auto* const one =
            std::find_if(std::begin(interop::tflite::tflite_operators), std::end(interop::tflite::tflite_operators),
                         [&](const auto& other) { return other.name == word; });
        const bool is_known = one != std::end(interop::tflite::tflite_operators);
        report.expect(is_known, place, named + ", which has no row");
        constexpr std::string_view of_codes_alone[] = {"STRIDED_SLICE", "PADV2", "SELECT", "SELECT_V2",
                                                       "EMBEDDING_LOOKUP"};
        const bool is_of_codes_alone = is_stub(row) || std::find(std::begin(of_codes_alone), std::end(of_codes_alone),
                                                                 word) != std::end(of_codes_alone);
        report.expect(is_of_codes_alone || !is_known || one->import_float != nullptr, place,
                      named + ", whose row has no function of real numbers");
    });
}

void check_spellings(Report& report, const OperatorRow& row) {
    report.expect(!row.modules.empty() || !row.functions.empty() || !row.methods.empty(), "graph/operator_rows.hpp",
                  "is spelled nowhere");
    for (const auto& unary : nn::float_operators::unary_rows) {
        if (unary.name != row.name) continue;
        report.expect(row.modules == (unary.module == nullptr ? "" : unary.module) && row.functions == unary.name,
                      "nn/float_operators/unary.hpp", "is spelled in another way");
    }
}

void check_pages_and_tests(Report& report, const OperatorRow& row) {
    if (is_stub(row) || test::is_of_extents(row)) return;
    const std::string quoted = '"' + std::string(row.name) + '"';
    report.expect(text_of("tests/graph/shapes_test.cpp").find(quoted) != std::string::npos ||
                      quantization::operators::is_unary(row.name),
                  "tests/graph/shapes_test.cpp", "has no case");
    report.expect(text_of("docs/operators.md").find("| `" + std::string(row.name) + "` |") != std::string::npos,
                  "docs/operators.md", "has no row");
}

/// The places that lack an operator.
std::vector<std::string> places_without(const OperatorRow& row) {
    Report report(row.name);
    check_spellings(report, row);
    check_nn(report, row);
    check_quantization(report, row);
    check_gradient(report, row);
    check_onnx(report, row);
    check_tflite(report, row);
    test::check_views(report, row);
    test::check_given(report, row);
    test::check_kernel(report, row);
    test::check_exported_model(report, row);
    test::check_quantized_model(report, row);
    test::check_operator_form(report, row);
    test::check_litert(report, row);
    check_pages_and_tests(report, row);
    return std::move(report).sentences();
}

std::string with_commas(std::string_view words) {
    std::string text;
    graph::for_each_word(
        words, [&](std::string_view word) { text += (text.empty() ? "`" : ", `") + std::string(word) + "`"; });
    return text;
}

/// The row of an operator on docs/operators.md.
std::string page_row(const OperatorRow& row) {
    const auto yes = [](bool is) { return std::string(is ? "yes" : ""); };
    return "| `" + std::string(row.name) + "` | " + with_commas(row.modules) + " | " + with_commas(row.functions) +
           " | " + with_commas(row.methods) + " | " + yes(row.has_integer_form) + " | " + yes(row.has_gradient) +
           " | " + with_commas(row.onnx) + " | " + with_commas(row.onnx_on_codes) + " | " + with_commas(row.tflite) +
           " |";
}

}  // namespace

TEST_CASE("Every room has what the row of an operator says") {
    for (const OperatorRow& row : graph::operator_rows) {
        CHECK(places_without(row) == std::vector<std::string>());
        CHECK(graph::find_operator_row(row.name) == &row);
    }
    for (const auto& unary : nn::float_operators::unary_rows) CHECK(graph::find_operator_row(unary.name) != nullptr);
}

TEST_CASE("Every family of kernels is run on a board and fuzzed") {
    kernels::for_each_family([](const char* family, auto) {
        Report report(family);
        test::check_family(report, family);
        CHECK(std::move(report).sentences() == std::vector<std::string>());
    });
}

TEST_CASE("A row that no operator of graph/operator_rows.hpp has is reported") {
    const auto is_known = [](std::string_view name) { return graph::find_operator_row(name) != nullptr; };
    for (const quantization::QuantizedOperator* row : quantization::quantized_operators()) {
        const std::set<std::string_view> not_of_a_graph{"placeholder", "get_attr", "output"};
        const bool is_fused_norm = row->name.starts_with("BNReLU");
        CHECK((is_known(row->name) || is_fused_norm || not_of_a_graph.count(row->name) != 0));
    }
    for (const interop::tflite::TfliteOperator& row : interop::tflite::tflite_operators) {
        INFO(row.name);
        CHECK(std::any_of(std::begin(graph::operator_rows), std::end(graph::operator_rows),
                          [&](const OperatorRow& one) { return graph::has_word(one.tflite, row.name); }));
    }
}

TEST_CASE("An invented operator is missing in each room") {
    const OperatorRow invented{.name = "invented",
                               .modules = "Invented",
                               .functions = "invented",
                               .onnx = "Invented",
                               .onnx_on_codes = "QLinearInvented",
                               .tflite = "INVENTED"};
    CHECK(
        places_without(invented) ==
        std::vector<std::string>{
            "nn/layers: invented has the module Invented, which has no class",
            "nn/layers: invented has the function invented, which has none",
            "quantization/operators/operator_table.hpp: invented has no row",
            "training/gradients.hpp: invented has no row",
            "interop/onnx/export/internal/rows.hpp: invented has no row",
            "interop/onnx/internal/operators.hpp: invented has the word Invented, which has no row",
            "interop/onnx/internal/nodes/expand_operators.hpp: invented has the word QLinearInvented, which has no row",
            "interop/tflite/internal/operators.hpp: invented has the word INVENTED, which has no row",
            "kernels/views: invented has no function on views",
            "tests/kernels/views/views_test.cpp: invented has no test of its function on views",
            "docs/kernels_in_your_engine.md: invented has no function on views",
            "kernels/views/given.hpp: invented has no make_given_invented()",
            "tests/kernels/views/given_test.cpp: invented has no test of make_given_invented()",
            "docs/kernels_in_your_engine.md: invented has no make_given_invented()",
            "kernels/table/rows.hpp: invented has no family of kernels",
            "tests/support/every_row.hpp: invented has kernels that nobody runs",
            "tests/fuzz/kernel_cases.hpp: invented has kernels that nobody fuzzes",
            "tests/fuzz/corpus/kernels.txt: invented has no case that runs first",
            "bench/kernels/streaming_cases.hpp: invented has no case",
            "tests/interop/quantized_onnx/exported_zoo.hpp: invented is in no model",
            "tests/interop/quantized_onnx/quantized_zoo.hpp: invented is in no model",
            "docs/onnx.md: invented has the word QLinearInvented, which the page has not",
            "interop/quantized_onnx/internal/operator_form.hpp: invented has the word QLinearInvented, which it does "
            "not write",
            "tests/interop/quantized_onnx/round_trip_test.cpp: invented has the word QLinearInvented, which no file "
            "must have",
            "docs/from_tflite.md: invented has the word INVENTED, which its table has not",
            "tests/interop/tflite/litert_test.cpp: invented has the word INVENTED, which no model must have",
            "tests/graph/shapes_test.cpp: invented has no case",
            "docs/operators.md: invented has no row"});
    // A trait that the rooms contradict.
    OperatorRow pad = *graph::find_operator_row("pad");
    pad.numbers = Numbers::moved;
    pad.has_gradient = false;
    CHECK(places_without(pad) ==
          std::vector<std::string>{
              "quantization/operators/operator_table.hpp: pad has a role that its Numbers contradict",
              "quantization/operators/operator_table.hpp: pad has a grid_use without a reason",
              "training/gradients.hpp: pad has a gradient where has_gradient says another thing"});
}

TEST_CASE("The page of operators has the rows") {
    const std::string& page = text_of("docs/operators.md");
    std::string rows;
    for (const OperatorRow& row : graph::operator_rows) rows += page_row(row) + "\n";
    const bool is_there = page.find(rows) != std::string::npos;
    if (!is_there) std::cout << rows;
    CHECK(is_there);
}

TEST_CASE("The page on ONNX lists each operator that is read") {
    const std::string& page = text_of("docs/onnx.md");
    for (const interop::onnx::OnnxOperator& row : interop::onnx::onnx_operators) {
        INFO(row.op_type);
        CHECK(page.find("`" + std::string(row.op_type) + "`") != std::string::npos);
    }
}
