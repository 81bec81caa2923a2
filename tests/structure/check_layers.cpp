// SPDX-License-Identifier: MIT
//
// Reads every header and holds it against the table of rooms.txt, which says for each folder what its files may
// include. The table and the headers say the same: an arrow that has no place in a row fails, and so does a place that
// no file uses. Also: no folder includes what stands below it, none grows too large, no headers include each other in a
// circle, a file that names another room's namespace includes that room, no layer and no door includes another layer's
// internals or names its namespaces detail, intq.hpp reaches every public header of the hosted half through its doors,
// views.hpp every header of its room, a door has includes and comments alone, only simd/ touches intrinsics and xsimd,
// only distributed/mpi touches MPI, the embeddable half uses the freestanding part of the standard library, the guard
// spells the path, the licence line stands first. Long because every check is a member of one class, which holds what
// was read.
//
//     check_layers <include folder> <rooms.txt>          checks, and prints the arrows that exist
//     check_layers <include folder> --write <rooms.txt>  writes them into the rows, whose order stays
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "structure/bare_text.hpp"
#include "structure/process.hpp"

namespace fs = std::filesystem;
using intq::test::Bare;
using intq::test::is_word;

namespace {

constexpr std::size_t most_headers = 25;     // in a folder
constexpr double most_percent = 8.0;         // of the lines of all headers, in a folder
constexpr std::size_t most_lines = 400;      // in a header that gives no reason
const std::string flat_by_nature = "arith";  // its formulas have no rooms: neither bound of a folder holds there

// What stands directly in intq/, and collects: all of the library or a half of it, and the doors.
const std::set<std::string> umbrellas = {"intq.hpp", "embedded.hpp", "compiled.hpp"};
const std::set<std::string> doors = {
    "first.hpp",    "io.hpp",           "tensor.hpp",   "program.hpp", "nn.hpp",
    "graph.hpp",    "quantization.hpp", "training.hpp", "improve.hpp", "numeric_suite.hpp",
    "analysis.hpp", "onnx.hpp",         "tflite.hpp",   "deploy.hpp",  "distributed.hpp"};

// The room of functions on views, and the header by which embedded.hpp reaches them.
const std::string views_room = "kernels/views", views = views_room + "/views.hpp";

// The one room that includes <mpi.h>. Nobody includes it without asking for it.
const std::string mpi_room = "distributed/mpi";

// No heap, no iostream, no exceptions, and none of what brings them along, as <iterator> does.
const std::set<std::string> embeddable_standard = {"array",       "bit",     "cfloat",  "climits", "compare",
                                                   "concepts",    "cstddef", "cstdint", "cstring", "initializer_list",
                                                   "limits",      "new",     "numbers", "span",    "tuple",
                                                   "type_traits", "utility", "version"};

// There is no such header: config.hpp ends a unit of C++17 with it.
const std::string end_of_cxx17 = "intq_needs_cpp20";

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

// nn/layers of nn/layers/conv.hpp; empty for a file that stands directly in intq/
std::string place_of(const std::string& path_in_intq) {
    const auto slash = path_in_intq.rfind('/');
    return slash == std::string::npos ? "" : path_in_intq.substr(0, slash);
}

// A folder `internal` belongs to the room that it is in: interop/onnx/read of interop/onnx/internal/read/limits.hpp.
bool is_internal(const std::string& path_in_intq) {
    return ("/" + path_in_intq).find("/internal/") != std::string::npos;
}
std::string folder_of(const std::string& path_in_intq) {
    std::string folder = place_of(path_in_intq);
    if (const auto found = (folder + "/").find("/internal/"); found != std::string::npos)
        folder.erase(found, std::string("/internal").size());
    return folder;
}

// nn of nn/layers: the part that a namespace is named after
std::string room_of(const std::string& path) { return path.substr(0, path.find('/')); }

bool stands_in(const std::string& folder, const std::string& outer) { return folder.rfind(outer + "/", 0) == 0; }

// --- headers ----------------------------------------------------------------------------------------------------------

struct Include {
    std::size_t line;
    bool is_ours;  // in quotes
    std::string path;
};

struct Header {
    std::string path;  // below intq/
    std::string folder;
    std::vector<std::string> lines;
    std::vector<std::string> bare;  // the lines without comments and literals
    std::vector<Include> includes;
};

Header read_header(const fs::path& root, const std::string& path) {
    Header header{path, folder_of(path), intq::test::read_lines(root / path), {}, {}};
    std::string text;
    for (const std::string& line : header.lines) text += line + '\n';
    std::istringstream bare(Bare(text).text());
    for (std::string line; std::getline(bare, line);) header.bare.push_back(line);
    static const std::regex directive(R"(\s*#\s*include\b.*)");
    static const std::regex include(R"(\s*#\s*include\s*([<"])([^>"]+)[>"].*)");
    for (std::size_t i = 0; i < header.lines.size(); ++i) {
        std::smatch match;
        if (header.bare[i].find('#') == std::string::npos) continue;
        if (std::regex_match(header.bare[i], directive) && std::regex_match(header.lines[i], match, include))
            header.includes.push_back({i + 1, match[1] == "\"", match[2]});
    }
    return header;
}

