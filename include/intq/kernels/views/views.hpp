// SPDX-License-Identifier: MIT
//
// All operators without packed weights as functions on views. Layer: kernels (docs/design.md section 5).
#ifndef INTQ_KERNELS_VIEWS_VIEWS_HPP
#define INTQ_KERNELS_VIEWS_VIEWS_HPP

#include "intq/kernels/views/argmax.hpp"
#include "intq/kernels/views/code_view.hpp"
#include "intq/kernels/views/elementwise.hpp"
#include "intq/kernels/views/embedding.hpp"
#include "intq/kernels/views/given.hpp"
#include "intq/kernels/views/index_copy.hpp"
#include "intq/kernels/views/layer_norm.hpp"
#include "intq/kernels/views/matmul.hpp"
#include "intq/kernels/views/move.hpp"
#include "intq/kernels/views/pool.hpp"
#include "intq/kernels/views/resize.hpp"
#include "intq/kernels/views/softmax.hpp"
#include "intq/kernels/views/unary.hpp"

#endif  // INTQ_KERNELS_VIEWS_VIEWS_HPP
