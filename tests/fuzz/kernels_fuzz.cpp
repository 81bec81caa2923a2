// SPDX-License-Identifier: MIT
//
// A differential fuzzer of kernels: random shapes, windows and parameters, for every target; every backend that the
// machine executes must refuse what scalar refuses and else give its bytes, between pages without access.
//
//     kernels_fuzz <seconds> <file of kept cases>
//     kernels_fuzz <operator> <seed>                 one case again
//
// Cases are drawn from a seed, which is printed with a fault: the file keeps those that showed one. They run first.
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/kernel_cases.hpp"
#include "kernels/tables/tables.hpp"

namespace {

using namespace intq::test;
using namespace intq::test::fuzz;

struct Counts {
    std::int64_t cases = 0, refused = 0;
    int faults = 0;
};

void run_case(const Operator& op, std::uint64_t seed, const std::vector<BackendTables>& backends, Counts& counts) {
    const std::size_t target = static_cast<std::size_t>(seed % scalar_tables().tables.size());
    const auto report = [&](const KernelTable& table, const std::string& what) {
        std::cout << op.name << " " << seed << " on " << table.policy().name << "/" << table.backend << ": " << what
                  << "\n";
        ++counts.faults;
    };
    std::optional<Outcome> expected;
    for (const BackendTables& backend : backends) {  // scalar first
        const KernelTable& table = *backend.tables[target];
        const Outcome result = op.run(table, Draw(seed));
        if (result.fault != nullptr) {
            report(table, result.fault);
        } else if (!expected) {
            expected = result;
        } else if (result.bytes.has_value() != expected->bytes.has_value()) {
            report(table, "scalar and it disagree on a refusal");
        } else if (result.bytes != expected->bytes) {
            report(table, "gives other bytes than scalar");
        }
    }
    ++counts.cases;
    counts.refused += expected && !expected->bytes;
}

std::vector<BackendTables> scalar_first() {
    std::vector<BackendTables> backends{scalar_tables()};
    for (const BackendTables& backend : usable_backend_tables())
        if (std::string_view(backend.name) != "scalar") backends.push_back(backend);
    return backends;
}

/// Lines of an operator and a seed; # begins a comment. Faults of the file count as one.
void run_kept(const char* path, const std::vector<BackendTables>& backends, Counts& counts) {
    std::ifstream file(path);
    int lines = 0;
    for (std::string name; file >> name;) {
        std::uint64_t seed = 0;
        if (name[0] == '#') {
            std::getline(file, name);
            continue;
        }
        const Operator* const op = find_operator(name.c_str());
        if (op == nullptr || !(file >> seed)) {
            std::cout << path << ": no case: " << name << "\n";
            ++counts.faults;
            return;
        }
        run_case(*op, seed, backends, counts);
        ++lines;
    }
    std::cout << lines << " kept cases\n";
    counts.faults += lines == 0;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::cerr << "usage: kernels_fuzz <seconds> <file of kept cases> | kernels_fuzz <operator> <seed>\n";
        return 2;
    }
    const std::vector<BackendTables> backends = scalar_first();
    std::cout << "backends:";
    for (const BackendTables& backend : backends) std::cout << " " << backend.name;
    std::cout << "\n";
    Counts counts;
    if (const Operator* const named = find_operator(argv[1])) {
        run_case(*named, std::strtoull(argv[2], nullptr, 10), backends, counts);
    } else {
        run_kept(argv[2], backends, counts);
        using Clock = std::chrono::steady_clock;
        const auto end = Clock::now() + std::chrono::seconds(std::atoi(argv[1]));
        // Another sequence each time, whose seeds are printed with what they find.
        Draw seeds(static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count()));
        std::map<std::string, std::int64_t> ran;
        while (Clock::now() < end && counts.faults < 10)
            for (const Operator& op : operators)
                for (int i = 0; i < op.share; ++i) {
                    const std::int64_t refused = counts.refused;
                    run_case(op, seeds.bits() >> 16, backends, counts);
                    ran[op.name] += counts.refused == refused;
                }
        for (const auto& [name, count] : ran) std::cout << name << " " << count << "  ";
        std::cout << "\n";
    }
    std::cout << counts.cases << " cases, " << counts.refused << " of them refused, " << counts.faults << " faults\n";
    return counts.faults == 0 ? 0 : 1;
}
