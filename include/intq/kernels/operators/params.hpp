// SPDX-License-Identifier: MIT
//
// The description of an operator's parameters: every field with its name and type, and the memory that it points to.
// Layer: kernels.
//
// What writes parameters to a file, reads them back, generates their source or compares them goes by this description
// alone; a field that it leaves out is lost in all of them, so a test paints every byte of each struct through it.
#ifndef INTQ_KERNELS_OPERATORS_PARAMS_HPP
#define INTQ_KERNELS_OPERATORS_PARAMS_HPP

#include <array>
#include <cstddef>
#include <type_traits>

#include "intq/arith/requantize.hpp"
#include "intq/arith/target.hpp"
#include "intq/core/dtype.hpp"
#include "intq/core/op_params.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// Type of the elements of a field. Enumerations have the type of their numbers, bool is uint8.
enum class ParamType : std::uint8_t { int8, uint8, int16, uint16, int32, uint32, int64, float32 };

/// Bytes of an element.
INTQ_ALWAYS_INLINE constexpr index_t size_of(ParamType type) noexcept {
    constexpr index_t sizes[] = {1, 1, 2, 2, 4, 4, 8, 4};
    return sizes[static_cast<std::size_t>(type)];
}

/// One field of the parameters of an operator.
struct ParamField {
    const char* name = "";
    ParamType type = ParamType::int8;
    index_t count = 1;              // elements; 0 only of memory that there is none of
    void* data = nullptr;           // the elements; null of memory
    const void** memory = nullptr;  // of elements outside of the struct: the pointer to them, which a reader sets
};

/// What takes the fields, in an order in which each count follows from fields that came before.
struct ParamVisitor {
    void* context = nullptr;
    void (*field)(void* context, const ParamField&) = nullptr;
    /// A struct in the struct opens, and closes; null for who needs no names.
    void (*group)(void* context, const char* name, bool opens) = nullptr;
};

/// What the counts depend on beside the fields.
struct ParamContext {
    const arith::PolicyRecord* policy = nullptr;  // of the table that the program was made for
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
///     void describe_params(Params&, const ParamFields&)
///
/// beside it or, for those of core and arith, below; it names every field once.
class ParamFields {
public:
    ParamFields(const ParamVisitor& visitor, const ParamContext& context) noexcept
        : visitor_(&visitor), context_(&context) {}

    const ParamContext& context() const noexcept { return *context_; }

    /// A number, an array of numbers, or a struct.
    template <class T> void operator()(const char* name, T& field) const {
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

    /// `count` elements outside of the struct; none where count is 0.
    template <class T> void memory(const char* name, const T*& pointer, ParamType type, index_t count) const {
        const void* data = pointer;
        visitor_->field(visitor_->context, {name, type, count, nullptr, &data});
        pointer = static_cast<const T*>(data);
    }
    template <class T> void memory(const char* name, const T*& pointer, index_t count) const {
        memory(name, pointer, param_type_of<T>(), count);
    }

private:
    /// `count` numbers, or arrays of them, that follow each other.
    template <class T> void elements(const char* name, T& first, index_t count) const {
        if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>)
            visitor_->field(visitor_->context, {name, param_type_of<T>(), count, &first, nullptr});
        else
            elements(name, first[0], count * static_cast<index_t>(first.size()));
    }

    const ParamVisitor* visitor_;
    const ParamContext* context_;
};

// --- structs of core and arith ---------------------------------------------------------------------------------------

inline void describe_params(Size2d& size, const ParamFields& fields) {
    fields("height", size.height);
    fields("width", size.width);
}
inline void describe_params(Padding2d& padding, const ParamFields& fields) {
    fields("top", padding.top);
    fields("left", padding.left);
    fields("bottom", padding.bottom);
    fields("right", padding.right);
}
inline void describe_params(Window2d& window, const ParamFields& fields) {
    fields("kernel", window.kernel);
    fields("stride", window.stride);
    fields("padding", window.padding);
    fields("dilation", window.dilation);
}
inline void describe_params(arith::OutputCodes& codes, const ParamFields& fields) {
    fields("zero_point", codes.zero_point);
    fields("lowest", codes.lowest);
    fields("highest", codes.highest);
    fields("sumin_zero_point", codes.sumin_zero_point);
    fields("lowest_real", codes.lowest_real);
    fields("highest_real", codes.highest_real);
}

// --- what a row holds ------------------------------------------------------------------------------------------------

/// Visits one struct of parameters: a copy of `from`, or of the defaults where that is null. What the visitor makes of
/// the copy goes to `to`, if that is not null.
template <class Params>
void visit_params_as(const void* from, void* to, const ParamContext& context, const ParamVisitor& visitor) {
    static_assert(std::is_trivially_copyable_v<Params>);
    Params params{};
    if (from != nullptr) params = *static_cast<const Params*>(from);
    describe_params(params, ParamFields(visitor, context));
    if (to != nullptr) *static_cast<Params*>(to) = params;
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_OPERATORS_PARAMS_HPP
