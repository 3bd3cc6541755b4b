#include "rank/runtime/process.hpp"

/// Called by the generated definition of every function that is not implemented.
extern "C" void phantora_unsupported(const char* entry_point) {
  phantora::rank::unsupported(entry_point);
}
