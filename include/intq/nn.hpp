// SPDX-License-Identifier: MIT
//
// Float models: modules in named slots, layers, and functions that a graph can name.
#ifndef INTQ_NN_HPP
#define INTQ_NN_HPP

// Modules, their values, calls of functions on values, and containers.
#include "intq/nn/model/call.hpp"
#include "intq/nn/model/container.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/nn/model/repr.hpp"
#include "intq/nn/model/value.hpp"

// By family: layers, and the functions on Values that a forward calls beside them.
#include "intq/nn/layers/argmax.hpp"
#include "intq/nn/layers/conv.hpp"
#include "intq/nn/layers/conv3d.hpp"
#include "intq/nn/layers/elementwise.hpp"
#include "intq/nn/layers/embedding.hpp"
#include "intq/nn/layers/fusion.hpp"
#include "intq/nn/layers/index_copy.hpp"
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

// Parameters and buffers: their initial values, by name, and as files.
#include "intq/nn/layers/initial_weights.hpp"
#include "intq/nn/model/state_dict.hpp"
#include "intq/nn/model/state_file.hpp"

// Listeners to a forward pass: a tracer, a backward pass.
#include "intq/nn/model/recorder.hpp"
#include "intq/nn/model/tape.hpp"

// The float operators on tensors.
#include "intq/nn/float_operators/argmax.hpp"
#include "intq/nn/float_operators/axes.hpp"
#include "intq/nn/float_operators/conv.hpp"
#include "intq/nn/float_operators/conv3d.hpp"
#include "intq/nn/float_operators/elementwise.hpp"
#include "intq/nn/float_operators/embedding.hpp"
#include "intq/nn/float_operators/float_layer.hpp"
#include "intq/nn/float_operators/float_layer_cache.hpp"
#include "intq/nn/float_operators/index_copy.hpp"
#include "intq/nn/float_operators/linear.hpp"
#include "intq/nn/float_operators/lstm.hpp"
#include "intq/nn/float_operators/matmul.hpp"
#include "intq/nn/float_operators/move.hpp"
#include "intq/nn/float_operators/norm.hpp"
#include "intq/nn/float_operators/pool.hpp"
#include "intq/nn/float_operators/reduce.hpp"
#include "intq/nn/float_operators/resize.hpp"
#include "intq/nn/float_operators/softmax.hpp"
#include "intq/nn/float_operators/unary.hpp"

#endif  // INTQ_NN_HPP
