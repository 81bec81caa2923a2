// SPDX-License-Identifier: MIT
//
// What makes a quantized model better without training it (docs/improve.md).
#ifndef INTQ_IMPROVE_HPP
#define INTQ_IMPROVE_HPP

// Even ranges of channels between two layers.
#include "intq/improve/equalization.hpp"
#include "intq/improve/equalization_pair.hpp"

// The mean error of each channel, taken out of the bias.
#include "intq/improve/bias_correction.hpp"

// Which weights to round up.
#include "intq/improve/adaround.hpp"

// int8 or int16, layer by layer, within a budget.
#include "intq/improve/measurement_journal.hpp"
#include "intq/improve/mixed_precision.hpp"

// Keeps a change only where it brings the model nearer to float.
#include "intq/improve/layer_calls.hpp"
#include "intq/improve/take_better.hpp"

#endif  // INTQ_IMPROVE_HPP
