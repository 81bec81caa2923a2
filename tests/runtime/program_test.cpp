// SPDX-License-Identifier: MIT
//
// A program runs as the oracle says, in its arena and nowhere else; a spoilt one is refused, or harmless.
#include <cstring>
#include <functional>
#include <limits>

#include "kernels/tables/tables.hpp"
#include "runtime/small_program.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace {

using namespace intq;
using namespace intq::test;
using runtime::Program;

template <class T> std::vector<unsigned char> raw(const std::vector<T>& values) {
    std::vector<unsigned char> bytes(values.size() * sizeof(T));
    if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

/// What an instruction's output should hold.
std::vector<unsigned char> expected_bytes(const oracle::LayerResult& result, const runtime::ProgramTensor& tensor) {
    return tensor.dtype == DType::float32 ? raw(result.reals.values) : channels_last_bytes(result.codes, tensor.dtype);
}

struct Comparison {
    const std::vector<oracle::LayerResult>* expected = nullptr;
    int compared = 0;
    std::string wrong;
};

void compare_output(void* context, const Program& program, index_t instruction, const void* output, index_t batch) {
    auto& comparison = *static_cast<Comparison*>(context);
    const int layer = SmallProgram::layer_of(instruction);
    if (layer < 0) return;
    const runtime::ProgramTensor& tensor =
        program.tensor(program.instructions[static_cast<std::size_t>(instruction)].output);
    const auto expected = expected_bytes((*comparison.expected)[static_cast<std::size_t>(layer)], tensor);
    const bool same_size =
        expected.size() == static_cast<std::size_t>(tensor.elements_per_image() * batch * size_of(tensor.dtype));
    if (!same_size || std::memcmp(expected.data(), output, expected.size()) != 0)
        comparison.wrong += std::string(" ") + std::to_string(instruction) + " (" +
                            name_of(program.instructions[static_cast<std::size_t>(instruction)].op) + ")";
    ++comparison.compared;
}

void write_input(const Program& program, GuardedBuffer& arena, const oracle::RealTensor& x) {
    std::memcpy(runtime::tensor_data(program, arena.as<std::byte>(), program.inputs[0]), x.values.data(),
                x.values.size() * sizeof(float));
}

/// visit(backend's table, target) for all that are usable.
template <class Visit> void for_each_table(Visit&& visit) {
    for (const BackendTables& backend : usable_backend_tables())
        for (std::size_t target = 0; target < backend.tables.size(); ++target)
            visit(*backend.tables[target], oracle_targets()[target]);
}

}  // namespace

TEST_CASE("a small program gives the oracle's bytes after every instruction, for every batch up to its largest") {
    int runs = 0;
    for_each_table([&](const kernels::KernelTable& table, const oracle::Target& target) {
        const SmallProgram small(table, target);
        const Program program = small.program();
        const Status status = runtime::check_program(program, table);
        INFO(table.backend << " " << table.policy().name << " " << name_of(status.code) << " " << name_of(status.op)
                           << " " << name_of(status.field));
        REQUIRE(status.ok());
        for (index_t batch = 1; batch <= SmallProgram::max_batch; ++batch) {
            const oracle::RealTensor x = SmallProgram::draw_images(batch, static_cast<std::uint64_t>(batch));
            const auto expected = small.evaluate(x);
            BackwardExecutor backward;
            for (const Executor& executor : {serial, backward.executor(), two_threads()}) {
                GuardedBuffer arena(static_cast<std::size_t>(program.arena_size));
                write_input(program, arena, x);
                Comparison comparison{&expected, 0, {}};
                runtime::execute(program, table, arena.as<std::byte>(), batch, executor,
                                 {&compare_output, &comparison});
                CHECK(comparison.wrong == "");
                CHECK(comparison.compared == static_cast<int>(program.instructions.size()) - 1);
                CHECK(arena.is_intact());
                ++runs;
            }
        }
    });
    CHECK(runs >= least_backends() * 6 * 9);
}

TEST_CASE("the arena of the small program is smaller than the sum of its tensors") {
    const SmallProgram small(*scalar_tables().tables[0], oracle_targets()[0]);
    index_t sum = small.workspace_size;
    for (const runtime::ProgramTensor& tensor : small.tensors) sum += round_up(tensor.bytes(), buffer_alignment);
    CHECK(small.arena_size * 4 < sum * 3);
}

