// SPDX-License-Identifier: MIT
//
// The stack that the kernels of a backend take, in the disassembly of their objects (x86-64): the frames of the deepest
// chain of direct calls are not above what a page states.
//
//   check_stack <page> <objdump> <object>...
//
// A row of the page, "| `avx2` | 72 KB |", is for the object whose name holds kernels_avx2. Calls through pointers,
// such as an executor's task, are chains of their own.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "structure/process.hpp"

namespace {

struct Function {
    std::uint64_t frame = 8;  // the return address
    std::set<std::string, std::less<>> calls;
};
using Functions = std::map<std::string, Function, std::less<>>;

/// What stands between two words of a line; empty where they are not there.
std::string_view between(std::string_view line, std::string_view before, std::string_view after) {
    const auto from = line.find(before);
    if (from == std::string_view::npos) return {};
    line.remove_prefix(from + before.size());
    const auto to = line.find(after);
    return to == std::string_view::npos ? std::string_view() : line.substr(0, to);
}

/// What an instruction takes from the stack. Each push counts, also where only one of two paths has it.
std::uint64_t taken_by(std::string_view line) {
    const auto number = [](std::string_view digits) { return std::stoull(std::string(digits), nullptr, 16); };
    constexpr std::uint64_t half = std::uint64_t{1} << 63;
    if (line.find("push ") != std::string_view::npos) return 8;
    if (const auto by = between(line, "sub    $0x", ",%rsp"); !by.empty()) {
        const std::uint64_t bytes = number(by);
        return bytes < half ? bytes : 0;
    }
    if (const auto by = between(line, "add    $0xf", ",%rsp"); by.size() == 15)
        return ~number("f" + std::string(by)) + 1;
    if (const auto by = between(line, "lea    -0x", "(%rsp),%rsp"); !by.empty()) return number(by);
    if (const auto by = between(line, "and    $0xf", ",%rsp"); by.size() == 15) return ~number("f" + std::string(by));
    return 0;
}

Functions read_object(const std::string& objdump, const std::string& object) {
    const intq::test::Outcome run =
        intq::test::run({objdump, "--disassemble", "--reloc", "--no-show-raw-insn", object});
    if (run.status != 0) throw std::runtime_error(run.output);
    Functions functions;
    Function* current = nullptr;
    std::string_view text = run.output;
    while (!text.empty()) {
        const auto end = std::min(text.find('\n'), text.size() - 1);
        const std::string_view line = text.substr(0, end);
        text.remove_prefix(end + 1);
        if (line.ends_with(">:")) {
            current = &functions[std::string(between(line, "<", ">:"))];
        } else if (current != nullptr) {
            current->frame += taken_by(line);
            // Relocations name a function as name-0x4; calls inside a section as <name>.
            const auto far = between(line, "R_X86_64_PLT32\t", "-0x");
            const auto near = line.find("call ") == std::string_view::npos ? far : between(line, " <", ">");
            for (const auto callee : {far, near})
                if (!callee.empty()) current->calls.insert(std::string(callee));
        }
    }
    return functions;
}

class Chains {
public:
    explicit Chains(const Functions& functions) : functions_(functions) {}

    std::uint64_t depth(const std::string& name) {
        const auto known = depths_.find(name);
        if (known != depths_.end()) return known->second;
        const auto function = functions_.find(name);
        if (function == functions_.end()) return 0;  // of another object, such as memcpy
        if (!open_.insert(name).second) throw std::runtime_error(name + " calls itself");
        std::uint64_t deepest = 0;
        for (const std::string& callee : function->second.calls)
            if (callee != name) deepest = std::max(deepest, depth(callee));
        open_.erase(name);
        return depths_[name] = deepest + function->second.frame;
    }

private:
    const Functions& functions_;
    std::map<std::string, std::uint64_t> depths_;
    std::set<std::string> open_;
};

/// The backend in an object's name; empty where there is none.
std::string backend_of(const std::string& object) {
    const std::string name = std::filesystem::path(object).filename().string();
    return name.starts_with("kernels_") ? std::string(between(name, "kernels_", ".cpp")) : std::string();
}

/// Bytes that the page states for a backend; 0 where it has no row.
std::uint64_t stated_bytes(const std::vector<std::string>& page, const std::string& backend) {
    for (const std::string& line : page)
        if (line.starts_with("| `" + backend + "` | "))
            if (const auto size = between(line, "` | ", " KB |"); !size.empty())
                return std::stoull(std::string(size)) * 1024;
    return 0;
}

int check_object(const std::vector<std::string>& page, const std::string& objdump, const std::string& object) {
    const std::string backend = backend_of(object);
    const Functions functions = read_object(objdump, object);
    Chains chains(functions);
    std::uint64_t deepest = 0;
    std::string first;
    for (const auto& [name, function] : functions)
        if (chains.depth(name) > deepest) deepest = chains.depth(name), first = name;
    const std::uint64_t stated = stated_bytes(page, backend);
    std::printf("%s: %llu bytes of %llu, below %s\n", backend.c_str(), static_cast<unsigned long long>(deepest),
                static_cast<unsigned long long>(stated), first.c_str());
    return deepest == 0 || deepest > stated ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.size() < 3) throw std::runtime_error("usage: check_stack <page> <objdump> <object>...");
    const std::vector<std::string> page = intq::test::read_lines(words[0]);
    int checked = 0, faults = 0;
    for (std::size_t i = 2; i < words.size(); ++i) {
        if (backend_of(words[i]).empty()) continue;  // the list of backends
        faults += check_object(page, words[1], words[i]);
        ++checked;
    }
    std::printf("%d backends checked, %d faults\n", checked, faults);
    return faults == 0 && checked > 0 ? 0 : 1;
} catch (const std::exception& error) {
    std::fprintf(stderr, "check_stack: %s\n", error.what());
    return 2;
}
