// SPDX-License-Identifier: MIT
//
// Demands that every function which the hosted headers declare in the compiled form is defined, by the libraries or
// inline: what a program that calls each of them would find out when it is linked.
//
//     check_declared <syntax tree> <defined symbols>
//
// The tree is that of a unit that includes everything, as clang prints it with -ast-dump=json and
// -ast-dump-filter=intq: one JSON value for each declaration. The symbols are those of `nm --defined-only
// --format=posix`. Templates are left out, because they are made where they are used.
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <cxxabi.h>
#include <nlohmann/json.hpp>

namespace {

using nlohmann::json;

/// Whether a function, or a class that it is a member of, is an instance of a template.
bool is_instance(const std::string& mangled) {
    int status = 0;
    char* const text = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
    if (text == nullptr) return true;  // older libraries cannot read the names of constraints, which templates have
    const std::string name(text);
    std::free(text);
    return name.substr(0, name.find('(')).find('<') != std::string::npos && name.find("operator<") == std::string::npos;
}

/// The namespaces of the hosted half say in their mangled names that they are of the compiled form.
bool is_hosted(const std::string& mangled) {
    const auto at = mangled.find("_compiled");
    return at != std::string::npos && mangled.substr(0, at).find("core_v") == std::string::npos;
}

/// Collects the functions of a tree while it is read, so that its hundreds of megabytes are never held.
class Functions : public nlohmann::json_sax<json> {
public:
    std::map<std::string, std::string> declared;  // mangled name -> name
    std::set<std::string> with_body;              // mangled

    bool start_object(std::size_t) override { return nodes_.push_back({}), true; }
    bool end_object() override {
        const Node node = nodes_.back();
        nodes_.pop_back();
        if (!nodes_.empty() && (node.kind == "CompoundStmt" || node.kind == "CXXTryStmt"))
            nodes_.back().has_body = true;
        const bool is_function = node.kind == "FunctionDecl" || node.kind == "CXXMethodDecl" ||
                                 node.kind == "CXXConstructorDecl" || node.kind == "CXXDestructorDecl" ||
                                 node.kind == "CXXConversionDecl";
        if (!is_function || node.needs_none || !is_hosted(node.mangled) || is_instance(node.mangled)) return true;
        declared[node.mangled] = node.name;
        if (node.has_body) with_body.insert(node.mangled);
        return true;
    }
    bool key(string_t& name) override { return nodes_.back().key = name, true; }
    bool string(string_t& value) override {
        Node& node = nodes_.back();
        if (node.key == "kind") node.kind = value;
        if (node.key == "name") node.name = value;
        if (node.key == "mangledName") node.mangled = value;
        if (node.key == "explicitlyDefaulted") node.needs_none = true;  // defaulted or deleted
        return true;
    }
    bool boolean(bool value) override {
        Node& node = nodes_.back();
        if (value && (node.key == "isImplicit" || node.key == "pure" || node.key == "explicitlyDeleted"))
            node.needs_none = true;
        return true;
    }
    bool null() override { return true; }
    bool number_integer(std::int64_t) override { return true; }
    bool number_unsigned(std::uint64_t) override { return true; }
    bool number_float(double, const string_t&) override { return true; }
    bool binary(binary_t&) override { return true; }
    bool start_array(std::size_t) override { return true; }
    bool end_array() override { return true; }
    bool parse_error(std::size_t at, const std::string&, const nlohmann::detail::exception& error) override {
        std::cerr << "byte " << at << ": " << error.what() << "\n";
        return false;
    }

private:
    struct Node {
        std::string kind, name, mangled, key;
        bool needs_none = false, has_body = false;
    };

    std::vector<Node> nodes_;
};

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) return std::cerr << "usage: check_declared <syntax tree> <defined symbols>\n", 2;
    std::ifstream tree(argv[1]), symbols(argv[2]);
    Functions functions;
    while (tree >> std::ws && tree.peek() != std::char_traits<char>::eof())
        if (!json::sax_parse(tree, &functions, json::input_format_t::json, false)) return 2;

    std::set<std::string> defined;
    for (std::string line; std::getline(symbols, line);) defined.insert(line.substr(0, line.find(' ')));

    int in_libraries = 0, missing = 0;
    for (const auto& [mangled, name] : functions.declared) {
        if (functions.with_body.contains(mangled)) continue;
        in_libraries += defined.contains(mangled);
        if (defined.contains(mangled)) continue;
        ++missing;
        std::cout << "declared and nowhere defined: " << name << " (" << mangled << ")\n";
    }
    std::cout << "declared: " << in_libraries << " functions of the libraries, " << functions.with_body.size()
              << " inline, " << missing << " missing\n";
    return missing == 0 && in_libraries > 0 ? 0 : 1;
}
