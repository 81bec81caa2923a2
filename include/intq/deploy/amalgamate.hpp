// SPDX-License-Identifier: MIT
//
// amalgamate: the library as one file. Layer: deploy (docs/design.md section 2).
#ifndef INTQ_DEPLOY_AMALGAMATE_HPP
#define INTQ_DEPLOY_AMALGAMATE_HPP

#include <filesystem>
#include <string>
#include <string_view>

#include "intq/core/abi.hpp"

namespace intq::deploy {
inline namespace INTQ_HOSTED_ABI {

/// A header with the text of all headers of its kin that it includes, each once and in the place where the compiler
/// meets it first. System headers stay includes. The meaning of the text does not depend on the flags of its unit. It
/// may be included beside the headers that it is made of, because it has their guards.
///
/// @param header  as it is included, such as "intq/embedded.hpp"; an include in quotes with the same first folder is
/// kin
/// @param folder  the folder that holds that folder
/// @param notice  the first lines of the result, such as a licence; each becomes a comment
/// @throws Error naming file and line, for a missing header, a conditional that is not closed, and a file
///         without an include guard as its first conditional
///
/// Cost   linear in the text; the hosted half takes about 0.1 s
std::string amalgamate(std::string_view header, const std::filesystem::path& folder, std::string_view notice = {});

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::deploy

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(deploy)

#    include <algorithm>
#    include <cstddef>
#    include <set>
#    include <utility>
#    include <vector>

#    include "intq/io/error.hpp"
#    include "intq/io/file.hpp"

namespace intq::deploy {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// A line, as the preprocessor sees it.
struct SourceLine {
    enum class Kind { text, opens, turns, closes, own_include, system_include };
    Kind kind = Kind::text;
    std::string_view text{};
    std::string_view header{};  // of an include
};

/// The word behind a leading #; empty for a line without one.
INTQ_INLINE std::string_view directive_of(std::string_view line) {
    const auto skip = [&] { line.remove_prefix((std::min)(line.find_first_not_of(" \t"), line.size())); };
    skip();
    if (line.empty() || line[0] != '#') return {};
    line.remove_prefix(1);
    skip();
    return line.substr(0, line.find_first_of(" \t\"<"));
}

INTQ_INLINE SourceLine classify(std::string_view line, std::string_view kin) {
    using Kind = SourceLine::Kind;
    const std::string_view word = directive_of(line);
    if (word == "if" || word == "ifdef" || word == "ifndef") return {Kind::opens, line};
    if (word == "elif" || word == "else") return {Kind::turns, line};
    if (word == "endif") return {Kind::closes, line};
    if (word != "include") return {Kind::text, line};
    const std::size_t begin = line.find_first_of("\"<");
    const std::size_t end = begin == line.npos ? begin : line.find_first_of("\">", begin + 1);
    if (end == line.npos) return {Kind::text, line};
    const std::string_view header = line.substr(begin + 1, end - begin - 1);
    const bool is_own = line[begin] == '"' && header.substr(0, kin.size()) == kin;
    return {is_own ? Kind::own_include : Kind::system_include, line, header};
}

class Amalgamation {
public:
    Amalgamation(const std::filesystem::path& folder, std::string_view kin) : folder_(folder), kin_(kin) {}

    /// Adds a header and, before their first use, the headers that it includes.
    ///
    /// An include below a condition that is not the guard would be lost for a later header where the condition does not
    /// hold. So it is placed before the outermost condition, where it does no harm, because every header of the library
    /// compiles alone.
    void add(const std::string& header, const std::string& from) {
        if (!seen_.insert(header).second) return;
        const std::vector<std::byte> bytes = read(header, from);
        const std::vector<SourceLine> lines = lines_of(bytes);
        text += "\n// ==== " + header + "\n";
        std::size_t depth = 0;
        for (std::size_t i = 0; i < lines.size(); ++i) {
            const SourceLine& line = lines[i];
            const std::string place = header + ":" + std::to_string(i + 1);
            if (depth == 0 && line.kind != SourceLine::Kind::text && line.text.find("ifndef") == line.text.npos)
                throw Error(place, "expected an include guard as the first conditional");
            if (line.kind == SourceLine::Kind::opens && ++depth == 2) add_block(lines, i, place);
            if (line.kind == SourceLine::Kind::closes) --depth;
            if (line.kind == SourceLine::Kind::own_include) {
                if (depth == 1) add(std::string(line.header), place);
                continue;
            }
            const bool is_repeated = line.kind == SourceLine::Kind::system_include && depth == 1 &&
                                     !system_.insert(std::string(line.header)).second;
            if (!is_repeated) text.append(line.text).append("\n");
        }
        if (depth != 0) throw Error(header, "a conditional is not closed");
    }

    std::string text{};

private:
    std::vector<std::byte> read(const std::string& header, const std::string& from) const {
        try {
            return io::read_file(folder_ / header);
        } catch (const Error& error) {
            if (from.empty()) throw;
            throw Error(from, error.what());
        }
    }

    std::vector<SourceLine> lines_of(const std::vector<std::byte>& bytes) const {
        std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        std::vector<SourceLine> lines;
        while (!rest.empty()) {
            const std::size_t end = (std::min)(rest.find('\n'), rest.size());
            lines.push_back(classify(rest.substr(0, end), kin_));
            rest.remove_prefix((std::min)(end + 1, rest.size()));
        }
        return lines;
    }

    /// The includes of the block that opens at a line.
    void add_block(const std::vector<SourceLine>& lines, std::size_t first, const std::string& place) {
        std::size_t depth = 0;
        for (std::size_t i = first; i < lines.size(); ++i) {
            if (lines[i].kind == SourceLine::Kind::opens) ++depth;
            if (lines[i].kind == SourceLine::Kind::closes && --depth == 0) return;
            if (lines[i].kind == SourceLine::Kind::own_include) add(std::string(lines[i].header), place);
        }
        throw Error(place, "the conditional is not closed");
    }

    const std::filesystem::path& folder_;
    std::string kin_;  // "intq/"
    std::set<std::string> seen_{}, system_{};
};

}  // namespace detail

INTQ_INLINE std::string amalgamate(std::string_view header, const std::filesystem::path& folder,
                                   std::string_view notice) {
    const std::size_t end = header.find('/');
    if (end == header.npos)
        throw Error("amalgamate: the header " + std::string(header) +
                    " is in no folder, expected one such as intq/embedded.hpp");
    detail::Amalgamation all(folder, header.substr(0, end + 1));
    while (!notice.empty()) {
        const std::size_t line = (std::min)(notice.find('\n'), notice.size());
        all.text.append(line == 0 ? "//" : "// ").append(notice.substr(0, line)).append("\n");
        notice.remove_prefix((std::min)(line + 1, notice.size()));
    }
    all.add(std::string(header), "");
    return std::move(all.text);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::deploy

#endif  // INTQ_DEFINES(deploy)
#endif  // INTQ_DEPLOY_AMALGAMATE_HPP