namespace {

/// Gives the refusal, or runs the spoilt program and says whether it stayed inside its arena.
struct Verdict {
    Status status;
    bool harmless = true;
    bool same_result = true;
};

class Spoiler {
public:
    Spoiler(const kernels::KernelTable& table, const oracle::Target& target)
        : small_(table, target), x_(SmallProgram::draw_images(SmallProgram::max_batch, 3)) {
        const auto expected = small_.evaluate(x_);
        expected_ = raw(expected.back().reals.values);
    }

    SmallProgram& parts() { return small_; }

    /// The program with one part replaced, given to `check` and, where accepted, run in a guarded arena.
    Verdict judge(const std::function<void(Program&)>& change = {}) const {
        Program program = small_.program();
        if (change) change(program);
        Verdict verdict{runtime::check_program(program, small_.table())};
        if (!verdict.status.ok()) return verdict;
        GuardedBuffer arena(static_cast<std::size_t>(program.arena_size));
        write_input(program, arena, x_);
        runtime::execute(program, small_.table(), arena.as<std::byte>(), program.max_batch);
        verdict.harmless = arena.is_intact();
        const void* const y = runtime::tensor_data(program, arena.as<std::byte>(), program.outputs[0]);
        verdict.same_result = std::memcmp(y, expected_.data(), expected_.size()) == 0;
        return verdict;
    }

    /// `value` replaced for a judgement and put back.
    template <class T> Verdict judge_with(T& value, const T& spoilt) const {
        const T sound = value;
        value = spoilt;
        const Verdict verdict = judge();
        value = sound;
        return verdict;
    }

private:
    SmallProgram small_;
    oracle::RealTensor x_;
    std::vector<unsigned char> expected_;
};

const kernels::KernelTable& staging_table() { return *odd_tables().tables[4]; }  // bayes; needs a workspace

}  // namespace

TEST_CASE("indices outside of their lists are refused") {
    Spoiler spoiler(staging_table(), oracle_targets()[4]);
    SmallProgram& p = spoiler.parts();
    REQUIRE(spoiler.judge().status.ok());
    REQUIRE(spoiler.judge().same_result);
    const auto tensors = static_cast<std::int32_t>(p.tensors.size());
    for (const std::int32_t bad : {-1, tensors, INT32_MIN, INT32_MAX}) {
        for (std::int32_t& operand : p.operands)
            CHECK(spoiler.judge_with(operand, bad).status ==
                  Status{StatusCode::corrupt, spoiler.judge_with(operand, bad).status.op, Field::input, bad, 0});
        for (runtime::Instruction& i : p.instructions)
            CHECK(spoiler.judge_with(i.output, bad).status == Status{StatusCode::corrupt, i.op, Field::output, bad, 0});
        CHECK(spoiler.judge_with(p.inputs[0], bad).status.field == Field::tensor);
        CHECK(spoiler.judge_with(p.outputs[0], bad).status.field == Field::tensor);
    }
    const auto operands = static_cast<std::int32_t>(p.operands.size());
    for (runtime::Instruction& i : p.instructions) {
        for (const std::int32_t bad : {-1, operands, operands + 1, INT32_MIN, INT32_MAX})
            CHECK(spoiler.judge_with(i.first_operand, bad).status.field == Field::instruction);
        for (const std::int32_t bad : {-1, 0, INT32_MIN, INT32_MAX})
            CHECK(spoiler.judge_with(i.operand_count, bad).status ==
                  Status{StatusCode::corrupt, i.op, Field::instruction, bad, i.op == OpKind::add ? 2 : 1});
        CHECK(!spoiler.judge_with(i.operand_count, i.operand_count + 1).status.ok());
        const bool has_params = i.params.data != nullptr;
        CHECK(spoiler.judge_with(i.params, kernels::InstructionParams{}).status.ok() == !has_params);
        for (const OpKind bad : {OpKind::none, OpKind::flatten, OpKind::observe, OpKind::count_})
            CHECK(spoiler.judge_with(i.op, bad).status.code == StatusCode::unsupported);
    }
}

