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

/// Reads a .npy file as a row_major tensor. Throws the Error that names the file.
inline Tensor load_npy(const std::filesystem::path& path) {
    const io::NpyArray array = io::read_npy(path);
    if (array.shape.size() > static_cast<std::size_t>(max_rank))
        throw Error(path.string(), "the array has rank " + std::to_string(array.shape.size()) + ", at most " +
                                       std::to_string(max_rank) + " is possible");
    Shape shape;
    shape.rank = static_cast<int>(array.shape.size());
    std::copy(array.shape.begin(), array.shape.end(), shape.extents.begin());
    Tensor tensor = Tensor::empty(shape, array.dtype);
    std::memcpy(tensor.data(), array.bytes.data(), array.bytes.size());
    return tensor;
}

}  // namespace intq::inline INTQ_ABI::nn

#endif  // INTQ_NN_NPY_HPP
