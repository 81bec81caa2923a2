// SPDX-License-Identifier: MIT
//
// Tensor: the owning, type-erased tensor of the hosted half. Long because one class has makers, views, layouts and
// scales. Layer: tensor (docs/design.md section 6).
#ifndef INTQ_TENSOR_TENSOR_HPP
#define INTQ_TENSOR_TENSOR_HPP

#include <array>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "intq/core/tensor_view.hpp"
#include "intq/io/error.hpp"
#include "intq/tensor/owned_qparams.hpp"

namespace intq {
inline namespace INTQ_HOSTED_ABI {

/// "(1, 3, 224, 224)"
std::string to_string(const Shape& shape);

/// Thrown on access to the elements of a tensor without any, see Tensor::of_shape().
class ValuesNeeded : public Error {
public:
    using Error::Error;
};

/// Dtype, shape, layout and a shared buffer; optionally qparams of its values. Any number of threads may read one.
///
/// A Tensor is a handle: copies share the elements, clone() does not. Index order is logical, (N, C, H, W); the layout
/// says where the bytes are. Float tensors are row_major, integer tensors of rank 3 and more usually channels_last.
///
/// Memory   the buffer starts at a multiple of `alignment` bytes and is padded to one
class Tensor {
public:
    static constexpr std::size_t alignment = 64;

    /// An undefined tensor: no dtype, no elements.
    Tensor() = default;

    /// Elements are not initialised. Throws for a negative extent or a size that does not fit in memory.
    static Tensor empty(const Shape& shape, DType dtype = DType::float32, Layout layout = Layout::row_major);
    static Tensor zeros(const Shape& shape, DType dtype = DType::float32, Layout layout = Layout::row_major);
    static Tensor full(const Shape& shape, float value);
    /// A tensor without elements and without memory, to infer shapes: an operator returns such a tensor for such
    /// operands. Access to its elements throws ValuesNeeded. Throws for a negative extent and for a size beyond
    /// largest_shape bytes.
    static Tensor of_shape(const Shape& shape, DType dtype = DType::float32, Layout layout = Layout::row_major);
    /// Larger than any tensor in memory, and small enough that an extent times a step of a window does not overflow.
    static constexpr index_t largest_shape = index_t{1} << 40;

    /// A row_major tensor with a copy of `values`, which are in row_major order.
    template <class T> static Tensor from(const Shape& shape, std::span<const T> values) {
        return from_memory(shape, dtype_of<T>, values.data(), static_cast<index_t>(values.size()));
    }
    template <class T> static Tensor from(const Shape& shape, const std::vector<T>& values) {
        return from(shape, std::span<const T>(values));
    }
    template <class T> static Tensor from(const Shape& shape, std::initializer_list<T> values) {
        return from(shape, std::span<const T>(values.begin(), values.size()));
    }

    bool defined() const noexcept { return dtype_ != DType::none; }
    /// Whether it is defined, but has only a shape.
    bool lacks_values() const noexcept { return defined() && buffer_ == nullptr; }
    DType dtype() const noexcept { return dtype_; }
    const Shape& shape() const noexcept { return shape_; }
    int rank() const noexcept { return shape_.rank; }
    index_t size() const noexcept { return defined() ? shape_.size() : 0; }
    index_t bytes() const noexcept { return size() * size_of(dtype_); }
    /// row_major for a rank below 3, where both layouts are the same.
    Layout layout() const noexcept { return layout_; }
    /// Extent of an axis; a negative axis counts from the end. Throws for an axis that does not exist.
    index_t extent(int axis) const;
    std::array<index_t, max_rank> strides() const noexcept;

    const std::optional<OwnedQParams>& qparams() const noexcept { return qparams_; }
    void set_qparams(std::optional<OwnedQParams> qparams) { qparams_ = std::move(qparams); }

    /// The only door to a view; checks dtype, rank and layout, and throws the Error that names both sides.
    ///
    /// @tparam LayoutTag  strided is always possible; another one where the bytes lie in that order
    template <class T, int Rank, class LayoutTag = row_major> TensorView<T, Rank, LayoutTag> view() {
        return make_view<T, Rank, LayoutTag>();
    }
    template <class T, int Rank, class LayoutTag = row_major> TensorView<const T, Rank, LayoutTag> view() const {
        return make_view<const T, Rank, LayoutTag>();
    }

    /// All elements in the order of memory. Throws where T is not the dtype.
    template <class T> std::span<T> flat() { return {checked_data<T>("flat"), static_cast<std::size_t>(size())}; }
    template <class T> std::span<const T> flat() const {
        return {checked_data<const T>("flat"), static_cast<std::size_t>(size())};
    }
    std::byte* data() { return checked_buffer(); }
    const std::byte* data() const { return checked_buffer(); }
    /// Throws for elements of another type.
    void expect_dtype(const char* function, DType dtype) const {
        if (dtype_ != dtype) throw_wrong_dtype(function, dtype);
    }

    /// A copy with its own buffer; keeps layout and qparams.
    Tensor clone() const;
    /// The same elements in another layout; a copy, unless the bytes already lie so.
    Tensor to_layout(Layout layout) const;
    Tensor contiguous() const { return to_layout(Layout::row_major); }
    /// A row_major tensor of another shape with the same elements in row_major order; shares the buffer of a
    /// row_major tensor.
    Tensor reshape(const Shape& shape) const;
    /// The samples [first, first + count) of axis 0, as a copy.
    Tensor batch(index_t first, index_t count) const;

    /// Whether two handles have the same elements in memory.
    bool shares_buffer_with(const Tensor& other) const noexcept {
        return buffer_ != nullptr && buffer_ == other.buffer_;
    }

private:
    friend class TensorCloner;

    static Tensor from_memory(const Shape& shape, DType dtype, const void* values, index_t count);
    template <class T> T* checked_data(const char* function) const {
        static_assert(dtype_of<T> != DType::none, "Tensor: T must be one of the element types of core/dtype.hpp");
        expect_dtype(function, dtype_of<T>);
        return reinterpret_cast<T*>(checked_buffer());
    }
    std::byte* checked_buffer() const {
        if (lacks_values()) throw_values_needed();
        return buffer_.get();
    }
    [[noreturn]] void throw_wrong_dtype(const char* function, DType asked) const;
    [[noreturn]] void throw_values_needed() const;
    template <class T, int Rank, class LayoutTag> TensorView<T, Rank, LayoutTag> make_view() const;
    void check_view(int rank, Layout layout) const;
    bool lies_in(Layout layout) const noexcept;
    std::string describe_self() const;

    DType dtype_ = DType::none;
    Layout layout_ = Layout::row_major;
    Shape shape_{};
    std::shared_ptr<std::byte> buffer_{};
    std::optional<OwnedQParams> qparams_{};
};

/// Clones tensors so that those which shared a buffer share the new one too.
class TensorCloner {
public:
    Tensor operator()(const Tensor& tensor);

private:
    std::unordered_map<std::shared_ptr<std::byte>, std::shared_ptr<std::byte>> buffers_;
};

// ---------------------------------------------------------------------------------------------------------------------

template <class T, int Rank, class LayoutTag> TensorView<T, Rank, LayoutTag> Tensor::make_view() const {
    T* data = checked_data<T>("view");
    check_view(Rank, LayoutTag::kind);
    typename TensorView<T, Rank, LayoutTag>::Index extents{};
    for (std::size_t axis = 0; axis < extents.size(); ++axis) extents[axis] = shape_.extents[axis];
    if constexpr (std::is_same_v<LayoutTag, strided>) {
        typename TensorView<T, Rank, LayoutTag>::Index steps{};
        const auto all = strides();
        for (std::size_t axis = 0; axis < steps.size(); ++axis) steps[axis] = all[axis];
        return {data, extents, steps};
    } else {
        return {data, extents};
    }
}

namespace tensor_detail {

/// The distance from an element to the next one along each axis.
std::array<index_t, max_rank> strides_of(const Shape& shape, Layout layout) noexcept;

/// Memory at a multiple of Tensor::alignment, padded to one.
std::shared_ptr<std::byte> allocate_aligned(std::size_t bytes);

/// Copies the elements of a shape between two places in memory, each with its strides.
void copy_strided(DType dtype, const Shape& shape, const std::byte* from,
                  const std::array<index_t, max_rank>& from_strides, std::byte* to,
                  const std::array<index_t, max_rank>& to_strides);

}  // namespace tensor_detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(tensor)

#    include <algorithm>
#    include <cstring>
#    include <new>

namespace intq {
inline namespace INTQ_HOSTED_ABI {

namespace tensor_detail {

INTQ_INLINE std::array<index_t, max_rank> strides_of(const Shape& shape, Layout layout) noexcept {
    std::array<index_t, max_rank> result{};
    index_t step = 1;
    const auto take = [&](int axis) {
        result[static_cast<std::size_t>(axis)] = step;
        step *= shape[axis];
    };
    const bool channels_first = layout == Layout::channels_last && shape.rank >= 3;
    if (channels_first) take(1);
    for (int axis = shape.rank - 1; axis >= 0; --axis)
        if (!channels_first || axis != 1) take(axis);
    return result;
}

// The bytes of a shape. Strides are products of extents, so those beside an extent of 0 are bounded like all others.
INTQ_INLINE index_t checked_bytes(const Shape& shape, DType dtype) {
    if (dtype == DType::none) throw Error("Tensor: a dtype is needed, given none");
    index_t bytes = size_of(dtype);
    for (int axis = 0; axis < shape.rank; ++axis) {
        if (shape[axis] < 0) throw Error("Tensor: extents must not be negative, given " + to_string(shape));
        if (__builtin_mul_overflow(bytes, std::max<index_t>(shape[axis], 1), &bytes))
            throw Error("Tensor: a tensor of shape " + to_string(shape) + " does not fit in memory");
    }
    return shape.size() == 0 ? 0 : bytes;
}

INTQ_INLINE std::shared_ptr<std::byte> allocate_aligned(std::size_t bytes) {
    constexpr std::size_t unit = Tensor::alignment;
    const std::size_t padded = (std::max)((bytes + unit - 1) / unit * unit, unit);
    auto* memory = static_cast<std::byte*>(::operator new (padded, std::align_val_t{unit}));
    return {memory, [](std::byte* p) { ::operator delete (p, std::align_val_t{Tensor::alignment}); }};
}

// Copies element by element between two layouts of one shape. Nothing is to be copied where an extent is 0, and the
// loops over the other extents, which may be of any size then, are not begun.
template <class Unit>
void copy_strided(const Shape& shape, const std::byte* from, const std::array<index_t, max_rank>& from_strides,
                  std::byte* to, const std::array<index_t, max_rank>& to_strides) {
    if (shape.size() == 0) return;
    std::array<index_t, max_rank> extents{}, a{}, b{};
    extents.fill(1);
    const auto shift = static_cast<std::size_t>(max_rank - shape.rank);
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(shape.rank); ++axis) {
        extents[axis + shift] = shape.extents[axis];
        a[axis + shift] = from_strides[axis];
        b[axis + shift] = to_strides[axis];
    }
    std::array<index_t, max_rank> i{};
    static_assert(max_rank == 6);
    for (i[0] = 0; i[0] < extents[0]; ++i[0])
        for (i[1] = 0; i[1] < extents[1]; ++i[1])
            for (i[2] = 0; i[2] < extents[2]; ++i[2])
                for (i[3] = 0; i[3] < extents[3]; ++i[3])
                    for (i[4] = 0; i[4] < extents[4]; ++i[4])
                        for (i[5] = 0; i[5] < extents[5]; ++i[5]) {
                            index_t source = 0, target = 0;
                            for (std::size_t axis = 0; axis < static_cast<std::size_t>(max_rank); ++axis) {
                                source += i[axis] * a[axis];
                                target += i[axis] * b[axis];
                            }
                            std::memcpy(to + target * static_cast<index_t>(sizeof(Unit)),
                                        from + source * static_cast<index_t>(sizeof(Unit)), sizeof(Unit));
                        }
}

// The same for the elements of a dtype.
INTQ_INLINE void copy_strided(DType dtype, const Shape& shape, const std::byte* from,
                              const std::array<index_t, max_rank>& from_strides, std::byte* to,
                              const std::array<index_t, max_rank>& to_strides) {
    switch (size_of(dtype)) {
        case 1:
            return copy_strided<std::uint8_t>(shape, from, from_strides, to, to_strides);
        case 2:
            return copy_strided<std::uint16_t>(shape, from, from_strides, to, to_strides);
        case 4:
            return copy_strided<std::uint32_t>(shape, from, from_strides, to, to_strides);
        default:
            return copy_strided<std::uint64_t>(shape, from, from_strides, to, to_strides);
    }
}

}  // namespace tensor_detail

INTQ_INLINE std::string to_string(const Shape& shape) {
    return describe_shape(std::span<const index_t>(shape.extents.data(), static_cast<std::size_t>(shape.rank)));
}

INTQ_INLINE Tensor Tensor::of_shape(const Shape& shape, DType dtype, Layout layout) {
    if (layout == Layout::strided) throw Error("Tensor: the layout must be row_major or channels_last, given strided");
    if (const index_t bytes = tensor_detail::checked_bytes(shape, dtype); bytes > largest_shape)
        throw Error("Tensor: a tensor of shape " + to_string(shape) + " would have " + std::to_string(bytes) +
                    " bytes, at most " + std::to_string(largest_shape) + " are possible");
    Tensor result;
    result.dtype_ = dtype;
    result.shape_ = shape;
    result.layout_ = shape.rank < 3 ? Layout::row_major : layout;
    return result;
}

INTQ_INLINE Tensor Tensor::empty(const Shape& shape, DType dtype, Layout layout) {
    Tensor result = of_shape(shape, dtype, layout);
    result.buffer_ = tensor_detail::allocate_aligned(static_cast<std::size_t>(result.bytes()));
    return result;
}

INTQ_INLINE Tensor Tensor::zeros(const Shape& shape, DType dtype, Layout layout) {
    Tensor result = empty(shape, dtype, layout);
    std::memset(result.data(), 0, static_cast<std::size_t>(result.bytes()));
    return result;
}

INTQ_INLINE Tensor Tensor::full(const Shape& shape, float value) {
    Tensor result = empty(shape);
    const auto values = result.flat<float>();
    std::fill(values.begin(), values.end(), value);
    return result;
}

INTQ_INLINE Tensor Tensor::from_memory(const Shape& shape, DType dtype, const void* values, index_t count) {
    Tensor result = empty(shape, dtype);
    if (result.size() != count)
        throw Error("Tensor::from: shape " + to_string(shape) + " has " + std::to_string(result.size()) +
                    " elements, given " + std::to_string(count));
    if (count > 0) std::memcpy(result.data(), values, static_cast<std::size_t>(result.bytes()));
    return result;
}

INTQ_INLINE index_t Tensor::extent(int axis) const {
    const int positive = axis < 0 ? axis + rank() : axis;
    if (positive < 0 || positive >= rank())
        throw Error("Tensor: " + describe_self() + "; it has no axis " + std::to_string(axis));
    return shape_[positive];
}

INTQ_INLINE std::array<index_t, max_rank> Tensor::strides() const noexcept {
    return tensor_detail::strides_of(shape_, layout_);
}

INTQ_INLINE Tensor Tensor::clone() const {
    if (!defined() || lacks_values()) return *this;
    Tensor result = empty(shape_, dtype_, layout_);
    std::memcpy(result.data(), data(), static_cast<std::size_t>(bytes()));
    result.qparams_ = qparams_;
    return result;
}

INTQ_INLINE Tensor Tensor::to_layout(Layout layout) const {
    if (!defined() || layout_ == layout) return *this;
    if (rank() < 3) return *this;
    if (lacks_values() || lies_in(layout)) {
        Tensor result = *this;
        result.layout_ = layout;
        return result;
    }
    Tensor result = empty(shape_, dtype_, layout);
    result.qparams_ = qparams_;
    tensor_detail::copy_strided(dtype_, shape_, data(), strides(), result.data(), result.strides());
    return result;
}

INTQ_INLINE Tensor Tensor::reshape(const Shape& shape) const {
    if (shape.size() != size())
        throw Error("Tensor::reshape: " + describe_self() + "; it cannot take the shape " + to_string(shape));
    Tensor result = contiguous();
    result.shape_ = shape;
    result.layout_ = Layout::row_major;
    if (qparams_ && qparams_->is_per_channel() && !(shape == shape_)) result.qparams_.reset();
    return result;
}

INTQ_INLINE Tensor Tensor::batch(index_t first, index_t count) const {
    if (rank() < 1 || first < 0 || count < 0 || first + count > shape_[0])
        throw Error("Tensor::batch: " + describe_self() + "; it has no samples " + std::to_string(first) + " to " +
                    std::to_string(first + count));
    Shape part = shape_;
    part[0] = count;
    Tensor result = lacks_values() ? of_shape(part, dtype_, layout_) : empty(part, dtype_, layout_);
    result.qparams_ = qparams_;
    if (lacks_values()) return result;
    const index_t sample = shape_[0] == 0 ? 0 : bytes() / shape_[0];
    std::memcpy(result.data(), data() + first * sample, static_cast<std::size_t>(count * sample));
    return result;
}

INTQ_INLINE void Tensor::throw_wrong_dtype(const char* function, DType asked) const {
    throw Error(std::string("Tensor::") + function + ": " + describe_self() + ", asked for " + name_of(asked));
}

INTQ_INLINE void Tensor::throw_values_needed() const {
    throw ValuesNeeded("Tensor: " + describe_self() + ", and has no elements: it represents a shape only");
}

INTQ_INLINE void Tensor::check_view(int rank, Layout layout) const {
    if (this->rank() != rank || !lies_in(layout))
        throw Error("Tensor::view: " + describe_self() + ", asked for rank " + std::to_string(rank) + ", " +
                    name_of(layout) + (this->rank() == rank ? "; to_layout() returns a copy in another layout" : ""));
}

// Axes of extent 1 do not move a byte: a (N, C, 1, 1) tensor lies in both layouts.
INTQ_INLINE bool Tensor::lies_in(Layout layout) const noexcept {
    if (layout == Layout::strided || layout == layout_) return true;
    const auto own = strides(), other = tensor_detail::strides_of(shape_, layout);
    for (int axis = 0; axis < rank(); ++axis) {
        const auto i = static_cast<std::size_t>(axis);
        if (shape_[axis] != 1 && own[i] != other[i]) return false;
    }
    return true;
}

INTQ_INLINE std::string Tensor::describe_self() const {
    if (!defined()) return "the tensor is undefined";
    return std::string("the tensor is ") + name_of(dtype_) + " of shape " + to_string(shape_) + ", " + name_of(layout_);
}

INTQ_INLINE Tensor TensorCloner::operator()(const Tensor& tensor) {
    if (!tensor.defined() || tensor.lacks_values()) return tensor;
    if (const auto known = buffers_.find(tensor.buffer_); known != buffers_.end()) {
        Tensor result = tensor;
        result.buffer_ = known->second;
        return result;
    }
    Tensor result = tensor.clone();
    buffers_.emplace(tensor.buffer_, result.buffer_);
    return result;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq

#endif  // INTQ_DEFINES(tensor)
#endif  // INTQ_TENSOR_TENSOR_HPP
