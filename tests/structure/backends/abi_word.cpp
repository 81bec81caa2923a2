// SPDX-License-Identifier: MIT
//
// Preprocessed only: the line that check_abi_words.cmake reads.
#include "intq/core/abi.hpp"

abi_word INTQ_ABI
