#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <elf.h>

/// What the dynamic linker will want of a shared library or a program, read from its file.
namespace phantora::libc {

struct Import {
  std::string_view name;
  std::string_view library, version;  ///< empty where the reference has no version
};

class ElfFile {
 public:
  /// nullopt for what is not a 64-bit ELF file with a dynamic section.
  static std::optional<ElfFile> open(const std::string& path);
  ElfFile(ElfFile&& other) noexcept;
  ElfFile& operator=(ElfFile&&) = delete;
  ~ElfFile();

  [[nodiscard]] std::vector<std::string_view> needed() const;
  /// Folders to look for needed libraries in, $ORIGIN resolved: DT_RPATH, or DT_RUNPATH where it
  /// has one.
  [[nodiscard]] std::vector<std::string> search_path() const;
  /// Symbols that it wants and that must be found.
  [[nodiscard]] std::vector<Import> imports() const;
  [[nodiscard]] bool defines(std::string_view name) const;

 private:
  ElfFile(std::string path, std::span<const std::byte> bytes);
  [[nodiscard]] bool read_dynamic();
  template <class T>
  [[nodiscard]] std::optional<T> at(std::uint64_t offset) const;
  [[nodiscard]] std::optional<std::uint64_t> offset_of(std::uint64_t address) const;
  [[nodiscard]] std::string_view text(std::uint64_t offset_in_strings) const;
  [[nodiscard]] std::optional<std::uint64_t> entry(std::int64_t tag) const;
  /// The number of symbols before the first of those that are all defined.
  [[nodiscard]] std::uint64_t first_defined() const;

  std::string path_;
  std::span<const std::byte> bytes_;
  std::vector<Elf64_Phdr> segments_;
  std::vector<Elf64_Dyn> dynamic_;
  std::uint64_t strings_ = 0, strings_size_ = 0, symbols_ = 0;
};

}  // namespace phantora::libc
