// SPDX-License-Identifier: MIT
//
// Files and text: arrays, tables, errors. The basis of all other doors.
#ifndef INTQ_IO_HPP
#define INTQ_IO_HPP

// Errors: one exception, whose message names the node, module or file.
#include "intq/io/describe.hpp"
#include "intq/io/error.hpp"

// Files of arrays: NumPy's .npy and .npz, and safetensors.
#include "intq/io/npy.hpp"
#include "intq/io/npz.hpp"
#include "intq/io/safetensors.hpp"

// Whole files, which appear complete or not at all.
#include "intq/io/file.hpp"

// Text: tables for people, CSV and JSON for programs, names that may have been meant.
#include "intq/io/csv.hpp"
#include "intq/io/json_text.hpp"
#include "intq/io/name_pattern.hpp"
#include "intq/io/nearest_names.hpp"
#include "intq/io/progress.hpp"
#include "intq/io/sort_stably.hpp"
#include "intq/io/text_table.hpp"

// Objects of derived classes, for less of a compiler's time.
#include "intq/io/make_as.hpp"

// The wire formats of ONNX and TFLite, without meaning.
#include "intq/io/flatbuffer.hpp"
#include "intq/io/protobuf.hpp"

#endif  // INTQ_IO_HPP