TEST_CASE("an operand replaced by another tensor is refused, or the program stays inside its arena") {
    Spoiler spoiler(staging_table(), oracle_targets()[4]);
    SmallProgram& p = spoiler.parts();
    int refused = 0, accepted = 0;
    for (std::int32_t other = 0; other < static_cast<std::int32_t>(p.tensors.size()); ++other) {
        std::vector<std::int32_t*> indices;
        for (std::int32_t& operand : p.operands) indices.push_back(&operand);
        for (runtime::Instruction& i : p.instructions) indices.push_back(&i.output);
        for (std::int32_t* index : indices) {
            if (*index == other) continue;
            const Verdict verdict = spoiler.judge_with(*index, other);
            ++(verdict.status.ok() ? accepted : refused);
            CHECK(verdict.harmless);
        }
    }
    CHECK(refused > 20 * accepted);
    CHECK(accepted > 0);
}

TEST_CASE("a tensor of another type, rank or extent is refused") {
    Spoiler spoiler(staging_table(), oracle_targets()[4]);
    SmallProgram& p = spoiler.parts();
    for (runtime::ProgramTensor& tensor : p.tensors) {
        const std::string name = "tensor " + std::to_string(&tensor - p.tensors.data());
        for (const DType dtype : {DType::none, DType::float32, DType::float64, DType::int8, DType::int16, DType::int32,
                                  DType::int64, DType::uint8})
            if (dtype != tensor.dtype && spoiler.judge_with(tensor.dtype, dtype).status.ok())
                FAIL_CHECK(name << " as " << name_of(dtype));
        for (int axis = 0; axis < tensor.shape.rank; ++axis) {
            const index_t extent = tensor.shape[axis];
            for (const index_t bad : {extent - 1, extent + 1, index_t{0}, index_t{-1}, extent * 2, index_t{INT32_MAX},
                                      std::numeric_limits<index_t>::max(), std::numeric_limits<index_t>::min()})
                if (spoiler.judge_with(tensor.shape[axis], bad).status.ok())
                    FAIL_CHECK(name << " axis " << axis << " extent " << bad);
        }
        for (const int rank : {-1, 0, 1, 7, INT32_MAX}) CHECK(!spoiler.judge_with(tensor.shape.rank, rank).status.ok());
        if (tensor.shape.rank == 4) CHECK(!spoiler.judge_with(tensor.shape.rank, 3).status.ok());
    }
    SUCCEED();
}

TEST_CASE("bounds of codes that are no codes of their type are refused") {
    SmallProgram small(staging_table(), oracle_targets()[4]);
    const auto judge = [&] { return runtime::check_program(small.program(), staging_table()); };
    int tensors = 0;
    for (runtime::ProgramTensor& tensor : small.tensors) {
        if (tensor.dtype != DType::int8 && tensor.dtype != DType::int16) continue;
        ++tensors;
        const QParams sound = tensor.qparams;
        const std::int64_t lowest = lowest_code(tensor.dtype), highest = highest_code(tensor.dtype);
        for (const auto& [low, high] :
             {std::pair{lowest - 1, highest}, std::pair{lowest, highest + 1},
              std::pair{std::numeric_limits<std::int64_t>::min(), highest},
              std::pair{lowest, std::numeric_limits<std::int64_t>::max()}, std::pair{highest, lowest}}) {
            tensor.qparams = QParams::per_tensor(sound.scale(), sound.zero_point(), low, high);
            CHECK(judge().field == Field::quant_range);
        }
        tensor.qparams = sound;
    }
    CHECK(tensors > 5);
    CHECK(judge().ok());
}

TEST_CASE("planes are refused where no caller writes them, or no quantize reads them") {
    Spoiler spoiler(staging_table(), oracle_targets()[4]);
    SmallProgram& p = spoiler.parts();
    for (runtime::ProgramTensor& tensor : p.tensors)
        if (&tensor != p.tensors.data() + p.inputs[0])
            CHECK(spoiler.judge_with(tensor.layout, Layout::row_major).status.code == StatusCode::corrupt);
    // The input's planes, given to another operator than the one that reads them.
    for (const runtime::Instruction& instruction : p.instructions)
        if (instruction.op != OpKind::layout_change && instruction.op != OpKind::quantize)
            CHECK(!spoiler.judge_with(p.operands[static_cast<std::size_t>(instruction.first_operand)], p.inputs[0])
                       .status.ok());
}

