// SPDX-License-Identifier: MIT
//
// A program that is packed for another backend is the program that was made for it, and gives the same codes.
#include "intq/deploy/pack_program.hpp"

#include <cstring>
#include <string>
#include <vector>

#include "intq/deploy/board_cpus.hpp"
#include "intq/deploy/program_writer.hpp"
#include "kernels/tables/tables.hpp"
#include "runtime/operator_program.hpp"
#include "runtime/small_program.hpp"
#include "support/catch.hpp"

using namespace intq;
namespace oracle = intq::test::oracle;
using Catch::Matchers::Contains;
using deploy::describe_kernels;
using deploy::GoldenRecord;
using deploy::pack_program;
using program::OwnedProgram;
using Bytes = std::vector<std::byte>;

namespace {

const kernels::KernelTable& table_of(const test::BackendTables& backend, const char* target) {
    for (const kernels::KernelTable* table : backend.tables)
        if (std::string(table->policy().name) == target) return *table;
    throw Error("no kernels of a target");
}
const kernels::KernelTable& dsp(const char* target = "tflite") { return table_of(test::tables_of("dsp"), target); }
const kernels::KernelTable& scalar(const char* target = "tflite") { return test::scalar_table(target); }

/// The operators of the library on a table, as programs of their own.
struct Programs {
    Programs(const kernels::KernelTable& table, const oracle::Target& target) : small(table, target), all(table) {}
    test::SmallProgram small;
    test::OperatorProgram all;
    std::vector<runtime::Program> list() const { return {small.program(), all.program()}; }
};

struct NamedTarget {
    const char* name;
    oracle::Target target;
};
std::vector<NamedTarget> targets() {
    return {{"fp32", oracle::fp32()}, {"tflite", oracle::tflite_double()}, {"bayes", oracle::bayes()}};
}

Bytes file_of(const OwnedProgram& program, const kernels::KernelTable& table, const GoldenRecord& golden = {}) {
    return deploy::serialize_program(program.program(), table, golden);
}

/// Whether kernels compute the golden runs of a program for other kernels.
bool passes(const OwnedProgram& program, const kernels::KernelTable& table, const GoldenRecord& golden) {
    const program::AlignedBytes arena(program.arena_bytes());
    return runtime::self_test(program.program(), golden.view(), table, arena.data()).is_none();
}

}  // namespace

TEST_CASE("a program is packed for every backend as if it had been made for it, and computes the same codes") {
    std::vector<test::BackendTables> backends = program::runnable_tables();
    backends.push_back(test::tables_of("dsp"));
    backends.push_back(test::tables_of("helium"));
    int programs = 0;
    for (const auto& [name, target] : targets()) {
        const kernels::KernelTable& from = scalar(name);
        const Programs made(from, target);
        for (const test::BackendTables& backend : backends) {
            const kernels::KernelTable& to = table_of(backend, name);
            const kernels::KernelTable described = describe_kernels(from, backend.name);
            REQUIRE_FALSE(described.runs());
            const Programs direct(to, target);
            for (std::size_t i = 0; i < made.list().size(); ++i) {
                const auto packed = pack_program(made.list()[i], from, described);
                INFO(name << ", program " << i << ", for " << backend.name);
                CHECK(file_of(*packed, described) == file_of(*pack_program(direct.list()[i], to, to), to));
                const GoldenRecord golden = deploy::record_golden_runs(made.list()[i], from, {}, 6);
                CHECK(passes(*packed, to, golden));
                // And back: what a board runs, a host runs as well.
                const auto back = pack_program(packed->program(), described, from);
                CHECK(file_of(*back, from) == file_of(*pack_program(made.list()[i], from, from), from));
                ++programs;
            }
        }
    }
    WARN(programs << " programs");
    CHECK(programs >= 12);
}

TEST_CASE("a file that is written for a board has the golden runs of the host, and a board passes them") {
    const Programs made(scalar(), oracle::tflite_double());
    const GoldenRecord golden = deploy::record_golden_runs(made.all.program(), scalar(), {}, 3);
    const kernels::KernelTable board = describe_kernels(scalar(), "dsp");
    const auto packed = pack_program(made.all.program(), scalar(), board);
    const Bytes bytes = file_of(*packed, board, golden);
    const program::AlignedBytes file(static_cast<index_t>(bytes.size()));
    std::memcpy(file.data(), bytes.data(), bytes.size());
    const std::span<const std::byte> view(file.data(), bytes.size());

    const program::AlignedBytes tables(runtime::program_tables_size(view, dsp()).value());
    const auto loaded = runtime::load_program(view, dsp(), tables.workspace());
    REQUIRE(loaded.status().ok());
    const program::AlignedBytes arena(loaded->program.arena_size);
    CHECK(runtime::self_test(loaded->program, loaded->golden, dsp(), arena.data()).is_none());

    // Kernels of another packing say that it is the order of the weights which they do not read.
    for (const Status& refused : {runtime::program_tables_size(view, scalar()).status(),
                                  runtime::load_program(view, scalar(), tables.workspace()).status()}) {
        CHECK(refused.code == StatusCode::unsupported);
        CHECK(refused.op == OpKind::program);
        CHECK(refused.field == Field::layout);
        CHECK(refused.given == simd::dsp::int8_packing.columns);
        CHECK(refused.expected == simd::scalar::int8_packing.columns);
    }
}

