// SPDX-License-Identifier: MIT
//
// A program as bytes and back, by the descriptions of its parameters: what a test or a fuzzer changes one field at a
// time.
#ifndef INTQ_TESTS_RUNTIME_PROGRAM_IMAGE_HPP
#define INTQ_TESTS_RUNTIME_PROGRAM_IMAGE_HPP

#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <vector>

#include "intq/kernels/operators/operator_table.hpp"
#include "intq/runtime/program.hpp"

namespace intq::test {

/// The bytes of a program, and where each field begins.
struct ProgramImage {
    struct Place {
        std::size_t at, size;
    };
    std::vector<unsigned char> bytes;
    std::vector<Place> fields;  // numbers; of memory its first and last elements

    void put(const void* from, std::size_t size, std::size_t element = 0) {
        const std::size_t each = element == 0 ? size : element, count = each == 0 ? 0 : size / each;
        for (std::size_t i = 0; i < count; ++i)
            if (i < 16 || i + 4 >= count) fields.push_back({bytes.size() + i * each, each});
        const auto* const first = static_cast<const unsigned char*>(from);
        bytes.insert(bytes.end(), first, first + size);
    }
    template <class T> void put(const T& value) {
        static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
        put(&value, sizeof value);
    }
};

namespace detail {

inline const kernels::ParamStruct* params_of_kind(kernels::ParamKind kind) {
    for (const kernels::ProgramOperator& row : kernels::program_operators)
        if (row.params.kind == kind) return &row.params;
    return nullptr;
}

inline void write_field(void* context, const kernels::ParamField& field) {
    if (field.count == 0) return;
    const auto element = static_cast<std::size_t>(size_of(field.type));
    static_cast<ProgramImage*>(context)->put(field.memory != nullptr ? *field.memory : field.data,
                                             element * static_cast<std::size_t>(field.count), element);
}

}  // namespace detail

inline ProgramImage write_program(const runtime::Program& program, const kernels::PackingRules& packing) {
    ProgramImage image;
    for (const index_t number :
         {program.max_batch, program.arena_size, program.workspace_offset, program.workspace_size})
        image.put(number);
    const auto put_list = [&](std::span<const std::int32_t> list) {
        image.put(static_cast<std::uint8_t>(list.size()));
        for (const std::int32_t index : list) image.put(index);
    };
    put_list(program.operands);
    put_list(program.inputs);
    put_list(program.outputs);
    image.put(static_cast<std::uint8_t>(program.tensors.size()));
    for (const runtime::ProgramTensor& tensor : program.tensors) {
        image.put(tensor.dtype);
        image.put(tensor.layout);
        image.put(tensor.shape.rank);
        for (const index_t extent : tensor.shape.extents) image.put(extent);
        image.put(tensor.offset);
        const QParams& q = tensor.qparams;
        image.put(q.axis());
        image.put(static_cast<std::uint8_t>(q.count()));
        for (index_t i = 0; i < q.count(); ++i) image.put(q.scale(i));
        image.put(q.is_per_channel() ? 0 : q.zero_point());
        image.put(q.quant_min());
        image.put(q.quant_max());
        image.put(static_cast<std::uint8_t>(tensor.has_stated_bounds));
    }
    image.put(static_cast<std::uint8_t>(program.instructions.size()));
    const kernels::ParamContext context{&packing};
    for (const runtime::Instruction& instruction : program.instructions) {
        image.put(instruction.op);
        image.put(instruction.output);
        image.put(instruction.first_operand);
        image.put(instruction.operand_count);
        image.put(instruction.params.kind);
        const kernels::ParamStruct* const params = detail::params_of_kind(instruction.params.kind);
        const index_t structs = params->size == 0 ? 0 : instruction.params.size / params->size;
        image.put(static_cast<std::uint8_t>(structs));
        for (index_t i = 0; i < structs; ++i)
            (void)params->visit(static_cast<const std::byte*>(instruction.params.data) + i * params->size, nullptr,
                                context, {&image, &detail::write_field, nullptr});
    }
    return image;
}

/// A program out of bytes that may be anything, with the memory that it points to. What the bytes do not say, or the
/// descriptions of parameters refuse, is no program.
class ReadProgram {
public:
    ReadProgram(const std::vector<unsigned char>& bytes, const kernels::PackingRules& packing) : bytes_(bytes) {
        is_whole_ = read(packing) && at_ <= bytes_.size();
    }
    ReadProgram(const ReadProgram&) = delete;
    ReadProgram& operator=(const ReadProgram&) = delete;