std::vector<Header> read_headers(const fs::path& root) {
    std::vector<std::string> paths;
    for (const auto& entry : fs::recursive_directory_iterator(root))
        if (entry.is_regular_file()) paths.push_back(fs::relative(entry.path(), root).generic_string());
    std::sort(paths.begin(), paths.end());
    std::vector<Header> headers;
    for (const std::string& path : paths) headers.push_back(read_header(root, path));
    return headers;
}

using Arrows = std::map<std::string, std::set<std::string>>;  // from folder to folders

// The arrows between folders that the headers have.
Arrows arrows_of(const std::vector<Header>& headers, const fs::path& root) {
    Arrows arrows;
    for (const Header& header : headers) {
        if (header.folder.empty()) continue;
        auto& row = arrows[header.folder];
        for (const Include& include : header.includes) {
            if (!include.is_ours || include.path.rfind("intq/", 0) != 0) continue;
            const std::string to = folder_of(include.path.substr(5));
            if (!to.empty() && to != header.folder && fs::exists(root / include.path.substr(5))) row.insert(to);
        }
    }
    return arrows;
}

// The same between headers.
Arrows file_arrows_of(const std::vector<Header>& headers) {
    Arrows arrows;
    for (const Header& header : headers)
        for (const Include& include : header.includes)
            if (include.is_ours) arrows["intq/" + header.path].insert(include.path);
    return arrows;
}

// --- namespaces -------------------------------------------------------------------------------------------------------

using Path = std::vector<std::string>;  // {"nn", "float_operators"} of intq::nn::float_operators

Path path_of(const std::string& text) {
    Path path;
    std::string word;
    for (const char c : text + ':') {
        if (is_word(c)) {
            word += c;
        } else if (!word.empty()) {
            path.push_back(std::exchange(word, {}));
        }
    }
    return path;
}

// `namespace intq::nn::float_operators {`, without intq and without a detail at the end; nothing for another line.
std::optional<Path> opened_namespace(const std::string& line) {
    static const std::regex opening(R"(namespace intq((?:::\w+)*) \{.*)");
    std::smatch match;
    if (!std::regex_match(line, match, opening)) return std::nullopt;
    Path path = path_of(match[1]);
    if (!path.empty() && path.back() == "detail") path.pop_back();
    return path;
}

// The layer that a namespace belongs to: that of most of the files that open it. Others open it to declare a name.
class Owners {
public:
    explicit Owners(const std::vector<Header>& headers) {
        for (const Header& header : headers)
            for (const std::string& line : header.bare)
                if (const auto path = opened_namespace(line)) ++files_[*path][room_of(header.folder)];
    }

    /// The owners of all namespaces that end with a path.
    std::set<std::string> of(const Path& end) const {
        std::set<std::string> owners;
        for (const auto& [path, count_of] : files_) {
            if (path.size() < end.size() || !std::equal(end.rbegin(), end.rend(), path.rbegin())) continue;
            owners.insert(std::max_element(count_of.begin(), count_of.end(), [](const auto& a, const auto& b) {
                              return a.second < b.second;
                          })->first);
        }
        return owners;
    }

private:
    std::map<Path, std::map<std::string, int>> files_;
};

// --- the table --------------------------------------------------------------------------------------------------------

struct Row {
    std::string folder;
    std::vector<std::string> arrows;
    std::size_t line;
};

