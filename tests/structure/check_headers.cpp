// SPDX-License-Identifier: MIT
//
// Compiles each header alone (included twice, so that its guard works too) and reports those that do not.
//
//     check_headers <include folder> <scratch folder> <folder,folder,...> [--together] -- <compiler> <flag>...
//
// The list names folders of include/intq or single headers there. --together compiles them as one unit, for another
// compiler than the one that has shown that each stands alone: most of the time goes into what they share.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "structure/process.hpp"

namespace fs = std::filesystem;

namespace {

std::vector<std::string> collect(const fs::path& root, const std::string& list) {
    std::vector<std::string> headers;
    std::istringstream parts(list);
    for (std::string part; std::getline(parts, part, ',');) {
        const fs::path place = root / "intq" / part;
        if (fs::is_regular_file(place)) headers.push_back("intq/" + part);
        if (!fs::is_directory(place)) continue;
        for (const auto& entry : fs::recursive_directory_iterator(place))
            if (entry.path().extension() == ".hpp")
                headers.push_back(fs::relative(entry.path(), root).generic_string());
    }
    std::sort(headers.begin(), headers.end());
    return headers;
}

/// The fault of a unit that includes the headers, all of them twice; empty where there is none.
std::string compile(const std::vector<std::string>& headers, const fs::path& unit, std::vector<std::string> command) {
    std::ofstream out(unit);
    for (int time = 0; time < 2; ++time)
        for (const std::string& header : headers) out << "#include \"" << header << "\"\n";
    out.close();
    command.push_back("-fsyntax-only");
    command.push_back(unit.string());
    const intq::test::Outcome outcome = intq::test::run(command);
    // A warning that -Werror does not turn into an error is a fault as well.
    if (outcome.status == 0 && outcome.output.empty()) return "";
    const std::string what = headers.size() == 1 ? headers[0] + " does not compile alone" : "does not compile together";
    return what + ":\n" + intq::test::first_lines(outcome.output, 25) + '\n';
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<std::string> words(argv + 1, argv + argc);
    const bool together = words.size() > 3 && words[3] == "--together";
    if (together) words.erase(words.begin() + 3);
    if (words.size() < 5 || words[3] != "--") {
        std::cerr << "usage: check_headers <include folder> <scratch folder> <folder,...> [--together] -- <compiler> "
                     "<flag>...\n";
        return 2;
    }
    const fs::path scratch = words[1];
    fs::remove_all(scratch);
    fs::create_directories(scratch);
    const std::vector<std::string> headers = collect(words[0], words[2]);
    std::vector<std::vector<std::string>> units;
    if (together && !headers.empty()) units.push_back(headers);
    if (!together)
        for (const std::string& header : headers) units.push_back({header});
    std::vector<std::string> command(words.begin() + 4, words.end());
    const std::string version = intq::test::first_lines(intq::test::run({command[0], "--version"}).output, 1);
    command.push_back("-I" + words[0]);

    std::atomic<std::size_t> next{0};
    std::mutex mutex;
    int faults = 0;
    const auto work = [&] {
        for (std::size_t i = next++; i < units.size(); i = next++) {
            const std::string fault = compile(units[i], scratch / (std::to_string(i) + ".cpp"), command);
            if (fault.empty()) continue;
            const std::lock_guard lock(mutex);
            std::cout << fault << '\n';
            ++faults;
        }
    };
    std::vector<std::thread> workers;
    for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) workers.emplace_back(work);
    for (std::thread& worker : workers) worker.join();

    std::cout << "headers: " << headers.size() << " compiled " << (together ? "together, " : "alone, ") << faults
              << " faults, with " << version << '\n';
    if (headers.empty()) std::cout << "no header found for " << words[2] << '\n';
    return faults == 0 && !headers.empty() ? 0 : 1;
}