    bool is_whole() const { return is_whole_; }
    runtime::Program program() const {
        runtime::Program p = numbers_;
        p.instructions = instructions_;
        p.tensors = tensors_;
        p.operands = operands_;
        p.inputs = inputs_;
        p.outputs = outputs_;
        return p;
    }

private:
    bool get(void* to, std::size_t size) {
        if (at_ > bytes_.size() || size > bytes_.size() - at_) {
            at_ = bytes_.size() + 1;
            return false;
        }
        if (size > 0) std::memcpy(to, bytes_.data() + at_, size);
        at_ += size;
        return true;
    }
    template <class T> T get() {
        T value{};
        get(&value, sizeof value);
        return value;
    }
    std::vector<std::int32_t> get_list() {
        std::vector<std::int32_t> list(get<std::uint8_t>());
        for (std::int32_t& index : list) index = get<std::int32_t>();
        return list;
    }
    /// Aligned as kernels want it; of exactly this size, so that a read beyond it is seen.
    void* memory(std::size_t size) {
        auto& block = blocks_.emplace_back(
            static_cast<unsigned char*>(::operator new (size, std::align_val_t{buffer_alignment})));
        return block.get();
    }
    static void read_field(void* context, const kernels::ParamField& field) {
        auto& self = *static_cast<ReadProgram*>(context);
        const auto element = static_cast<std::size_t>(size_of(field.type));
        if (field.memory == nullptr) {
            self.get(field.data, element * static_cast<std::size_t>(field.count));
            return;
        }
        *field.memory = nullptr;
        const bool is_there = field.count > 0 && static_cast<std::size_t>(field.count) <= self.bytes_.size() / element;
        if (!is_there) return;
        void* const to = self.memory(element * static_cast<std::size_t>(field.count));
        if (self.get(to, element * static_cast<std::size_t>(field.count))) *field.memory = to;
    }
    void read_tensor() {
        runtime::ProgramTensor tensor;
        tensor.dtype = get<DType>();
        tensor.layout = get<Layout>();
        tensor.shape.rank = get<int>();
        for (index_t& extent : tensor.shape.extents) extent = get<index_t>();
        tensor.offset = get<index_t>();
        const int axis = get<int>();
        std::vector<float>& scales = scales_.emplace_back(get<std::uint8_t>());
        for (float& scale : scales) scale = get<float>();
        const auto zero_point = get<std::int32_t>();
        const auto low = get<std::int64_t>(), high = get<std::int64_t>();
        tensor.qparams = axis >= 0 ? QParams::per_channel(scales, {}, axis, low, high)
                                   : QParams::per_tensor(scales.empty() ? 0.0f : scales[0], zero_point, low, high);
        // Of ids alone: what fills other inputs keeps to no bounds.
        tensor.has_stated_bounds = get<std::uint8_t>() != 0 && tensor.dtype == DType::int32;
        tensors_.push_back(tensor);
    }
    bool read_instruction(const kernels::ParamContext& context) {
        runtime::Instruction instruction;
        instruction.op = get<OpKind>();
        instruction.output = get<std::int32_t>();
        instruction.first_operand = get<std::int32_t>();
        instruction.operand_count = get<std::int32_t>();
        instruction.params.kind = get<kernels::ParamKind>();
        const kernels::ParamStruct* const params = detail::params_of_kind(instruction.params.kind);
        const index_t structs = get<std::uint8_t>();
        if (params == nullptr) return false;
        instruction.params.size = structs * params->size;
        if (instruction.params.size > 0) {
            auto* const to = static_cast<std::byte*>(memory(static_cast<std::size_t>(instruction.params.size)));
            // Numbers alone: what memory may hold is left to the check of the program.
            const kernels::ParamVisitor visitor{this, &read_field, nullptr, kernels::ParamVisitor::Demands::numbers};
            for (index_t i = 0; i < structs; ++i)
                if (!params->visit(nullptr, to + i * params->size, context, visitor).ok()) return false;
            instruction.params.data = to;
        }
        instructions_.push_back(instruction);
        return true;
    }
    bool read(const kernels::PackingRules& packing) {
        for (index_t* number :
             {&numbers_.max_batch, &numbers_.arena_size, &numbers_.workspace_offset, &numbers_.workspace_size})
            *number = get<index_t>();
        operands_ = get_list();
        inputs_ = get_list();
        outputs_ = get_list();
        for (int left = get<std::uint8_t>(); left > 0; --left) read_tensor();
        const kernels::ParamContext context{&packing};
        for (int left = get<std::uint8_t>(); left > 0; --left)
            if (!read_instruction(context)) return false;
        return true;
    }

    struct Delete {
        void operator()(unsigned char* bytes) const { ::operator delete (bytes, std::align_val_t{buffer_alignment}); }
    };
    const std::vector<unsigned char>& bytes_;
    std::size_t at_ = 0;
    bool is_whole_ = false;
    runtime::Program numbers_{};
    std::vector<runtime::Instruction> instructions_;
    std::vector<runtime::ProgramTensor> tensors_;
    std::vector<std::int32_t> operands_, inputs_, outputs_;
    std::deque<std::vector<float>> scales_;
    std::deque<std::unique_ptr<unsigned char, Delete>> blocks_;
};

}  // namespace intq::test

#endif  // INTQ_TESTS_RUNTIME_PROGRAM_IMAGE_HPP
