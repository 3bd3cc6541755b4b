#pragma once

#include <cstdint>
#include <cstring>

#include <cuda.h>

namespace phantora::libcuda {

/// What a compiler that had nothing to say and took no time answers through the options of a call:
/// logs that are empty strings. A program prints them whether or not there was anything to compile.
inline void answer_jit_options(unsigned count, const CUjit_option* options, void** values) {
  if (!options || !values) return;
  struct Log {
    CUjit_option text, size;
  };
  for (const Log& log : {Log{CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES},
                         Log{CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES}}) {
    char* text = nullptr;
    void** size = nullptr;
    for (unsigned i = 0; i < count; ++i) {
      if (options[i] == log.text) text = static_cast<char*>(values[i]);
      if (options[i] == log.size) size = &values[i];
    }
    if (!size) continue;
    // The value itself is the size, an unsigned int; afterwards how much of it was filled.
    if (text && static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(*size)) > 0) *text = 0;
    *size = nullptr;
  }
  for (unsigned i = 0; i < count; ++i) {
    const float none = 0.0F;  // milliseconds
    if (options[i] == CU_JIT_WALL_TIME) std::memcpy(&values[i], &none, sizeof none);
  }
}

}  // namespace phantora::libcuda
