#include "cuda/driver/image.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <elf.h>

namespace phantora::driver {
namespace {

// fatbinary_section.h of the toolkit: the wrapper that nvcc emits, and the container it points to.
constexpr std::uint32_t wrapper_magic = 0x466243b1, container_magic = 0xba55ed50;
struct Wrapper {
  std::uint32_t magic, version;
  const void* data;
  void* other;
};
struct Container {
  std::uint32_t magic;
  std::uint16_t version, header_size;
  std::uint64_t size;
};

std::size_t elf_size(const void* image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  std::size_t end = header.e_shoff + std::size_t{header.e_shentsize} * header.e_shnum;
  end =
      std::max(end, std::size_t{header.e_phoff} + std::size_t{header.e_phentsize} * header.e_phnum);
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(
        &section,
        static_cast<const std::byte*>(image) + header.e_shoff + std::size_t{header.e_shentsize} * i,
        sizeof section);
    if (section.sh_type != SHT_NOBITS) {
      end = std::max(end, std::size_t{section.sh_offset} + section.sh_size);
    }
  }
  return end;
}

}  // namespace

std::vector<std::byte> copy_image(const void* image) {
  std::uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof magic);
  if (magic == wrapper_magic) {
    image = static_cast<const Wrapper*>(image)->data;
    std::memcpy(&magic, image, sizeof magic);
  }
  std::size_t size = 0;
  if (magic == container_magic) {
    Container header;
    std::memcpy(&header, image, sizeof header);
    size = header.header_size + header.size;
  } else if (std::memcmp(&magic, ELFMAG, SELFMAG) == 0) {
    size = elf_size(image);
  } else {
    const auto* text = static_cast<const char*>(image);
    const std::size_t length = std::strlen(text);
    if (std::strstr(text, ".version")) size = length + 1;
  }
  const auto* begin = static_cast<const std::byte*>(image);
  return {begin, begin + size};
}

}  // namespace phantora::driver