// rooms.txt: lines `folder: folder folder`, comments behind #, and once a line of dashes, below which heap begins.
class Table {
public:
    explicit Table(const fs::path& file) : name_(file.filename().string()), lines_(intq::test::read_lines(file)) {
        static const std::regex row(R"(([\w/]+):((?: [\w/]+)*)\s*)");
        for (std::size_t i = 0; i < lines_.size(); ++i) {
            const std::string& line = lines_[i];
            std::smatch match;
            if (line.empty() || line[0] == '#') continue;
            if (line.rfind("---", 0) == 0) {
                embeddable_ = rows_.size();
            } else if (std::regex_match(line, match, row)) {
                std::istringstream words(match[2]);
                Row next{match[1], {}, i + 1};
                for (std::string word; words >> word;) next.arrows.push_back(word);
                rows_.push_back(std::move(next));
            } else {
                throw std::runtime_error(name_ + ":" + std::to_string(i + 1) + ": no row, no comment: " + line);
            }
        }
    }

    const std::string& name() const { return name_; }
    const std::vector<Row>& rows() const { return rows_; }
    const std::vector<std::string>& lines() const { return lines_; }
    const Row* find(const std::string& folder) const {
        const auto found =
            std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) { return row.folder == folder; });
        return found == rows_.end() ? nullptr : &*found;
    }
    /// The number of a folder's row; behind all others for one without a row.
    std::size_t position(const std::string& folder) const {
        const Row* row = find(folder);
        return row == nullptr ? rows_.size() : static_cast<std::size_t>(row - rows_.data());
    }
    bool is_embeddable(const std::string& folder) const { return position(folder) < embeddable_; }
    bool has_room(const std::string& room) const {
        return std::any_of(rows_.begin(), rows_.end(), [&](const Row& row) { return room_of(row.folder) == room; });
    }
    /// The folders of a row in the order of the rows.
    std::vector<std::string> sorted(const std::set<std::string>& folders) const {
        std::vector<std::string> result(folders.begin(), folders.end());
        std::stable_sort(result.begin(), result.end(),
                         [&](const std::string& a, const std::string& b) { return position(a) < position(b); });
        return result;
    }

private:
    std::string name_;
    std::vector<std::string> lines_;
    std::vector<Row> rows_;
    std::size_t embeddable_ = 0;
};

std::string row_text(const Table& table, const std::string& folder, const std::set<std::string>& arrows) {
    std::string text = folder + ":";
    for (const std::string& to : table.sorted(arrows)) text += " " + to;
    return text;
}

// Comments and the order of the rows stay; a folder that is new comes last, one without headers goes.
void write_table(const Table& table, Arrows arrows, const fs::path& file) {
    std::string text;
    for (std::size_t i = 0; i < table.lines().size(); ++i) {
        const auto row = std::find_if(table.rows().begin(), table.rows().end(),
                                      [&](const Row& candidate) { return candidate.line == i + 1; });
        if (row == table.rows().end()) {
            text += table.lines()[i] + '\n';
        } else if (const auto found = arrows.find(row->folder); found != arrows.end()) {
            text += row_text(table, found->first, found->second) + '\n';
            arrows.erase(found);
        }
    }
    for (const auto& [folder, to] : arrows) {
        text += row_text(table, folder, to) + '\n';
        std::cout << folder << " is new; put its row where it belongs\n";
    }
    std::ofstream(file) << text;
}

// --- checks -----------------------------------------------------------------------------------------------------------

class Checker {
public:
    Checker(fs::path root, const Table& table, const std::vector<Header>& headers)
        : root_(std::move(root)),
          table_(table),
          headers_(headers),
          owners_(headers),
          arrows_(arrows_of(headers, root_)) {}

    int run() {
        for (const Header& header : headers_) {
            header_ = &header;
            check_place();
            check_licence_and_guard();
            check_length();
            check_door();
            for (const Include& include : header.includes)
                include.is_ours ? check_own(include) : check_foreign(include);
            check_namespaces();
            check_details();
            for (auto* sizes : {&places_, &sizes_}) {
                Size& size = (*sizes)[sizes == &places_ ? place_of(header.path) : header.folder];
                ++(is_internal(header.path) ? size.internal : size.open);
                size.lines += header.lines.size();
            }
            includes_ += header.includes.size();
            lines_ += header.lines.size();
        }
        check_collected();
        check_views();
        check_table();
        check_circles(arrows_, "intq/", "a circle of folders: ");
        check_circles(file_arrows_of(headers_), "", "a circle of headers: ");
        check_sizes();
        return report();
    }

private:
    struct Size {
        std::size_t open = 0, internal = 0, lines = 0;
        std::size_t headers() const { return open + internal; }
    };

