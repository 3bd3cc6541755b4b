#include "libc/stub_library.hpp"

#include "libc/real.hpp"

#include <array>
#include <atomic>
#include <cstring>

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

namespace phantora::libc {

namespace {

constinit Real<void* (*)(const char*, int)> real_dlopen{"dlopen"};

constexpr std::size_t page = 4096;

/// Bytes that grow; things are laid behind one another, aligned.
class Layout {
 public:
  std::size_t reserve(std::size_t size, std::size_t alignment = 8) {
    const std::size_t at = (bytes_.size() + alignment - 1) / alignment * alignment;
    bytes_.resize(at + size);
    return at;
  }
  template <class T>
  void put(std::size_t at, const T& value) {
    std::memcpy(bytes_.data() + at, &value, sizeof value);
  }
  void put(std::size_t at, const std::string& text) {
    std::memcpy(bytes_.data() + at, text.c_str(), text.size() + 1);
  }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/// System V ABI, "Hash Table".
std::uint32_t elf_hash(const std::string& name) {
  std::uint32_t hash = 0;
  for (const char c : name) {
    hash = (hash << 4U) + static_cast<unsigned char>(c);
    const std::uint32_t top = hash & 0xf0000000U;
    hash ^= top >> 24U;
    hash &= ~top;
  }
  return hash;
}

/// x86-64: called(name); return result.
constexpr std::size_t code_bytes = 40;
std::array<std::uint8_t, code_bytes> code(std::int32_t to_name, std::uint64_t called,
                                          std::uint64_t result) {
  std::array<std::uint8_t, code_bytes> bytes{
      0x48, 0x83, 0xec, 0x08,                    // sub  rsp, 8
      0x48, 0x8d, 0x3d, 0,    0, 0, 0,           // lea  rdi, [rip + to_name]
      0x48, 0xb8, 0,    0,    0, 0, 0, 0, 0, 0,  // mov  rax, called
      0xff, 0xd0,                                // call rax
      0x48, 0xb8, 0,    0,    0, 0, 0, 0, 0, 0,  // mov  rax, result
      0x48, 0x83, 0xc4, 0x08,                    // add  rsp, 8
      0xc3};                                     // ret
  std::memcpy(bytes.data() + 7, &to_name, sizeof to_name);
  std::memcpy(bytes.data() + 13, &called, sizeof called);
  std::memcpy(bytes.data() + 25, &result, sizeof result);
  return bytes;
}
constexpr std::int32_t end_of_lea = 11;

}  // namespace

std::vector<std::byte> stub_library(const std::vector<Stub>& stubs, void (*called)(const char*)) {
  const std::size_t count = stubs.size() + 1;  // symbol 0 is none
  Layout file;
  const std::size_t header_at = file.reserve(sizeof(Elf64_Ehdr));
  const std::size_t segments_at = file.reserve(4 * sizeof(Elf64_Phdr));
  const std::size_t hash_at = file.reserve((2 + 2 * count) * 4);  // as many buckets as symbols
  const std::size_t symbols_at = file.reserve(count * sizeof(Elf64_Sym));
  const std::size_t strings_at = file.reserve(1);
  std::vector<std::size_t> names_at;
  for (const Stub& stub : stubs) {
    names_at.push_back(file.reserve(stub.name.size() + 1, 1));
    file.put(names_at.back(), stub.name);
  }
  const std::string soname = "libphantora_stubs.so";
  const std::size_t soname_at = file.reserve(soname.size() + 1, 1);
  file.put(soname_at, soname);
  const std::size_t strings_end = file.size();

  std::vector<std::uint32_t> buckets(count, 0), chain(count, 0);
  for (std::size_t i = 0; i < stubs.size(); ++i) {
    const std::size_t code_at = file.reserve(code_bytes);
    const auto to_name = static_cast<std::int32_t>(static_cast<std::int64_t>(names_at[i]) -
                                                   static_cast<std::int64_t>(code_at)) -
                         end_of_lea;
    file.put(code_at, code(to_name, reinterpret_cast<std::uint64_t>(called), stubs[i].result));
    Elf64_Sym symbol{};
    symbol.st_name = static_cast<Elf64_Word>(names_at[i] - strings_at);
    symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    symbol.st_shndx = 1;  // any but SHN_UNDEF: there are no sections
    symbol.st_value = code_at;
    symbol.st_size = code_bytes;
    const auto number = static_cast<std::uint32_t>(i + 1);
    file.put(symbols_at + number * sizeof symbol, symbol);
    std::uint32_t& bucket = buckets[elf_hash(stubs[i].name) % count];
    chain[number] = bucket;
    bucket = number;
  }
  file.put(hash_at,
           std::array{static_cast<std::uint32_t>(count), static_cast<std::uint32_t>(count)});
  for (std::size_t i = 0; i < count; ++i) {
    file.put(hash_at + (2 + i) * 4, buckets[i]);
    file.put(hash_at + (2 + count + i) * 4, chain[i]);
  }
  const std::size_t code_end = file.size();

  // The dynamic linker may write into the dynamic section: a segment of its own.
  const std::array<Elf64_Dyn, 7> dynamic{{{DT_SONAME, {soname_at - strings_at}},
                                          {DT_HASH, {hash_at}},
                                          {DT_SYMTAB, {symbols_at}},
                                          {DT_SYMENT, {sizeof(Elf64_Sym)}},
                                          {DT_STRTAB, {strings_at}},
                                          {DT_STRSZ, {strings_end - strings_at}},
                                          {DT_NULL, {0}}}};
  const std::size_t dynamic_at = file.reserve(sizeof dynamic, page);
  file.put(dynamic_at, dynamic);

  const auto segment = [](Elf64_Word type, Elf64_Word flags, std::size_t at, std::size_t size) {
    return Elf64_Phdr{type, flags, at, at, at, size, size, type == PT_LOAD ? page : 8};
  };
  file.put(segments_at, std::array{segment(PT_LOAD, PF_R | PF_X, 0, code_end),
                                   segment(PT_LOAD, PF_R | PF_W, dynamic_at, sizeof dynamic),
                                   segment(PT_DYNAMIC, PF_R | PF_W, dynamic_at, sizeof dynamic),
                                   segment(PT_GNU_STACK, PF_R | PF_W, 0, 0)});
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_DYN;
  header.e_machine = EM_X86_64;
  header.e_version = EV_CURRENT;
  header.e_phoff = segments_at;
  header.e_ehsize = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 4;
  file.put(header_at, header);
  return file.take();
}

bool load(const std::vector<std::byte>& library) {
  const int file = memfd_create("phantora-stubs", MFD_CLOEXEC);
  if (file < 0) return false;
  const bool written =
      write(file, library.data(), library.size()) == static_cast<ssize_t>(library.size());
  // A path that was loaded from before is taken to be the same library, and descriptors are reused.
  static std::atomic<std::size_t> loaded_before{0};
  std::string path = "/proc/self/fd/";
  for (std::size_t i = loaded_before++; i > 0; --i) path += "./";
  path += std::to_string(file);
  const bool loaded = written && real_dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr;
  close(file);
  return loaded;
}

}  // namespace phantora::libc
