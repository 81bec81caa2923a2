// SPDX-License-Identifier: MIT
//
// What the tests of the hosted half have in common, compiled once for all of them: Catch2 and the declarations of the
// whole library. Examples and header checks keep honest which header declares what.
#ifndef INTQ_TESTS_SUPPORT_PRECOMPILED_HPP
#define INTQ_TESTS_SUPPORT_PRECOMPILED_HPP

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "intq/interop/onnx/internal/nodes/names.hpp"
#include "intq/interop/onnx/read/read.hpp"
#include "intq/intq.hpp"
#include "support/catch.hpp"

#endif  // INTQ_TESTS_SUPPORT_PRECOMPILED_HPP
