// SPDX-License-Identifier: MIT
//
// A program survives its file: the same bytes after every instruction, from memory that is read in place. What is cut,
// spoilt or foreign is a Status.
#include "intq/deploy/program_writer.hpp"

#include <cstring>
#include <string>
#include <vector>

#include "intq/io/file.hpp"
#include "io/temporary_folder.hpp"
#include "kernels/tables/tables.hpp"
#include "runtime/fill_ids.hpp"
#include "runtime/operator_program.hpp"
#include "runtime/small_program.hpp"
#include "support/catch.hpp"

using namespace intq;
namespace oracle = intq::test::oracle;
using Catch::Matchers::Contains;
using program::AlignedBytes;

namespace {

const kernels::KernelTable& fp32() { return test::scalar_table<target::fp32>(); }
const kernels::KernelTable& tflite() { return test::scalar_table<target::tflite<arith::double_rounding>>(); }
const kernels::KernelTable& bayes() { return test::scalar_table<target::bpu<march::bayes>>(); }

AlignedBytes aligned(const std::vector<std::byte>& bytes) {
    const AlignedBytes copy(static_cast<index_t>(bytes.size()) + 1);
    if (!bytes.empty()) std::memcpy(copy.data(), bytes.data(), bytes.size());
    return copy;
}
std::span<const std::byte> bytes_of(const AlignedBytes& file) {
    return {file.data(), static_cast<std::size_t>(file.size() - 1)};
}

/// A program out of a file, with the memory that it needs.
struct Loaded {
    explicit Loaded(const std::vector<std::byte>& bytes, const kernels::KernelTable& table) : file(aligned(bytes)) {
        const Result<index_t> size = runtime::program_tables_size(bytes_of(file), table);
        status = size.status();
        if (size) tables = AlignedBytes(*size);
        const auto result = runtime::load_program(bytes_of(file), table, tables.workspace());
        if (size) status = result.status();
        if (result) loaded = *result;
    }
    AlignedBytes file, tables;
    runtime::LoadedProgram loaded{};
    Status status{};
};

/// What every instruction gives on inputs of random bytes.
std::vector<std::vector<unsigned char>> outputs_of(const runtime::Program& program, const kernels::KernelTable& table) {
    using Outputs = std::vector<std::vector<unsigned char>>;
    const AlignedBytes arena(program.arena_size);
    std::memset(arena.data(), 0, static_cast<std::size_t>(program.arena_size));
    for (const std::int32_t input : program.inputs) {
        const runtime::ProgramTensor& tensor = program.tensor(input);
        void* const to = runtime::tensor_data(program, arena.data(), input);
        test::Draw draw(static_cast<std::uint64_t>(input) + 1);
        if (test::fill_ids(tensor, to, draw)) continue;
        for (index_t i = 0; i < tensor.shape.size(); ++i)
            if (tensor.dtype == DType::float32)
                static_cast<float*>(to)[i] = draw.real(-3.0f, 3.0f);
            else
                static_cast<std::int8_t*>(to)[i] = static_cast<std::int8_t>(draw.between(-128, 127));
    }
    Outputs outputs;
    const auto see = [](void* context, const runtime::Program& p, index_t instruction, const void* output, index_t) {
        const runtime::ProgramTensor& tensor = p.tensor(p.instructions[static_cast<std::size_t>(instruction)].output);
        const auto* const first = static_cast<const unsigned char*>(output);
        static_cast<Outputs*>(context)->emplace_back(first, first + tensor.bytes());
    };
    runtime::execute(program, table, arena.data(), program.max_batch, serial, {see, &outputs});
    return outputs;
}

/// visit(program, table) for every operator under three targets.
template <class Visit> void for_each_program(Visit&& visit) {
    const auto both = [&](const kernels::KernelTable& table, const oracle::Target& target) {
        const test::SmallProgram small(table, target);
        const test::OperatorProgram operators(table);
        visit(small.program(), table);
        visit(operators.program(), table);
    };
    both(fp32(), oracle::fp32());
    both(tflite(), oracle::tflite_double());
    both(bayes(), oracle::bayes());
}

/// The file of the small program for TFLite.
const std::vector<std::byte>& sample_file() {
    static const std::vector<std::byte> file = [] {
        const test::SmallProgram small(tflite(), oracle::tflite_double());
        return deploy::serialize_program(small.program(), tflite());
    }();
    return file;
}

void repair_checksum(std::vector<std::byte>& file) {
    if (file.size() < sizeof(runtime::ProgramFileHeader)) return;
    const std::uint32_t sum = crc32(std::span<const std::byte>(file).subspan(runtime::checksummed_from));
    std::memcpy(file.data() + offsetof(runtime::ProgramFileHeader, checksum), &sum, sizeof sum);
}

Status status_of(std::vector<std::byte> file) {
    repair_checksum(file);
    return Loaded(file, tflite()).status;
}

}  // namespace

