// SPDX-License-Identifier: MIT
//
// An operator as a program knows it: one row with its check and its run. Layer: kernels (docs/design.md section 10).
//
// A program works with tensors in an arena, a kernel with pointers and sizes; such a row connects them. The
// rows are in kernels/operators/, one file a family, and their list is in operator_table.hpp.
#ifndef INTQ_KERNELS_OPERATORS_OPERATOR_HPP
#define INTQ_KERNELS_OPERATORS_OPERATOR_HPP

#include "intq/core/executor.hpp"
#include "intq/core/first_row.hpp"
#include "intq/core/layout.hpp"
#include "intq/core/opaque.hpp"
#include "intq/kernels/operators/params.hpp"
#include "intq/kernels/table/rows.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// An ArenaTensor::ring that is no number of rows.
inline constexpr std::int16_t sums_of_rows = -1;

/// A tensor in an arena; the batch is the run's.
struct ArenaTensor {
    DType dtype = DType::none;
    Shape shape{};      // logical (N, C, H, W) or (N, C); N is the largest batch
    QParams qparams{};  // not read for float32 and pixels; int32 accumulators have a scale per channel
    /// Bytes from the arena's start, a multiple of buffer_alignment; or offset_of_given(k): input k of the program,
    /// which a run reads where its caller has it.
    index_t offset = 0;
    const char* name = "";  // qualified name of its producer, for loggers
    /// Of rank 3 and more: row_major where a caller writes images as NCHW, which some operators read
    /// (ProgramOperator::reads_nchw), and where rows of features lie one behind the other, which some operators read
    /// and write (ProgramOperator::takes_rows); else channels_last.
    Layout layout = Layout::channels_last;
    /// Whether a run compares int8 or int16 codes, or int32 ids, with the range of qparams: bounds that a caller
    /// stated, and that the proofs of the layers behind it rely on.
    bool has_stated_bounds = false;
    /// Of a tensor of a group of instructions, which run row by row (runtime/row_schedule.hpp): the rows of one image
    /// that the arena holds at a time; or sums_of_rows, where the group adds up the image of which this is the average:
    /// until the last row is there, its place holds sums of 32 bits. 0: the arena holds all of it.
    std::int16_t ring = 0;

    /// The axis of per-channel parameters: 1; for rows the last.
    INTQ_ALWAYS_INLINE constexpr int channel_axis() const noexcept {
        return layout == Layout::row_major ? shape.rank - 1 : 1;
    }

    INTQ_ALWAYS_INLINE constexpr index_t elements_per_image() const noexcept {
        return shape.rank > 0 && shape[0] > 0 ? shape.size() / shape[0] : 0;
    }
    INTQ_ALWAYS_INLINE constexpr index_t bytes() const noexcept { return shape.size() * size_of(dtype); }
    /// Of an image (N, C, H, W).
    INTQ_ALWAYS_INLINE constexpr index_t elements_per_row() const noexcept { return shape[1] * shape[3]; }
    /// Bytes in the arena.
    INTQ_ALWAYS_INLINE constexpr index_t arena_bytes() const noexcept {
        if (holds_sums()) return shape.size() * index_t{sizeof(std::int32_t)};
        return ring > 0 ? ring * elements_per_row() * size_of(dtype) : is_given() ? 0 : bytes();
    }
    INTQ_ALWAYS_INLINE constexpr bool holds_sums() const noexcept { return ring == sums_of_rows; }
    INTQ_ALWAYS_INLINE constexpr bool is_given() const noexcept { return offset < 0; }
    /// @pre is_given()
    INTQ_ALWAYS_INLINE constexpr index_t given_input() const noexcept { return -1 - offset; }
};

INTQ_ALWAYS_INLINE constexpr index_t offset_of_given(index_t input) noexcept { return -1 - input; }

/// Rows of an image, from first up to but without last.
struct RowRange {
    index_t first = 0;
    index_t last = 0;

    INTQ_ALWAYS_INLINE constexpr index_t count() const noexcept { return last - first; }
    friend INTQ_ALWAYS_INLINE constexpr bool operator==(const RowRange&, const RowRange&) = default;
};