    void fault(const std::string& where, const std::string& sentence) {
        ++faults_;
        std::cout << where << ": " << sentence << '\n';
    }
    void fault(std::size_t line, const std::string& sentence) {
        fault("intq/" + header_->path + ":" + std::to_string(line), sentence);
    }
    void table_fault(const Row& row, const std::string& sentence) {
        fault(table_.name() + ":" + std::to_string(row.line), sentence);
    }

    void check_place() {
        const bool is_known = header_->folder.empty() ? umbrellas.count(header_->path) + doors.count(header_->path) != 0
                                                      : table_.find(header_->folder) != nullptr;
        if (!is_known) fault(1, "stands in no folder of " + table_.name());
    }

    void check_licence_and_guard() {
        const std::vector<std::string>& lines = header_->lines;
        if (lines.empty() || lines[0] != "// SPDX-License-Identifier: MIT")
            fault(1, "the first line is not `// SPDX-License-Identifier: MIT`");
        const std::string guard = guard_of(header_->path);
        const auto directive =
            std::find_if(lines.begin(), lines.end(), [](const std::string& line) { return line.rfind("#", 0) == 0; });
        if (directive == lines.end() || *directive != "#ifndef " + guard || directive + 1 == lines.end() ||
            *(directive + 1) != "#define " + guard)
            fault(static_cast<std::size_t>(directive - lines.begin()) + 1,
                  "the guard does not spell the path; expected " + guard);
    }

    void check_length() {
        const std::vector<std::string>& lines = header_->lines;
        if (lines.size() <= most_lines) return;
        std::string comment;
        for (std::size_t i = 0; i < lines.size() && lines[i].rfind("//", 0) == 0; ++i)
            comment += lines[i].substr(2) + (lines[i] == "//" ? " . " : " ");
        static const std::regex reason(R"([.:]\s+Long\s+because\s)");
        if (!std::regex_search(comment, reason))
            fault(lines.size(), "has " + std::to_string(lines.size()) + " lines, more than " +
                                    std::to_string(most_lines) + ", and its file comment no sentence that begins " +
                                    "with \"Long because\"");
    }

    void check_door() {
        if (doors.count(header_->path) == 0) return;
        static const std::regex allowed(R"(\s*|#(ifndef|define|endif|include)\b.*)");
        for (std::size_t i = 0; i < header_->bare.size(); ++i)
            if (!std::regex_match(header_->bare[i], allowed))
                fault(i + 1, header_->path + " is a door; it has includes and comments alone");
    }

    void check_own(const Include& include) {
        const auto quoted = '"' + include.path + '"';
        if (include.path.rfind("intq/", 0) != 0)
            return fault(include.line,
                         quoted + ": our own headers are included by their path from intq/, others in <>");
        const std::string target = include.path.substr(5);
        if (!fs::exists(root_ / target)) return fault(include.line, quoted + " does not exist");
        const std::string &from = header_->folder, to = folder_of(target);
        if (is_internal(target) && room_of(from) != room_of(to))
            return fault(include.line, quoted + " is internal to " + room_of(to) + "; nobody else may include it");
        if (from.empty()) {
            if (header_->path == "embedded.hpp" && !table_.is_embeddable(to))
                fault(include.line, "embedded.hpp may not include " + to + ", which stands below the line");
            return;
        }
        if (to.empty()) return fault(include.line, quoted + " collects all layers; no header may include it");
        if (stands_in(from, to))
            return fault(include.line, quoted + " is a roof of " + to + "; an inner room may not include it");
        const Row* row = table_.find(from);
        if (to != from && row != nullptr && std::find(row->arrows.begin(), row->arrows.end(), to) == row->arrows.end())
            fault(include.line,
                  from + " may not include " + to + "; its row in " + table_.name() + " does not name it");
    }

