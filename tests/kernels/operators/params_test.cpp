// SPDX-License-Identifier: MIT
//
// The descriptions of the operators' parameters: whole, and enough to write a program's parameters down and read them
// back without knowing one operator.
#include "intq/kernels/operators/params.hpp"

#include <cstring>
#include <set>
#include <utility>

#include "intq/kernels/operators/operator_table.hpp"
#include "kernels/tables/tables.hpp"
#include "runtime/fill_ids.hpp"
#include "runtime/small_program.hpp"
#include "support/catch.hpp"
#include "support/one_instruction.hpp"

using namespace intq;
using namespace intq::test;
using kernels::ParamField;

// --- whole -----------------------------------------------------------------------------------------------------------
// Which bytes of a struct are padding, g++ knows and clang 19 does not: the sanitizer build may leave this part out.
#if defined(__has_builtin)
#    if __has_builtin(__builtin_clear_padding)

namespace {

/// How often each byte of a struct was named. What a description keeps in variables of its own (pointers, the lengths
/// of spans) is changed, so that the struct shows where it ends up.
struct Coverage {
    const unsigned char* begin = nullptr;
    std::vector<int> count;
    int fields = 0, left_out = -1;

    static void take(void* context, const ParamField& field) {
        auto& self = *static_cast<Coverage*>(context);
        if (self.fields++ == self.left_out) return;
        constexpr int mark = 0x01;
        if (field.memory != nullptr) {
            std::memset(field.memory, mark, sizeof *field.memory);
            return;
        }
        const auto* const at = static_cast<const unsigned char*>(field.data);
        const auto bytes = static_cast<std::size_t>(field.count * size_of(field.type));
        const std::less<const unsigned char*> is_before;
        if (is_before(at, self.begin) || !is_before(at, self.begin + self.count.size())) {
            std::memset(field.data, mark, bytes);
            return;
        }
        for (std::size_t i = 0; i < bytes; ++i) ++self.count.at(static_cast<std::size_t>(at - self.begin) + i);
    }
};

/// A value that has all fields: the grids of a resize are there for Blend::of_values alone.
template <class Params> Params with_all_fields() { return {}; }
template <> kernels::ResizeTable with_all_fields() {
    kernels::ResizeTable table;
    table.blend = arith::Blend::of_values;
    return table;
}

/// Bytes of values, not of padding, that the description names not exactly once; without field `left_out`.
template <class Params> int count_wrong_bytes(int left_out, int& fields) {
    const kernels::PackingRules packing = kernels::packing_rules<target::fp32, simd::scalar>();
    const kernels::ParamContext context{&packing};
    Params params = with_all_fields<Params>(), mask;
    std::memset(static_cast<void*>(&mask), 0xff, sizeof mask);
    __builtin_clear_padding(&mask);
    unsigned char before[sizeof params], after[sizeof params], value[sizeof params];
    std::memcpy(before, &params, sizeof params);
    Coverage coverage{reinterpret_cast<const unsigned char*>(&params), std::vector<int>(sizeof params), 0, left_out};
    const kernels::ParamVisitor visitor{&coverage, &Coverage::take, nullptr, kernels::ParamVisitor::Demands::nothing};
    kernels::ParamFields visit(visitor, context);
    describe_params(params, visit);
    std::memcpy(after, &params, sizeof params);
    std::memcpy(value, &mask, sizeof params);
    fields = coverage.fields;
    int wrong = 0;
    for (std::size_t i = 0; i < sizeof params; ++i)
        if (value[i] != 0) wrong += coverage.count[i] + (before[i] != after[i]) != 1;
    return wrong;
}

template <class Params> void check_whole(OpKind op, std::set<OpKind>& checked) {
    INFO(name_of(op));
    const kernels::ProgramOperator* const row = kernels::find_operator(op);
    REQUIRE(row != nullptr);
    CHECK(row->params.kind == kernels::param_kind<Params>);
    CHECK(row->params.size == sizeof(Params));
    CHECK(row->params.visit == &kernels::visit_params_as<Params>);
    int fields = 0;
    CHECK(count_wrong_bytes<Params>(-1, fields) == 0);
    for (int i = 0; i < fields; ++i) {
        INFO("without field " << i);
        int same = 0;
        CHECK(count_wrong_bytes<Params>(i, same) > 0);
    }
    checked.insert(op);
}

}  // namespace

