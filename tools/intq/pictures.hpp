// SPDX-License-Identifier: MIT
//
// A folder of PNG and JPEG pictures as images of bytes.
#ifndef INTQ_TOOLS_INTQ_PICTURES_HPP
#define INTQ_TOOLS_INTQ_PICTURES_HPP

#include <string>
#include <vector>

#include "intq/tensor/tensor.hpp"

namespace intq_tool {

/// The files *.png, *.jpg and *.jpeg of a folder in the order of their names; others are passed over.
///
/// A picture gets the channels of the input: of 3 the weighted sum where 1 is asked for, and the same three times the
/// other way round. Transparency is dropped. Where the input leaves extents open, the first picture decides.
///
/// @param input  extents (N, C, H, W) of the model's input, -1 for an open one; empty where nothing is known
/// @param count  the first pictures that are read; 0: all
/// @return uint8, (N, C, H, W)
/// @throws Error  naming the folder where it holds none, and the picture that is damaged or of another size; naming the
///                package where the tool was built without a decoder
intq::Tensor read_pictures(const std::string& folder, const std::vector<intq::index_t>& input, intq::index_t count);

}  // namespace intq_tool

#endif  // INTQ_TOOLS_INTQ_PICTURES_HPP