/// Some rows of an output, of one image, and where they and the rows lie that they are computed from.
struct RowBand {
    RowRange rows{};
    std::byte* output = nullptr;
    const RowRange* operand_rows = nullptr;      // of each operand
    const std::byte* const* operands = nullptr;  // where the first of them begins
};

/// One instruction as its operator sees it: operands -> output.
struct OperatorCall {
    const KernelTable& table;
    OpKind op;
    std::span<const ArenaTensor> tensors;
    std::span<const std::int32_t> operands;  // indices of tensors
    std::int32_t output;                     // index of a tensor
    const void* params;
    index_t batch;               // images of this run; in a check the largest
    std::byte* arena = nullptr;  // null in a check
    Workspace workspace{};
    const Executor* executor = nullptr;
    const void* const* given = nullptr;  // for each input of the program, where its caller has it
    const RowBand* band = nullptr;       // the rows that are computed; null: all

    INTQ_ALWAYS_INLINE index_t operand_count() const noexcept { return static_cast<index_t>(operands.size()); }
    INTQ_ALWAYS_INLINE const ArenaTensor& x(index_t operand = 0) const noexcept {
        return tensors[static_cast<std::size_t>(operands[static_cast<std::size_t>(operand)])];
    }
    INTQ_ALWAYS_INLINE const ArenaTensor& y() const noexcept { return tensors[static_cast<std::size_t>(output)]; }
    INTQ_ALWAYS_INLINE const void* x_data(index_t operand = 0) const noexcept {
        if (band != nullptr) return band->operands[operand];
        return arena + x(operand).offset;
    }
    /// x_data(0) of operators with reads_given. For others compilers would lose track of the call's constants behind
    /// it.
    INTQ_ALWAYS_INLINE const void* given_or_x_data() const noexcept {
        const ArenaTensor& tensor = x();
        return band == nullptr && tensor.is_given() ? given[tensor.given_input()] : x_data();
    }
    INTQ_ALWAYS_INLINE void* y_data() const noexcept {
        // g++ 12 for AArch64 addresses codes of 16 bits by twice the place of those of 8 bits that they are made of, if
        // it knows that both are in the arena. It then takes the step for one that writes nothing, and drops its call.
        return opaque(band != nullptr ? band->output : arena + y().offset);
    }
    /// Elements of this run.
    INTQ_ALWAYS_INLINE index_t x_size(index_t operand = 0) const noexcept {
        if (band != nullptr) return band->operand_rows[operand].count() * x(operand).elements_per_row();
        return x(operand).elements_per_image() * batch;
    }
    INTQ_ALWAYS_INLINE index_t y_size() const noexcept {
        return band != nullptr ? band->rows.count() * y().elements_per_row() : y().elements_per_image() * batch;
    }
    /// The height of an image (N, C, H, W), or of the rows of it that this run reads or writes.
    INTQ_ALWAYS_INLINE index_t x_height(index_t operand = 0) const noexcept {
        return band != nullptr ? band->operand_rows[operand].count() : x(operand).shape[2];
    }
    INTQ_ALWAYS_INLINE index_t y_height() const noexcept { return band != nullptr ? band->rows.count() : y().shape[2]; }
    template <class Params> INTQ_ALWAYS_INLINE const Params& params_as() const noexcept {
        return *static_cast<const Params*>(params);
    }
};

/// How the bounds of an operator's output codes follow from those of its operands, channel by channel.
enum class CodesFollow : std::uint8_t {
    range,        // they do not: any code in the range of the output
    ends,         // no output code falls while an operand's code grows
    corners,      // while one operand's code grows, an output code only grows or only falls
    each_code,    // an output code is a function of one operand's code
    weighted_sum  // of a layer, which has weights
};

/// How the channels of an operator's operands are its output's.
enum class ChannelsFollow : std::uint8_t {
    none,       // they are not: all of them are needed
    each,       // channel c of each operand is channel c of the output; of other extents none
    joined,     // as each, or the operands' channels follow each other
    flattened,  // channel c is a block of channels of the output, a vector by planes
    copied,     // the output is a copy, so that channel c is each channel of the output that is c modulo the operand's
    weighted    // each output channel reads the operand's channels of its group, by weights; the fused add's as each
};

/// Types of an operator, as the constraint tables name them.
struct OperatorTypes {
    DType input, weight, output;
};