TEST_CASE(
    "the description of an operator's parameters names every byte of them once, and any field left out is found") {
    std::set<OpKind> checked, described;
    for (const OpKind op : {OpKind::conv2d, OpKind::linear}) check_whole<kernels::ConvParams>(op, checked);
    for (const OpKind op : {OpKind::add, OpKind::sub}) check_whole<arith::AddParams>(op, checked);
    check_whole<arith::MulParams>(OpKind::mul, checked);
    check_whole<arith::OutputCodes>(OpKind::relu, checked);
    for (const OpKind op : {OpKind::requantize, OpKind::cat}) check_whole<kernels::RequantizeParams>(op, checked);
    for (const OpKind op : {OpKind::max_pool2d, OpKind::avg_pool2d}) check_whole<kernels::PoolParams>(op, checked);
    check_whole<kernels::LookUpParams>(OpKind::lookup_table, checked);
    check_whole<kernels::ResizeTable>(OpKind::interpolate, checked);
    check_whole<kernels::PadParams>(OpKind::pad, checked);
    for (const OpKind op : {OpKind::slice, OpKind::permute, OpKind::reshape})
        check_whole<kernels::MoveParams>(op, checked);
    check_whole<kernels::SoftmaxParams>(OpKind::softmax, checked);
    check_whole<kernels::LogSoftmaxParams>(OpKind::log_softmax, checked);
    check_whole<kernels::LayerNormStepParams>(OpKind::layer_norm, checked);
    check_whole<kernels::MatmulStepParams>(OpKind::matmul, checked);
    check_whole<kernels::EmbeddingParams>(OpKind::embedding, checked);
    check_whole<kernels::IndexCopyParams>(OpKind::index_copy, checked);
    check_whole<kernels::ArgMaxParams>(OpKind::argmax, checked);
    check_whole<kernels::ConstantParams>(OpKind::constant, checked);
    check_whole<kernels::QuantizeImageParams>(OpKind::quantize_image, checked);
    for (const kernels::ProgramOperator& row : kernels::program_operators) {
        const bool has_params = row.params.kind != kernels::ParamKind::none;
        CHECK(has_params == (row.params.visit != nullptr));
        if (has_params) described.insert(row.op);
    }
    CHECK(checked == described);
}

#    endif
#endif

// --- enough ----------------------------------------------------------------------------------------------------------

namespace {

/// Writes fields as type, count and bytes; of memory, where `numbers_only`, whether there is some.
struct Writer {
    bool numbers_only = false;
    std::vector<unsigned char> bytes{};

    static void take(void* context, const ParamField& field) {
        auto& self = *static_cast<Writer*>(context);
        auto& to = self.bytes;
        const auto put = [&](const void* from, std::size_t size) {
            const auto* const first = static_cast<const unsigned char*>(from);
            to.insert(to.end(), first, first + size);
        };
        put(&field.type, sizeof field.type);
        put(&field.count, sizeof field.count);
        if (field.memory != nullptr && self.numbers_only)
            to.push_back(*field.memory != nullptr);
        else if (field.count > 0)
            put(field.memory != nullptr ? *field.memory : field.data,
                static_cast<std::size_t>(field.count * size_of(field.type)));
    }
};

/// Memory as kernels want it: aligned, of its own, freed with the reader's owner.
class Memory {
public:
    void* take(std::size_t size) {
        auto& bytes = blocks_.emplace_back(size + buffer_alignment);
        const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
        return bytes.data() + (buffer_alignment - address % buffer_alignment) % buffer_alignment;
    }

private:
    std::deque<std::vector<unsigned char>> blocks_;
};

struct Reader {
    const std::vector<unsigned char>& bytes;
    Memory& memory;
    std::size_t at = 0;
    int fields = 0, left_out = -1;

