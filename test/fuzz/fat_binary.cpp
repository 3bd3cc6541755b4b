#include "rank/code/fat_binary.hpp"

#include "fuzz.hpp"

#include <cstring>
#include <vector>

namespace {

/// The container trusts its own length, as CUDA does: only there is it made true.
constexpr std::uint32_t container_magic = 0xba55ed50;
struct Header {
  std::uint32_t magic = container_magic;
  std::uint16_t version = 1, header_size = sizeof(Header);
  std::uint64_t size = 0;
};
static_assert(sizeof(Header) == 16);

}  // namespace

// An ELF file for the GPU, or else what follows the header of a container of them.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace phantora;
  const auto bytes = std::as_bytes(std::span{data, size});
  if (fuzz::text_of(data, size)
          .starts_with("\x7f"
                       "ELF")) {
    const rank::Cubin cubin{bytes};
    if (const rank::KernelResources* kernel = cubin.find("kernel"))
      fuzz::expect(kernel->parameter_sizes.size() <= 65536, "parameters are counted in 16 bits");
    return 0;
  }
  Header header;
  header.size = size;
  std::vector<std::byte> container(sizeof header + size);
  std::memcpy(container.data(), &header, sizeof header);
  std::memcpy(container.data() + sizeof header, data, size);
  rank::FatBinary code{container.data()};
  for (const auto& entry : code.entries())
    fuzz::expect(entry.payload.size() <= size, "code lies within the container");
  (void)code.find("kernel", 90);
  return 0;
}
