// SPDX-License-Identifier: MIT
//
// Constants and structs of parameters as C++ source, for generate_cpp. Layer: deploy.
#ifndef INTQ_DEPLOY_INTERNAL_CPP_SOURCE_HPP
#define INTQ_DEPLOY_INTERNAL_CPP_SOURCE_HPP

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "intq/arith/target.hpp"
#include "intq/core/dtype.hpp"
#include "intq/kernels/operators/param_sum.hpp"
#include "intq/kernels/operators/params.hpp"
#include "intq/kernels/table/rows.hpp"
#include "intq/runtime/generated.hpp"
#include "intq/runtime/program.hpp"

namespace intq::deploy {
inline namespace INTQ_HOSTED_ABI {
namespace detail {

/// The C++ type of a struct of parameters, of a tensor's elements, of a field's.
const char* type_of(kernels::ParamKind kind);
const char* type_of(DType dtype);
const char* type_of(kernels::ParamType type);
/// The C++ type of a target of the library.
std::string type_of_target(const arith::PolicyRecord& policy);
/// A number of a field as the source of a constant; a float in hexadecimal.
std::string literal(const void* data, kernels::ParamType type, index_t at);
std::string literal(float value);
/// Numbers of memory, sixteen on a line.
std::string list_of(const void* data, kernels::ParamType type, index_t count);
std::string quoted(std::string_view text);

/// Writes the data of a header: arrays of constants, each once, and structs of parameters.
class SourceWriter {
public:
    explicit SourceWriter(const kernels::KernelTable& table) : table_(table) {}

    const std::string& text() const { return text_; }
    /// The arrays, as elements of a list.
    const std::string& arrays() const { return arrays_; }
    std::uint32_t checksum() const { return checksum_; }

    /// The name of an array with these elements.
    std::string array(const void* data, kernels::ParamType type, index_t count);

    /// The structs of an instruction, as an array p<index>.
    void params(std::size_t index, const runtime::Instruction& instruction);
    /// The names of all instructions, one after the other, as an array of characters.
    void names(const std::string& text);

    /// The sum of runtime::generated::TableReader so far, and the number of an array in its list.
    kernels::NumberSum& sum() { return sum_; }
    std::int32_t place_of(const std::string& name) const { return places_.at(name); }
    /// The sum of all tables, once the rest was added.
    std::uint32_t sum_of_tables() const;
    /// The structs of the instructions as elements of a list, and their types, as words between commas.
    const std::string& structs() const { return structs_; }
    std::string types() const;

private:
    void count_in(const std::string& name, const void* data, index_t bytes);
    static void take_group(void* context, const char* name, bool opens);
    static void take_field(void* context, const kernels::ParamField& field);
    void put_field(const kernels::ParamField& field);
    /// Values of one type, whatever their number's.
    static std::string list_of_values(const void* data, kernels::ParamType type, index_t count);
    /// The taps of a resized axis, which are structs of three numbers.
    std::string taps(const void* data, index_t count);

    const kernels::KernelTable& table_;
    std::string text_, arrays_, fields_, path_, structs_;
    std::set<std::string> types_;
    kernels::NumberSum sum_{};
    std::map<std::string, std::int32_t> places_;
    std::vector<index_t> sizes_;
    std::vector<std::int32_t> places_of_fields_;  // of one struct
    kernels::ParamKind kind_ = kernels::ParamKind::none;
    std::map<std::string, std::string> names_;
    std::uint32_t checksum_ = 0;
    int tap_arrays_ = 0;
};

/// The dropped channels of a program as an array, `dropped`; empty where it has none.
std::string dropped_source(const runtime::Program& program);

}  // namespace detail
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::deploy

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(deploy)

#    include <bit>
#    include <charconv>
#    include <cmath>
#    include <cstdio>

#    include "intq/deploy/program_writer.hpp"

namespace intq::deploy {
inline namespace INTQ_HOSTED_ABI {
namespace detail {

/// The C++ type of a struct of parameters.
INTQ_INLINE const char* type_of(kernels::ParamKind kind) {
    using enum kernels::ParamKind;
    switch (kind) {
        case conv:
            return "intq::kernels::ConvParams";
        case add:
            return "intq::arith::AddParams";
        case mul:
            return "intq::arith::MulParams";
        case clamp:
            return "intq::arith::OutputCodes";
        case requantize:
            return "intq::kernels::RequantizeParams";
        case pool:
            return "intq::kernels::PoolParams";
        case look_up:
            return "intq::kernels::LookUpParams";
        case resize:
            return "intq::kernels::ResizeTable";
        case move:
            return "intq::kernels::MoveParams";
        case pad:
            return "intq::kernels::PadParams";
        case softmax:
            return "intq::kernels::SoftmaxParams";
        case constant:
            return "intq::kernels::ConstantParams";
        case quantize_image:
            return "intq::kernels::QuantizeImageParams";
        case layer_norm:
            return "intq::kernels::LayerNormStepParams";
        case matmul:
            return "intq::kernels::MatmulStepParams";
        case log_softmax:
            return "intq::kernels::LogSoftmaxParams";
        case embedding:
            return "intq::kernels::EmbeddingParams";
        case index_copy:
            return "intq::kernels::IndexCopyParams";
        case argmax:
            return "intq::kernels::ArgMaxParams";
        case none:
            break;
    }
    return "";
}

/// The C++ type of a target of the library.
INTQ_INLINE std::string type_of_target(const arith::PolicyRecord& policy) {
    const std::string name = policy.name;
    if (name == "fp32" || name == "litert") return "intq::target::" + name;
    if (name == "tflite") return "intq::target::tflite<>";
    if (name == "tflite_single_rounding") return "intq::target::tflite<intq::arith::single_rounding>";
    for (const char* const march : {"bernoulli2", "bayes", "meta"})
        if (name == march) return "intq::target::bpu<intq::march::" + name + ">";
    throw Error("the library has no target '" + name + "'; name its C++ type in GenerateOptions::target");
}

INTQ_INLINE const char* type_of(DType dtype) {
    return dtype == DType::float32 ? "float"
           : dtype == DType::int8  ? "std::int8_t"
           : dtype == DType::int16 ? "std::int16_t"
           : dtype == DType::uint8 ? "std::uint8_t"
                                   : "std::int32_t";
}

INTQ_INLINE const char* type_of(kernels::ParamType type) {
    constexpr const char* names[] = {"std::int8_t",  "std::uint8_t",  "std::int16_t", "std::uint16_t",
                                     "std::int32_t", "std::uint32_t", "std::int64_t", "float"};
    return names[static_cast<std::size_t>(type)];
}

/// A number of a field as the source of a constant; a float in hexadecimal.
INTQ_INLINE std::string literal(const void* data, kernels::ParamType type, index_t at) {
    const std::int64_t bits = element_of(data, type, at);
    if (type != kernels::ParamType::float32) {
        if (bits == INT64_MIN) return "INT64_MIN";
        return std::to_string(bits) + (type == kernels::ParamType::int64 ? "ll" : "");
    }
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (!std::isfinite(value)) throw Error("a parameter is no number");
    // Of the absolute value: no locale is used, and the sign precedes 0x.
    char text[40];
    const auto end = std::to_chars(text, text + sizeof text, std::fabs(value), std::chars_format::hex).ptr;
    return (std::signbit(value) ? "-0x" : "0x") + std::string(text, end) + "f";
}
INTQ_INLINE std::string literal(float value) { return literal(&value, kernels::ParamType::float32, 0); }

/// Numbers of memory, sixteen on a line.
INTQ_INLINE std::string list_of(const void* data, kernels::ParamType type, index_t count) {
    std::string text = "{";
    for (index_t i = 0; i < count; ++i)
        text += (i % 16 == 0 ? "\n    " : " ") + literal(data, type, i) + (i + 1 < count ? "," : "");
    return text + "}";
}

INTQ_INLINE std::string quoted(std::string_view text) {
    std::string result = "\"";
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= ' ' && byte < 127 && c != '"' && c != '\\' && c != '?') {
            result += c;
            continue;
        }
        char octal[8];
        std::snprintf(octal, sizeof octal, "\\%03o", byte);
        result += octal;
    }
    return result + "\"";
}

INTQ_INLINE std::string SourceWriter::array(const void* data, kernels::ParamType type, index_t count) {
    const std::string bytes = file_bytes(data, count, size_of(type));
    std::string key = type_of(type) + bytes;
    const auto [place, is_new] = names_.try_emplace(std::move(key), "c" + std::to_string(names_.size()));
    if (is_new) {
        text_ += "alignas(8) inline constexpr " + std::string(type_of(type)) + " " + place->second +
                 "[] = " + list_of(data, type, count) + ";\n";
        count_in(place->second, bytes.data(), static_cast<index_t>(bytes.size()));
    }
    return place->second;
}

INTQ_INLINE void SourceWriter::params(std::size_t index, const runtime::Instruction& instruction) {
    const kernels::ProgramOperator& row = *kernels::find_operator(instruction.op);
    const index_t structs = runtime::param_structs(row, instruction.operand_count);
    if (structs == 0) {
        structs_ += "    {},\n";
        return;
    }
    const std::string type = type_of(row.params.kind);
    kind_ = row.params.kind;
    types_.insert(type);
    std::string list;
    for (index_t i = 0; i < structs; ++i) {
        fields_.clear();
        const kernels::ParamContext context{&table_.packing};
        throw_if_failed(
            row.params.visit(static_cast<const std::byte*>(instruction.params.data) + i * row.params.size, nullptr,
                             context, {this, &SourceWriter::take_field, &SourceWriter::take_group}),
            instruction.name);
        // As runtime::generated::TableReader: the pointers behind all numbers.
        for (const std::int32_t place : places_of_fields_) sum_.add(place);
        places_of_fields_.clear();
        list += (i > 0 ? ",\n" : "\n") + std::string("    [] {\n        ") + type + " p{};\n" + fields_ +
                "        return p;\n    }()";
    }
    const std::string name = "p" + std::to_string(index);
    text_ += "inline constexpr " + type + " " + name + "[] = {" + list + "};\n";
    structs_ += "    {" + name + ", sizeof " + name + "},\n";
}

INTQ_INLINE void SourceWriter::count_in(const std::string& name, const void* data, index_t bytes) {
    arrays_ += "    {" + name + ", sizeof " + name + "},\n";
    places_[name] = static_cast<std::int32_t>(sizes_.size() + 1);
    sizes_.push_back(bytes);
    checksum_ = crc32({static_cast<const std::byte*>(data), static_cast<std::size_t>(bytes)}, checksum_);
}

INTQ_INLINE void SourceWriter::names(const std::string& text) {
    text_ += "inline constexpr char names[] = " + detail::quoted(text) + ";\n";
    count_in("names", text.c_str(), static_cast<index_t>(text.size() + 1));
}

INTQ_INLINE std::string SourceWriter::types() const {
    std::string text;
    for (const std::string& type : types_) text += (text.empty() ? "" : ", ") + type;
    return text;
}

INTQ_INLINE std::uint32_t SourceWriter::sum_of_tables() const {
    kernels::NumberSum sum = sum_;
    for (const index_t bytes : sizes_) sum.add(bytes);
    sum.add(place_of("names"));
    return sum.value();
}

INTQ_INLINE void SourceWriter::take_group(void* context, const char* name, bool opens) {
    std::string& path = static_cast<SourceWriter*>(context)->path_;
    const std::string word = std::string(name) + ".";
    if (opens)
        path += word;
    else
        path.resize(path.size() - word.size());
}

INTQ_INLINE void SourceWriter::take_field(void* context, const kernels::ParamField& field) {
    static_cast<SourceWriter*>(context)->put_field(field);
}

INTQ_INLINE void SourceWriter::put_field(const kernels::ParamField& field) {
    const std::string path = "p." + path_ + field.name;
    if (field.memory == nullptr)
        for (index_t i = 0; i < field.count; ++i) {
            const std::int64_t number = element_of(field.data, field.type, i);
            if (field.type == kernels::ParamType::int64)
                sum_.add(number);
            else
                sum_.add(static_cast<std::int32_t>(number));  // also the bits of a float
        }
    if (kind_ == kernels::ParamKind::resize && field.type == kernels::ParamType::int64 && path_.empty()) return;
    if (field.memory == nullptr) {
        fields_ += "        intq::runtime::generated::set(" + path + ", " +
                   list_of_values(field.data, field.type, field.count) + ");\n";
    } else if (field.count > 0) {
        const std::string name = kind_ == kernels::ParamKind::resize ? taps(*field.memory, field.count / 3)
                                                                     : array(*field.memory, field.type, field.count);
        fields_ += "        " + path + " = " + name + ";\n";
        places_of_fields_.push_back(place_of(name));
    } else {
        places_of_fields_.push_back(0);
    }
}

INTQ_INLINE std::string SourceWriter::list_of_values(const void* data, kernels::ParamType type, index_t count) {
    const bool is_real = type == kernels::ParamType::float32;
    std::string text = "{";
    for (index_t i = 0; i < count; ++i) {
        std::string value = literal(data, type, i);
        if (!is_real && type != kernels::ParamType::int64) value += "ll";
        text += (i == 0 ? "" : i % 16 == 0 ? ",\n            " : ", ") + value;
    }
    return text + "}";
}

INTQ_INLINE std::string SourceWriter::taps(const void* data, index_t count) {
    const std::string name = "t" + std::to_string(tap_arrays_++);
    text_ += "inline constexpr intq::arith::ResizeTap " + name + "[] = {";
    for (index_t i = 0; i < count; ++i) {
        const auto number = [&](index_t k) { return literal(data, kernels::ParamType::int32, 3 * i + k); };
        text_ += (i % 4 == 0 ? "\n    {" : " {") + number(0) + ", " + number(1) + ", " + number(2) + "},";
    }
    text_ += "};\n";
    count_in(name, file_bytes(data, 3 * count, sizeof(std::int32_t)).data(), count * 12);
    return name;
}

INTQ_INLINE std::string dropped_source(const runtime::Program& program) {
    if (program.dropped.empty()) return "";
    std::string list;
    for (const runtime::DroppedChannel& dropped : program.dropped)
        list += "    {" + std::to_string(dropped.tensor) + ", " + std::to_string(dropped.channel) + ", " +
                std::to_string(dropped.code) + (dropped.is_constant ? ", true" : ", false") +
                (dropped.is_depthwise ? ", true},\n" : ", false},\n");
    return "/// Channels that the model had and no output depends on. A program that does not name them has none of "
           "it.\n"
           "inline constexpr intq::runtime::DroppedChannel dropped[] = {\n" +
           list + "};\n";
}

}  // namespace detail
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::deploy

#endif  // INTQ_DEFINES(deploy)
#endif  // INTQ_DEPLOY_INTERNAL_CPP_SOURCE_HPP
