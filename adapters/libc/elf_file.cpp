#include "libc/elf_file.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <tuple>
#include <utility>

#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace phantora::libc {

std::optional<ElfFile> ElfFile::open(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  struct stat status {};
  void* mapped = MAP_FAILED;
  if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
    mapped =
        mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_PRIVATE, file, 0);
  }
  close(file);
  if (mapped == MAP_FAILED) return std::nullopt;
  ElfFile elf{path,
              {static_cast<const std::byte*>(mapped), static_cast<std::size_t>(status.st_size)}};
  if (!elf.read_dynamic()) return std::nullopt;
  return elf;
}

ElfFile::ElfFile(std::string path, std::span<const std::byte> bytes)
    : path_{std::move(path)}, bytes_{bytes} {}

ElfFile::ElfFile(ElfFile&& other) noexcept
    : path_{std::move(other.path_)},
      bytes_{std::exchange(other.bytes_, {})},
      segments_{std::move(other.segments_)},
      dynamic_{std::move(other.dynamic_)},
      strings_{other.strings_},
      symbols_{other.symbols_} {}

ElfFile::~ElfFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

template <class T>
std::optional<T> ElfFile::at(std::uint64_t offset) const {
  if (offset > bytes_.size() || sizeof(T) > bytes_.size() - offset) return std::nullopt;
  T value;
  std::memcpy(&value, bytes_.data() + offset, sizeof value);
  return value;
}

std::optional<std::uint64_t> ElfFile::offset_of(std::uint64_t address) const {
  for (const Elf64_Phdr& segment : segments_) {
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
        address - segment.p_vaddr < segment.p_filesz) {
      return segment.p_offset + (address - segment.p_vaddr);
    }
  }
  return std::nullopt;
}

std::string_view ElfFile::text(std::uint64_t offset, const Strings& strings) const {
  if (offset >= strings.size) return {};
  const auto* first = reinterpret_cast<const char*>(bytes_.data() + strings.offset + offset);
  return {first, strnlen(first, strings.size - offset)};
}

std::string_view ElfFile::text(std::uint64_t offset) const { return text(offset, strings_); }

ElfFile::Strings ElfFile::strings_at(std::uint64_t offset, std::uint64_t size) const {
  if (offset > bytes_.size()) return {};
  return {offset, std::min<std::uint64_t>(size, bytes_.size() - offset)};
}

std::optional<std::uint64_t> ElfFile::entry(std::int64_t tag) const {
  for (const Elf64_Dyn& d : dynamic_) {
    if (d.d_tag == tag) return d.d_un.d_val;
  }
  return std::nullopt;
}

bool ElfFile::read_dynamic() {
  const auto header = at<Elf64_Ehdr>(0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64) {
    return false;
  }
  for (std::uint64_t i = 0; i < header->e_phnum; ++i) {
    const auto segment = at<Elf64_Phdr>(header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment) return false;
    segments_.push_back(*segment);
  }
  for (const Elf64_Phdr& segment : segments_) {
    if (segment.p_type != PT_DYNAMIC) continue;
    for (std::uint64_t i = 0; i < segment.p_filesz / sizeof(Elf64_Dyn); ++i) {
      const auto d = at<Elf64_Dyn>(segment.p_offset + i * sizeof(Elf64_Dyn));
      if (!d || d->d_tag == DT_NULL) break;
      dynamic_.push_back(*d);
    }
  }
  const auto strings = offset_of(entry(DT_STRTAB).value_or(0));
  const auto symbols = offset_of(entry(DT_SYMTAB).value_or(0));
  if (!strings || !symbols || *strings > bytes_.size()) return false;
  strings_ = strings_at(*strings, entry(DT_STRSZ).value_or(0));
  symbols_ = *symbols;
  return true;
}

std::vector<std::string_view> ElfFile::needed() const {
  std::vector<std::string_view> found;
  for (const Elf64_Dyn& d : dynamic_) {
    if (d.d_tag == DT_NEEDED) found.push_back(text(d.d_un.d_val));
  }
  return found;
}

std::vector<std::string> ElfFile::search_path() const {
  auto list = entry(DT_RUNPATH);
  if (!list) list = entry(DT_RPATH);
  if (!list) return {};
  const std::string folder = path_.substr(0, path_.rfind('/') == path_.npos ? 0 : path_.rfind('/'));
  std::vector<std::string> found;
  for (std::string_view rest = text(*list); !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    std::string place{part};
    for (const std::string_view origin : {"$ORIGIN", "${ORIGIN}"}) {
      if (const auto where = place.find(origin); where != place.npos) {
        place.replace(where, origin.size(), folder);
      }
    }
    if (!place.empty()) found.push_back(std::move(place));
  }
  return found;
}

