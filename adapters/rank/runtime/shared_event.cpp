#include "rank/runtime/shared_event.hpp"

#include "rank/runtime/connection.hpp"
#include "rank/runtime/rank.hpp"

#include <array>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace phantora::rank {
namespace {

constexpr std::size_t size = 4096;

std::uint64_t of_this_process() {
  return static_cast<std::uint64_t>(this_rank().connect()->welcome().process) + 1;
}

}  // namespace

SharedMarker::~SharedMarker() {
  if (latest_ != nullptr) munmap(static_cast<void*>(latest_), size);
  if (descriptor_ >= 0) close(descriptor_);
}

bool SharedMarker::make() {
  descriptor_ = memfd_create("phantora-event", MFD_CLOEXEC);
  return descriptor_ >= 0 && ftruncate(descriptor_, size) == 0 && map();
}

bool SharedMarker::open(const Name& name) {
  const std::string path =
      "/proc/" + std::to_string(name.process_id) + "/fd/" + std::to_string(name.descriptor);
  std::array<char, 64> target{};
  const ssize_t length = readlink(path.c_str(), target.data(), target.size() - 1);
  if (length <= 0 || !std::string{target.data()}.starts_with("/memfd:phantora-event")) return false;
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  return descriptor_ >= 0 && map();
}

bool SharedMarker::map() {
  void* const at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (at == MAP_FAILED) return false;
  latest_ = static_cast<std::atomic<std::uint64_t>*>(at);
  return true;
}

SharedMarker::Name SharedMarker::name() const noexcept { return {getpid(), descriptor_}; }

std::uint64_t SharedMarker::load() const noexcept {
  const std::uint64_t latest = latest_->load(std::memory_order_acquire);
  const bool own = latest >> channel::id_bits == of_this_process();
  return own ? latest & ((std::uint64_t{1} << channel::id_bits) - 1) : latest;
}

void SharedMarker::store(std::uint64_t own_marker) noexcept {
  latest_->store(of_this_process() << channel::id_bits | own_marker, std::memory_order_release);
}

}  // namespace phantora::rank
