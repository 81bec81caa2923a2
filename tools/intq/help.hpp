// SPDX-License-Identifier: MIT
//
// Help in the manner of a man page: name, synopsis, arguments, options by group, examples, exit status.
#ifndef INTQ_TOOLS_INTQ_HELP_HPP
#define INTQ_TOOLS_INTQ_HELP_HPP

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace intq_tool {

/// Lines of at most 80 columns. An option stands on a line of its own, and its description below it.
class ManPage : public CLI::Formatter {
public:
    std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
    std::string make_group(std::string group, bool is_positional,
                           std::vector<const CLI::Option*> options) const override;
    std::string make_option(const CLI::Option* option, bool is_positional) const override;
    std::string make_subcommands(const CLI::App* app, CLI::AppFormatMode mode) const override;

private:
    /// The options below their titles, those without a title last.
    std::string grouped_options(const CLI::App* app) const;
};

/// Puts options of a command below a title.
void group_options(CLI::App& command, const char* title, const std::vector<std::string>& options);

/// Adds the examples of a command, a line each.
void add_examples(CLI::App& command, const std::vector<std::string>& lines);

}  // namespace intq_tool

#endif  // INTQ_TOOLS_INTQ_HELP_HPP
