// SPDX-License-Identifier: MIT
//
// All layers. Layer: nn.
#ifndef INTQ_NN_LAYERS_HPP
#define INTQ_NN_LAYERS_HPP

#include "intq/nn/container.hpp"
#include "intq/nn/layers/activation.hpp"
#include "intq/nn/layers/batch_norm.hpp"
#include "intq/nn/layers/conv.hpp"
#include "intq/nn/layers/embedding.hpp"
#include "intq/nn/layers/float_functional.hpp"
#include "intq/nn/layers/layer_norm.hpp"
#include "intq/nn/layers/linear.hpp"
#include "intq/nn/layers/lstm.hpp"
#include "intq/nn/layers/pool.hpp"
#include "intq/nn/layers/shape.hpp"
#include "intq/nn/layers/stubs.hpp"
#include "intq/nn/layers/upsample.hpp"
#include "intq/nn/layers/weighted.hpp"

#endif  // INTQ_NN_LAYERS_HPP
