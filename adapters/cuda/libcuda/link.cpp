// Linking of GPU code at run time. Nothing is linked: what a module is read for, its kernels'
// parameters, is in PTX as it is in machine code.
#include "cuda/driver/image.hpp"
#include "cuda/libcuda/entry.hpp"
#include "cuda/libcuda/jit_options.hpp"

#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

using namespace phantora::libcuda;
namespace driver = phantora::driver;
namespace rank = phantora::rank;

namespace {

/// What was given so far; its address is the CUlinkState.
struct Linking {
  std::string text{};               ///< all PTX, one after the other
  std::vector<std::byte> binary{};  ///< one cubin or fat binary
};
Linking& linking_of(CUlinkState state) { return *reinterpret_cast<Linking*>(state); }

CUresult add(Linking& linking, CUjitInputType type, const void* data, std::size_t size) {
  if (!data || size == 0) return CUDA_ERROR_INVALID_VALUE;
  switch (type) {
    case CU_JIT_INPUT_PTX: {
      // Its end may be counted, or not.
      const std::string_view text{static_cast<const char*>(data), size};
      linking.text += text.substr(0, text.find('\0'));
      linking.text += '\n';
      return CUDA_SUCCESS;
    }
    case CU_JIT_INPUT_CUBIN:
    case CU_JIT_INPUT_FATBINARY:
      if (linking.binary.empty()) {
        linking.binary = driver::copy_image(data);
        return linking.binary.empty() ? CUDA_ERROR_INVALID_IMAGE : CUDA_SUCCESS;
      }
      rank::unsupported("linking of several cubins");
      return CUDA_ERROR_NOT_SUPPORTED;
    case CU_JIT_INPUT_OBJECT:
    case CU_JIT_INPUT_LIBRARY:
      return CUDA_SUCCESS;  // device functions that kernels call: nothing is read in them
    default:
      rank::unsupported("linking of LTO code");
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace

PHANTORA_EXPORT CUresult cuLinkCreate(unsigned count, CUjit_option* options, void** values,
                                      CUlinkState* state) {  // _v2
  answer_jit_options(count, options, values);
  return device_entry(Api::library_setup, [&] {
    if (!state) return CUDA_ERROR_INVALID_VALUE;
    *state = reinterpret_cast<CUlinkState>(new Linking);
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void* data,
                                       std::size_t size, const char*, unsigned count,
                                       CUjit_option* options, void** values) {  // _v2
  answer_jit_options(count, options, values);
  return device_entry(Api::library_setup, [&] {
    if (!state) return CUDA_ERROR_INVALID_HANDLE;
    return add(linking_of(state), type, data, size);
  });
}

PHANTORA_EXPORT CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char* path,
                                       unsigned count, CUjit_option* options,
                                       void** values) {  // _v2
  answer_jit_options(count, options, values);
  return device_entry(Api::library_setup, [&] {
    if (!state) return CUDA_ERROR_INVALID_HANDLE;
    if (!path) return CUDA_ERROR_INVALID_VALUE;
    std::ifstream file{path, std::ios::binary};
    if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
    const std::string bytes{std::istreambuf_iterator<char>{file}, {}};
    return add(linking_of(state), type, bytes.c_str(), bytes.size());
  });
}

PHANTORA_EXPORT CUresult cuLinkComplete(CUlinkState state, void** code, std::size_t* size) {
  return device_entry(Api::library_setup, [&] {
    if (!state) return CUDA_ERROR_INVALID_HANDLE;
    if (!code) return CUDA_ERROR_INVALID_VALUE;
    Linking& linking = linking_of(state);
    if (!linking.binary.empty() && !linking.text.empty()) {
      rank::unsupported("linking of PTX with machine code");
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (!linking.binary.empty()) {
      *code = linking.binary.data();
      if (size) *size = linking.binary.size();
    } else if (!linking.text.empty()) {
      *code = linking.text.data();
      if (size) *size = linking.text.size() + 1;
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
  });
}

PHANTORA_EXPORT CUresult cuLinkDestroy(CUlinkState state) {
  return device_entry(Api::free, [&] {
    if (!state) return CUDA_ERROR_INVALID_HANDLE;
    delete &linking_of(state);
    return CUDA_SUCCESS;
  });
}