TEST_CASE("crc32 is the checksum of zip") {
    const char text[] = "123456789";  // the check value that every catalogue of CRCs lists
    const auto bytes = std::as_bytes(std::span(text, 9));
    CHECK(crc32(bytes) == 0xcbf43926u);
    CHECK(crc32(bytes.subspan(4), crc32(bytes.first(4))) == 0xcbf43926u);
    CHECK(crc32({}) == 0u);
}

TEST_CASE("a program out of its file gives the same bytes after every instruction, under every target") {
    int programs = 0;
    for_each_program([&](const runtime::Program& program, const kernels::KernelTable& table) {
        const std::vector<std::byte> file = deploy::serialize_program(program, table);
        const Loaded read(file, table);
        INFO(table.policy().name << ": " << name_of(read.status.code) << " of " << name_of(read.status.op));
        REQUIRE(read.status.ok());
        CHECK(outputs_of(read.loaded.program, table) == outputs_of(program, table));
        // Written again, it is the same file.
        CHECK(deploy::serialize_program(read.loaded.program, table) == file);
        ++programs;
    });
    CHECK(programs == 6);
}

TEST_CASE("constants and names stay in the file") {
    const Loaded read(sample_file(), tflite());
    REQUIRE(read.status.ok());
    const std::span<const std::byte> file = bytes_of(read.file);
    const auto lies_in_file = [&](const void* pointer) {
        const auto* const at = static_cast<const std::byte*>(pointer);
        return at >= file.data() && at < file.data() + file.size();
    };
    int convs = 0;
    for (const runtime::Instruction& instruction : read.loaded.program.instructions) {
        CHECK(lies_in_file(instruction.name));
        if (instruction.params.kind != kernels::ParamKind::conv) continue;
        const auto& params = instruction.params_as<kernels::ConvParams>();
        CHECK(lies_in_file(params.packed.weights));
        CHECK(lies_in_file(params.packed.bias));
        ++convs;
    }
    CHECK(convs == 4);
}

TEST_CASE("a file that ends early is refused wherever it ends") {
    for (std::size_t size = 0; size < sample_file().size(); ++size) {
        std::vector<std::byte> file(sample_file().begin(), sample_file().begin() + std::ptrdiff_t(size));
        const Status status = Loaded(file, tflite()).status;
        INFO(size);
        REQUIRE(status.code == StatusCode::corrupt);
    }
}

TEST_CASE("every changed bit of a file is refused") {
    std::vector<std::byte> file = sample_file();
    for (std::size_t bit = 0; bit < 8 * file.size(); bit += 5) {  // 5 and 8 share no factor: all bits of a byte
        file[bit / 8] ^= std::byte{1} << (bit % 8);
        INFO(bit);
        REQUIRE(!Loaded(file, tflite()).status.ok());
        file[bit / 8] ^= std::byte{1} << (bit % 8);
    }
    CHECK(Loaded(file, tflite()).status.ok());
}

