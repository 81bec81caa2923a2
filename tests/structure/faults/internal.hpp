// SPDX-License-Identifier: MIT
//
// Planted fault: includes what is internal to another layer.
#ifndef INTQ_TRAINING_PLANTED_HPP
#define INTQ_TRAINING_PLANTED_HPP

#include "intq/graph/internal/names.hpp"

#endif  // INTQ_TRAINING_PLANTED_HPP
