#pragma once

#include <functional>
#include <ostream>

namespace CLI {
class App;
}

namespace phantora::run {

/// Adds `phantora kernels` and its own subcommands: list, merge, export, import, compare, where.
/// @param chosen  gets what is to be done, when the command line has been read. It throws
///   ConfigError for what cannot be read or written.
void add_kernels_command(CLI::App& app, std::function<void(std::ostream&)>& chosen);

}  // namespace phantora::run
