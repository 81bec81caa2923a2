// SPDX-License-Identifier: MIT
//
// From the names of ONNX nodes to qualified names of modules. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_NODES_NAMES_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_NODES_NAMES_HPP

#include <set>
#include <string>

#include "intq/core/abi.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

struct Node;

/// The qualified name that a node's name becomes; `type_position` for a node without one.
///
///     /stem/conv -> stem.conv        "" (the 7th node, a Conv) -> conv_7        a b/c:0 -> a_b.c_0
std::string qualified_name_of(const Node& node);

/// Chooses a unique qualified name for each module. A module that is called never contains another one.
class ModuleNames {
public:
    std::string create(const Node& node);

private:
    bool is_free(const std::string& name) const;

    std::set<std::string> modules_;
    std::set<std::string> parents_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_nodes)

#    include <algorithm>
#    include <cctype>
#    include <cstddef>

#    include "intq/interop/onnx/read/model.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// A walk over modules is recursive, so the depth of a file's names is limited.
inline constexpr std::ptrdiff_t max_depth = 32;

INTQ_INLINE bool is_name_character(char c) noexcept {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

INTQ_INLINE std::string with_underscores(std::string name) {
    std::replace(name.begin(), name.end(), '.', '_');
    return name;
}

/// Calls visit("a"), visit("a.b") for "a.b.c".
template <class Visit> void for_each_parent(const std::string& name, const Visit& visit) {
    for (auto dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) visit(name.substr(0, dot));
}

}  // namespace detail

INTQ_INLINE std::string qualified_name_of(const Node& node) {
    std::string name;
    for (const char c : node.name) {
        const bool separates = c == '/' || c == '.';
        if (separates && (name.empty() || name.back() == '.')) continue;
        name += separates ? '.' : detail::is_name_character(c) ? c : '_';
    }
    while (!name.empty() && name.back() == '.') name.pop_back();
    if (std::count(name.begin(), name.end(), '.') >= detail::max_depth) return detail::with_underscores(name);
    if (!name.empty()) return name;
    for (const char c : node.op_type)
        name += detail::is_name_character(c) ? static_cast<char>(std::tolower(static_cast<unsigned char>(c))) : '_';
    return name + "_" + std::to_string(node.position + 1);
}

INTQ_INLINE bool ModuleNames::is_free(const std::string& name) const {
    bool free = modules_.count(name) == 0 && parents_.count(name) == 0;
    detail::for_each_parent(name, [&](const std::string& parent) { free = free && modules_.count(parent) == 0; });
    return free;
}

INTQ_INLINE std::string ModuleNames::create(const Node& node) {
    std::string name = qualified_name_of(node);
    if (!is_free(name)) name = detail::with_underscores(name);
    const std::string base = name;
    for (std::size_t suffix = node.position + 1; !is_free(name); ++suffix) name = base + "_" + std::to_string(suffix);
    modules_.insert(name);
    detail::for_each_parent(name, [&](const std::string& parent) { parents_.insert(parent); });
    return name;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_nodes)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_NODES_NAMES_HPP
