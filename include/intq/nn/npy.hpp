// SPDX-License-Identifier: MIT
//
// Tensors from and to .npy files. Layer: nn.
#ifndef INTQ_NN_NPY_HPP
#define INTQ_NN_NPY_HPP

#include <cstring>
#include <filesystem>

#include "intq/io/npy.hpp"
#include "intq/nn/tensor.hpp"

namespace intq::inline INTQ_ABI::nn {

/// A row_major tensor of an array. Throws the Error that names it where its rank is too high.
inline Tensor from_npy(const io::NpyArray& array, std::string_view name) {
    if (array.shape.size() > static_cast<std::size_t>(max_rank))
        throw Error(name, "the array has rank " + std::to_string(array.shape.size()) + ", at most " +
                              std::to_string(max_rank) + " is possible");
    Shape shape;
    shape.rank = static_cast<int>(array.shape.size());
    std::copy(array.shape.begin(), array.shape.end(), shape.extents.begin());
    Tensor tensor = Tensor::empty(shape, array.dtype);
    std::memcpy(tensor.data(), array.bytes.data(), array.bytes.size());
    return tensor;
}

/// The elements of a defined tensor in row_major order.
inline io::NpyArray to_npy(const Tensor& tensor) {
    const Tensor plain = tensor.contiguous();
    const auto rank = static_cast<std::size_t>(plain.rank());
    return {plain.dtype(),
            {plain.shape().extents.begin(), plain.shape().extents.begin() + static_cast<std::ptrdiff_t>(rank)},
            {plain.data(), plain.data() + plain.bytes()}};
}

/// Reads a .npy file as a row_major tensor. Throws the Error that names the file.
inline Tensor load_npy(const std::filesystem::path& path) { return from_npy(io::read_npy(path), path.string()); }

}  // namespace intq::inline INTQ_ABI::nn

#endif  // INTQ_NN_NPY_HPP
