// SPDX-License-Identifier: MIT
//
// Functions on Values that a graph can name. Layer: nn.
//
// Given tensors, they compute; given a proxy of tracing, they record a call_function node. A call_method node can name
// the same functions. Most float loops of nn/float_operators/ are included, too.
#ifndef INTQ_NN_FUNCTIONAL_FUNCTIONAL_HPP
#define INTQ_NN_FUNCTIONAL_FUNCTIONAL_HPP

#include "intq/nn/float_operators/conv.hpp"
#include "intq/nn/float_operators/elementwise.hpp"
#include "intq/nn/float_operators/embedding.hpp"
#include "intq/nn/float_operators/linear.hpp"
#include "intq/nn/float_operators/matmul.hpp"
#include "intq/nn/float_operators/move.hpp"
#include "intq/nn/float_operators/norm.hpp"
#include "intq/nn/float_operators/pool.hpp"
#include "intq/nn/float_operators/reduce.hpp"
#include "intq/nn/float_operators/resize.hpp"
#include "intq/nn/float_operators/unary.hpp"
#include "intq/nn/functional/arithmetic.hpp"
#include "intq/nn/functional/move.hpp"
#include "intq/nn/functional/unary.hpp"

#endif  // INTQ_NN_FUNCTIONAL_FUNCTIONAL_HPP