TEST_CASE("an offset that is misaligned or outside is refused; one that runs over a live tensor is, too") {
    Spoiler spoiler(staging_table(), oracle_targets()[4]);
    SmallProgram& p = spoiler.parts();
    int moved = 0, refused = 0;
    for (runtime::ProgramTensor& tensor : p.tensors) {
        const index_t sound = tensor.offset;
        for (const index_t bad :
             {index_t{-64}, sound + 1, sound + 32, p.arena_size, p.arena_size - 64 + (tensor.bytes() <= 64 ? 64 : 0),
              std::numeric_limits<index_t>::max() / 64 * 64, std::numeric_limits<index_t>::min()})
            CHECK(spoiler.judge_with(tensor.offset, bad).status.field == Field::arena);
        for (index_t offset = 0; offset + tensor.bytes() <= p.arena_size; offset += buffer_alignment) {
            if (offset == sound) continue;
            const Verdict verdict = spoiler.judge_with(tensor.offset, offset);
            ++moved;
            refused += verdict.status.ok() ? 0 : 1;
            if (!verdict.same_result || !verdict.harmless)
                FAIL_CHECK("tensor " << &tensor - p.tensors.data() << " at " << offset
                                     << " is accepted and changes the result");
        }
    }
    CHECK(refused * 4 > moved);
    CHECK(refused < moved);
}

TEST_CASE("an input that its caller gives is read by operators that say so, and nobody writes it") {
    SmallProgram small(staging_table(), oracle_targets()[4]);
    const std::int32_t input = small.inputs[0];
    small.tensors[static_cast<std::size_t>(input)].offset = kernels::offset_of_given(0);
    const auto judge = [&] { return runtime::check_program(small.program(), staging_table()); };
    REQUIRE(judge().ok());
    SECTION("a tensor that is no input, or another input") {
        for (const index_t offset : {index_t{-2}, index_t{-64}, std::numeric_limits<index_t>::min()}) {
            small.tensors[static_cast<std::size_t>(input)].offset = offset;
            CHECK(judge().field == Field::arena);
        }
        small.tensors[static_cast<std::size_t>(input)].offset = kernels::offset_of_given(0);
        for (std::size_t i = 0; i < small.tensors.size(); ++i) {
            if (static_cast<std::int32_t>(i) == input) continue;
            const index_t sound = std::exchange(small.tensors[i].offset, kernels::offset_of_given(0));
            CHECK(judge().field == Field::arena);
            small.tensors[i].offset = sound;
        }
    }
    SECTION("an operand of another operator") {
        int refused = 0;
        for (const runtime::Instruction& instruction : small.instructions) {
            const kernels::ProgramOperator& row = *kernels::find_operator(instruction.op);
            std::int32_t& operand = small.operands[static_cast<std::size_t>(instruction.first_operand)];
            const std::int32_t sound = std::exchange(operand, input);
            if (!row.reads_given) CHECK(!judge().ok());
            refused += row.reads_given ? 0 : 1;
            operand = sound;
        }
        CHECK(refused > 10);
        // By nothing but its place: a table of pixels that looks up codes reads them in the arena alone.
        runtime::Instruction& reader = small.instructions[0];
        REQUIRE(reader.op == OpKind::layout_change);
        kernels::ProgramOperator row = *kernels::find_operator(reader.op);
        const kernels::OperatorCall call = runtime::call_of(small.program(), staging_table(), reader);
        CHECK(runtime::detail::check_given(row, call).ok());
        row.reads_given = false;
        CHECK(runtime::detail::check_given(row, call).field == Field::input);
    }
    SECTION("an output") {
        small.outputs[0] = input;
        CHECK(judge() == Status{StatusCode::corrupt, OpKind::program, Field::output, input, 0});
        small.outputs[0] = 1;
        small.instructions[0].output = input;
        CHECK(judge().field == Field::output);
    }
    SECTION("with stated bounds") {
        runtime::ProgramTensor& tensor = small.tensors[static_cast<std::size_t>(input)];
        tensor.dtype = DType::int8;
        tensor.has_stated_bounds = true;
        CHECK(judge().field == Field::arena);
    }
}

