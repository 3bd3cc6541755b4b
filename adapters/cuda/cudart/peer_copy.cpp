#include "cuda/cudart/entry.hpp"
#include "cuda/driver/copy.hpp"
#include "cuda/driver/stream.hpp"

using namespace phantora::cudart;
namespace driver = phantora::driver;

namespace {

cudaError_t peer_copy(void* destination, int to, const void* source, int from, std::size_t bytes,
                      cudaStream_t stream, const char* name = __builtin_FUNCTION()) {
  return device_entry({Api::memcpy_async_d2d, name}, [&] {
    if (!valid_device(to) || !valid_device(from)) return cudaErrorInvalidDevice;
    if (!destination || !source) return bytes ? cudaErrorInvalidValue : cudaSuccess;
    driver::copy({.destination = destination, .source = source, .width = bytes}, false,
                 driver::stream_of(stream));
    return cudaSuccess;
  });
}

}  // namespace

PHANTORA_EXPORT cudaError_t cudaMemcpyPeer(void* destination, int to, const void* source, int from,
                                           std::size_t bytes) {
  return peer_copy(destination, to, source, from, bytes, nullptr);
}

PHANTORA_EXPORT cudaError_t cudaMemcpyPeerAsync(void* destination, int to, const void* source,
                                                int from, std::size_t bytes, cudaStream_t stream) {
  return peer_copy(destination, to, source, from, bytes, stream);
}