TEST_CASE("what the checksum does not say is seen by the reader") {
    const auto with_number = [](std::size_t at, std::uint64_t value) {
        std::vector<std::byte> file = sample_file();
        std::memcpy(file.data() + at, &value, sizeof value);
        return status_of(file);
    };
    using Header = runtime::ProgramFileHeader;
    CHECK(status_of(sample_file()).ok());
    std::vector<std::byte> file = sample_file();
    file[offsetof(Header, version)] = std::byte{1};
    CHECK(status_of(file) ==
          Status{StatusCode::unsupported, OpKind::program, Field::version, 1, runtime::program_file_version});
    file[0] = std::byte{'i'};
    CHECK(status_of(file).code == StatusCode::corrupt);
    for (const std::size_t at :
         {offsetof(Header, file_bytes), offsetof(Header, numbers_bytes), offsetof(Header, strings_bytes),
          offsetof(Header, constants_at), offsetof(Header, constants_bytes), offsetof(Header, reserved)})
        for (const std::uint64_t value : {std::uint64_t{1}, std::uint64_t{64}, ~std::uint64_t{0}, ~std::uint64_t{63}})
            CHECK(with_number(at, value).code == StatusCode::corrupt);
    std::vector<std::byte> unended = sample_file();
    Header header;
    std::memcpy(&header, unended.data(), sizeof header);
    unended[sizeof header + header.numbers_bytes + header.strings_bytes - 1] = std::byte{'x'};
    CHECK(status_of(unended).code == StatusCode::corrupt);
    std::vector<std::byte> unused = sample_file();
    unused.push_back(std::byte{});
    CHECK(status_of(unused).code == StatusCode::corrupt);
}

TEST_CASE("numbers are read in one form and in their range") {
    const auto read = [](std::vector<int> bytes, std::int64_t least, std::int64_t most) {
        std::vector<std::byte> memory;
        for (const int byte : bytes) memory.push_back(static_cast<std::byte>(byte));
        runtime::NumberReader reader(memory);
        const std::int64_t value = reader.number(least, most);
        return std::pair(value, reader.has_failed() || !reader.is_at_end());
    };
    using Read = std::pair<std::int64_t, bool>;
    CHECK(read({0}, -9, 9) == Read{0, false});
    CHECK(read({1}, -9, 9) == Read{-1, false});
    CHECK(read({0x80, 0x01}, 0, 64) == Read{64, false});
    CHECK(read({0x80, 0x01}, 0, 63) == Read{0, true});
    CHECK(read({0x80, 0x00}, -9, 9) == Read{0, true});  // longer than it need be
    CHECK(read({0x80}, -9, 9) == Read{0, true});
    CHECK(read({}, -9, 9) == Read{0, true});
    const std::vector<int> lowest{255, 255, 255, 255, 255, 255, 255, 255, 255, 1};
    CHECK(read(lowest, INT64_MIN, INT64_MAX) == Read{INT64_MIN, false});
    CHECK(read({255, 255, 255, 255, 255, 255, 255, 255, 255, 3}, INT64_MIN, INT64_MAX) == Read{0, true});
}

TEST_CASE("a program for another target or packing is refused, and the message names both") {
    const Status other_target = Loaded(sample_file(), fp32()).status;
    CHECK(other_target.code == StatusCode::unsupported);
    CHECK(other_target.field == Field::multiplier);
    kernels::KernelTable wider = tflite();
    wider.packing.int8_packing.columns *= 2;
    const Status other_packing = Loaded(sample_file(), wider).status;
    CHECK(other_packing.code == StatusCode::unsupported);
    CHECK(other_packing.field == Field::layout);

    const test::TemporaryFolder folder;
    io::write_file(folder / "model.intq", sample_file());
    CHECK_THROWS_WITH(deploy::read_program(folder / "model.intq", fp32()),
                      Contains("model.intq") && Contains("for " + std::string(tflite().policy().name) + " on scalar") &&
                          Contains("read for fp32 on scalar"));
    io::write_file(folder / "empty.intq", std::string_view());
    CHECK_THROWS_WITH(deploy::read_program(folder / "empty.intq", fp32()), Contains("empty.intq"));
}

