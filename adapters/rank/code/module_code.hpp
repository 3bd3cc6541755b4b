#pragma once

#include "rank/code/code_execution.hpp"
#include "rank/code/fat_binary.hpp"
#include "rank/runtime/mutex.hpp"

#include <atomic>
#include <unordered_map>

namespace phantora::rank {

struct Module;

/// The device code that a process has read, and the locks of what is read of it.
struct ModuleCode {
  Mutex reading{};    ///< of code, and of kernels when they are first launched
  Mutex variables{};  ///< of all modules' variables
  Mutex walks{};      ///< of what launches do as their code tells
  /// The first file's fat binary of each module, kept: kernels of one module are launched together.
  std::unordered_map<const Module*, FatBinary> binaries{};
  /// Kernels with launches that nobody can read.
  std::atomic<int> unread_kernels{0};
  LongLaunches long_launches{};  ///< behind `walks`
};

}  // namespace phantora::rank
