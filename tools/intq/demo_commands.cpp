// SPDX-License-Identifier: MIT
//
// The one command of the program that ./dev demo builds, so that a newcomer does not wait for the others.
#include "options.hpp"

namespace intq_tool {

void add_commands(CLI::App& app, Action& action) { add_targets(app, action); }

}  // namespace intq_tool