TEST_CASE("a file must be aligned, and its tables need their memory") {
    const std::vector<std::byte>& bytes = sample_file();
    const AlignedBytes room(static_cast<index_t>(bytes.size()) + 8);
    std::memcpy(room.data() + 8, bytes.data(), bytes.size());
    const std::span<const std::byte> shifted(room.data() + 8, bytes.size());
    CHECK(runtime::program_tables_size(shifted, tflite()).status() ==
          Status{StatusCode::misaligned, OpKind::program, Field::file, 8, 64});

    const AlignedBytes file = aligned(bytes);
    const index_t size = *runtime::program_tables_size(bytes_of(file), tflite());
    const AlignedBytes tables(size + 8);
    CHECK(runtime::load_program(bytes_of(file), tflite(), {tables.data(), size - 1}).status() ==
          Status{StatusCode::buffer_too_small, OpKind::program, Field::workspace, size - 1, size});
    CHECK(runtime::load_program(bytes_of(file), tflite(), {tables.data() + 8, size}).status().code ==
          StatusCode::misaligned);
    CHECK(runtime::load_program(bytes_of(file), tflite(), {tables.data(), size}).ok());
}

TEST_CASE("a file holds more golden runs than it has bytes behind their number") {
    const test::SmallProgram small(tflite(), oracle::tflite_double());
    const program::OwnedProgram owned(std::make_unique<program::ProgramStorage>(), small.program(), tflite());
    const Tensor images = Tensor::zeros(Shape{index_t{100}, index_t{3}, index_t{6}, index_t{5}});
    const deploy::GoldenRecord golden = deploy::record_golden_runs(owned, std::span<const Tensor>(&images, 1));
    const Loaded read(deploy::serialize_program(small.program(), tflite(), golden), tflite());
    REQUIRE(read.status.ok());
    CHECK(read.loaded.golden.count == 100);
    // Written again with its runs, it is the same file.
    const deploy::GoldenRecord copy = deploy::copy_golden_runs(read.loaded.golden, read.loaded.program);
    CHECK(deploy::serialize_program(read.loaded.program, tflite(), copy) ==
          deploy::serialize_program(small.program(), tflite(), golden));
    for (const index_t patterns : {index_t{-1}, deploy::most_patterns + 1})
        CHECK_THROWS_WITH(deploy::record_golden_runs(owned, {}, patterns), Catch::Matchers::Contains("patterns"));
}

