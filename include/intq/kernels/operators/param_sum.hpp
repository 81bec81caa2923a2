// SPDX-License-Identifier: MIT
//
// ParamSum: one number for all numbers of structs of parameters, so that a fault in one of them shows. Layer: kernels.
#ifndef INTQ_KERNELS_OPERATORS_PARAM_SUM_HPP
#define INTQ_KERNELS_OPERATORS_PARAM_SUM_HPP

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "intq/arith/target.hpp"
#include "intq/kernels/operators/params.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// A sum of numbers in their order, the same on every machine:
///
///     sum = (sum ^ low half ^ high half) · 0x01000193
///
/// Each step is one to one in the sum, so a bit of one number that is another always changes the sum.
class NumberSum {
public:
    /// Numbers, one after the other; of which type they are does not matter.
    template <class... Number> INTQ_ALWAYS_INLINE constexpr void add(Number... numbers) noexcept {
        (add_bits(folded(numbers)), ...);
    }
    INTQ_ALWAYS_INLINE constexpr std::uint32_t value() const noexcept { return sum_; }

private:
    template <class Number> static INTQ_ALWAYS_INLINE constexpr std::uint32_t folded(Number number) noexcept {
        static_assert(std::is_integral_v<Number> || std::is_enum_v<Number>);
        if constexpr (sizeof(Number) > 4) {
            const auto bits = static_cast<std::uint64_t>(number);
            return static_cast<std::uint32_t>(bits) ^ static_cast<std::uint32_t>(bits >> 32);
        } else {
            // As of 64 bits, whose upper half repeats the sign.
            const auto bits = static_cast<std::uint32_t>(number);
            return std::is_signed_v<Number> && (bits >> 31) != 0 ? ~bits : bits;
        }
    }
    INTQ_ALWAYS_INLINE constexpr void add_bits(std::uint32_t bits) noexcept { sum_ = (sum_ ^ bits) * 0x01000193u; }
    std::uint32_t sum_ = 0;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

/// Adds to a sum the numbers that a description names, describe_params(), and the place(pointer) of the memory that
/// describe_memory() names.
///
/// It asks for no condition among the fields, since the sum says whether they are those that were written: to a
/// description it looks as if all that it expects were refused. So a program that sums up its tables does not link
/// what checks them. Memory is not read.
template <class Place> class ParamSum {
public:
    ParamSum(NumberSum& sum, const Place& place) noexcept : sum_(sum), place_(place) {}

    static const ParamContext& context() noexcept { return no_context; }
    static const Status& status() noexcept { return not_asked; }
    static bool expect(const Status&) noexcept { return false; }
    static bool expect(bool, Field) noexcept { return false; }
    template <class Holds> static bool expect_memory(const Holds&, Field) noexcept { return false; }

    template <class T> void operator()(const char*, T& field) noexcept { add(field); }
    template <class T, class... Rest> void memory(const char*, const T*& pointer, const Rest&...) noexcept {
        put(place_(pointer));
    }

private:
    void put(std::int32_t number) noexcept { sum_.add(number); }
    template <class T> void add(T& field) noexcept {
        if constexpr (std::is_same_v<T, bool>) {
            std::uint8_t byte = 0;  // of a byte that may not be read as a bool
            std::memcpy(&byte, &field, 1);
            put(byte);
        } else if constexpr (std::is_same_v<T, float>) {
            sum_.add(std::bit_cast<std::uint32_t>(field));
        } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
            if constexpr (sizeof(T) < 4)
                put(static_cast<std::int32_t>(field));
            else
                sum_.add(field);
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

    NumberSum& sum_;
    const Place& place_;
};

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_OPERATORS_PARAM_SUM_HPP
