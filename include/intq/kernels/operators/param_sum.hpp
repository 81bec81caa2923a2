// SPDX-License-Identifier: MIT
//
// ParamSum: one number for all numbers of structs of parameters, so that a fault in one of them shows. Layer: kernels.
#ifndef INTQ_KERNELS_OPERATORS_PARAM_SUM_HPP
#define INTQ_KERNELS_OPERATORS_PARAM_SUM_HPP

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "intq/arith/target.hpp"
#include "intq/kernels/operators/params.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// A sum of numbers in their order, the same on every machine:
///
///     sum = (sum rotated to the left by 5) + bits
///     bits: the number's as int32; of 64 bits, lower half ^ upper half ^ the lower half's sign in all bits,
///     which is the same where int32 holds the number
///
/// Each step is one to one in the sum, so changing a bit of one number always changes the sum.
class NumberSum {
public:
    /// Numbers, one after the other. A number that int32 holds counts the same in every type.
    template <class... Number> INTQ_ALWAYS_INLINE constexpr void add(Number... numbers) noexcept {
        (add_bits(folded(numbers)), ...);
    }
    INTQ_ALWAYS_INLINE constexpr std::uint32_t value() const noexcept { return sum_; }

private:
    template <class Number> static INTQ_ALWAYS_INLINE constexpr std::uint32_t folded(Number number) noexcept {
        static_assert(std::is_integral_v<Number> || std::is_enum_v<Number>);
        if constexpr (sizeof(Number) > 4) {
            const auto bits = static_cast<std::uint64_t>(number);
            const auto lower = static_cast<std::uint32_t>(bits), sign = (lower >> 31) * UINT32_MAX;
            return lower ^ static_cast<std::uint32_t>(bits >> 32) ^ sign;
        } else {
            return static_cast<std::uint32_t>(number);
        }
    }
    INTQ_ALWAYS_INLINE constexpr void add_bits(std::uint32_t bits) noexcept { sum_ = std::rotl(sum_, 5) + bits; }
    std::uint32_t sum_ = 0;
};

/// An array of constants that parameters point to.
struct ConstantArray {
    const void* data = nullptr;
    index_t bytes = 0;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

/// Adds to a sum the numbers that a description names, describe_params(), and the places of the memory that
/// describe_memory() names.
///
/// It checks no condition among the fields, since the sum says whether they are as written: it answers every
/// expectation of a description as refused. So a program that sums up its tables does not link their checks. Memory is
/// not read.
class ParamSum {
public:
    /// @param arrays  all the arrays that pointers may point to
    explicit ParamSum(std::span<const ConstantArray> arrays) noexcept : arrays_(arrays) {}

    NumberSum& numbers() noexcept { return numbers_; }
    std::uint32_t value() const noexcept { return numbers_.value(); }
    /// The number of an array in the list, from 1; 0 for null, and INT32_MAX for a pointer to none of the arrays.
    std::int32_t place_of(const void* pointer) const noexcept {
        std::int32_t place = 0;
        if (pointer == nullptr) return place;
        for (const ConstantArray& array : arrays_) {
            ++place;
            if (array.data == pointer) return place;
        }
        return INT32_MAX;
    }

    static const ParamContext& context() noexcept { return no_context; }
    static const Status& status() noexcept { return not_asked; }
    static bool expect(const Status&) noexcept { return false; }
    static bool expect(bool, Field) noexcept { return false; }
    template <class Holds> static bool expect_memory(const Holds&, Field) noexcept { return false; }

    template <class T> void operator()(const char*, T& field) noexcept { add(field); }
    template <class T, class... Rest>
    INTQ_ALWAYS_INLINE void memory(const char*, const T*& pointer, const Rest&...) noexcept {
        put_place(pointer);
    }

private:
    void put(std::uint32_t number) noexcept { numbers_.add(number); }
    void put_place(const void* pointer) noexcept { put(static_cast<std::uint32_t>(place_of(pointer))); }
    template <class T> INTQ_ALWAYS_INLINE void add(T& field) noexcept {
        if constexpr (std::is_same_v<T, bool>) {
            std::uint8_t byte = 0;  // of a byte that may not be read as a bool
            std::memcpy(&byte, &field, 1);
            put(byte);
        } else if constexpr (std::is_same_v<T, float>) {
            put(std::bit_cast<std::uint32_t>(field));
        } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
            if constexpr (sizeof(T) <= 4)
                put(static_cast<std::uint32_t>(field));
            else
                numbers_.add(field);
        } else if constexpr (std::is_array_v<T> || requires { std::tuple_size<T>::value; }) {
            for (auto& element : field) add(element);
        } else {
            describe_params(field, *this);
        }
    }

    static constexpr Status not_asked{StatusCode::corrupt, OpKind::none, Field::none, 0, 0};
    static constexpr arith::PolicyRecord no_policy{};
    static constexpr PackingRules no_packing{&no_policy};
    static constexpr ParamContext no_context{&no_packing};

    NumberSum numbers_{};
    std::span<const ConstantArray> arrays_;
};

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_OPERATORS_PARAM_SUM_HPP
