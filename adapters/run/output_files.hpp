#pragma once

#include <string>

/// The files that a command writes at its end, looked at before it begins.
namespace phantora::run {

/// @param what  how errors call the file.
/// @throws ConfigError if `path` cannot be written. Empty: there is none.
void check_writable(const std::string& what, const std::string& path);

/// Removes what an earlier run wrote there, so that a run that fails leaves nothing to mistake for
/// its own.
void remove_old(const std::string& path);

}  // namespace phantora::run
