// SPDX-License-Identifier: MIT
//
// All layers and functions on Values. Layer: nn.
#ifndef INTQ_NN_LAYERS_LAYERS_HPP
#define INTQ_NN_LAYERS_LAYERS_HPP

#include "intq/nn/layers/conv.hpp"
#include "intq/nn/layers/conv3d.hpp"
#include "intq/nn/layers/elementwise.hpp"
#include "intq/nn/layers/embedding.hpp"
#include "intq/nn/layers/initial_weights.hpp"
#include "intq/nn/layers/linear.hpp"
#include "intq/nn/layers/lstm.hpp"
#include "intq/nn/layers/move.hpp"
#include "intq/nn/layers/norm.hpp"
#include "intq/nn/layers/pool.hpp"
#include "intq/nn/layers/quantize.hpp"
#include "intq/nn/layers/reduce.hpp"
#include "intq/nn/layers/resize.hpp"
#include "intq/nn/layers/softmax.hpp"
#include "intq/nn/layers/unary.hpp"
#include "intq/nn/layers/weighted.hpp"
#include "intq/nn/model/container.hpp"

#endif  // INTQ_NN_LAYERS_LAYERS_HPP