    void check_foreign(const Include& include) {
        if (is_intrinsics_or_xsimd(include.path)) {
            if (room_of(header_->folder) != "simd")
                fault(include.line, "<" + include.path + "> may be included in simd/ only");
            return;
        }
        if (include.path == "mpi.h" && header_->folder != mpi_room)
            fault(include.line, "<mpi.h> may be included in " + mpi_room + " only");
        const bool is_embeddable = header_->path == "embedded.hpp" || table_.is_embeddable(header_->folder);
        if (is_embeddable && embeddable_standard.count(include.path) == 0 && include.path != end_of_cxx17)
            fault(
                include.line,
                "<" + include.path +
                    "> is not for the embeddable half, also by what it includes (no heap, no exceptions, no iostream)");
    }

    // A room's name in front of ::, or behind intq::, as forward declarations have it.
    void check_namespaces() {
        std::set<std::string> known{room_of(header_->folder)};
        for (const Include& include : header_->includes)
            if (include.is_ours && include.path.rfind("intq/", 0) == 0) known.insert(room_of(include.path.substr(5)));
        for (std::size_t i = 0; i < header_->bare.size(); ++i) {
            const std::string& line = header_->bare[i];
            for (std::size_t first = 0, end = 0; first < line.size(); first = std::max(end, first + 1)) {
                if (!is_word(line[first])) continue;
                for (end = first; end < line.size() && is_word(line[end]);) ++end;
                const std::string word = line.substr(first, end - first);
                const bool is_qualified = first >= 2 && line.compare(first - 2, 2, "::") == 0;
                const bool is_ours = first >= 6 && line.compare(first - 6, 6, "intq::") == 0;
                const bool qualifies = line.compare(end, 2, "::") == 0;
                if ((!is_ours && (is_qualified || !qualifies)) || !table_.has_room(word)) continue;
                if (known.insert(word).second)
                    fault(i + 1, "names " + word + ":: but includes no header of " + word + " itself");
            }
        }
    }

    // detail:: of a namespace of another layer, or of the namespace that the line is in.
    void check_details() {
        static const std::regex detail(R"(((?:\w+::)*)detail\b)");
        Path open;
        for (std::size_t i = 0; i < header_->bare.size(); ++i) {
            const std::string& line = header_->bare[i];
            if (const auto path = opened_namespace(line)) open = *path;
            const bool declares = line.find("namespace detail") != std::string::npos;
            for (std::sregex_iterator match(line.begin(), line.end(), detail), end; match != end; ++match) {
                if (match->position() > 0 && is_word(line[static_cast<std::size_t>(match->position()) - 1])) continue;
                Path path = path_of((*match)[1]);
                if (!path.empty() && path.front() == "intq") path.erase(path.begin());
                const std::set<std::string> owners = owners_.of(path.empty() ? open : path);
                const std::string own = room_of(header_->folder);
                if (declares ? owners_.of(open).count(own) == 0 : !owners.empty() && owners.count(own) == 0)
                    fault(i + 1, "names the detail of " + *owners.begin() + "; what rooms share is a public word");
            }
        }
    }

    // The doors of intq.hpp collect what is public of the hosted half, but for rooms that need another library.
    void check_collected() {
        std::set<std::string> open;
        for (const Header& header : headers_)
            if (header.path == "intq.hpp")
                for (const Include& include : header.includes) open.insert(include.path);
        std::set<std::string> collected = open;
        for (const Header& header : headers_)
            if (open.count("intq/" + header.path) != 0)
                for (const Include& include : header.includes) collected.insert(include.path);
        for (const Header& header : headers_) {
            if (header.folder.empty() || table_.is_embeddable(header.folder) || is_internal(header.path)) continue;
            if (header.folder != mpi_room && collected.count("intq/" + header.path) == 0)
                fault("intq/intq.hpp", "leaves out intq/" + header.path);
        }
    }

    void check_views() {
        std::set<std::string> collected{"intq/" + views};
        for (const Header& header : headers_)
            if (header.path == views)
                for (const Include& include : header.includes) collected.insert(include.path);
        for (const Header& header : headers_)
            if (header.folder == views_room && collected.count("intq/" + header.path) == 0)
                fault("intq/" + views, "leaves out intq/" + header.path);
    }

