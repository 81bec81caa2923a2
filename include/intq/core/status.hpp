// SPDX-License-Identifier: MIT
//
// Status and Result: how a setup function of the embeddable half says what was wrong (docs/design.md section 7).
// Layer: core. io/describe.hpp, below the line, makes the sentence.
#ifndef INTQ_CORE_STATUS_HPP
#define INTQ_CORE_STATUS_HPP

#include <cstdint>
#include <type_traits>

#include "intq/core/assert.hpp"
#include "intq/core/op_kind.hpp"

namespace intq {
inline namespace INTQ_CORE_ABI {

enum class StatusCode : std::uint8_t {
    ok,
    shape_mismatch,        // given, expected: extents, or how many scales, zero points or channels
    dtype_mismatch,        // given, expected: DType
    value_out_of_range,    // given: the value; expected: the nearest legal one
    scale_out_of_range,    // given: channel, -1 for the whole tensor; of a ratio with expected: its shift and the most
    bias_out_of_range,     // given: channel; expected: bits of the bias type
    accumulator_overflow,  // given: proven worst case; expected: the largest that fits
    unsupported,           // the target's constraint table has no such row; given of a tensor: its DType
    buffer_too_small,      // given, expected: bytes
    misaligned,            // given: address modulo; expected: alignment
    missing,               // something required was not given
    not_finite,            // given: index of the NaN or infinity; of a scale: its channel or -1
    overlapping,           // the field shares memory with its owner
    unexpected,            // something was given that the operator was made without
    corrupt                // a program or file contradicts itself
};

/// The subject of a Status.
enum class Field : std::uint8_t {
    none,
    input,
    second_input,
    sumin,
    weight,
    bias,
    output,
    scale,
    zero_point,
    quant_range,
    stride,
    padding,
    dilation,
    groups,
    kernel,
    axis,
    channels,
    workspace,
    arena,
    storage,
    geometry,
    tensor,
    instruction,
    activation,
    multiplier,
    shift,
    layout,
    scale_ratio,  // of the inputs to the output: the target requantizes by it
    divisor,      // of an average; given: PoolDivisor
    magic,        // the first bytes of a file, which say what it is
    version,      // of a file's format
    file,         // given: its bytes; expected: as its header says
    checksum
};

/// Outcome of a setup call: a code, the operator, the field at fault and its owner, and two integers.
///
/// Result   ok, or what was given and what was expected; the same on every backend
/// Memory   24 bytes, no text, no allocation
struct [[nodiscard]] Status {
    StatusCode code = StatusCode::ok;
    OpKind op = OpKind::none;
    Field field = Field::none;
    Field owner = Field::none;  // of a scale, zero point, range or axis: the tensor
    std::int64_t given = 0;
    std::int64_t expected = 0;

    INTQ_ALWAYS_INLINE constexpr Status() noexcept = default;
    INTQ_ALWAYS_INLINE constexpr Status(StatusCode code_, OpKind op_, Field field_ = Field::none,
                                        std::int64_t given_ = 0, std::int64_t expected_ = 0,
                                        Field owner_ = Field::none) noexcept
        : code(code_), op(op_), field(field_), owner(owner_), given(given_), expected(expected_) {}

    INTQ_ALWAYS_INLINE constexpr bool ok() const noexcept { return code == StatusCode::ok; }
    INTQ_ALWAYS_INLINE constexpr explicit operator bool() const noexcept { return ok(); }
    /// The same with the owner of the field; ok stays ok.
    INTQ_ALWAYS_INLINE constexpr Status of(Field tensor) const noexcept {
        Status result = *this;
        if (!ok()) result.owner = tensor;
        return result;
    }
    /// The same, of another operator: a part of it was refused, and the whole is named.
    INTQ_ALWAYS_INLINE constexpr Status in(OpKind whole) const noexcept {
        Status result = *this;
        if (!ok()) result.op = whole;
        return result;
    }
    friend INTQ_ALWAYS_INLINE constexpr bool operator==(const Status&, const Status&) = default;
};

/// A value or the Status that says why there is none.
///
/// @tparam T  default-constructible and trivially destructible, so that no destructor runs on a board
template <class T> class [[nodiscard]] Result {
    static_assert(std::is_trivially_destructible_v<T>,
                  "Result<T> is for trivially destructible T: above the line nothing owns memory. "
                  "Return a view or a parameter struct, or use an owning type of the hosted half");

public:
    INTQ_ALWAYS_INLINE constexpr Result(const T& value) noexcept : value_(value) {}
    INTQ_ALWAYS_INLINE constexpr Result(const Status& status) INTQ_NOEXCEPT : status_(status) {
        INTQ_ASSERT(!status.ok());
    }

    INTQ_ALWAYS_INLINE constexpr bool ok() const noexcept { return status_.ok(); }
    INTQ_ALWAYS_INLINE constexpr explicit operator bool() const noexcept { return ok(); }
    INTQ_ALWAYS_INLINE constexpr const Status& status() const noexcept { return status_; }

    /// @pre ok()
    INTQ_ALWAYS_INLINE constexpr const T& value() const INTQ_NOEXCEPT {
        INTQ_ASSERT(ok());
        return value_;
    }
    INTQ_ALWAYS_INLINE constexpr const T& operator*() const INTQ_NOEXCEPT { return value(); }
    INTQ_ALWAYS_INLINE constexpr const T* operator->() const INTQ_NOEXCEPT { return &value(); }

private:
    T value_{};
    Status status_{};
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq

namespace intq {
inline namespace INTQ_ABI {

constexpr const char* name_of(StatusCode code) noexcept {
    switch (code) {
        case StatusCode::ok:
            return "ok";
        case StatusCode::shape_mismatch:
            return "shape mismatch";
        case StatusCode::dtype_mismatch:
            return "dtype mismatch";
        case StatusCode::value_out_of_range:
            return "value out of range";
        case StatusCode::scale_out_of_range:
            return "scale out of range";
        case StatusCode::bias_out_of_range:
            return "bias out of range";
        case StatusCode::accumulator_overflow:
            return "accumulator overflow";
        case StatusCode::unsupported:
            return "unsupported";
        case StatusCode::buffer_too_small:
            return "buffer too small";
        case StatusCode::misaligned:
            return "misaligned";
        case StatusCode::missing:
            return "missing";
        case StatusCode::not_finite:
            return "not finite";
        case StatusCode::overlapping:
            return "overlapping";
        case StatusCode::unexpected:
            return "unexpected";
        case StatusCode::corrupt:
            return "corrupt";
    }
    return "unknown";
}

constexpr const char* name_of(Field field) noexcept {
    switch (field) {
        case Field::none:
            return "";
        case Field::input:
            return "input";
        case Field::second_input:
            return "second input";
        case Field::sumin:
            return "sumin";
        case Field::weight:
            return "weight";
        case Field::bias:
            return "bias";
        case Field::output:
            return "output";
        case Field::scale:
            return "scale";
        case Field::zero_point:
            return "zero_point";
        case Field::quant_range:
            return "quant_min and quant_max";
        case Field::stride:
            return "stride";
        case Field::padding:
            return "padding";
        case Field::dilation:
            return "dilation";
        case Field::groups:
            return "groups";
        case Field::kernel:
            return "kernel";
        case Field::axis:
            return "axis";
        case Field::channels:
            return "channels";
        case Field::workspace:
            return "workspace";
        case Field::arena:
            return "arena";
        case Field::storage:
            return "storage";
        case Field::geometry:
            return "geometry";
        case Field::tensor:
            return "tensor";
        case Field::instruction:
            return "instruction";
        case Field::activation:
            return "activation";
        case Field::multiplier:
            return "multiplier";
        case Field::shift:
            return "shift";
        case Field::layout:
            return "layout";
        case Field::scale_ratio:
            return "ratio of the scales";
        case Field::divisor:
            return "divisor";
        case Field::magic:
            return "magic";
        case Field::version:
            return "version";
        case Field::file:
            return "file";
        case Field::checksum:
            return "checksum";
    }
    return "";
}

}  // namespace INTQ_ABI
}  // namespace intq

#endif  // INTQ_CORE_STATUS_HPP
