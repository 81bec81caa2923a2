// SPDX-License-Identifier: MIT
//
// Reads the #include lines of every header and fails on an arrow that DESIGN section 2 does not allow. Also: only
// simd/ touches intrinsics and xsimd, the embeddable half uses the freestanding part of the standard library, the guard
// spells the path, the licence line stands first.
//
//     check_layers <include folder>
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iostream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "structure/process.hpp"

namespace fs = std::filesystem;

namespace {

// The order of DESIGN section 2, except that a folder of the hosted half that only others need stands where its
// dependencies allow. A folder includes itself and what stands before it.
const std::vector<std::string> layers = {
    "core",         "arith",    "simd",          "kernels",  "observers", "runtime", "io",     "nn",         "graph",
    "quantization", "training", "numeric_suite", "analysis", "improve",   "interop", "deploy", "distributed"};
constexpr int embeddable_layers = 6;

// No heap, no iostream, no exceptions at run time for what the embeddable half uses of them.
const std::set<std::string> embeddable_standard = {
    "algorithm", "array",   "bit",     "cfloat",   "climits",          "cmath",   "compare", "concepts", "cstddef",
    "cstdint",   "cstdlib", "cstring", "iterator", "initializer_list", "limits",  "new",     "numbers",  "numeric",
    "optional",  "span",    "tuple",   "utility",  "type_traits",      "variant", "version"};

int layer_of(const std::string& folder) {
    const auto found = std::find(layers.begin(), layers.end(), folder);
    return found == layers.end() ? -1 : static_cast<int>(found - layers.begin());
}

// core, kernels, ...; empty for a file that stands directly in intq/
std::string folder_of(const std::string& path_in_intq) {
    const auto slash = path_in_intq.find('/');
    return slash == std::string::npos ? "" : path_in_intq.substr(0, slash);
}

bool is_intrinsics_or_xsimd(const std::string& header) {
    static const std::regex pattern(
        R"(.*intrin\.h|arm_(neon|sve|mve|acle|helium).*\.h|riscv_vector\.h|wasm_simd128\.h|xsimd/.*|xsimd\.hpp)");
    return std::regex_match(header, pattern);
}

std::string guard_of(const std::string& path_in_intq) {
    std::string guard = "INTQ_" + path_in_intq;
    for (char& c : guard)
        c = std::isalnum(static_cast<unsigned char>(c)) != 0
                ? static_cast<char>(std::toupper(static_cast<unsigned char>(c)))
                : '_';
    return guard;
}

class Checker {
public:
    explicit Checker(fs::path root) : root_(std::move(root)) {}

    void check(const std::string& path) {
        path_ = path;
        const std::vector<std::string> lines = intq::test::read_lines(root_ / path);
        check_licence_and_guard(lines);
        static const std::regex include_line(R"(\s*#\s*include\s*([<"])([^>"]+)[>"].*)");
        for (line_ = 1; line_ <= lines.size(); ++line_) {
            std::smatch match;
            if (!std::regex_match(lines[line_ - 1], match, include_line)) continue;
            ++includes_;
            if (match[1] == "\"") {
                check_own(match[2]);
            } else {
                check_foreign(match[2]);
            }
        }
        ++files_;
    }

    int report() const {
        std::cout << "layers: " << files_ << " headers, " << includes_ << " includes, " << faults_ << " faults\n";
        if (files_ == 0) std::cout << "no header found in " << root_ << '\n';
        return faults_ == 0 && files_ > 0 ? 0 : 1;
    }

private:
    void fault(const std::string& sentence) {
        ++faults_;
        std::cout << "intq/" << path_ << ':' << line_ << ": " << sentence << '\n';
    }

    void check_licence_and_guard(const std::vector<std::string>& lines) {
        line_ = 1;
        if (lines.empty() || lines[0] != "// SPDX-License-Identifier: MIT")
            fault("the first line is not `// SPDX-License-Identifier: MIT`");
        const std::string guard = guard_of(path_);
        const auto directive =
            std::find_if(lines.begin(), lines.end(), [](const std::string& line) { return line.rfind("#", 0) == 0; });
        line_ = static_cast<std::size_t>(directive - lines.begin()) + 1;
        if (directive == lines.end() || *directive != "#ifndef " + guard || directive + 1 == lines.end() ||
            *(directive + 1) != "#define " + guard)
            fault("the guard does not spell the path; expected " + guard);
    }

    void check_own(const std::string& header) {
        if (header.rfind("intq/", 0) != 0)
            return fault("\"" + header + "\": our own headers are included by their path from intq/, others in <>");
        const std::string target = header.substr(5);
        if (!fs::exists(root_ / target)) return fault("\"" + header + "\" does not exist");
        if (path_ == "intq.hpp") return;
        const std::string from = folder_of(path_);
        const std::string to = folder_of(target);
        const int last = path_ == "embedded.hpp" ? embeddable_layers - 1 : layer_of(from);
        if (to.empty()) return fault("\"" + header + "\" collects all layers; no header may include it");
        if (layer_of(to) < 0) return fault("folder " + to + " is not in the list of DESIGN section 2");
        if (layer_of(to) > last)
            fault((from.empty() ? path_ : from) + " may not include " + to + ", which stands below it");
    }

    void check_foreign(const std::string& header) {
        const std::string folder = folder_of(path_);
        if (is_intrinsics_or_xsimd(header)) {
            if (folder != "simd") fault("<" + header + "> may be included in simd/ only");
            return;
        }
        const bool embeddable =
            path_ == "embedded.hpp" || (layer_of(folder) >= 0 && layer_of(folder) < embeddable_layers);
        if (embeddable && embeddable_standard.count(header) == 0)
            fault("<" + header + "> is not for the embeddable half (no heap, no exceptions, no iostream)");
    }

    fs::path root_;
    std::string path_;
    std::size_t line_ = 0;
    int files_ = 0, includes_ = 0, faults_ = 0;

public:
    void check_folder(const std::string& path) {
        path_ = path;
        line_ = 0;
        const std::string folder = folder_of(path);
        if (folder.empty() ? path != "intq.hpp" && path != "embedded.hpp" : layer_of(folder) < 0)
            fault("stands in no folder of DESIGN section 2");
    }
};

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::cerr << "usage: check_layers <include folder>\n";
        return 2;
    }
    const fs::path root = fs::path(argv[1]) / "intq";
    std::vector<std::string> paths;
    for (const auto& entry : fs::recursive_directory_iterator(root))
        if (entry.is_regular_file()) paths.push_back(fs::relative(entry.path(), root).generic_string());
    std::sort(paths.begin(), paths.end());

    Checker checker(root);
    for (const std::string& path : paths) {
        checker.check_folder(path);
        checker.check(path);
    }
    return checker.report();
}