/// GNU's hash table lists defined symbols alone, which are the last ones; the older table all of
/// them.
std::uint64_t ElfFile::first_defined() const {
  const bool gnu = entry(DT_GNU_HASH).has_value();
  const auto table = offset_of(entry(gnu ? DT_GNU_HASH : DT_HASH).value_or(0));
  return table ? at<std::uint32_t>(*table + 4).value_or(0) : 0;
}

std::vector<Import> ElfFile::imports() const {
  // Numbers of the versions that it wants, with the library that each is of.
  std::vector<std::pair<std::string_view, std::string_view>> versions;
  if (const auto table = offset_of(entry(DT_VERNEED).value_or(0)); table && entry(DT_VERNEED)) {
    std::uint64_t place = *table;
    for (std::uint64_t i = entry(DT_VERNEEDNUM).value_or(0); i > 0; --i) {
      const auto need = at<Elf64_Verneed>(place);
      if (!need) break;
      std::uint64_t part = place + need->vn_aux;
      for (unsigned k = need->vn_cnt; k > 0; --k) {
        const auto aux = at<Elf64_Vernaux>(part);
        if (!aux) break;
        const std::size_t number = aux->vna_other & 0x7fffU;
        if (versions.size() <= number) versions.resize(number + 1);
        versions[number] = {text(need->vn_file), text(aux->vna_name)};
        if (aux->vna_next == 0) break;
        part += aux->vna_next;
      }
      if (need->vn_next == 0) break;
      place += need->vn_next;
    }
  }
  const auto numbers = entry(DT_VERSYM) ? offset_of(*entry(DT_VERSYM)) : std::nullopt;

  std::vector<Import> found;
  const std::uint64_t end = first_defined();
  for (std::uint64_t i = 1; i < end; ++i) {
    const auto symbol = at<Elf64_Sym>(symbols_ + i * sizeof(Elf64_Sym));
    if (!symbol) break;
    if (symbol->st_shndx != SHN_UNDEF || ELF64_ST_BIND(symbol->st_info) != STB_GLOBAL) continue;
    Import import{text(symbol->st_name), {}, {}};
    if (numbers) {
      const std::size_t number = at<std::uint16_t>(*numbers + 2 * i).value_or(0) & 0x7fffU;
      if (number < versions.size()) std::tie(import.library, import.version) = versions[number];
    }
    found.push_back(import);
  }
  return found;
}

std::optional<std::uint64_t> ElfFile::address_of(std::string_view name) const {
  const auto named = [&](std::uint64_t i) -> std::optional<std::uint64_t> {
    const auto symbol = at<Elf64_Sym>(symbols_ + i * sizeof(Elf64_Sym));
    if (!symbol || symbol->st_shndx == SHN_UNDEF || text(symbol->st_name) != name) {
      return std::nullopt;
    }
    return symbol->st_value;
  };
  const auto table = entry(DT_GNU_HASH) ? offset_of(*entry(DT_GNU_HASH)) : std::nullopt;
  if (!table) {
    for (std::uint64_t i = 1; i < first_defined(); ++i) {
      if (const auto address = named(i)) return address;
    }
    return std::nullopt;
  }
  std::uint32_t hash = 5381;
  for (const char c : name) hash = hash * 33 + static_cast<unsigned char>(c);
  const auto buckets = at<std::uint32_t>(*table), first = at<std::uint32_t>(*table + 4),
             bloom = at<std::uint32_t>(*table + 8);
  if (!buckets || *buckets == 0 || !first || !bloom) return std::nullopt;
  const std::uint64_t buckets_at = *table + 16 + 8ULL * *bloom;
  const std::uint64_t chains_at = buckets_at + 4ULL * *buckets;
  std::uint64_t i = at<std::uint32_t>(buckets_at + 4ULL * (hash % *buckets)).value_or(0);
  if (i < *first) return std::nullopt;
  for (;; ++i) {
    const auto link = at<std::uint32_t>(chains_at + 4 * (i - *first));
    if (!link) return std::nullopt;
    if ((*link | 1U) == (hash | 1U)) {
      if (const auto address = named(i)) return address;
    }
    if ((*link & 1U) != 0) return std::nullopt;
  }
}

bool ElfFile::defines(std::string_view name) const { return address_of(name).has_value(); }

