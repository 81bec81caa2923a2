// SPDX-License-Identifier: MIT
//
// The random kernels of tests/fuzz on one backend: prints checksums of what INTQ_FUZZ_ROUNDS rounds of cases compute. A
// host prints the same with scalar. Compiled with -DINTQ_FUZZED=<backend> it runs the tables of that unit
// (checksum.cpp), else those that the compiled form chooses.
//
// A line is a run of seeds of one operator. In the environment, INTQ_FUZZ_ROUNDS is another number of rounds, and with
// INTQ_FUZZ_EVERY a line is a single seed, which kernels_fuzz takes. The number of cases is fixed: no clock decides.
#include <cstdio>
#include <cstdlib>

#include "fuzz/kernel_cases.hpp"
#include "intq/core/checksum.hpp"
#include "intq/program/backends/best_table.hpp"
#ifdef INTQ_FUZZED
#    define INTQ_JOINED_AGAIN(a, b) a##b
#    define INTQ_JOINED(a, b) INTQ_JOINED_AGAIN(a, b)
#    define INTQ_TABLES_OF_UNIT INTQ_JOINED(backend_tables_, INTQ_FUZZED)
namespace intq::program {
inline namespace INTQ_HOSTED_ABI {
namespace detail {
BackendTables INTQ_TABLES_OF_UNIT() noexcept;
}
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program
#else
#    include "intq/program/float/best_backend.hpp"
#endif

namespace {

using namespace intq;
using namespace intq::test;

constexpr int cases_of_a_line = 20;

program::BackendTables chosen_tables() {
#ifdef INTQ_FUZZED
    return program::detail::INTQ_TABLES_OF_UNIT();
#else
    std::fprintf(stderr, "%s\n", program::describe_backends().c_str());
    for (const program::BackendTables& tables : program::runnable_tables())
        if (std::strcmp(tables.name, program::best_backend().name) == 0) return tables;
    return {};
#endif
}

/// The checksum of a line, going on with a case; whether the case is sound.
bool add_case(const fuzz::Operator& op, std::uint64_t seed, const program::BackendTables& backend, std::uint32_t& sum) {
    const kernels::KernelTable& table = *backend.tables[static_cast<std::size_t>(seed % backend.tables.size())];
    const fuzz::Outcome outcome = op.run(table, Draw(seed));
    if (outcome.fault != nullptr)
        std::printf("%s %d on %s/%s: %s\n", op.name, static_cast<int>(seed), table.policy().name, backend.name,
                    outcome.fault);
    sum = outcome.bytes ? crc32(std::as_bytes(std::span(*outcome.bytes)), sum) : sum + 1;
    return outcome.fault == nullptr;
}

}  // namespace

int main() {
    const program::BackendTables backend = chosen_tables();
    const char* const given = std::getenv("INTQ_FUZZ_ROUNDS");
    const int rounds = given != nullptr ? std::atoi(given) : INTQ_FUZZ_ROUNDS;
    const int of_a_line = std::getenv("INTQ_FUZZ_EVERY") == nullptr ? cases_of_a_line : 1;
    bool is_sound = !backend.tables.empty();
    for (const fuzz::Operator& op : fuzz::operators)
        for (int first = 0; first < rounds * op.share; first += of_a_line) {
            std::uint32_t sum = 0;
            for (int seed = first; seed < first + of_a_line; ++seed)
                is_sound &= add_case(op, static_cast<std::uint64_t>(seed), backend, sum);
            std::printf("%s %d: %08x\n", op.name, first, static_cast<unsigned>(sum));
        }
    return is_sound ? 0 : 1;
}
