// SPDX-License-Identifier: MIT
//
// Tensors that own their memory, and their parts.
#ifndef INTQ_TENSOR_HPP
#define INTQ_TENSOR_HPP

// The tensor, and the scales that it carries.
#include "intq/tensor/owned_qparams.hpp"
#include "intq/tensor/tensor.hpp"

// From and to files, images and random numbers.
#include "intq/tensor/images.hpp"
#include "intq/tensor/npy.hpp"
#include "intq/tensor/random.hpp"

// Between real numbers and codes.
#include "intq/tensor/quantize.hpp"

// Execution: threads, and the order of sums.
#include "intq/tensor/current_executor.hpp"
#include "intq/tensor/float_sums.hpp"
#include "intq/tensor/thread_pool.hpp"

#endif  // INTQ_TENSOR_HPP
