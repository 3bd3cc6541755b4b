#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <elf.h>

/// What the dynamic linker will want of a shared library or a program, read from its file.
namespace phantora::libc {

struct Import {
  std::string_view name;
  std::string_view library, version;  ///< empty where the reference has no version
};

struct Function {
  std::string_view name;
  std::uint64_t address = 0, size = 0;  ///< where it is loaded, less where the file is
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
  /// Of a symbol that it exports: where it is loaded, less where the file is.
  [[nodiscard]] std::optional<std::uint64_t> address_of(std::string_view name) const;
  [[nodiscard]] bool defines(std::string_view name) const;
  /// Functions that no other file can call and whose names begin with one of these. Empty for a
  /// file without a symbol table, which a stripped one is.
  [[nodiscard]] std::vector<Function> hidden_functions(
      std::initializer_list<std::string_view> prefixes) const;
  /// All functions that can be unwound, by their addresses and without their names: what the tables
  /// for exceptions list, which a stripped file keeps. Empty where these are not of the kind that
  /// linkers write (Linux Standard Base, "Exception Frames").
  [[nodiscard]] std::vector<Function> unwound_functions() const;
  /// What the dynamic linker writes as addresses of the file's own: where, and of what.
  [[nodiscard]] std::vector<std::pair<std::uint64_t, std::uint64_t>> relocated() const;
  /// What the file has for these addresses, less where it is loaded; empty unless it has all.
  [[nodiscard]] std::span<const std::byte> bytes_at(std::uint64_t address,
                                                    std::uint64_t size) const;
  /// The text that begins there, of so many characters at most; empty where the file has nothing.
  [[nodiscard]] std::string_view text_at(std::uint64_t address, std::uint64_t longest = 256) const;

 private:
  ElfFile(std::string path, std::span<const std::byte> bytes);
  [[nodiscard]] bool read_dynamic();
  template <class T>
  [[nodiscard]] std::optional<T> at(std::uint64_t offset) const;
  [[nodiscard]] std::optional<std::uint64_t> offset_of(std::uint64_t address) const;
  struct Strings {
    std::uint64_t offset = 0, size = 0;  ///< in the file
  };
  /// As much of it as the file has.
  [[nodiscard]] Strings strings_at(std::uint64_t offset, std::uint64_t size) const;
  [[nodiscard]] std::string_view text(std::uint64_t offset, const Strings& strings) const;
  /// Of the dynamic section's strings.
  [[nodiscard]] std::string_view text(std::uint64_t offset) const;
  [[nodiscard]] std::optional<std::uint64_t> entry(std::int64_t tag) const;
  /// The number of symbols before the first of those that are all defined.
  [[nodiscard]] std::uint64_t first_defined() const;

  std::string path_;
  std::span<const std::byte> bytes_;
  std::vector<Elf64_Phdr> segments_;
  std::vector<Elf64_Dyn> dynamic_;
  Strings strings_;
  std::uint64_t symbols_ = 0;
};

/// Paths of the program and of all that is loaded with it.
std::vector<std::string> loaded_files();

}  // namespace phantora::libc
