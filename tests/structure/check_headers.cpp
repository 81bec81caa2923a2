// SPDX-License-Identifier: MIT
//
// Compiles each header alone (included twice, so that its guard works too) and reports those that do not.
//
//     check_headers <include folder> <scratch folder> <folder,folder,...> -- <compiler> <flag>...
//
// The list names folders of include/intq or single headers there.
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

std::string compile_alone(const std::string& header, const fs::path& unit, std::vector<std::string> command) {
    std::ofstream(unit) << "#include \"" << header << "\"\n#include \"" << header << "\"\n";
    command.push_back("-fsyntax-only");
    command.push_back(unit.string());
    const intq::test::Outcome outcome = intq::test::run(command);
    // A warning that -Werror does not turn into an error is a fault as well.
    if (outcome.status == 0 && outcome.output.empty()) return "";
    return header + " does not compile alone:\n" + intq::test::first_lines(outcome.output, 25) + '\n';
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.size() < 5 || words[3] != "--") {
        std::cerr << "usage: check_headers <include folder> <scratch folder> <folder,...> -- <compiler> <flag>...\n";
        return 2;
    }
    const fs::path scratch = words[1];
    fs::remove_all(scratch);
    fs::create_directories(scratch);
    const std::vector<std::string> headers = collect(words[0], words[2]);
    std::vector<std::string> command(words.begin() + 4, words.end());
    const std::string version = intq::test::first_lines(intq::test::run({command[0], "--version"}).output, 1);
    command.push_back("-I" + words[0]);

    std::atomic<std::size_t> next{0};
    std::mutex mutex;
    int faults = 0;
    const auto work = [&] {
        for (std::size_t i = next++; i < headers.size(); i = next++) {
            const std::string fault = compile_alone(headers[i], scratch / (std::to_string(i) + ".cpp"), command);
            if (fault.empty()) continue;
            const std::lock_guard lock(mutex);
            std::cout << fault << '\n';
            ++faults;
        }
    };
    std::vector<std::thread> workers;
    for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) workers.emplace_back(work);
    for (std::thread& worker : workers) worker.join();

    std::cout << "headers: " << headers.size() << " compiled alone, " << faults << " faults, with " << version << '\n';
    if (headers.empty()) std::cout << "no header found for " << words[2] << '\n';
    return faults == 0 && !headers.empty() ? 0 : 1;
}
