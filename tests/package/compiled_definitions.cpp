// SPDX-License-Identifier: MIT
//
// The one source file that holds the definitions of the compiled form.
#include "intq/compiled.hpp"