    static void take(void* context, const ParamField& field) {
        auto& self = *static_cast<Reader*>(context);
        const auto get = [&](void* to, std::size_t size) {
            if (self.at + size > self.bytes.size()) throw std::logic_error("the bytes end early");
            std::memcpy(to, self.bytes.data() + self.at, size);
            self.at += size;
        };
        kernels::ParamType type{};
        index_t count = 0;
        get(&type, sizeof type);
        get(&count, sizeof count);
        const bool is_left_out = self.fields++ == self.left_out;
        if (!is_left_out && (type != field.type || count != field.count)) throw std::logic_error("another field");
        const auto size = static_cast<std::size_t>(count * size_of(type));
        if (is_left_out) {
            self.at += size;
        } else if (field.memory == nullptr) {
            get(field.data, size);
        } else if (count == 0) {
            *field.memory = nullptr;
        } else {
            void* const to = self.memory.take(size);
            get(to, size);
            *field.memory = to;
        }
    }
};

index_t structs_of(const kernels::ProgramOperator& row, const runtime::Instruction& instruction) {
    return row.has_params_by_operand ? instruction.operand_count : 1;
}

std::vector<unsigned char> write(const kernels::KernelTable& table, const runtime::Instruction& instruction,
                                 bool numbers_only = false) {
    const kernels::ProgramOperator& row = *kernels::find_operator(instruction.op);
    const kernels::ParamContext context{&table.packing};
    Writer writer{numbers_only};
    const kernels::ParamVisitor visitor{&writer, &Writer::take, nullptr, kernels::ParamVisitor::Demands::nothing};
    for (index_t i = 0; i < structs_of(row, instruction); ++i)
        REQUIRE(row.params
                    .visit(static_cast<const std::byte*>(instruction.params.data) + i * row.params.size, nullptr,
                           context, visitor)
                    .ok());
    return writer.bytes;
}

/// The parameters that the bytes say; `left_out` counts through the fields of one struct.
const void* read(const kernels::KernelTable& table, const runtime::Instruction& instruction,
                 const std::vector<unsigned char>& bytes, Memory& memory, int& fields, int left_out = -1) {
    const kernels::ProgramOperator& row = *kernels::find_operator(instruction.op);
    const kernels::ParamContext context{&table.packing};
    const index_t structs = structs_of(row, instruction);
    auto* const params = static_cast<std::byte*>(memory.take(static_cast<std::size_t>(structs * row.params.size)));
    Reader reader{bytes, memory, 0, 0, left_out};
    using Demands = kernels::ParamVisitor::Demands;
    const kernels::ParamVisitor visitor{&reader, &Reader::take, nullptr,
                                        left_out < 0 ? Demands::memory : Demands::nothing};
    for (index_t i = 0; i < structs; ++i) {
        const Status status = row.params.visit(nullptr, params + i * row.params.size, context, visitor);
        REQUIRE(status.ok());
    }
    if (left_out < 0 && reader.at != bytes.size()) throw std::logic_error("bytes are left");
    fields = reader.fields;
    return params;
}

/// What every instruction writes, for codes or reals that are drawn anew for each input.
std::vector<std::vector<unsigned char>> run(const runtime::Program& program, const kernels::KernelTable& table) {
    REQUIRE(runtime::check_program(program, table).ok());
    GuardedBuffer arena(static_cast<std::size_t>(program.arena_size));
    Draw draw(5);
    for (const std::int32_t input : program.inputs) {
        const runtime::ProgramTensor& tensor = program.tensor(input);
        void* const to = runtime::tensor_data(program, arena.as<std::byte>(), input);
        if (test::fill_ids(tensor, to, draw)) continue;
        for (index_t i = 0; i < tensor.shape.size(); ++i)
            if (tensor.dtype == DType::float32)
                static_cast<float*>(to)[i] = draw.real(-3.0f, 3.0f);
            else
                for (index_t byte = 0; byte < size_of(tensor.dtype); ++byte)
                    static_cast<unsigned char*>(to)[i * size_of(tensor.dtype) + byte] =
                        static_cast<unsigned char>(draw.between(0, 255));
    }
    std::vector<std::vector<unsigned char>> outputs;
    const auto keep = [](void* context, const runtime::Program& p, index_t instruction, const void* output, index_t) {
        const auto bytes = p.tensor(p.instructions[static_cast<std::size_t>(instruction)].output).bytes();
        const auto* const first = static_cast<const unsigned char*>(output);
        static_cast<decltype(outputs)*>(context)->emplace_back(first, first + bytes);
    };
    runtime::execute(program, table, arena.as<std::byte>(), program.max_batch, serial, {keep, &outputs});
    return outputs;
}

/// Writes all parameters of a program down, reads them into other memory, and compares every output of both.
void check_round_trip(const runtime::Program& program, const kernels::KernelTable& table, std::set<OpKind>& ops) {
    Memory memory;
    std::vector<runtime::Instruction> instructions(program.instructions.begin(), program.instructions.end());
    for (runtime::Instruction& instruction : instructions) {
        INFO(name_of(instruction.op) << " " << table.policy().name);
        if (instruction.params.data == nullptr) continue;
        const auto bytes = write(table, instruction);
        int fields = 0;
        const void* const again = read(table, instruction, bytes, memory, fields);
        // A field left out is its default again, mostly another number; its memory is not there.
        int found = 0;
        for (int left_out = 0; left_out < fields; ++left_out) {
            runtime::Instruction other = instruction;
            try {
                int same = 0;
                other.params.data = read(table, instruction, bytes, memory, same, left_out);
                found += write(table, other, true) != write(table, instruction, true);
            } catch (const std::logic_error&) {
                ++found;  // a count that follows from the field
            }
        }
        CHECK(found > 0);
        instruction.params.data = again;
        CHECK(write(table, instruction) == bytes);
        ops.insert(instruction.op);
    }
    runtime::Program other = program;
    other.instructions = instructions;
    const auto expected = run(program, table);
    CHECK(run(other, table) == expected);
    CHECK(expected.size() == program.instructions.size());
}

/// Writes the parameters of the instruction down and reads them back.
struct RoundTrip : OneInstruction {
    using OneInstruction::OneInstruction;
    void check(const kernels::KernelTable& table, std::set<OpKind>& ops, index_t workspace = 0) const {
        check_round_trip(program(workspace), table, ops);
    }
};

const Shape image(2, 3, 4, 5);

void check_codes(const kernels::KernelTable& table, std::set<OpKind>& ops) {
    const arith::CodesOf x{0.05f, 0, DType::int8}, y{0.04f, 0, DType::int8}, z{0.06f, 0, DType::int8};
    const arith::OutputCodes codes{0, -100, 90};
    const auto sub = value_of(arith::make_sub(table.policy(), x, y, z, codes));
    RoundTrip(OpKind::sub, DType::int8, {image, image, image}, &sub).check(table, ops);
    const auto mul = value_of(arith::make_mul(table.policy(), x, y, z, codes));
    RoundTrip(OpKind::mul, DType::int8, {image, image, image}, &mul).check(table, ops);
    std::int8_t narrow[arith::int8_table_size];
    for (int i = 0; i < 256; ++i) narrow[i] = static_cast<std::int8_t>(127 - i);
    kernels::LookUpParams step{narrow, arith::int8_table_size};
    RoundTrip(OpKind::lookup_table, DType::int8, {image, image}, &step).check(table, ops);
    std::int16_t wide[arith::int16_table_size];
    for (int i = 0; i < 513; ++i) wide[i] = static_cast<std::int16_t>(60 * (i - 256));
    step = {wide, arith::int16_table_size};
    RoundTrip(OpKind::lookup_table, DType::int16, {image, image}, &step).check(table, ops);
    step = {wide, arith::tflite_curve_size, {24000, 13, true}};
    RoundTrip(OpKind::lookup_table, DType::int16, {image, image}, &step).check(table, ops);
    std::int16_t blocks[arith::largest_block_table_size];
    const auto size = arith::make_table_within_a_code({0.001f, 0, DType::int16}, {0.001f, 0, DType::int16},
                                                      std::span(blocks), [](double x) { return x * x * x; });
    REQUIRE(arith::is_block_table_size(static_cast<index_t>(value_of(size))));
    step = {blocks, static_cast<index_t>(*size)};
    RoundTrip(OpKind::lookup_table, DType::int16, {image, image}, &step).check(table, ops);
    const kernels::ConstantParams constant{wide, image.size() / image[0], DType::int16};
    RoundTrip(OpKind::constant, DType::int16, {image}, &constant).check(table, ops);
    const kernels::EmbeddingParams table_of_ids{wide, 5, 4, DType::int16};
    RoundTrip embedded(OpKind::embedding, DType::int16, {Shape(2, index_t{3}), Shape(2, index_t{3}, index_t{4})},
                       &table_of_ids);
    embedded.tensors[0].dtype = DType::int32;
    embedded.tensors[0].qparams = QParams::per_tensor(1.0f, 0, 0, 4);
    embedded.tensors[0].has_stated_bounds = true;
    embedded.tensors[1].layout = Layout::row_major;
    embedded.check(table, ops);
    const kernels::EmbeddingParams overlapping{wide, 5, 4, DType::int16, -1};
    RoundTrip masks(OpKind::embedding, DType::int16, {Shape(2, index_t{3}), Shape(2, index_t{3}, index_t{4})},
                    &overlapping);
    masks.tensors = embedded.tensors;
    masks.check(table, ops);
    const kernels::ArgMaxParams along{.count = 2, .inner = 1};
    RoundTrip places(OpKind::argmax, DType::int8, {Shape(2, 2, 5, 3), Shape(2, 1, 5, 3)}, &along);
    places.tensors[1].dtype = DType::int32;
    places.arena_size = places.tensors[1].offset + round_up(places.tensors[1].bytes(), buffer_alignment);
    places.check(table, ops);
    const kernels::IndexCopyParams rows{.outer = 2, .rows = 5, .inner = 3, .count = 2};
    const Shape cache(2, 2, 5, 3), row(2, 2, 2, 3);
    RoundTrip copied(OpKind::index_copy, DType::int16, {cache, row, Shape(2, index_t{2}), cache}, &rows);
    for (kernels::ArenaTensor& tensor : copied.tensors) tensor.layout = Layout::row_major;
    copied.tensors[2].dtype = DType::int32;
    copied.tensors[2].layout = Layout::channels_last;
    copied.tensors[2].qparams = QParams::per_tensor(1.0f, 0, 0, 4);
    copied.tensors[2].has_stated_bounds = true;
    copied.check(table, ops);
    for (const DType dtype : {DType::int8, DType::int16}) {
        std::vector<std::int16_t> entries(3 * 256);
        for (std::size_t i = 0; i < entries.size(); ++i) entries[i] = static_cast<std::int16_t>(41 * i);
        const kernels::QuantizeImageParams pixels{entries.data(), 3, dtype};
        RoundTrip one(OpKind::quantize_image, dtype, {image, image}, &pixels);
        one.tensors[0].dtype = DType::uint8;
        one.check(table, ops);
    }
    kernels::SoftmaxParams softmax;
    softmax.tables = value_of(table.policy().softmax == arith::SoftmaxRule::requantized
                                  ? arith::make_softmax_tables(x)
                                  : arith::make_fixed_point_softmax_tables(table.policy(), x));
    softmax.requantize = value_of(kernels::make_requantize(table.policy(), arith::softmax_probability, z, codes));
    softmax.count = 3;
    softmax.inner = 1;
    RoundTrip(OpKind::softmax, DType::int8, {image, image}, &softmax).check(table, ops, 2 * image.size());
    std::uint32_t log_entries[arith::log_softmax_entries(DType::int8)];
    REQUIRE(arith::make_log_softmax_tables(x, log_entries).ok());
    kernels::LogSoftmaxParams log_softmax;
    log_softmax.step = value_of(arith::make_log_softmax_step(x));
    log_softmax.requantize.words = value_of(arith::make_log_softmax_words(table.policy(), z));
    log_softmax.requantize.codes = codes;
    log_softmax.count = 3;
    log_softmax.entry_count = arith::log_softmax_entries(DType::int8);
    log_softmax.entries = log_entries;
    RoundTrip(OpKind::log_softmax, DType::int8, {image, image}, &log_softmax).check(table, ops);
    if (table.policy().softmax == arith::SoftmaxRule::fixed_point) {
        std::uint32_t fixed_entries[arith::fixed_point_log_softmax_entries];
        REQUIRE(arith::make_fixed_point_log_softmax_table(table.policy(), x, fixed_entries).ok());
        kernels::LogSoftmaxParams fixed;
        fixed.count = 3;
        fixed.entry_count = arith::fixed_point_log_softmax_entries;
        fixed.entries = fixed_entries;
        RoundTrip(OpKind::log_softmax, DType::int8, {image, image}, &fixed).check(table, ops);
    }
    if (!kernels::operators::has_softmax(table, {DType::int16, DType::none, DType::int16})) return;
    if (table.policy().softmax == arith::SoftmaxRule::requantized) {
        std::uint32_t entries[arith::int16_softmax_entries];
        REQUIRE(arith::make_int16_softmax_tables({0.001f, 0, DType::int16}, entries).ok());
        softmax.tables = {};
        softmax.entries = entries;
        softmax.entry_count = arith::int16_softmax_entries;
        softmax.requantize = {};
        softmax.requantize.words =
            value_of(arith::make_int16_softmax_words(table.policy(), {0x1p-16f, 0, DType::int16}));
        softmax.requantize.codes = {0, INT16_MIN, INT16_MAX};
        RoundTrip(OpKind::softmax, DType::int16, {image, image}, &softmax).check(table, ops);
    }
    if (table.layer_norm.empty()) return;
    const std::int32_t weight[3] = {1 << 30, -(1 << 29), 0}, bias[3] = {-(1 << 29), 77, 1 << 29};
    kernels::LayerNormStepParams norm;
    norm.norm = value_of(arith::make_layer_norm(table.policy(), x, z, codes, 3, 1e-5, {0}));
    norm.count = 3;
    norm.weight = weight;
    norm.bias = bias;
    RoundTrip(OpKind::layer_norm, DType::int8, {image, image}, &norm).check(table, ops);
    norm.norm.is_centered = false;
    norm.count = 1, norm.groups = 3, norm.over_pixels = true;
    RoundTrip(OpKind::layer_norm, DType::int8, {image, image}, &norm).check(table, ops);
    if (table.matmul.empty()) return;
    kernels::MatmulStepParams matmul;
    matmul.numbers = value_of(arith::make_matmul(table.policy(), x, y, z, codes, 3));
    matmul.shape = {20, 20, 3, {{2, {20, 3}, {3, 1}, 0}, {2, {20, 3}, {-3, 1}, 57}}};
    RoundTrip product(OpKind::matmul, DType::int8, {image, image, Shape(2, 20, 20)}, &matmul);
    product.tensors[2].layout = Layout::row_major;
    product.check(table, ops, kernels::matmul_workspace_size(matmul.shape, table.packing, DType::int8));
}

void check_places(const kernels::KernelTable& table, std::set<OpKind>& ops) {
    std::vector<arith::ResizeTap> taps(16);
    auto resize = value_of(kernels::make_resize_table(arith::Resize::half_pixel, {4, 5}, {8, 5}, taps));
    RoundTrip(OpKind::interpolate, DType::int8, {image, Shape(2, 3, 8, 5)}, &resize).check(table, ops);
    resize.blend = arith::Blend::of_1024ths;
    taps[1].weight = 1023;
    RoundTrip(OpKind::interpolate, DType::int8, {image, Shape(2, 3, 8, 5)}, &resize).check(table, ops);
    if (table.policy().computes_as_onnx()) {
        resize = value_of(kernels::make_resize_table_of_values(table.policy(), arith::Resize::half_pixel, {4, 5},
                                                               {8, 5}, taps, {}, {0.1f, 3, DType::int8},
                                                               {0.2f, -5, DType::int8}, {-5, -100, 127}));
        RoundTrip(OpKind::interpolate, DType::int8, {image, Shape(2, 3, 8, 5)}, &resize).check(table, ops);
    }
    const kernels::PadParams pad{{1, 2, 0, 3}, {2, 1}, -7};
    const Size2d out = kernels::padded_size(pad, {4, 5});
    RoundTrip(OpKind::pad, DType::int8, {image, Shape(2, 3, out.height, out.width)}, &pad).check(table, ops);
    kernels::MoveParams move;
    move.rank = 2;
    move.extents[0] = 3, move.extents[1] = 20;
    move.steps[0] = 1, move.steps[1] = 3;
    for (const OpKind op : {OpKind::permute, OpKind::reshape, OpKind::slice})
        RoundTrip(op, DType::int16, {image, image}, &move).check(table, ops);
}

/// What the small program lacks: depthwise, groups, and an input of another type.
void check_conv(const kernels::KernelTable& table, index_t groups, DType input, std::set<OpKind>& ops) {
    constexpr index_t channels = 6;
    const Window2d window{{3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}};
    Draw draw(9);
    std::vector<std::int8_t> weights(static_cast<std::size_t>(channels * channels / groups * 9));
    for (auto& weight : weights) weight = static_cast<std::int8_t>(draw.between(-20, 20));
    kernels::Conv2dSpec spec;
    spec.window = window;
    spec.in_channels = spec.out_channels = channels;
    spec.groups = groups;
    spec.input_dtype = spec.output_dtype = input;
    spec.input = QParams::per_tensor(0.05f, table.policy().zero_points && input == DType::int8 ? 3 : 0, input);
    spec.weight = QParams::per_tensor(0.01f, 0, DType::int8);
    spec.output = QParams::per_tensor(0.05f, 0, input);
    spec.weight_codes = weights.data();
    Memory memory;
    const auto room = [&](index_t size) {
        return Workspace{static_cast<std::byte*>(memory.take(static_cast<std::size_t>(size))), size};
    };
    kernels::ConvParams step;
    step.packed =
        value_of(kernels::pack_conv2d(table.packing, spec, room(kernels::packed_conv2d_size(table.packing, spec))));
    step.geometry = value_of(kernels::make_conv2d_geometry(window, 2, {4, 5}));
    const Shape shape(2, channels, 4, 5);
    RoundTrip(OpKind::conv2d, input, {shape, shape}, &step)
        .check(table, ops, kernels::conv2d_workspace_size(step.packed, step.geometry));
}

}  // namespace

TEST_CASE("parameters written and read by their descriptions run to the same bytes, for every kind of instruction") {
    std::set<OpKind> ops, described;
    for (const BackendTables& backend : usable_backend_tables())
        for (std::size_t i = 0; i < backend.tables.size(); ++i) {
            const kernels::KernelTable& table = *backend.tables[i];
            const SmallProgram small(table, oracle_targets()[i]);
            check_round_trip(small.program(), table, ops);
            check_codes(table, ops);
            check_places(table, ops);
            check_conv(table, 2, DType::int8, ops);
            check_conv(table, 6, DType::int8, ops);
            if (oracle_targets()[i].widest_activation >= 16) {
                check_conv(table, 1, DType::int16, ops);
                check_conv(table, 6, DType::int16, ops);
            }
        }
    for (const kernels::ProgramOperator& row : kernels::program_operators)
        if (row.params.kind != kernels::ParamKind::none) described.insert(row.op);
    CHECK(ops == described);
}