std::vector<Function> ElfFile::hidden_functions(
    std::initializer_list<std::string_view> prefixes) const {
  const auto header = at<Elf64_Ehdr>(0);
  const auto section = [&](std::uint64_t i) {
    return i < header->e_shnum ? at<Elf64_Shdr>(header->e_shoff + i * sizeof(Elf64_Shdr))
                               : std::nullopt;
  };
  std::vector<Function> found;
  for (std::uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto table = section(i);
    if (!table || table->sh_type != SHT_SYMTAB) continue;
    const auto names = section(table->sh_link);
    if (!names) continue;
    const Strings strings = strings_at(names->sh_offset, names->sh_size);
    for (std::uint64_t k = 1; k < table->sh_size / sizeof(Elf64_Sym); ++k) {
      const auto symbol = at<Elf64_Sym>(table->sh_offset + k * sizeof(Elf64_Sym));
      if (!symbol) break;
      if (symbol->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC) continue;
      const bool visible = ELF64_ST_BIND(symbol->st_info) != STB_LOCAL &&
                           ELF64_ST_VISIBILITY(symbol->st_other) == STV_DEFAULT;
      if (visible) continue;
      const std::string_view name = text(symbol->st_name, strings);
      if (std::any_of(prefixes.begin(), prefixes.end(),
                      [&](std::string_view prefix) { return name.starts_with(prefix); })) {
        found.push_back({name, symbol->st_value, symbol->st_size});
      }
    }
  }
  return found;
}

std::vector<Function> ElfFile::unwound_functions() const {
  const auto is_table = [](const Elf64_Phdr& s) { return s.p_type == PT_GNU_EH_FRAME; };
  const auto segment = std::find_if(segments_.begin(), segments_.end(), is_table);
  if (segment == segments_.end()) return {};
  // Version 1, whose table counts in 4 bytes, from the table's own beginning.
  constexpr std::uint32_t usual = 0x3b031b01;
  const std::uint64_t table = segment->p_offset;
  if (at<std::uint32_t>(table) != usual) return {};
  std::vector<Function> found;
  const std::uint64_t count = at<std::uint32_t>(table + 8).value_or(0);
  for (std::uint64_t i = 0; i < count; ++i) {
    struct Entry {
      std::int32_t function, frame;
    };
    const auto entry = at<Entry>(table + 12 + i * sizeof(Entry));
    if (!entry) break;
    const auto from_table = [&](std::int32_t distance) {
      return segment->p_vaddr + static_cast<std::uint64_t>(std::int64_t{distance});
    };
    struct Frame {  // a frame description entry, whose addresses count from where they stand
      std::uint32_t length, common;
      std::int32_t function;
      std::uint32_t size;
    };
    const std::uint64_t frame_at = from_table(entry->frame);
    const auto offset = offset_of(frame_at);
    const auto frame = offset ? at<Frame>(*offset) : std::nullopt;
    const std::uint64_t function = from_table(entry->function);
    if (frame && frame_at + offsetof(Frame, function) +
                         static_cast<std::uint64_t>(std::int64_t{frame->function}) ==
                     function) {
      found.push_back({{}, function, frame->size});
    }
  }
  return found;
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> ElfFile::relocated() const {
  const auto table = offset_of(entry(DT_RELA).value_or(0));
  if (!table) return {};
  std::vector<std::pair<std::uint64_t, std::uint64_t>> found;
  for (std::uint64_t i = 0; i < entry(DT_RELASZ).value_or(0) / sizeof(Elf64_Rela); ++i) {
    const auto relocation = at<Elf64_Rela>(*table + i * sizeof(Elf64_Rela));
    if (!relocation) break;
    if (ELF64_R_TYPE(relocation->r_info) != R_X86_64_RELATIVE) continue;
    found.emplace_back(relocation->r_offset, static_cast<std::uint64_t>(relocation->r_addend));
  }
  return found;
}

std::span<const std::byte> ElfFile::bytes_at(std::uint64_t address, std::uint64_t size) const {
  const auto offset = offset_of(address);
  if (!offset || *offset > bytes_.size() || size > bytes_.size() - *offset) return {};
  return bytes_.subspan(*offset, size);
}

std::string_view ElfFile::text_at(std::uint64_t address, std::uint64_t longest) const {
  const auto offset = offset_of(address);
  return offset ? text(0, strings_at(*offset, longest)) : std::string_view{};
}

std::vector<std::string> loaded_files() {
  std::vector<std::string> loaded;
  const auto add = [](dl_phdr_info* info, std::size_t, void* into) {
    const std::string_view path = info->dlpi_name;
    static_cast<std::vector<std::string>*>(into)->emplace_back(path.empty() ? "/proc/self/exe"
                                                                            : path);
    return 0;
  };
  dl_iterate_phdr(add, &loaded);
  return loaded;
}

}  // namespace phantora::libc
