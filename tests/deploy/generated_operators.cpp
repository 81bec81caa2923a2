// SPDX-License-Identifier: MIT
//
// Whether generated headers of every operator give the bytes of the program that they were made from: each layer by the
// self test, whose vectors execute() recorded, and the outputs of run().
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <tuple>
#include <vector>

#include "operators.hpp"

namespace {

using namespace intq;

/// Calls run(x..., y...) on golden inputs, which lie one behind the other; the outputs, one behind the other.
class Caller {
public:
    Caller(const runtime::Program& program, const std::byte* inputs) : program_(program), next_input_(inputs) {}

    template <class... Pointers> std::vector<std::byte> call(void (*run)(Pointers...) noexcept) {
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
    if (!result && result.constants_are_whole)
        std::printf(" in run %d at instruction %d, %s\n", static_cast<int>(result.difference.run),
                    static_cast<int>(result.difference.instruction),
                    name_of(program.instructions[static_cast<std::size_t>(result.difference.instruction)].op));
    else if (!result)
        std::printf(": constants\n");
    return is_same && result;
}

}  // namespace

int main() {
    bool is_good = true;
#define INTQ_CHECK_MODEL(name) \
    is_good &= check(#name, name::program, name::data::golden(), &name::run, name##_outputs, name::self_test());
    INTQ_MODELS(INTQ_CHECK_MODEL)
    return is_good ? 0 : 1;
}