TEST_CASE("golden runs of a file are repeated, and a changed weight is found in its layer") {
    const test::SmallProgram small(tflite(), oracle::tflite_double());
    const program::OwnedProgram owned(std::make_unique<program::ProgramStorage>(), small.program(), tflite());
    Tensor images = Tensor::empty(Shape{index_t{2}, index_t{3}, index_t{6}, index_t{5}}, DType::float32);
    test::Draw draw(7);
    for (index_t i = 0; i < 2 * 3 * 6 * 5; ++i) reinterpret_cast<float*>(images.data())[i] = draw.real(-3.0f, 3.0f);
    const deploy::GoldenRecord golden = deploy::record_golden_runs(owned, std::span<const Tensor>(&images, 1));
    CHECK(golden.count == 2);
    CHECK(golden.patterns == deploy::default_patterns);
    CHECK(golden.checks.size() == (2 + deploy::default_patterns) * owned.program().instructions.size());

    const test::TemporaryFolder folder;
    deploy::write_program(folder / "model.intq", owned, golden);
    const deploy::ProgramOfFile read = deploy::read_program(folder / "model.intq", tflite());
    const Tensor expected = owned.run(images), given = read.program->run(images);
    CHECK(std::memcmp(given.data(), expected.data(), sizeof(float) * 20) == 0);
    CHECK(golden.outputs.size() == sizeof(float) * 20);
    CHECK(std::memcmp(golden.outputs.data(), expected.data(), sizeof(float) * 20) == 0);

    const AlignedBytes arena(read.program->arena_bytes());
    const auto test_again = [&] {
        return runtime::self_test(read.program->program(), read.golden, tflite(), arena.data());
    };
    CHECK(test_again().is_none());
    for (std::size_t i = 0; i < owned.program().instructions.size(); ++i) {
        const runtime::Instruction& instruction = read.program->program().instructions[i];
        if (instruction.params.kind != kernels::ParamKind::conv) continue;
        const auto& packed = instruction.params_as<kernels::ConvParams>().packed;
        auto* const bias = const_cast<std::int32_t*>(static_cast<const std::int32_t*>(packed.bias));
        bias[0] ^= 1 << 20;
        CHECK(test_again().instruction == static_cast<index_t>(i));
        bias[0] ^= 1 << 20;
    }
    CHECK(test_again().is_none());

    deploy::GoldenRecord foreign = golden;
    foreign.checks.pop_back();
    CHECK_THROWS_WITH(deploy::serialize_program(owned.program(), tflite(), foreign), Contains("another program"));
    foreign = golden;  // of a program of the same shapes
    foreign.checks[2] ^= 1;
    CHECK_THROWS_WITH(deploy::serialize_program(owned.program(), tflite(), foreign),
                      Contains("another program: run 0 differs at instruction 2, ") &&
                          Contains(owned.program().instructions[2].name));
}

TEST_CASE("patterns are those of docs/program_format.md, and find a changed code without an image") {
    const test::OperatorProgram operators(tflite());
    const program::OwnedProgram owned(std::make_unique<program::ProgramStorage>(), operators.program(), tflite());
    const runtime::Program& program = owned.program();
    const AlignedBytes arena(program.arena_size);
    // Computed apart, by the page's formula.
    const std::vector<int> codes{-68, -34, 1, 52, -116, -34, 70, 14}, pixels{192, 150, 229, 213, 125, 195, 28, 200};
    runtime::write_pattern(program, arena.data(), 0, 0);
    const auto* const first = static_cast<const std::int8_t*>(runtime::tensor_data(program, arena.data(), 0));
    CHECK(std::vector<int>(first, first + 8) == codes);
    REQUIRE(program.instructions[1].op == OpKind::quantize_image);
    runtime::write_pattern(program, arena.data(), 1, 2);
    const auto* const second = static_cast<const std::uint8_t*>(
        runtime::tensor_data(program, arena.data(), program.operands_of(program.instructions[1])[0]));
    CHECK(std::vector<int>(second, second + 8) == pixels);

    const deploy::GoldenRecord golden = deploy::record_golden_runs(owned, {}, 3);
    CHECK(golden.count == 0);
    const Loaded read(deploy::serialize_program(program, tflite(), golden), tflite());
    REQUIRE(read.status.ok());
    CHECK(read.loaded.golden.patterns == 3);
    const auto difference = [&] {
        return runtime::self_test(read.loaded.program, read.loaded.golden, tflite(), arena.data());
    };
    CHECK(difference().is_none());
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
        const runtime::Instruction& step = read.loaded.program.instructions[i];
        if (step.op != OpKind::constant) continue;
        auto* const value =
            static_cast<std::int8_t*>(const_cast<void*>(step.params_as<kernels::ConstantParams>().codes));
        value[40] ^= 1;
        CHECK(difference().run == 0);
        CHECK(difference().instruction == static_cast<index_t>(i));
        value[40] ^= 1;
    }
}
