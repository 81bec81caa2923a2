// SPDX-License-Identifier: MIT
//
// Tensors from and to .npy files. Layer: tensor.
#ifndef INTQ_TENSOR_NPY_HPP
#define INTQ_TENSOR_NPY_HPP

#include <filesystem>
#include <string_view>

#include "intq/io/npy.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq {
inline namespace INTQ_HOSTED_ABI {

/// The row_major tensor of an array.
///
/// @param name  of the file or array, for messages
/// @throws Error for more than max_rank axes
Tensor to_tensor(const io::NpyArray& array, std::string_view name);

/// The array of a tensor, in row_major order.
io::NpyArray to_array(const Tensor& tensor);

/// Reads a .npy file as a row_major tensor. Throws the Error that names the file.
Tensor load_npy(const std::filesystem::path& path);

/// Writes a tensor as a .npy file, which numpy.load reads.
///
/// @throws Error as io::write_file()
void save_npy(const std::filesystem::path& path, const Tensor& tensor);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(tensor)

#    include <algorithm>
#    include <string>

#    include "intq/io/error.hpp"

namespace intq {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE Tensor to_tensor(const io::NpyArray& array, std::string_view name) {
    if (array.shape.size() > static_cast<std::size_t>(max_rank))
        throw Error(name, "the array has rank " + std::to_string(array.shape.size()) + ", at most " +
                              std::to_string(max_rank) + " is possible");
    Shape shape;
    shape.rank = static_cast<int>(array.shape.size());
    std::copy(array.shape.begin(), array.shape.end(), shape.extents.begin());
    Tensor tensor = Tensor::empty(shape, array.dtype);
    std::copy(array.bytes.begin(), array.bytes.end(), tensor.data());
    return tensor;
}

INTQ_INLINE io::NpyArray to_array(const Tensor& tensor) {
    const Tensor rows = tensor.contiguous();
    const std::span<const std::byte> bytes(rows.data(), static_cast<std::size_t>(rows.bytes()));
    return {tensor.dtype(),
            {tensor.shape().extents.begin(), tensor.shape().extents.begin() + tensor.rank()},
            {bytes.begin(), bytes.end()}};
}

INTQ_INLINE Tensor load_npy(const std::filesystem::path& path) { return to_tensor(io::read_npy(path), path.string()); }

INTQ_INLINE void save_npy(const std::filesystem::path& path, const Tensor& tensor) {
    if (!tensor.defined()) throw Error(path.string(), "save_npy: the tensor is undefined");
    io::write_npy(path, to_array(tensor));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq

#endif  // INTQ_DEFINES(tensor)
#endif  // INTQ_TENSOR_NPY_HPP
