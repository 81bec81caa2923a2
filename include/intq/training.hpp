// SPDX-License-Identifier: MIT
//
// Training: gradients of a graph, losses, optimizers, epochs (docs/training.md).
#ifndef INTQ_TRAINING_HPP
#define INTQ_TRAINING_HPP

// Epochs of batches, with checkpoints that resume to the same bits.
#include "intq/training/batches.hpp"
#include "intq/training/trainer.hpp"

// Losses, optimizers and schedules.
#include "intq/training/loss.hpp"
#include "intq/training/optimizer.hpp"
#include "intq/training/schedule.hpp"

// Quantization-aware training in the integers of the target.
#include "intq/training/exact_forward.hpp"

// Gradients.
#include "intq/training/autograd.hpp"
#include "intq/training/gradients.hpp"
#include "intq/training/gradients/context.hpp"
#include "intq/training/kept_buffers.hpp"

#endif  // INTQ_TRAINING_HPP
