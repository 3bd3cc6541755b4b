#pragma once

#include "rank/code/module_variable.hpp"
#include "rank/code/ptx.hpp"
#include "rank/kernels/kernel_launch.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

/// What a program's GPU code says about its kernels, without running it.
namespace phantora::rank {

/// Parses an ELF file for the GPU: resources of every kernel in it, by mangled name.
/// Malformed input gives what could be read, never an error.
class Cubin {
 public:
  explicit Cubin(std::span<const std::byte> elf);
  [[nodiscard]] const KernelResources* find(std::string_view mangled) const;
  [[nodiscard]] const ModuleVariable* variable(std::string_view name) const;
  /// The variables whose addresses lie in constant bank 4.
  [[nodiscard]] std::span<const VariableAddress> bank() const noexcept { return bank_; }
  [[nodiscard]] bool empty() const noexcept { return kernels_.empty(); }

 private:
  // By hash: the names are in the file, which is not kept.
  std::unordered_map<std::size_t, KernelResources> kernels_;
  std::unordered_map<std::size_t, ModuleVariable> variables_;
  std::vector<VariableAddress> bank_;  ///< constant bank 4, which its kernels have in common
};

/// A container of GPU code for several architectures, parsed and decompressed as far as asked for.
class FatBinary {
 public:
  /// @param image  what __cudaRegisterFatBinary (the wrapper), cuModuleLoadData (the wrapper, the
  ///               container, an ELF file, PTX text) was given.
  explicit FatBinary(const void* image);

  /// The kernel's resources in the machine code for `architecture` (90 = sm_90), else for the
  /// nearest older one, else for the nearest newer one, else in PTX, of which their architecture
  /// stays 0. nullopt when no code has that kernel.
  std::optional<KernelResources> find(std::string_view mangled, int architecture);
  /// Whether any code has that kernel; nullopt where no code tells of any kernel: where nobody
  /// knows how it is written, for one.
  std::optional<bool> has(std::string_view mangled, int architecture);
  /// Of all kernels in the code that find() looks at first.
  std::vector<std::string> kernel_names(int architecture);
  /// A variable in the same code; nullopt when it says nothing of it.
  std::optional<ModuleVariable> variable(std::string_view name, int architecture);

  /// The machine code of a kernel that find() gave; empty where there is none. Read anew from the
  /// file, which is not kept: few kernels are asked for.
  std::vector<std::byte> code(const KernelResources& kernel, std::string_view mangled);

  struct Entry {
    int architecture = 0;
    bool specific = false;  ///< for this architecture alone (sm_90a)
    std::span<const std::byte> payload;
    std::size_t compressed = 0;    ///< bytes of the payload; 0 = not compressed
    std::size_t decompressed = 0;  ///< bytes
    std::optional<Cubin> cubin{};  ///< once read
    bool is_text = false;          ///< PTX
    std::optional<Ptx> ptx{};      ///< of text, once read
  };
  /// Size of the code that find() has decompressed so far.
  [[nodiscard]] std::size_t bytes_read() const noexcept;
  [[nodiscard]] const std::vector<Entry>& entries() const noexcept { return entries_; }
  bool loading_charged = false;  ///< somebody's: that the program has paid for the loading

 private:
  /// As find() looks at them: the best for `architecture` first.
  std::vector<Entry*> by_preference(int architecture);
  static const Ptx& text_of(Entry& entry);

  std::vector<Entry> entries_;
};

/// The code of `entry`, decompressed (Zstandard of nvcc 13, LZ4 of older ones); empty on failure.
std::vector<std::byte> decompress(const FatBinary::Entry& entry);

}  // namespace phantora::rank
