#include "rank/runtime/run_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace phantora::rank {

channel::RunShared* run_memory_at(const std::string& path) noexcept {
  if (path.empty()) return nullptr;
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  void* const address =
      mmap(nullptr, sizeof(channel::RunShared), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  close(descriptor);
  return address == MAP_FAILED ? nullptr : static_cast<channel::RunShared*>(address);
}

}  // namespace phantora::rank