TEST_CASE("ranges of the arena overlap where they share a byte: an empty one has none, wherever it lies") {
    const auto overlap = [](runtime::ArenaRange a, runtime::ArenaRange b) {
        CHECK(a.overlaps(b) == b.overlaps(a));
        return a.overlaps(b);
    };
    CHECK(overlap({0, 64}, {63, 64}));
    CHECK(overlap({0, 64}, {16, 32}));
    CHECK_FALSE(overlap({0, 64}, {64, 128}));
    CHECK_FALSE(overlap({0, 64}, {32, 32}));
    CHECK_FALSE(overlap({32, 32}, {32, 32}));
}

TEST_CASE("workspace, arena and batch of a program are checked") {
    Spoiler spoiler(staging_table(), oracle_targets()[4]);
    SmallProgram& p = spoiler.parts();
    REQUIRE(p.workspace_size > 0);
    const auto code = [&](const std::function<void(Program&)>& change) { return spoiler.judge(change).status.code; };
    CHECK(code([](Program& q) { q.workspace_size -= 1; }) == StatusCode::buffer_too_small);
    for (const index_t bad : {index_t{-1}, std::numeric_limits<index_t>::max(), std::numeric_limits<index_t>::min()}) {
        CHECK(code([&](Program& q) { q.workspace_size = bad; }) == StatusCode::corrupt);
        CHECK(code([&](Program& q) { q.workspace_offset = bad; }) == StatusCode::corrupt);
        CHECK(code([&](Program& q) { q.arena_size = bad == std::numeric_limits<index_t>::max() ? 64 : bad; }) ==
              StatusCode::corrupt);
    }
    CHECK(code([](Program& q) { q.workspace_offset += 1; }) == StatusCode::corrupt);
    CHECK(code([](Program& q) { q.arena_size -= 64; }) == StatusCode::corrupt);
    for (const index_t bad : {index_t{0}, index_t{-1}, index_t{2}, index_t{4}})
        CHECK(code([&](Program& q) { q.max_batch = bad; }) == StatusCode::corrupt);
    for (index_t offset = 0; offset + p.workspace_size <= p.arena_size; offset += buffer_alignment) {
        const Verdict verdict = spoiler.judge([&](Program& q) { q.workspace_offset = offset; });
        if (!verdict.same_result || !verdict.harmless)
            FAIL_CHECK("a workspace at " << offset << " is accepted and changes the result");
    }
}

TEST_CASE("parameters that do not fit their tensors are refused") {
    Spoiler spoiler(staging_table(), oracle_targets()[4]);
    SmallProgram& p = spoiler.parts();
    for (kernels::ConvParams& step : p.convs) {
        CHECK(!spoiler.judge_with(step.geometry.in.height, step.geometry.in.height + 1).status.ok());
        CHECK(!spoiler.judge_with(step.geometry.in.width, index_t{0}).status.ok());
        CHECK(spoiler.judge_with(step.geometry.out.width, step.geometry.out.width + 1).status.field == Field::geometry);
        CHECK(!spoiler.judge_with(step.packed.in_channels, step.packed.in_channels + 1).status.ok());
        CHECK(!spoiler.judge_with(step.packed.out_channels, step.packed.out_channels - 1).status.ok());
        CHECK(!spoiler.judge_with(step.packed.has_sumin, !step.packed.has_sumin).status.ok());
        CHECK(!spoiler.judge_with(step.packed.input_dtype, DType::int16).status.ok());
        CHECK(!spoiler.judge_with(step.packed.accumulator_bits, std::uint8_t{64}).status.ok());
        CHECK(!spoiler.judge_with(step.packed.window.stride.height, index_t{2}).status.ok());
        const void* const none = nullptr;
        CHECK(spoiler.judge_with(step.packed.weights, none).status.field == Field::weight);
        CHECK(spoiler.judge_with(step.packed.bias, none).status.field == Field::bias);
    }
    for (kernels::PoolParams& step : p.pools) {
        CHECK(!spoiler.judge_with(step.window.kernel.height, index_t{0}).status.ok());
        CHECK(!spoiler.judge_with(step.window.kernel.width, index_t{4}).status.ok());
        CHECK(!spoiler.judge_with(step.window.stride.height, index_t{1}).status.ok());
        CHECK(!spoiler.judge_with(step.window.padding.left, index_t{2}).status.ok());
        CHECK(!spoiler.judge_with(step.window.dilation.width, index_t{0}).status.ok());
    }
    CHECK(spoiler.judge_with(p.pools.back().average.kernel_cells, index_t{5}).status.field == Field::kernel);
    const float bad_scales[10] = {1, 1, 1, 0, 1, 1, 1, 1, 1, 1};
    QParams& accumulator = p.tensors[p.tensors.size() - 2].qparams;
    CHECK(spoiler.judge_with(accumulator, QParams::per_channel(bad_scales, {}, 1, INT32_MIN, INT32_MAX)).status.field ==
          Field::scale);
    CHECK(
        spoiler
            .judge_with(accumulator, QParams::per_channel(std::span(bad_scales).first(3), {}, 1, INT32_MIN, INT32_MAX))
            .status.field == Field::scale);
    CHECK(spoiler.judge_with(p.tensors[2].qparams, QParams::per_tensor(0.0f, 0, DType::int8)).status.field ==
          Field::scale);
}

