#include "run/output_files.hpp"

#include <phantora/error.hpp>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <unistd.h>

namespace phantora::run {

namespace fs = std::filesystem;

void check_writable(const std::string& what, const std::string& path) {
  if (path.empty()) return;
  std::error_code error;
  const fs::path folder = fs::path{path}.has_parent_path() ? fs::path{path}.parent_path() : ".";
  const fs::path probe = fs::exists(path, error) ? fs::path{path} : folder;
  if (fs::is_directory(path, error)) {
    throw ConfigError{"cannot write the " + what + " " + path + ": it is a folder"};
  }
  if (access(probe.c_str(), W_OK) != 0) {
    throw ConfigError{"cannot write the " + what + " " + path + ": " + std::strerror(errno)};
  }
}

void remove_old(const std::string& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) fs::remove(path, error);
}

}  // namespace phantora::run
