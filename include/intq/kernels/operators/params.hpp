// SPDX-License-Identifier: MIT
//
// The description of an operator's parameters: every field with its name and type, the memory that it points to, and
// the conditions among them. Layer: kernels.
//
// Code that writes parameters to a file, reads them back, generates their source, compares or checks them relies only
// on this description. A field that it leaves out is lost in all of them, so a test paints every byte of each struct
// through it.
#ifndef INTQ_KERNELS_OPERATORS_PARAMS_HPP
#define INTQ_KERNELS_OPERATORS_PARAMS_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "intq/arith/requantize.hpp"
#include "intq/arith/target.hpp"
#include "intq/core/dtype.hpp"
#include "intq/core/op_params.hpp"
#include "intq/kernels/packing/packing_rules.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// Which struct the parameters of an instruction are. The numbers are part of a program's format.
enum class ParamKind : std::uint8_t {
    none,
    conv,
    add,
    mul,
    clamp,
    requantize,
    pool,
    look_up,
    resize,
    move,
    pad,
    softmax,
    constant,
    quantize_image,
    layer_norm,
    matmul,
    embedding,
    log_softmax,
    index_copy,
    argmax
};

/// The kind of a struct of parameters; each specialises it beside itself.
template <class Params> inline constexpr ParamKind param_kind = ParamKind::none;

/// Parameters of an instruction: their kind, size and place. Their maker vouches for the memory that their
/// fields point to: as many elements as the description counts.
struct InstructionParams {
    ParamKind kind = ParamKind::none;
    index_t size = 0;  // bytes of the structs at data
    const void* data = nullptr;

    constexpr InstructionParams() = default;
    /// @param count  structs, one for each operand where the operator has them so
    template <class Params>
    constexpr InstructionParams(const Params* params, index_t count = 1) noexcept
        : kind(param_kind<Params>), size(count * static_cast<index_t>(sizeof(Params))), data(params) {
        static_assert(param_kind<Params> != ParamKind::none, "a struct of parameters has a ParamKind");
    }
    constexpr InstructionParams(std::nullptr_t) noexcept {}
};

/// Type of the elements of a field. Enumerations have the type of their numbers, bool is uint8.
enum class ParamType : std::uint8_t { int8, uint8, int16, uint16, int32, uint32, int64, float32 };

/// Bytes of an element.
INTQ_ALWAYS_INLINE constexpr index_t size_of(ParamType type) noexcept {
    constexpr index_t sizes[] = {1, 1, 2, 2, 4, 4, 8, 4};
    return sizes[static_cast<std::size_t>(type)];
}

/// One field of the parameters of an operator.
struct ParamField {
    const char* name = "";  // in its struct, or the path from there, as C++ spells it
    ParamType type = ParamType::int8;
    index_t count = 1;              // elements; 0 only for absent memory
    void* data = nullptr;           // the elements; null of memory
    const void** memory = nullptr;  // of elements outside the struct: the pointer to them, which a reader sets
};

/// Receives the fields, in an order in which each count follows from earlier fields.
struct ParamVisitor {
    void* context = nullptr;
    void (*field)(void* context, const ParamField&) = nullptr;
    /// A struct in the struct opens, and closes; null if no names are needed.
    void (*group)(void* context, const char* name, bool opens) = nullptr;
    /// The values to check. A visit ends at the first refused one, before it is used as a count.
    enum class Demands : std::uint8_t {
        nothing,
        numbers,  // of the fields in the structs
        memory    // also of the memory that they point to
    };
    Demands demands = Demands::memory;
};

/// Data that counts depend on beside the fields.
struct ParamContext {
    const PackingRules* packing = nullptr;  // of the table that the program was made for
    INTQ_ALWAYS_INLINE constexpr const arith::PolicyRecord& policy() const noexcept { return *packing->policy; }
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

template <class T> constexpr ParamType param_type_of() noexcept {
    if constexpr (std::is_enum_v<T>) {
        return param_type_of<std::underlying_type_t<T>>();
    } else if constexpr (std::is_same_v<T, float>) {
        return ParamType::float32;
    } else {
        static_assert(std::is_integral_v<T>, "a field of parameters is a number, an array of numbers or a struct");
        if constexpr (sizeof(T) == 1) return std::is_signed_v<T> ? ParamType::int8 : ParamType::uint8;
        if constexpr (sizeof(T) == 2) return std::is_signed_v<T> ? ParamType::int16 : ParamType::uint16;
        if constexpr (sizeof(T) == 4) return std::is_signed_v<T> ? ParamType::int32 : ParamType::uint32;
        return ParamType::int64;
    }
}

/// Hands fields to a visitor. A struct is described by a function
///
///     void describe_params(Params&, auto& fields)
///
/// beside it or, for those of core and arith, below; it names every number once, and then states the conditions. The
/// pointers of a struct are named by a function describe_memory() of the same form, which describe_params() calls when
/// no condition was refused. Fields are a ParamFields, or a ParamSum (param_sum.hpp).
class ParamFields {
public:
    ParamFields(const ParamVisitor& visitor, const ParamContext& context) noexcept
        : visitor_(&visitor), context_(&context) {}

    const ParamContext& context() const noexcept { return *context_; }
    /// ok, or the first refusal.
    const Status& status() const noexcept { return status_; }