// --- what a check must not let through ------------------------------------------------------------------------------

namespace {

/// x -> y by one instruction; the parts lie open.
struct OneStep {
    std::vector<runtime::ProgramTensor> tensors;
    std::vector<std::int32_t> operands{0}, inputs{0}, outputs{1};
    runtime::Instruction instruction{};

    OneStep(OpKind op, const runtime::ProgramTensor& x, const runtime::ProgramTensor& y) : tensors{x, y} {
        instruction = {op, 0, 1, 0, 1, "", "", {}};
        tensors[1].offset = round_up(x.bytes(), buffer_alignment);
    }
    Status check(const kernels::KernelTable& table) const {
        Program p;
        p.instructions = std::span(&instruction, 1);
        p.tensors = tensors;
        p.operands = operands;
        p.inputs = inputs;
        p.outputs = outputs;
        p.arena_size = tensors[1].offset + round_up(tensors[1].bytes(), buffer_alignment);
        p.max_batch = tensors[0].shape[0];
        return runtime::check_program(p, table);
    }
};

runtime::ProgramTensor reals(const Shape& shape, Layout layout = Layout::channels_last) {
    return {DType::float32, shape, {}, 0, "", layout};
}
runtime::ProgramTensor codes(const Shape& shape, float scale = 0.1f) {
    return {DType::int8, shape, QParams::per_tensor(scale, 0, DType::int8), 0, ""};
}

}  // namespace

TEST_CASE("quantize keeps the shape: planes into another rank or into other channels are refused") {
    const kernels::KernelTable& table = *scalar_tables().tables[4];
    const auto check = [&](const Shape& x, const Shape& y, Layout layout) {
        return OneStep(OpKind::quantize, reals(x, layout), codes(y)).check(table);
    };
    const Status sound = check(Shape(4, 6, 2, 2), Shape(4, 6, 2, 2), Layout::row_major);
    CHECK(sound.ok());
    CHECK(check(Shape(4, 1, 1), Shape(4), Layout::row_major) ==
          Status{StatusCode::shape_mismatch, OpKind::quantize, Field::input, 3, 1});
    CHECK(check(Shape(1, 6, 2, 2), Shape(1, 3, 2, 4), Layout::row_major) ==
          Status{StatusCode::shape_mismatch, OpKind::quantize, Field::input, 6, 3});
    CHECK_FALSE(check(Shape(1, 6, 2, 2), Shape(1, 24), Layout::channels_last).ok());
}

TEST_CASE("a scale that is too small is refused by the check of a program, as by quantize") {
    const kernels::KernelTable& table = *scalar_tables().tables[4];
    const Shape shape(1, 4);
    const auto check = [&](float scale) {
        return OneStep(OpKind::quantize, reals(shape), codes(shape, scale)).check(table);
    };
    for (const float scale : {1e-45f, 1e-39f, 0.0f, -1.0f})
        CHECK(check(scale) == Status{StatusCode::scale_out_of_range, OpKind::quantize, Field::scale, -1, 0});
    CHECK(check(std::numeric_limits<float>::infinity()) ==
          Status{StatusCode::not_finite, OpKind::quantize, Field::scale, -1, 0});
    CHECK(check(1e-30f).ok());
}

