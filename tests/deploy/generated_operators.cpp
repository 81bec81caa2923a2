// SPDX-License-Identifier: MIT
//
// Whether generated headers of every operator give the bytes of the program that they were made from: each layer by the
// self test, whose vectors execute() recorded, and the outputs of run(). And whether the self test answers whatever bit
// of their constants and tables is another.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <tuple>
#include <vector>

#include "operators.hpp"
#include "support/sanitizer.hpp"

// Of the linker: where this program begins and ends in memory.
extern "C" char __executable_start, end;

namespace {

using namespace intq;

/// Calls run(x..., y...) on golden inputs, which lie one behind the other; the outputs, one behind the other.
class Caller {
public:
    Caller(const runtime::Program& program, const std::byte* inputs) : program_(program), next_input_(inputs) {}

    /// A run that compares stated bounds returns whether they hold.
    template <class Result, class... Pointers> std::vector<std::byte> call(Result (*run)(Pointers...) noexcept) {
        // Room for each first: it must not move. Braces place the arguments from left to right.
        buffers_.resize(sizeof...(Pointers));
        std::apply(run, std::tuple<Pointers...>{place<Pointers>()...});
        std::vector<std::byte> outputs;
        for (std::size_t i = program_.inputs.size(); i < buffers_.size(); ++i)
            outputs.insert(outputs.end(), buffers_[i].begin(), buffers_[i].end());
        return outputs;
    }

private:
    template <class Pointer> Pointer place() {
        const std::size_t inputs = program_.inputs.size(), argument = placed_++;
        const bool is_input = argument < inputs;
        const std::int32_t index = is_input ? program_.inputs[argument] : program_.outputs[argument - inputs];
        std::vector<std::byte>& buffer = buffers_[argument];
        buffer.resize(static_cast<std::size_t>(program_.tensor(index).bytes()));
        if (is_input) {
            std::memcpy(buffer.data(), next_input_, buffer.size());
            next_input_ += buffer.size();
        }
        return reinterpret_cast<Pointer>(buffer.data());
    }

    const runtime::Program& program_;
    const std::byte* next_input_;
    std::size_t placed_ = 0;
    std::vector<std::vector<std::byte>> buffers_;
};

template <class Run>
bool check(const char* name, const runtime::Program& program, const runtime::GoldenRuns& golden, Run run,
           std::span<const std::uint8_t> expected, const runtime::SelfTestResult& result) {
    const auto bytes = std::as_bytes(expected);
    const std::vector<std::byte> given = Caller(program, golden.inputs).call(run);
    const bool is_same = std::equal(given.begin(), given.end(), bytes.begin(), bytes.end());
    std::printf("%s: %d instructions, run() %s, self test %s", name, static_cast<int>(program.instructions.size()),
                is_same ? "agrees" : "differs", result ? "passed\n" : "failed");
    if (!result && !result.tables_are_whole)
        std::printf(": tables\n");
    else if (!result && result.constants_are_whole)
        std::printf(" in run %d at instruction %d, %s\n", static_cast<int>(result.difference.run),
                    static_cast<int>(result.difference.instruction),
                    name_of(program.instructions[static_cast<std::size_t>(result.difference.instruction)].op));
    else if (!result)
        std::printf(": constants\n");
    return is_same && result;
}

/// Lets this program write its own constants. False where the system does not allow it.
bool make_constants_writable() {
#if INTQ_TEST_ADDRESS_SANITIZER
    return false;
#else
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(&__executable_start) / page * page,
                         last = (reinterpret_cast<std::uintptr_t>(&end) + page - 1) / page * page;
    return ::mprotect(reinterpret_cast<void*>(first), last - first, PROT_READ | PROT_WRITE | PROT_EXEC) == 0;
#endif
}

using Bytes = std::span<const std::byte>;
Bytes bytes_at(const void* data, index_t size) {
    return {static_cast<const std::byte*>(data), static_cast<std::size_t>(size)};
}

/// Changes one bit after another, at places that are drawn: of the arrays of constants, and of the tables.
///
/// @return whether the self test found each, or a run still gives what it gave
template <class Run>
bool check_faults(const char* name, const runtime::Program& program, std::span<const runtime::ConstantArray> arrays,
                  std::span<const runtime::ConstantArray> structs, const runtime::GoldenRuns& golden, Run run,
                  runtime::SelfTestResult (*self_test)(bool) noexcept) {
    std::vector<Bytes> constants, tables{bytes_at(&program, sizeof program),
                                         std::as_bytes(program.tensors),
                                         std::as_bytes(program.instructions),
                                         std::as_bytes(program.operands),
                                         std::as_bytes(program.inputs),
                                         std::as_bytes(program.outputs),
                                         std::as_bytes(arrays),
                                         std::as_bytes(structs)};
    for (const runtime::ConstantArray& array : arrays) constants.push_back(bytes_at(array.data, array.bytes));
    for (const runtime::Instruction& step : program.instructions)
        if (step.params.data != nullptr) tables.push_back(bytes_at(step.params.data, step.params.size));
    const std::vector<std::byte> inputs(golden.inputs, golden.inputs + golden.input_bytes);
    const auto outputs = [&] { return Caller(program, inputs.data()).call(run); };
    const std::vector<std::byte> expected = outputs();
    std::uint32_t state = 1;
    const auto draw = [&](std::size_t count) {
        state = state * 1664525u + 1013904223u;
        return static_cast<std::size_t>((static_cast<std::uint64_t>(state) * count) >> 32);
    };
    int found = 0, missed = 0, faults = 0;
    for (const auto* regions : {&constants, &tables})
        for (const Bytes region : *regions)
            for (int i = 0; i < 24 && !region.empty(); ++i, ++faults) {
                auto& byte = const_cast<std::byte&>(region[draw(region.size())]);
                const std::byte bit{static_cast<unsigned char>(1u << draw(8))};
                byte ^= bit;
                const bool passes = self_test(true).ok();
                // What the self test lets pass may not do harm.
                if (passes && outputs() != expected) ++missed;
                byte ^= bit;
                found += !passes;
            }
    std::printf("%s: of %d faults, the self test finds %d, and %d that it does not find change an output\n", name,
                faults, found, missed);
    return missed == 0 && self_test(true).ok();
}

}  // namespace

int main() {
    bool is_good = true;
#define INTQ_CHECK_MODEL(name) \
    is_good &= check(#name, name::program, name::data::golden(), &name::run, name##_outputs, name::self_test());
    INTQ_MODELS(INTQ_CHECK_MODEL)
    if (!make_constants_writable()) {
        std::printf("constants cannot be written here: no faults are tried\n");
        return is_good ? 0 : 1;
    }
#define INTQ_CHECK_FAULTS(name)                                                                                  \
    is_good &= check_faults(#name, name::program, name::data::arrays, name::data::structs, name::data::golden(), \
                            &name::run, &name::self_test);
    INTQ_MODELS(INTQ_CHECK_FAULTS)
    return is_good ? 0 : 1;
}
