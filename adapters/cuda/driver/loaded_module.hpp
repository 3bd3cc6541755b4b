#pragma once

#include "cuda/driver/function.hpp"
#include "rank/runtime/mutex.hpp"

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace phantora::driver {

/// Device memory of a __device__ or __constant__ variable. A null address with a non-zero size
/// means that device memory ran out; size 0 that there is no such variable.
struct Variable {
  void* address = nullptr;
  std::size_t size = 0;
};

/// GPU code that the program loaded while it ran. Its address is the CUmodule, CUlibrary and
/// cudaLibrary_t. Never freed: launches that are still queued refer to its kernels.
class LoadedModule {
 public:
  /// Of an image as copy_image() made it; nullptr for an empty one.
  static LoadedModule* load(std::vector<std::byte> image);
  /// Of a file; nullptr where there is none, or no code in it.
  static LoadedModule* load_file(const char* path);

  /// nullptr where the code has no kernel of this name.
  Function* function(const char* name);
  /// Of all kernels that the code for the simulated GPU names.
  std::vector<Function*> functions();
  /// On the current device, where its memory is taken at the first request.
  Variable variable(const char* name);

 private:
  explicit LoadedModule(std::vector<std::byte> image);

  std::vector<std::byte> image_;
  rank::Module module_{};
  rank::Mutex mutex_{};
  std::map<std::string, Function> functions_{};
  std::map<std::pair<std::string, int>, Variable> variables_{};  ///< by device
};

/// A kernel that LoadedModule gave, and whose it is; nullptrs for any other address.
struct LoadedFunction {
  Function* function = nullptr;
  LoadedModule* module = nullptr;
};
LoadedFunction loaded_function(const void* handle);

}  // namespace phantora::driver