    /// A condition among the fields so far. Code that counts or divides by them returns where this is false.
    bool expect(const Status& status) noexcept {
        if (visitor_->demands != ParamVisitor::Demands::nothing && status_.ok()) status_ = status;
        return status_.ok();
    }
    bool expect(bool holds, Field field) noexcept {
        return expect(holds ? Status{} : Status{StatusCode::corrupt, OpKind::none, field, 0, 0});
    }
    /// The same for memory; holds() is called only where a visitor demands it.
    template <class Holds> bool expect_memory(Holds&& holds, Field field) noexcept {
        return visitor_->demands != ParamVisitor::Demands::memory || !status_.ok() || expect(holds(), field);
    }

    /// A number, an array of numbers, or a struct.
    template <class T> void operator()(const char* name, T& field) {
        if (!status_.ok()) return;
        if constexpr (std::is_array_v<T>) {
            elements(name, field[0], static_cast<index_t>(std::extent_v<T>));
        } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
            elements(name, field, 1);
        } else if constexpr (requires { std::tuple_size<T>::value; }) {
            elements(name, field[0], static_cast<index_t>(field.size()));
        } else {
            if (visitor_->group != nullptr) visitor_->group(visitor_->context, name, true);
            describe_params(field, *this);
            if (visitor_->group != nullptr) visitor_->group(visitor_->context, name, false);
        }
    }

    /// `count` elements outside the struct; none where count is 0.
    ///
    /// @param count  a number, or a function that returns it
    /// @param field  named by a refusal where they are missing
    template <class T, class Count>
    requires std::is_invocable_r_v<index_t, Count>
    void memory(const char* name, const T*& pointer, ParamType type, const Count& count, Field field = Field::storage) {
        memory(name, pointer, type, count(), field);
    }
    template <class T>
    void memory(const char* name, const T*& pointer, ParamType type, index_t count, Field field = Field::storage) {
        if (!status_.ok()) return;
        const void* data = pointer;
        visitor_->field(visitor_->context, {name, type, count, nullptr, &data});
        pointer = static_cast<const T*>(data);
        if (count == 0) return;
        const auto address = reinterpret_cast<std::uintptr_t>(data);
        expect(data != nullptr && address % static_cast<std::uintptr_t>(size_of(type)) == 0, field);
    }
    template <class T> void memory(const char* name, const T*& pointer, index_t count, Field field = Field::storage) {
        memory(name, pointer, param_type_of<T>(), count, field);
    }

private:
    /// `count` numbers, or arrays of them, that follow each other.
    template <class T> void elements(const char* name, T& first, index_t count) {
        if constexpr (!std::is_arithmetic_v<T> && !std::is_enum_v<T>) {
            elements(name, first[0], count * static_cast<index_t>(first.size()));
        } else {
            visitor_->field(visitor_->context, {name, param_type_of<T>(), count, &first, nullptr});
            if constexpr (std::is_same_v<T, bool>) expect(is_bool(&first), Field::instruction);
        }
    }
    /// Of a byte from anywhere, which may not be read as a bool.
    static bool is_bool(const void* value) noexcept {
        std::uint8_t byte = 0;
        std::memcpy(&byte, value, 1);
        return byte <= 1;
    }

    const ParamVisitor* visitor_;
    const ParamContext* context_;
    Status status_{};
};

// --- structs of core and arith ---------------------------------------------------------------------------------------

inline void describe_params(Size2d& size, auto& fields) {
    fields("height", size.height);
    fields("width", size.width);
}
inline void describe_params(Padding2d& padding, auto& fields) {
    fields("top", padding.top);
    fields("left", padding.left);
    fields("bottom", padding.bottom);
    fields("right", padding.right);
}
inline void describe_params(Window2d& window, auto& fields) {
    fields("kernel", window.kernel);
    fields("stride", window.stride);
    fields("padding", window.padding);
    fields("dilation", window.dilation);
    fields.expect(check_window(window, OpKind::none));
}
inline void describe_params(arith::OutputCodes& codes, auto& fields) {
    fields("zero_point", codes.zero_point);
    fields("lowest", codes.lowest);
    fields("highest", codes.highest);
    fields("sumin_zero_point", codes.sumin_zero_point);
    fields("lowest_real", codes.lowest_real);
    fields("highest_real", codes.highest_real);
    fields.expect(codes.lowest <= codes.highest, Field::quant_range);
}

// --- what a row holds ------------------------------------------------------------------------------------------------

/// Visits one struct of parameters: a copy of `from`, or of the defaults where that is null. The copy, as the visitor
/// leaves it, goes to `to` if that is not null and nothing was refused.
///
/// @return ok, or the refusal of a value, without the operator, which the caller knows
template <class Params>
Status visit_params_as(const void* from, void* to, const ParamContext& context, const ParamVisitor& visitor) {
    static_assert(std::is_trivially_copyable_v<Params>);
    Params params{};
    // As bytes: a bool or a pointer may hold any bits.
    if (from != nullptr) std::memcpy(&params, from, sizeof params);
    ParamFields fields(visitor, context);
    describe_params(params, fields);
    if (to != nullptr && fields.status().ok()) std::memcpy(to, &params, sizeof params);
    return fields.status();
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// A struct of parameters as a row of the table of operators holds it.
struct ParamStruct {
    ParamKind kind = ParamKind::none;
    index_t size = 0;  // bytes
    index_t alignment = 1;
    Status (*visit)(const void* from, void* to, const ParamContext&, const ParamVisitor&) = nullptr;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

template <class Params>
inline constexpr ParamStruct param_struct{param_kind<Params>, sizeof(Params), alignof(Params),
                                          &visit_params_as<Params>};

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_OPERATORS_PARAMS_HPP