TEST_CASE("layout_change takes the caller's planes to channels last, or images to vectors, and nothing else") {
    const kernels::KernelTable& table = *scalar_tables().tables[0];
    const auto check = [&](const Shape& x, const Shape& y, Layout layout) {
        return OneStep(OpKind::layout_change, reals(x, layout), reals(y)).check(table).ok();
    };
    const Shape image(1, 6, 2, 2);
    CHECK(check(image, image, Layout::row_major));
    CHECK(check(image, Shape(1, 24), Layout::channels_last));
    CHECK_FALSE(check(image, image, Layout::channels_last));
    CHECK_FALSE(check(image, Shape(1, 24), Layout::row_major));
    CHECK_FALSE(check(image, Shape(1, 24, 1), Layout::channels_last));
    CHECK_FALSE(check(image, Shape(1, 3, 2, 4), Layout::row_major));
}

TEST_CASE("operands of an add, a cat or a convolution of as many elements but other extents are refused") {
    Spoiler spoiler(staging_table(), oracle_targets()[4]);
    SmallProgram& p = spoiler.parts();
    int refused = 0;
    for (const runtime::Instruction& i : p.instructions)
        for (std::int32_t k = 0; k < i.operand_count; ++k) {
            const auto operand = p.operands[static_cast<std::size_t>(i.first_operand + k)];
            Shape& shape = p.tensors[static_cast<std::size_t>(operand)].shape;
            if (shape.rank != 4 || shape[1] % 2 != 0) continue;
            Shape turned = shape;
            turned[1] /= 2, turned[2] *= 2;
            CHECK_FALSE(spoiler.judge_with(shape, turned).status.ok());
            ++refused;
        }
    CHECK(refused >= 8);
}

TEST_CASE("an instruction whose kind was changed is refused: its parameters are of another one") {
    Spoiler spoiler(staging_table(), oracle_targets()[4]);
    SmallProgram& p = spoiler.parts();
    int changed = 0;
    for (runtime::Instruction& i : p.instructions)
        for (const kernels::ProgramOperator& row : kernels::program_operators) {
            const kernels::ProgramOperator& own = *kernels::find_operator(i.op);
            if (row.op == i.op) continue;
            const Verdict verdict = spoiler.judge_with(i.op, row.op);
            if (row.params.kind != own.params.kind) CHECK(verdict.status.code != StatusCode::ok);
            CHECK(verdict.harmless);
            ++changed;
        }
    CHECK(changed > 200);
    for (runtime::Instruction& i : p.instructions) {
        if (i.params.kind == kernels::ParamKind::none) continue;
        CHECK(spoiler.judge_with(i.params.kind, kernels::ParamKind::none).status.field == Field::instruction);
        CHECK(spoiler.judge_with(i.params.kind, static_cast<kernels::ParamKind>(200)).status.field ==
              Field::instruction);
        for (const index_t bad :
             {index_t{0}, i.params.size - 1, i.params.size + 1, 2 * i.params.size, std::numeric_limits<index_t>::max()})
            CHECK(spoiler.judge_with(i.params.size, bad).status.field == Field::instruction);
        CHECK(spoiler.judge_with<const void*>(i.params.data, static_cast<const std::byte*>(i.params.data) + 1)
                  .status.field == Field::instruction);
    }
}

