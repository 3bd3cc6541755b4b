#include "rank/code/fat_binary.hpp"

#include "rank/code/device_code.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>

#include <elf.h>
#include <zstd.h>

namespace phantora::rank {

namespace {

// Facts about the container: fatbinary_section.h of the CUDA toolkit (wrapper), and the fields as
// found in the PyTorch 2.11 wheel; those of compressed entries agree with RWTH-ACS/cricket.
constexpr std::uint32_t wrapper_magic = 0x466243b1;
constexpr std::uint32_t container_magic = 0xba55ed50;
constexpr std::uint16_t kind_text = 1, kind_elf = 2;
constexpr std::uint64_t flag_specific = 0x100000;

struct Wrapper {
  std::uint32_t magic, version;
  const void* container;
  const void* unused;
};
struct ContainerHeader {
  std::uint32_t magic;
  std::uint16_t version, header_size;
  std::uint64_t size;
};
struct EntryHeader {
  std::uint16_t kind, version;
  std::uint32_t header_size;
  std::uint64_t payload_size;
  std::uint32_t compressed_size, unknown, version_of_isa, architecture;
  std::uint32_t name_offset, name_size;
  std::uint64_t flags, zero, decompressed_size;
};
static_assert(sizeof(EntryHeader) == 64);

// Attributes of .nv.info sections: a format byte, an attribute byte, then a 16-bit value or, for
// format 4, a 16-bit size and that many bytes. Names as nvdisasm and cuobjdump print them.
constexpr std::uint8_t format_sized = 4;
constexpr std::uint8_t attribute_max_threads = 0x05;
constexpr std::uint8_t attribute_parameter_bank = 0x0a;
constexpr std::uint8_t attribute_externals = 0x0f;
constexpr std::uint8_t attribute_frame_size = 0x11;
constexpr std::uint8_t attribute_parameter = 0x17;
constexpr std::uint8_t attribute_registers = 0x2f;
constexpr std::uint8_t attribute_cluster = 0x3d;
// Of kernels whose parameters take more than 4 KiB: the size alone, where the other packs it.
constexpr std::uint8_t attribute_parameter_v2 = 0x45;

template <class T>
std::optional<T> at(std::span<const std::byte> bytes, std::size_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::span<const std::byte> part(std::span<const std::byte> bytes, std::uint64_t offset,
                                std::uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset) return {};
  return bytes.subspan(offset, size);
}

std::string_view string_at(std::span<const std::byte> bytes, std::size_t offset) {
  if (offset >= bytes.size()) return {};
  const char* first = reinterpret_cast<const char*>(bytes.data()) + offset;
  return {first, strnlen(first, bytes.size() - offset)};
}

/// Calls `visit(attribute, payload)` for each sized attribute of an .nv.info section.
template <class F>
void for_each_attribute(std::span<const std::byte> section, F visit) {
  std::size_t offset = 0;
  while (offset + 4 <= section.size()) {
    const auto format = std::to_integer<std::uint8_t>(section[offset]);
    const auto attribute = std::to_integer<std::uint8_t>(section[offset + 1]);
    const std::size_t size = *at<std::uint16_t>(section, offset + 2);
    offset += 4;
    if (format != format_sized) continue;
    visit(attribute, part(section, offset, size));
    offset += size;
  }
}

/// Zstandard. Empty on malformed input, and where more comes out than `size`, which is believed
/// only as far as something does.
std::vector<std::byte> zstandard(std::span<const std::byte> in, std::size_t size) {
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context{ZSTD_createDCtx(),
                                                                     ZSTD_freeDCtx};
  std::vector<std::byte> out(std::min(size, 16 * in.size()));
  ZSTD_inBuffer from{in.data(), in.size(), 0};
  for (std::size_t done = 0;;) {
    ZSTD_outBuffer to{out.data(), out.size(), done};
    const std::size_t more = ZSTD_decompressStream(context.get(), &to, &from);
    if (ZSTD_isError(more)) return {};
    done = to.pos;
    if (more == 0) {
      out.resize(done);
      return out;
    }
    if (done < out.size() || out.size() == size) return {};  // the input ends early, or goes on
    out.resize(std::min(size, 2 * out.size()));
  }
}

/// Raw LZ4 block (lz4_Block_format.md). Empty on malformed input.
std::vector<std::byte> lz4(std::span<const std::byte> in, std::size_t size) {
  constexpr std::size_t most_per_byte = 255;  // of a match's length
  if (size / most_per_byte > in.size()) return {};
  std::vector<std::byte> out;
  out.reserve(size);
  std::size_t i = 0;
  const auto extended = [&](std::size_t length) {
    if (length != 15) return length;
    while (i < in.size()) {
      const auto more = std::to_integer<std::size_t>(in[i++]);
      length += more;
      if (more != 255) break;
    }
    return length;
  };
  while (i < in.size()) {
    const auto token = std::to_integer<std::size_t>(in[i++]);
    const std::size_t literals = extended(token >> 4);
    if (literals > in.size() - i || out.size() + literals > size) return {};
    out.insert(out.end(), in.begin() + static_cast<std::ptrdiff_t>(i),
               in.begin() + static_cast<std::ptrdiff_t>(i + literals));
    i += literals;
    if (i == in.size()) break;  // the last sequence has no match
    const auto distance = at<std::uint16_t>(in, i);
    if (!distance || *distance == 0 || *distance > out.size()) return {};
    i += 2;
    const std::size_t length = extended(token & 15) + 4;
    if (out.size() + length > size) return {};
    for (std::size_t n = 0; n < length; ++n) out.push_back(out[out.size() - *distance]);
  }
  return out;
}

/// The architecture that an ELF file is for. CUDA 13 writes ELF ABI version 8, which moved it.
int architecture_of(const Elf64_Ehdr& header) {
  return static_cast<int>(
      (header.e_ident[EI_ABIVERSION] >= 8 ? header.e_flags >> 8 : header.e_flags) & 0xff);
}

// From sm_90 on, the driver's own KiB is counted in a kernel's section of static shared memory;
// cudaFuncGetAttributes leaves it out.
constexpr std::size_t driver_shared = 1024;
constexpr int driver_shared_from = 90;

std::size_t hash(std::string_view name) { return std::hash<std::string_view>{}(name); }

}  // namespace

Cubin::Cubin(std::span<const std::byte> elf) {
  const auto header = at<Elf64_Ehdr>(elf, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return;
  const auto section = [&](std::size_t index) {
    return at<Elf64_Shdr>(elf, header->e_shoff + index * header->e_shentsize);
  };
  const auto names_header = section(header->e_shstrndx);
  if (!names_header) return;
  const auto names = part(elf, names_header->sh_offset, names_header->sh_size);

  // Registers and stack frames are listed by symbol, for the whole file.
  std::span<const std::byte> symbols, symbol_names;
  std::unordered_map<std::uint32_t, std::uint32_t> frames, registers;
  std::vector<std::pair<KernelResources*, std::uint32_t>> externals;  // of a kernel: a symbol
  constexpr std::string_view info = ".nv.info", text = ".text.", shared = ".nv.shared.",
                             jumps = ".nv.constant2.", of_text = ".rela.text.",
                             of_addresses = ".rela.nv.constant4";
  std::vector<std::pair<std::span<const std::byte>, KernelResources*>> relocations;
  for (std::size_t i = 0; i < header->e_shnum; ++i) {
    const auto s = section(i);
    if (!s) return;
    const std::string_view name = string_at(names, s->sh_name);
    const auto bytes = s->sh_type == SHT_NOBITS ? std::span<const std::byte>{}
                                                : part(elf, s->sh_offset, s->sh_size);
    if (s->sh_type == SHT_SYMTAB) {
      symbols = bytes;
      if (const auto strings = section(s->sh_link)) {
        symbol_names = part(elf, strings->sh_offset, strings->sh_size);
      }
    } else if (name == info) {
      for_each_attribute(bytes, [&](std::uint8_t attribute, std::span<const std::byte> payload) {
        const auto symbol = at<std::uint32_t>(payload, 0);
        const auto value = at<std::uint32_t>(payload, 4);
        if (!symbol || !value) return;
        if (attribute == attribute_frame_size) frames[*symbol] = *value;
        if (attribute == attribute_registers) registers[*symbol] = *value;
      });
    } else if (name.starts_with(".nv.info.")) {
      KernelResources& kernel = kernels_[hash(name.substr(info.size() + 1))];
      for_each_attribute(bytes, [&](std::uint8_t attribute, std::span<const std::byte> payload) {
        if (attribute == attribute_max_threads) {
          const auto x = at<std::uint32_t>(payload, 0), y = at<std::uint32_t>(payload, 4),
                     z = at<std::uint32_t>(payload, 8);
          if (x && y && z) kernel.max_threads = static_cast<int>(*x * *y * *z);
        } else if (attribute == attribute_cluster) {
          const auto x = at<std::uint32_t>(payload, 0), y = at<std::uint32_t>(payload, 4),
                     z = at<std::uint32_t>(payload, 8);
          if (x && y && z) kernel.cluster = {*x, *y, *z};
        } else if (attribute == attribute_externals) {
          for (std::size_t at_byte = 0; const auto symbol = at<std::uint32_t>(payload, at_byte);
               at_byte += sizeof *symbol) {
            externals.emplace_back(&kernel, *symbol);
          }
        } else if (attribute == attribute_parameter_bank) {
          kernel.parameters_at = at<std::uint16_t>(payload, 4).value_or(0);
        } else if (attribute == attribute_parameter || attribute == attribute_parameter_v2) {
          const auto ordinal = at<std::uint16_t>(payload, 4);
          const auto size = at<std::uint32_t>(payload, 8);
          if (!ordinal || !size) return;
          if (kernel.parameter_sizes.size() <= *ordinal) {
            kernel.parameter_sizes.resize(*ordinal + std::size_t{1});
            kernel.parameter_offsets.resize(*ordinal + std::size_t{1});
          }
          kernel.parameter_offsets[*ordinal] = at<std::uint16_t>(payload, 6).value_or(0);
          kernel.parameter_sizes[*ordinal] = attribute == attribute_parameter ? *size >> 18 : *size;
        }
      });
    } else if (name.starts_with(text)) {
      // nvcc puts the register count into the top byte of the code section's sh_info.
      const std::string_view mangled = name.substr(text.size());
      KernelResources& kernel = kernels_[hash(mangled)];
      kernel.registers = static_cast<int>(s->sh_info >> 24);
      kernel.code_offset = s->sh_offset;
      kernel.code_size = bytes.size();
      if (!mangled.starts_with("_Z")) kernel.accesses = accesses(bytes, architecture_of(*header));
    } else if (name.starts_with(of_text)) {
      relocations.emplace_back(bytes, &kernels_[hash(name.substr(of_text.size()))]);
    } else if (name == of_addresses) {
      relocations.emplace_back(bytes, nullptr);
    } else if (name.starts_with(jumps)) {
      std::vector<std::uint32_t>& table = kernels_[hash(name.substr(jumps.size()))].links.jumps;
      table.clear();
      while (const auto word = at<std::uint32_t>(bytes, table.size() * sizeof table.front()))
        table.push_back(*word);
    } else if (name.starts_with(shared)) {
      const bool counted = architecture_of(*header) >= driver_shared_from;
      kernels_[hash(name.substr(shared.size()))].static_shared =
          counted && s->sh_size >= driver_shared ? s->sh_size - driver_shared : s->sh_size;
    }
  }
  for (std::uint32_t i = 0; i * sizeof(Elf64_Sym) < symbols.size(); ++i) {
    const auto symbol = at<Elf64_Sym>(symbols, i * sizeof(Elf64_Sym));
    if (!symbol) break;
    if (ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT && symbol->st_shndx < header->e_shnum) {
      const auto s = section(symbol->st_shndx);
      if (!s) continue;
      ModuleVariable& found = variables_[hash(string_at(symbol_names, symbol->st_name))];
      found.size = symbol->st_size;
      found.constant = string_at(names, s->sh_name).starts_with(".nv.constant");
      if (found.size > largest_value) continue;
      // Without bytes in the file it is zero, as C++ has it.
      found.value.resize(found.size);
      if (s->sh_type == SHT_NOBITS) continue;
      const auto given = part(part(elf, s->sh_offset, s->sh_size), symbol->st_value, found.size);
      std::copy(given.begin(), given.end(), found.value.begin());
      continue;
    }
    const auto frame = frames.find(i);
    const auto count = registers.find(i);
    if (frame == frames.end() && count == registers.end()) continue;
    const auto kernel = kernels_.find(hash(string_at(symbol_names, symbol->st_name)));
    if (kernel == kernels_.end()) continue;
    if (frame != frames.end()) kernel->second.local = frame->second;
    if (count != registers.end()) kernel->second.registers = static_cast<int>(count->second);
  }
  for (const auto& [bytes, kernel] : relocations) {
    // As readelf shows them: a word of 64 bits, and the halves of one in immediates.
    constexpr std::uint32_t whole = 2, lower = 0x38, upper = 0x39;
    for (std::size_t k = 0; const auto r = at<Elf64_Rela>(bytes, k * sizeof(Elf64_Rela)); ++k) {
      const auto type = static_cast<std::uint32_t>(ELF64_R_TYPE(r->r_info));
      const auto index = static_cast<std::uint32_t>(ELF64_R_SYM(r->r_info));
      const auto symbol = at<Elf64_Sym>(symbols, index * sizeof(Elf64_Sym));
      if (!symbol || ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT) continue;
      if (kernel == nullptr ? type != whole : type != lower && type != upper) continue;
      (kernel == nullptr ? bank_ : kernel->links.variables)
          .push_back({r->r_offset, kernel == nullptr, index, symbol->st_size});
    }
  }
  for (const auto& [kernel, index] : externals) {
    if (const auto symbol = at<Elf64_Sym>(symbols, index * sizeof(Elf64_Sym))) {
      kernel->externals.emplace_back(string_at(symbol_names, symbol->st_name));
    }
  }
  for (const auto& [kernel, index] : externals) {
    kernel->links.calls_assert_alone = std::ranges::all_of(
        kernel->externals, [](const std::string& name) { return name == "__assertfail"; });
  }
}

namespace {

/// Symbols of an ELF file for the GPU that may be launched.
std::vector<std::string> entries_of(std::span<const std::byte> elf) {
  constexpr unsigned entry = 0x10;  // STO_CUDA_ENTRY of st_other, as nvdisasm and readelf show it
  const auto header = at<Elf64_Ehdr>(elf, 0);
  if (!header) return {};
  const auto section = [&](std::size_t index) {
    return at<Elf64_Shdr>(elf, header->e_shoff + index * header->e_shentsize);
  };
  std::vector<std::string> found;
  for (std::size_t i = 0; i < header->e_shnum; ++i) {
    const auto table = section(i);
    if (!table || table->sh_type != SHT_SYMTAB) continue;
    const auto strings = section(table->sh_link);
    if (!strings) continue;
    const auto symbols = part(elf, table->sh_offset, table->sh_size);
    const auto names = part(elf, strings->sh_offset, strings->sh_size);
    for (std::size_t k = 0; const auto symbol = at<Elf64_Sym>(symbols, k * sizeof(Elf64_Sym));
         ++k) {
      if (ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && (symbol->st_other & entry) != 0)
        found.emplace_back(string_at(names, symbol->st_name));
    }
  }
  return found;
}

}  // namespace

const KernelResources* Cubin::find(std::string_view mangled) const {
  const auto found = kernels_.find(hash(mangled));
  return found == kernels_.end() ? nullptr : &found->second;
}

const ModuleVariable* Cubin::variable(std::string_view name) const {
  const auto found = variables_.find(hash(name));
  return found == variables_.end() ? nullptr : &found->second;
}

FatBinary::FatBinary(const void* image) {
  if (image == nullptr) return;
  std::uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof magic);
  if (magic == wrapper_magic) {
    image = static_cast<const Wrapper*>(image)->container;
    std::memcpy(&magic, image, sizeof magic);
  }
  const auto* first = static_cast<const std::byte*>(image);
  if (std::memcmp(image, ELFMAG, SELFMAG) == 0) {
    Elf64_Ehdr header;
    std::memcpy(&header, image, sizeof header);
    // The section table is last in what ptxas and the Triton compiler write.
    const std::size_t sections = std::size_t{header.e_shnum} * header.e_shentsize;
    const std::size_t programs = std::size_t{header.e_phnum} * header.e_phentsize;
    const std::size_t size = std::max(header.e_shoff + sections, header.e_phoff + programs);
    Entry entry;
    entry.architecture = architecture_of(header);
    entry.payload = {first, size};
    entries_.push_back(std::move(entry));
    return;
  }
  if (magic != container_magic) {
    // Text begins with a blank, a directive or a comment, and a zero ends it.
    const char* const text = reinterpret_cast<const char*>(first);
    if (std::strchr(" \t\r\n./", *text) == nullptr || *text == '\0') return;
    Entry entry;
    entry.is_text = true;
    entry.payload = {first, std::strlen(text)};
    entries_.push_back(std::move(entry));
    return;
  }
  ContainerHeader header;
  std::memcpy(&header, image, sizeof header);
  const std::span<const std::byte> all{first + header.header_size, header.size};
  for (std::size_t offset = 0; offset < all.size();) {
    const auto entry = at<EntryHeader>(all, offset);
    const std::uint64_t rest = all.size() - offset;
    if (!entry || entry->header_size == 0 || entry->header_size > rest ||
        entry->payload_size > rest - entry->header_size) {
      break;
    }
    if (entry->kind == kind_elf || entry->kind == kind_text) {
      Entry e;
      e.is_text = entry->kind == kind_text;
      e.architecture = static_cast<int>(entry->architecture);
      e.specific = (entry->flags & flag_specific) != 0;
      e.payload = part(all, offset + entry->header_size, entry->payload_size);
      e.compressed = entry->compressed_size;
      e.decompressed = entry->decompressed_size;
      entries_.push_back(std::move(e));
    }
    offset += entry->header_size + entry->payload_size;
  }
}

std::size_t FatBinary::bytes_read() const noexcept {
  std::size_t bytes = 0;
  for (const Entry& entry : entries_)
    if (entry.cubin || entry.ptx)
      bytes += entry.compressed != 0 ? entry.decompressed : entry.payload.size();
  return bytes;
}

std::vector<std::byte> decompress(const FatBinary::Entry& entry) {
  if (entry.compressed == 0) return {entry.payload.begin(), entry.payload.end()};
  const auto in = part(entry.payload, 0, entry.compressed);
  if (at<std::uint32_t>(in, 0) == ZSTD_MAGICNUMBER) return zstandard(in, entry.decompressed);
  return lz4(in, entry.decompressed);
}

const Ptx& FatBinary::text_of(Entry& entry) {
  if (!entry.ptx) {
    // In a container zeros fill it up.
    const std::vector<std::byte> text = decompress(entry);
    entry.ptx.emplace(string_at(text, 0));
  }
  return *entry.ptx;
}

std::vector<FatBinary::Entry*> FatBinary::by_preference(int architecture) {
  std::vector<Entry*> order;
  for (Entry& entry : entries_) order.push_back(&entry);
  const auto distance = [&](const Entry* e) {
    // Older code before newer; what is specific to one architecture runs on that one alone. Text
    // says less than machine code.
    const auto d = std::int64_t{architecture} - e->architecture;
    return (e->is_text ? 100'000 : 0) +
           (d >= 0 ? 2 * d + (e->specific && d > 0 ? 1000 : 0) : 10000 - 2 * d);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const Entry* a, const Entry* b) { return distance(a) < distance(b); });
  return order;
}

std::optional<ModuleVariable> FatBinary::variable(std::string_view name, int architecture) {
  for (Entry* entry : by_preference(architecture)) {
    if (entry->is_text) {
      if (const auto* found = text_of(*entry).variable(name)) return *found;
      continue;
    }
    if (!entry->cubin) entry->cubin.emplace(decompress(*entry));
    if (const auto* found = entry->cubin->variable(name)) return *found;
  }
  return std::nullopt;
}

std::optional<KernelResources> FatBinary::find(std::string_view mangled, int architecture) {
  for (Entry* entry : by_preference(architecture)) {
    if (entry->is_text) {
      if (const auto* found = text_of(*entry).find(mangled)) return *found;
      continue;
    }
    if (!entry->cubin) entry->cubin.emplace(decompress(*entry));
    if (const auto* found = entry->cubin->find(mangled)) {
      KernelResources resources = *found;
      resources.architecture = entry->architecture;
      const auto bank = entry->cubin->bank();
      auto& variables = resources.links.variables;
      variables.insert(variables.end(), bank.begin(), bank.end());
      return resources;
    }
  }
  return std::nullopt;
}

std::optional<bool> FatBinary::has(std::string_view mangled, int architecture) {
  if (find(mangled, architecture)) return true;
  const bool any = std::ranges::any_of(entries_, [](const Entry& entry) {
    return entry.is_text ? entry.ptx && !entry.ptx->kernels().empty()
                         : entry.cubin && !entry.cubin->empty();
  });
  return any ? std::optional{false} : std::nullopt;
}

std::vector<std::string> FatBinary::kernel_names(int architecture) {
  for (Entry* entry : by_preference(architecture)) {
    std::vector<std::string> names;
    if (entry->is_text) {
      for (const auto& [name, kernel] : text_of(*entry).kernels()) names.push_back(name);
    } else {
      names = entries_of(decompress(*entry));
    }
    if (!names.empty()) return names;
  }
  return {};
}

std::vector<std::byte> FatBinary::code(const KernelResources& kernel, std::string_view mangled) {
  for (const Entry& entry : entries_) {
    if (!entry.cubin || entry.architecture != kernel.architecture) continue;
    const KernelResources* const found = entry.cubin->find(mangled);
    if (found == nullptr || found->code_size == 0) continue;
    const std::vector<std::byte> file = decompress(entry);
    const auto bytes = part(file, found->code_offset, found->code_size);
    return {bytes.begin(), bytes.end()};
  }
  return {};
}

}  // namespace phantora::rank
