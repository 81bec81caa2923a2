// SPDX-License-Identifier: MIT
//
// The library as one file: what stands where, and what is refused. That it compiles and runs is a way of tests/package.
#include "intq/deploy/amalgamate.hpp"

#include <filesystem>
#include <map>
#include <string>

#include "intq/io/error.hpp"
#include "intq/io/file.hpp"
#include "io/temporary_folder.hpp"
#include "support/catch.hpp"

using namespace intq;
using Catch::Matchers::Contains;

namespace {

/// A header with its guard.
std::string guarded(const std::string& guard, const std::string& body) {
    return "#ifndef " + guard + "\n#define " + guard + "\n" + body + "#endif\n";
}

/// The amalgamation of kin/a.hpp, without the comments that name files.
std::string amalgamation_of(const std::map<std::string, std::string>& headers, const std::string& notice = "") {
    const test::TemporaryFolder folder;
    std::filesystem::create_directories(folder / "kin");
    for (const auto& [name, text] : headers) io::write_file(folder / "kin" / name, text);
    std::string text = deploy::amalgamate("kin/a.hpp", folder / "", notice);
    for (const auto& [name, content] : headers) {
        const std::string line = "\n// ==== kin/" + name + "\n";
        if (const auto at = text.find(line); at != text.npos) text.erase(at, line.size());
    }
    return text;
}

std::string refusal_of(const std::map<std::string, std::string>& headers) {
    try {
        amalgamation_of(headers);
    } catch (const Error& error) {
        return error.what();
    }
    return "not refused";
}

}  // namespace

TEST_CASE("Each header stands once, where the compiler meets it first; system headers stay, each once") {
    const std::string text = amalgamation_of(
        {{"a.hpp", guarded("A", "#include <cmath>\n#include \"kin/b.hpp\"\n#include \"kin/c.hpp\"\nint a;\n")},
         {"b.hpp", guarded("B", "#include \"kin/c.hpp\"\n#include \"other/d.hpp\"\nint b;\n")},
         {"c.hpp", guarded("C", "#include <cmath>\n#include <vector>\nint c;\n")}},
        "first\n\nsecond\n");
    CHECK(text ==
          "// first\n//\n// second\n"
          "#ifndef A\n#define A\n#include <cmath>\n"
          "#ifndef B\n#define B\n"
          "#ifndef C\n#define C\n#include <vector>\nint c;\n#endif\n"
          "#include \"other/d.hpp\"\nint b;\n#endif\n"
          "int a;\n#endif\n");
}

TEST_CASE("What is included below a condition stands in front of it, because a later header may need it elsewhere") {
    const std::string text = amalgamation_of(
        {{"a.hpp", guarded("A",
                           "#if X\n#  if Y\n#  include \"kin/b.hpp\"\n#  else\nint y;\n#  endif\n#    include <new>\n"
                           "#endif\n#include \"kin/b.hpp\"\n#include <new>\nint a;\n")},
         {"b.hpp", guarded("B", "int b;\n")}});
    CHECK(text ==
          "#ifndef A\n#define A\n"
          "#ifndef B\n#define B\nint b;\n#endif\n"
          "#if X\n#  if Y\n#  else\nint y;\n#  endif\n#    include <new>\n#endif\n"
          "#include <new>\nint a;\n#endif\n");
}

TEST_CASE("Two headers that include each other behind their declarations stand in the order of the compiler") {
    const std::string text = amalgamation_of(
        {{"a.hpp", guarded("A", "void a();\n#if D\n#include \"kin/b.hpp\"\nvoid a() { b(); }\n#endif\n")},
         {"b.hpp", guarded("B", "#include \"kin/a.hpp\"\nvoid b();\n")}});
    CHECK(text ==
          "#ifndef A\n#define A\nvoid a();\n#ifndef B\n#define B\nvoid b();\n#endif\n"
          "#if D\nvoid a() { b(); }\n#endif\n#endif\n");
}

TEST_CASE("What is no header of such a library is refused with the place") {
    CHECK_THAT(refusal_of({{"a.hpp", guarded("A", "\n#include \"kin/b.hpp\"\n")}}),
               Contains("kin/a.hpp:4") && Contains("kin/b.hpp") && Contains("No such file"));
    CHECK_THAT(refusal_of({{"a.hpp", "#include \"kin/b.hpp\"\n"}}), Contains("kin/a.hpp:1: expected an include guard"));
    CHECK_THAT(refusal_of({{"a.hpp", "#ifndef A\n#define A\n#if X\n#endif\n"}}),
               Contains("kin/a.hpp: a conditional is not closed"));
    CHECK_THAT(refusal_of({{"a.hpp", "#ifndef A\n#define A\n#if X\n"}}),
               Contains("kin/a.hpp:3: the conditional is not closed"));
    CHECK_THAT(refusal_of({{"a.hpp", guarded("A", "#endif\n#if X\n")}}), Contains("expected an include guard"));
    CHECK_THROWS_WITH(deploy::amalgamate("a.hpp", "."), Contains("a.hpp is in no folder"));
}