TEST_CASE("parameters that no maker makes are refused, whatever the operator") {
    for (std::size_t target = 0; target < oracle_targets().size(); ++target) {
        Spoiler spoiler(*scalar_tables().tables[target], oracle_targets()[target]);
        SmallProgram& p = spoiler.parts();
        INFO(spoiler.parts().table().policy().name);
        REQUIRE(spoiler.judge().status.ok());
        const arith::RequantizeRule rule = spoiler.parts().table().policy().requantize;
        arith::AddParams& add = p.adds.back();
        for (const std::int32_t bad : {-129, 128, INT32_MAX}) {
            CHECK(spoiler.judge_with(add.zero_point[0], bad).status.field == Field::zero_point);
            CHECK(spoiler.judge_with(add.codes.zero_point, bad).status.field == Field::zero_point);
            CHECK(spoiler.judge_with(p.requantizes.back()[0].zero_point, bad).status.field == Field::zero_point);
            CHECK(spoiler.judge_with(p.convs.back().packed.input_zero_point, bad).status.field == Field::zero_point);
            CHECK(spoiler.judge_with(p.pools.back().average.zero_point, bad).status.field == Field::zero_point);
        }
        for (const std::int32_t bad : {-129, 128, INT32_MIN}) {
            CHECK(spoiler.judge_with(add.codes.lowest, bad).status.field == Field::quant_range);
            CHECK(spoiler.judge_with(p.clamps.back().lowest, bad).status.field == Field::quant_range);
            CHECK(spoiler.judge_with(p.requantizes.back()[0].codes.highest, bad).status.field == Field::quant_range);
            CHECK(spoiler.judge_with(p.convs.front().packed.codes.highest, bad).status.field == Field::quant_range);
            CHECK(spoiler.judge_with(p.pools.back().average.codes.lowest, bad).status.field == Field::quant_range);
        }
        if (rule == arith::RequantizeRule::float_scale) {
            CHECK(spoiler.judge_with(add.factor[1], std::numeric_limits<float>::quiet_NaN()).status.field ==
                  Field::scale);
            CHECK(spoiler.judge_with(p.pools.back().average.s_out, 0.0f).status.field == Field::scale);
        } else {
            CHECK(spoiler.judge_with(add.output[1], 128).status.field == Field::scale);
            CHECK(spoiler.judge_with(add.coefficient[0], INT32_MIN).status.field == Field::scale);
        }
        CHECK(spoiler.judge_with(p.requantizes.back()[0].words[0], INT32_MIN + 3).status.field == Field::scale);
        CHECK(spoiler.judge_with(p.pools.back().average.rule, static_cast<arith::AverageRule>(7)).status.field ==
              Field::scale);
        // What packed weights hold is read, too.
        for (kernels::ConvParams& step : p.convs) {
            if (step.packed.words == nullptr || step.packed.output_dtype == DType::int32) continue;
            auto& word = const_cast<std::int32_t&>(step.packed.words[0]);
            CHECK(spoiler.judge_with(word, INT32_MIN + 3).status.field == Field::scale);
            CHECK(spoiler.judge_with(step.packed.scaled_is_small, !step.packed.scaled_is_small).status.field ==
                  Field::scale);
        }
    }
}

TEST_CASE("windows of a pool that overflow, or see no cell, are refused before they are computed with") {
    Spoiler spoiler(staging_table(), oracle_targets()[4]);
    SmallProgram& p = spoiler.parts();
    constexpr index_t huge = std::numeric_limits<index_t>::max();
    for (kernels::PoolParams& step : p.pools)
        for (index_t* field : {&step.window.kernel.height, &step.window.kernel.width, &step.window.stride.height,
                               &step.window.padding.top, &step.window.padding.right, &step.window.dilation.height,
                               &step.window.dilation.width})
            for (const index_t bad : {huge, -huge, huge / 2, index_t{1} << 32})
                CHECK_FALSE(spoiler.judge_with(*field, bad).status.ok());
}

TEST_CASE("a program is refused by a table that lacks its kernels, and by that of another target") {
    const SmallProgram bayes(*scalar_tables().tables[4], oracle_targets()[4]);
    const SmallProgram tflite(*scalar_tables().tables[1], oracle_targets()[1]);
    CHECK(runtime::check_program(bayes.program(), *scalar_tables().tables[4]).ok());
    kernels::KernelTable lacking = *scalar_tables().tables[4];
    lacking.conv = {};
    CHECK(runtime::check_program(bayes.program(), lacking) ==
          Status{StatusCode::unsupported, OpKind::conv2d, Field::input, static_cast<int>(DType::int8), 0});
    // The kernels are there, but the words of the weights are not theirs.
    CHECK(runtime::check_program(bayes.program(), *scalar_tables().tables[1]) ==
          Status{StatusCode::corrupt, OpKind::conv2d, Field::scale, 0, 0});
    CHECK(runtime::check_program(tflite.program(), *scalar_tables().tables[1]).ok());
}

#if INTQ_ASSERT_LEVEL > 0
TEST_CASE("a batch beyond the largest breaks a precondition") {
    static bool failed = false;
    const auto former = set_assert_handler([](const char*, const char*, int) { failed = true; });
    const SmallProgram small(*scalar_tables().tables[0], oracle_targets()[0]);
    Program program = small.program();
    program.instructions = {};
    GuardedBuffer arena(static_cast<std::size_t>(program.arena_size));
    runtime::execute(program, small.table(), arena.as<std::byte>(), SmallProgram::max_batch);
    CHECK(!failed);
    runtime::execute(program, small.table(), arena.as<std::byte>(), SmallProgram::max_batch + 1);
    CHECK(failed);
    set_assert_handler(former);
}
#endif
