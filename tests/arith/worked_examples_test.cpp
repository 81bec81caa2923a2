// SPDX-License-Identifier: MIT
//
// The worked examples of docs/arithmetic.md, evaluated by the functions of arith/. The page's numbers were computed
// with exact fractions, apart from the library.
#include "support/worked_examples.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "arith/example_functions.hpp"
#include "support/catch.hpp"

namespace {

using namespace intq;
using test::examples::functions;

const std::filesystem::path page_path = INTQ_DOCS_DIR "/arithmetic.md";

test::ExamplePage read_page() {
    std::ifstream file(page_path);
    REQUIRE(file.is_open());
    return test::read_example_page(file);
}

test::ExamplePage page_of(const std::string& text) {
    std::istringstream stream(text);
    return test::read_example_page(stream);
}

/// What a reader would miss on a page: a rule without an example, a plan with one, and examples fewer than rules.
std::vector<std::string> missing_examples(const test::ExamplePage& page) {
    std::vector<std::string> faults;
    for (const test::PageRule& rule : page.rules) {
        if (rule.is_built && rule.examples == 0) faults.push_back("\"" + rule.name + "\" has no example");
        if (!rule.is_built && rule.examples > 0)
            faults.push_back("\"" + rule.name + "\" is not built but has examples");
    }
    if (page.examples.size() < page.rules.size()) faults.push_back("there are fewer examples than rules");
    return faults;
}

std::set<std::string> files_below(const std::filesystem::path& folder, std::string_view extension) {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
        if (entry.path().extension() == extension) names.insert(entry.path().filename().string());
    return names;
}

/// The names of files with an extension in a text, without their folders.
std::set<std::string> files_named(const std::string& text, std::string_view extension) {
    constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz0123456789_";
    std::set<std::string> names;
    for (std::size_t at = text.find(extension); at != std::string::npos; at = text.find(extension, at + 1)) {
        const std::size_t first = text.find_last_not_of(letters, at - 1) + 1;
        names.insert(text.substr(first, at + extension.size() - first));
    }
    return names;
}

std::string fault(const std::string& example) { return test::fault_of({1, example}, functions()); }

}  // namespace

TEST_CASE("docs/arithmetic.md: every worked example is what the library computes") {
    for (const test::WorkedExample& example : read_page().examples) {
        INFO(test::fault_of(example, functions()));
        CHECK(test::fault_of(example, functions()).empty());
    }
}

TEST_CASE("docs/arithmetic.md: every rule has an example, and every function of this test is used") {
    const test::ExamplePage page = read_page();
    CHECK(missing_examples(page) == std::vector<std::string>());
    std::set<std::string> used;
    for (const test::WorkedExample& example : page.examples)
        used.insert(example.text.substr(0, example.text.find('(')));
    for (const auto& [name, function] : functions()) {
        INFO(name);
        CHECK(used.contains(name));
    }
}

TEST_CASE("docs/arithmetic.md: the sections keep the numbers that comments cite") {
    CHECK(read_page().sections ==
          std::vector<std::string>{"0", "1", "2", "2.1", "2.2", "2.3", "3", "4", "5", "6", "7"});
}

TEST_CASE("docs/arithmetic.md: every header of arith is named, and every file that is named exists") {
    std::ifstream file(page_path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const std::set<std::string> headers = files_below(INTQ_TESTS_DIR "/../include/intq/arith", ".hpp");
    CHECK(headers.size() > 20);
    CHECK(headers == files_named(text, ".hpp"));
    const std::set<std::string> tests = files_below(INTQ_TESTS_DIR, ".cpp"), named_tests = files_named(text, ".cpp");
    CHECK(named_tests.size() > 5);
    CHECK(std::includes(tests.begin(), tests.end(), named_tests.begin(), named_tests.end()));
}

TEST_CASE("worked examples: what is wrong with a line is said") {
    using Catch::Contains;
    CHECK(fault("rhe(2.5) = 2").empty());
    CHECK_THAT(fault("rhe(2.5) = 3"), Contains("the library gives 2"));
    CHECK_THAT(fault("fmul(0.1, 0.1) = 0.01"), Contains("the library gives 0.010000000"));  // the last bit
    CHECK_THAT(fault("frexp(1) = 0.5"), Contains("the library gives 0.5, 1"));
    CHECK_THAT(fault("rhe(2.5) = refused unsupported"), Contains("the library gives 2"));
    CHECK_THAT(fault("quantize_multiplier(-1) = 0, 0"), Contains("the library gives refused scale_out_of_range"));
    CHECK_THAT(fault("rhe(2.5) = ?"), Contains("\"?\" is not an integer"));
    CHECK_THAT(fault("round(2.5) = 2"), Contains("there is no function \"round\""));
    CHECK_THAT(fault("rhe(2.5)"), Contains("not of the form"));
    CHECK_THAT(fault("rhe 2.5 = 2"), Contains("not of the form"));
    CHECK_THAT(fault("rhe(2.5 = 2"), Contains("not of the form"));
    CHECK_THAT(fault("rhe(2.5,) = 2"), Contains("an empty place"));
    CHECK_THAT(fault("rhe(2.5, 1) = 2"), Contains("too many arguments"));
    CHECK_THAT(fault("rhe(y=2.5) = 2"), Contains("there is no argument \"y\""));
    CHECK_THAT(fault("SH_F(5) = 2"), Contains("the argument \"n\" is missing"));
    CHECK_THAT(fault("SH_F(5, 1, n=1) = 2"), Contains("the argument \"n\" is given twice"));
    CHECK_THAT(fault("SH_F(5.5, 1) = 2"), Contains("\"5.5\" is not an integer"));
    CHECK_THAT(fault("rhe(2,5]) = 2"), Contains("brackets do not match"));
    CHECK_THAT(fault("bias_code(abacus, b=1, s_in=1, s_w=1) = 1"), Contains("there is no target \"abacus\""));
    CHECK_THAT(fault("accepts(bayes, add, input=int7, output=int8) = yes"), Contains("there is no dtype \"int7\""));
}

TEST_CASE("worked examples: a page without examples for its rules is not accepted") {
    const std::string block = "```example\nrhe(2.5) = 2  # a tie\n\n```\n";
    const auto good =
        page_of("# T\n## 1. A\n### 1.1 B\n#### Rule\n" + block + "### Plan (not built yet)\n## 2. C\n" + block);
    CHECK(good.sections == std::vector<std::string>{"1", "1.1", "2"});
    CHECK(good.rules.size() == 2);
    REQUIRE(good.examples.size() == 2);
    CHECK(good.examples[0].text == "rhe(2.5) = 2");
    CHECK(good.examples[0].line == 6);
    CHECK(missing_examples(good).empty());
    CHECK(missing_examples(page_of("## 1. A\n### Rule\n### Other\n" + block)).size() == 2);
    CHECK(missing_examples(page_of("## 1. A\n### Rule (not built yet)\n" + block)).size() == 1);
    CHECK(missing_examples(page_of("## 1. A\n### Rule\n```text\nrhe(2.5) = 2\n```\n")).size() == 2);
    CHECK_THROWS_AS(page_of("## 1. A\n### Rule\n```example\nrhe(2.5) = 2\n"), test::Malformed);
}