TEST_CASE("a weight behind the depth of a column is refused, because tiles of windows multiply it") {
    const Programs made(scalar(), oracle::tflite_double());
    index_t refused = 0;
    for (const char* const backend : {"dsp", "helium"}) {
        const kernels::KernelTable board = describe_kernels(scalar(), backend);
        const auto program = pack_program(made.all.program(), scalar(), board);
        for (const runtime::Instruction& i : program->program().instructions) {
            if (i.params.kind != kernels::ParamKind::conv) continue;
            const auto& packed = i.params_as<kernels::ConvParams>().packed;
            if (packed.is_depthwise || packed.weight_dtype != DType::int8 || packed.input_dtype != DType::int8)
                continue;
            const index_t size = packed.groups * packed.group_weights();
            auto* const weights = const_cast<std::int8_t*>(static_cast<const std::int8_t*>(packed.weights));
            index_t behind = 0;
            for (index_t at = 0; at < size; ++at) {
                if (weights[at] != 0) continue;
                weights[at] = 1;
                const Status status = runtime::check_program(program->program(), board);
                behind += status.code == StatusCode::corrupt && status.field == Field::weight;
                weights[at] = 0;
            }
            CHECK(behind == size - packed.out_channels * packed.taps() * packed.group_inputs());
            refused += behind;
        }
    }
    CHECK(refused > 0);
}

TEST_CASE("a pixel of padding that is not the zero point is refused") {
    const Programs made(scalar(), oracle::tflite_double());
    index_t refused = 0;
    for (const char* const backend : {"scalar", "dsp", "helium"}) {
        const kernels::KernelTable board = describe_kernels(scalar(), backend);
        const auto program = pack_program(made.all.program(), scalar(), board);
        for (const runtime::Instruction& i : program->program().instructions) {
            if (i.params.kind != kernels::ParamKind::conv) continue;
            const auto& packed = i.params_as<kernels::ConvParams>().packed;
            if (packed.padding_row == nullptr) continue;
            auto* const first = const_cast<std::int8_t*>(static_cast<const std::int8_t*>(packed.padding_row));
            *first = static_cast<std::int8_t>(*first + 1);
            const Status status = runtime::check_program(program->program(), board);
            refused += status.code == StatusCode::corrupt && status.field == Field::padding;
            *first = static_cast<std::int8_t>(*first - 1);
            CHECK(runtime::check_program(program->program(), board).ok());
        }
    }
    CHECK(refused > 0);
}

TEST_CASE("what is packed for another machine is not run, and says so") {
    const Programs made(scalar(), oracle::tflite_double());
    const kernels::KernelTable board = describe_kernels(scalar(), "dsp");
    const auto packed = pack_program(made.all.program(), scalar(), board);
    CHECK_THROWS_WITH(packed->run(std::span<const Tensor>{}), Contains("packed for dsp"));
    CHECK_THROWS_WITH(deploy::record_golden_runs(*packed, {}), Contains("packed for dsp"));
}

TEST_CASE("packing refuses what is no backend, another target, and a damaged program") {
    const Programs made(scalar(), oracle::tflite_double());
    CHECK_THROWS_WITH(describe_kernels(scalar(), "altivec"),
                      Contains("\"altivec\"") && Contains("dsp") && Contains("scalar"));
    CHECK_THROWS_WITH(pack_program(made.all.program(), scalar(), scalar("fp32")), Contains("fp32"));
    // Packed for other kernels than those that are named.
    CHECK_THROWS_AS(pack_program(made.all.program(), describe_kernels(scalar(), "dsp"), scalar()), Error);
    runtime::Program damaged = made.all.program();
    damaged.arena_size = 64;
    CHECK_THROWS_AS(pack_program(damaged, scalar(), dsp()), Error);
}

TEST_CASE("every CPU of a board has a backend") {
    for (const deploy::BoardCpu& cpu : deploy::board_cpus)
        CHECK(deploy::find_board_cpu(cpu.name)->backend == std::string(cpu.backend));
    CHECK(deploy::find_board_cpu("cortex-m4")->backend == std::string("dsp"));
    CHECK(deploy::find_board_cpu("cortex-m0plus")->backend == std::string("scalar"));
    CHECK(deploy::find_board_cpu("cortex-m1") == nullptr);
}