    void check_table() {
        for (const Row& row : table_.rows()) {
            if (table_.find(row.folder) != &row) table_fault(row, row.folder + " has two rows");
            const auto real = arrows_.find(row.folder);
            if (real == arrows_.end()) table_fault(row, "no header stands in " + row.folder);
            for (const std::string& to : row.arrows) {
                if (table_.position(to) >= table_.position(row.folder))
                    table_fault(row, row.folder + " names " + to + ", which does not stand above it");
                if (real != arrows_.end() && real->second.count(to) == 0)
                    table_fault(row, "no file of " + row.folder + " includes " + to);
            }
        }
    }

    // For each place the shortest way back to it, reported at the first place of the circle.
    void check_circles(const Arrows& arrows, const std::string& root, const std::string& what) {
        std::set<std::string> reported;
        for (const auto& [start, unused] : arrows) {
            if (reported.count(start) != 0) continue;
            std::map<std::string, std::string> before;  // how each place is reached from `start`
            std::vector<std::string> queue{start};
            for (std::size_t i = 0; i < queue.size() && before.count(start) == 0; ++i) {
                const auto row = arrows.find(queue[i]);
                if (row == arrows.end()) continue;
                for (const std::string& to : row->second)
                    if (before.emplace(to, queue[i]).second) queue.push_back(to);
            }
            if (before.count(start) == 0) continue;
            std::string circle = start, place = start;
            do {
                place = before.at(place);
                circle = place + " -> " + circle;
                reported.insert(place);
            } while (place != start);
            fault(root + start, what + circle);
        }
    }

    void check_sizes() {
        for (const auto& [folder, size] : places_) {
            if (folder == flat_by_nature) continue;
            if (size.headers() > most_headers)
                fault("intq/" + folder, "holds " + std::to_string(size.headers()) + " headers, more than " +
                                            std::to_string(most_headers));
            if (percent(size) > most_percent)
                fault("intq/" + folder, "holds more than 8 % of all headers' lines: " + std::to_string(size.lines) +
                                            " of " + std::to_string(lines_));
        }
    }

    double percent(const Size& size) const {
        return 100.0 * static_cast<double>(size.lines) / static_cast<double>(lines_);
    }

    int report() const {
        std::size_t count = 0, internal = 0;
        std::cout << " public internal  lines      %  arrows\n";
        std::set<std::string> folders;
        for (const auto& [folder, to] : arrows_) folders.insert(folder);
        for (const std::string& folder : table_.sorted(folders)) {
            const Size& size = sizes_.at(folder);
            internal += size.internal;
            std::cout << std::setw(7) << size.open << std::setw(9) << size.internal << std::setw(7) << size.lines
                      << std::setw(7) << std::fixed << std::setprecision(1) << percent(size) << "  "
                      << row_text(table_, folder, arrows_.at(folder)) << '\n';
            count += arrows_.at(folder).size();
        }
        std::cout << "layers: " << headers_.size() << " headers, " << internal << " of them internal, " << includes_
                  << " includes, " << folders.size() << " folders, " << count << " arrows, " << faults_ << " faults\n";
        if (headers_.empty()) std::cout << "no header found in " << root_ << '\n';
        return faults_ == 0 && !headers_.empty() ? 0 : 1;
    }

    fs::path root_;
    const Table& table_;
    const std::vector<Header>& headers_;
    Owners owners_;
    Arrows arrows_;
    const Header* header_ = nullptr;
    std::map<std::string, Size> sizes_;   // by room
    std::map<std::string, Size> places_;  // by folder as it is on the disk
    std::size_t includes_ = 0, lines_ = 0;
    int faults_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    const bool writes = words.size() == 3 && words[1] == "--write";
    if (words.size() != 2 && !writes) {
        std::cerr << "usage: check_layers <include folder> [--write] <rooms.txt>\n";
        return 2;
    }
    try {
        const fs::path root = fs::path(words[0]) / "intq";
        const Table table(words.back());
        const std::vector<Header> headers = read_headers(root);
        if (!writes) return Checker(root, table, headers).run();
        write_table(table, arrows_of(headers, root), words.back());
        return 0;
    } catch (const std::exception& error) {
        std::cerr << "check_layers: " << error.what() << '\n';
        return 2;
    }
}