/// Of ProgramOperator::lowest_code: every code that is written is one of the first operand.
inline constexpr std::int64_t codes_of_operand = INT64_MIN;

/// An operator of programs. Its functions may trust the operand count and indices, that the parameters are its own, and
/// that the description accepts their numbers. In a check they trust nothing else of a call, and do not read memory
/// that parameters point to.
struct ProgramOperator {
    OpKind op = OpKind::none;
    std::int32_t operands = 1;           // at least
    bool takes_more = false;             // operands beyond that
    bool has_params_by_operand = false;  // one struct for each operand
    /// Whether the output of an instruction with these parameters, which the check accepts, may take the place of an
    /// operand of its size: it computes element by element, or moves none. Null: of no instruction.
    bool (*runs_in_place)(const InstructionParams&) noexcept = nullptr;
    bool in_place_of_first = false;  // runs_in_place: of the first operand alone
    bool reads_nchw = false;         // takes row_major images
    bool reads_given = false;        // its operand may lie where a caller has it, at any address of its type
    bool takes_rows = false;         // all operands and the output are row_major, or none of them
    bool writes_rows = false;        // its output may be row_major
    CodesFollow codes = CodesFollow::range;
    ChannelsFollow channels = ChannelsFollow::none;
    Status (*check)(const OperatorCall&) noexcept = nullptr;
    void (*run)(const OperatorCall&) = nullptr;
    /// The lowest code that an instruction writes, whatever it reads, or codes_of_operand; null: any of its type.
    std::int64_t (*lowest_code)(const OperatorCall&) noexcept = nullptr;
    /// Whether an instruction was made for a first operand without negative codes; null: none is.
    bool (*needs_nonnegative)(const OperatorCall&) noexcept = nullptr;
    /// Whether a table has the kernels for these types.
    bool (*has_kernel)(const KernelTable&, const OperatorTypes&) noexcept = nullptr;
    /// Bytes of scratch; null: none.
    index_t (*workspace_size)(const OperatorCall&) noexcept = nullptr;
    /// Whether an instruction on images can compute some rows of its output alone; null: none can.
    bool (*runs_by_rows)(const OperatorCall&) noexcept = nullptr;
    /// The rows of an operand that some rows of the output are computed from, at least one: no end of theirs falls
    /// while those of the output grow, and their first does not depend on the output's last. Null: the same rows, or
    /// all of an operand with one row.
    RowRange (*rows_of_operand)(const OperatorCall&, index_t operand, RowRange rows) noexcept = nullptr;
    /// Rows of the output that a kernel computes together, so that fewer take as long; null: 1.
    index_t (*rows_together)(const OperatorCall&) noexcept = nullptr;
    /// Whether an instruction can also take its only operand some rows at a time, and compute its output, of one pixel,
    /// behind the last of them (sums_of_rows); null: none can. The rows of its band are the operand's then.
    bool (*adds_rows)(const OperatorCall&) noexcept = nullptr;
    ParamStruct params{};  // of kind none for an operator without
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

// --- for the checks of the families ----------------------------------------------------------------------------------

/// The status of a description with a number that no lowering writes.
constexpr Status corrupt(OpKind op, Field field, std::int64_t given, std::int64_t expected) noexcept {
    return {StatusCode::corrupt, op, field, given, expected};
}

namespace detail {

constexpr Status wrong_shape(OpKind op, Field field, std::int64_t given, std::int64_t expected) noexcept {
    return {StatusCode::shape_mismatch, op, field, given, expected};
}
constexpr Status wrong_dtype(OpKind op, Field field, DType given, DType expected) noexcept {
    return {StatusCode::dtype_mismatch, op, field, static_cast<std::int64_t>(given),
            static_cast<std::int64_t>(expected)};
}
constexpr Status no_kernel(OpKind op, DType given) noexcept {
    return {StatusCode::unsupported, op, Field::input, static_cast<std::int64_t>(given), 0};
}

template <class Row, class Matches> constexpr bool has_any(std::span<const Row> rows, Matches&& matches) noexcept {
    for (const Row& row : rows)
        if (matches(row)) return true;
    return false;
}

/// The first row that matches.
/// @pre  one does: the program was checked against this table
template <class Row, class Matches>
INTQ_ALWAYS_INLINE const Row& find_row(std::span<const Row> rows, const Matches& matches) INTQ_NOEXCEPT {
    const Row* const row = find_first(rows, matches);
    INTQ_ASSERT(row != nullptr && "the program was checked against another kernel table");
    return *row;
}

/// has_kernel() of a family whose rows have one type for input and output.
template <auto Rows> bool has_dtype(const KernelTable& table, const OperatorTypes& types) noexcept {
    return types.input == types.output &&
           has_any(table.*Rows, [&](const auto& row) { return row.dtype == types.input; });
}
inline bool needs_no_kernel(const KernelTable&, const OperatorTypes&) noexcept { return true; }

/// runs_in_place() of an operator that computes each element from those at its place.
inline bool always_in_place(const InstructionParams&) noexcept { return true; }

/// runs_by_rows() of an operator that computes an element from those at its place, or that its operand repeats.
inline bool always_by_rows(const OperatorCall&) noexcept { return true; }

/// runs_by_rows() of a window: each output row sees a row of the image.
inline bool sees_rows(const Window2d& window) noexcept {
    const index_t reach = window.dilation.height * (window.kernel.height - 1) + 1;
    return window.padding.top < reach && window.padding.bottom < reach;
}
/// The rows of an image of so many rows that the windows of some output rows read.
/// @pre sees_rows()
constexpr RowRange rows_of_windows(const Window2d& window, index_t height, RowRange rows) noexcept {
    const index_t reach = window.dilation.height * (window.kernel.height - 1) + 1;
    const index_t first = rows.first * window.stride.height - window.padding.top;
    const index_t last = (rows.last - 1) * window.stride.height - window.padding.top + reach;
    return {first > 0 ? first : 0, last < height ? last : height};
}
/// Rows of padding that windows from an output row on do not have above them.
constexpr index_t cut_padding(const Window2d& window, index_t first) noexcept {
    const index_t above = first * window.stride.height;
    return above < window.padding.top ? above : window.padding.top;
}

/// ok, or the rank or the first extent in which an operand differs from the output.
inline Status check_same_shape(const OperatorCall& call, index_t operand, Field field) noexcept {
    const Shape &given = call.x(operand).shape, &expected = call.y().shape;
    if (given.rank != expected.rank) return wrong_shape(call.op, field, given.rank, expected.rank);
    for (int axis = 0; axis < given.rank; ++axis)
        if (given[axis] != expected[axis]) return wrong_shape(call.op, field, given[axis], expected[axis]);
    return {};
}

}  // namespace detail

/// A tensor as an image: (N, C) are images of one pixel, (N, C, L) of one row. With other ranks it has no channels.
struct ImageOf {
    index_t channels = 0;
    Size2d size{};
};

constexpr ImageOf image_of(const Shape& shape) noexcept {
    if (shape.rank < 2 || shape.rank > 4) return {};
    return {shape[1], {shape.rank == 4 ? shape[2] : 1, shape.rank > 2 ? shape[shape.rank - 1] : 1}};
}

/// The rows of (N, …, C) are the pixels of one row.
constexpr ImageOf image_of(const ArenaTensor& tensor) noexcept {
    if (tensor.layout != Layout::row_major) return image_of(tensor.shape);
    if (tensor.shape.rank < 2) return {};
    const index_t channels = tensor.shape[tensor.channel_axis()];
    return {channels, {1, channels > 0 ? tensor.elements_per_image() / channels : 0}};
}

namespace detail {

/// Images of one type, with the channels kept and the extents that the operator passes; (N, C, L) are images of one
/// row.
inline Status check_images(const OperatorCall& call, Size2d out) noexcept {
    const ArenaTensor &x = call.x(), &y = call.y();
    if (y.dtype != x.dtype) return wrong_dtype(call.op, Field::output, y.dtype, x.dtype);
    if (x.shape.rank == 3 && out.height != 1) return wrong_shape(call.op, Field::output, out.height, 1);
    Shape expected = x.shape;
    if (x.shape.rank == 4) expected[2] = out.height;
    expected[x.shape.rank - 1] = out.width;
    return y.shape == expected ? Status{} : wrong_shape(call.op, Field::output, y.shape.size(), expected.size());
}

}  // namespace detail

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_OPERATORS_OPERATOR_HPP
