#include "libc/unknown_names.hpp"

#include "libc/elf_file.hpp"
#include "libc/real.hpp"
#include "libc/stub_library.hpp"
#include "rank/runtime/process.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <dlfcn.h>
#include <unistd.h>

namespace phantora::libc {

namespace {

struct Library {
  std::string_view stem;  ///< "libcudart" of libcudart.so.13
  std::uint64_t not_supported;
};
constexpr Library libraries[] = {
#define PHANTORA_NOT_SUPPORTED(stem, status) {stem, status},
#include "exports/not_supported.inc"
#undef PHANTORA_NOT_SUPPORTED
};

const Library* library_of_file(std::string_view file) {
  const std::string_view stem = file.substr(0, file.find(".so"));
  const auto* const found = std::find_if(std::begin(libraries), std::end(libraries),
                                         [&](const Library& l) { return l.stem == stem; });
  return found == std::end(libraries) ? nullptr : found;
}

/// Of the libraries whose symbols have no version, the one that names such symbols.
const Library* library_of_name(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> prefixes[] = {
      {"nccl", "libnccl"},      {"pnccl", "libnccl"},
      {"nvml", "libnvidia-ml"}, {"cusparseLt", "libcusparseLt"},
      {"cuFile", "libcufile"},  {"cu", "libcuda"}};
  for (const auto& [prefix, stem] : prefixes) {
    if (name.size() > prefix.size() && name.starts_with(prefix) &&
        std::isupper(static_cast<unsigned char>(name[prefix.size()])) != 0) {
      return library_of_file(stem);
    }
  }
  return nullptr;
}

/// What a caller would print must be a text.
bool returns_text(std::string_view name) {
  constexpr std::string_view parts[] = {"ErrorString", "ErrorName",    "StatusString",
                                        "StatusName",  "GetErrorText", "GetLastError"};
  return std::any_of(std::begin(parts), std::end(parts),
                     [&](std::string_view part) { return name.find(part) != name.npos; });
}

std::vector<std::string> library_path() {
  std::vector<std::string> found;
  const char* variable = std::getenv("LD_LIBRARY_PATH");
  for (std::string_view rest = variable == nullptr ? "" : variable; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    if (!part.empty()) found.emplace_back(part);
  }
  return found;
}

constinit Real<void* (*)(const char*, int)> real_dlopen{"dlopen"};

/// Whether a library is loaded for which f, called with its handle, is true.
template <class F>
bool with_loaded(const std::string& name, F f) {
  void* const handle = real_dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  const bool holds = handle != nullptr && f(handle);
  if (handle != nullptr) dlclose(handle);
  return holds;
}

bool is_loaded(const std::string& name) {
  return with_loaded(name, [](void*) { return true; });
}

/// Files whose imports are answered. Other threads may be opening libraries too: nothing of ours is
/// locked while the dynamic linker works, which has a lock of its own.
class Answered {
 public:
  bool has(const std::string& path) {
    const std::lock_guard lock{mutex_};
    return paths_.count(path) != 0;
  }
  void add(const std::set<std::string>& paths) {
    const std::lock_guard lock{mutex_};
    paths_.insert(paths.begin(), paths.end());
  }

 private:
  std::mutex mutex_;
  std::set<std::string> paths_;
};
Answered& answered() {
  static auto* const one = new Answered;
  return *one;
}

/// Looks at files and what they need, for names that nobody defines.
class Search {
 public:
  void look_at(const std::string& path, const std::vector<std::string>& folders_of_users) {
    if (answered().has(path) || !seen_.insert(path).second) return;
    auto elf = ElfFile::open(path);
    if (!elf) return;
    // A library's RPATH is also that of what it needs.
    std::vector<std::string> folders = elf->search_path();
    folders.insert(folders.end(), folders_of_users.begin(), folders_of_users.end());
    bool ours = false;
    std::vector<std::string> needed;
    for (const std::string_view name : elf->needed()) {
      const bool theirs = library_of_file(name) != nullptr;
      ours = ours || theirs;
      // One that is not loaded yet, like a real NVRTC, defines what its file does.
      if (!theirs || !is_loaded(std::string{name})) needed.emplace_back(name);
    }
    if (ours) find_missing(*elf);
    files_.push_back(std::move(*elf));
    for (const std::string& name : needed) {
      if (const std::string found = locate(name, folders); !found.empty()) look_at(found, folders);
    }
  }

  static std::string locate(const std::string& name, const std::vector<std::string>& folders) {
    if (name.find('/') != name.npos) return name;
    for (const auto& places : {folders, library_path()}) {
      for (const std::string& folder : places) {
        std::string path = folder + "/" + name;
        if (access(path.c_str(), R_OK) == 0) return path;
      }
    }
    return {};
  }

  void answer() {
    std::vector<Stub> stubs;
    for (const auto& [name, library] : missing_) {
      const bool defined =
          std::any_of(files_.begin(), files_.end(),
                      [&name = name](const ElfFile& file) { return file.defines(name); });
      if (defined) continue;
      static constexpr const char* text = "not supported by Phantora";
      stubs.push_back({name, returns_text(name) ? reinterpret_cast<std::uint64_t>(text)
                                                : library->not_supported});
    }
    if (!stubs.empty() && !load(stub_library(stubs, &rank::unsupported))) {
      rank::warn_once("stubs", "cannot answer " + stubs.front().name +
                                   " and others that this program imports: " + dlerror());
    }
    answered().add(seen_);
  }

 private:
  void find_missing(const ElfFile& elf) {
    for (const Import& import : elf.imports()) {
      const Library* const library =
          import.version.empty() ? library_of_name(import.name) : library_of_file(import.library);
      if (library == nullptr) continue;
      const std::string name{import.name}, version{import.version};
      const auto defined_in = [&](void* scope) {
        return version.empty() ? dlsym(scope, name.c_str()) != nullptr
                               : dlvsym(scope, name.c_str(), version.c_str()) != nullptr;
      };
      // What was loaded for its opener alone (ctypes, PyTorch's preloading) is in no common scope.
      const bool found = defined_in(RTLD_DEFAULT) ||
                         std::ranges::any_of(elf.needed(), [&](std::string_view needed) {
                           return library_of_file(needed) != nullptr &&
                                  with_loaded(std::string{needed}, defined_in);
                         });
      if (!found) missing_.emplace(name, library);
    }
  }

  std::set<std::string> seen_;
  std::vector<ElfFile> files_;
  std::map<std::string, const Library*> missing_;
};

bool in_simulation() { return rank::settings() != nullptr; }

/// The program and what was loaded with it: their functions are bound when they are first called,
/// and find the answers then.
__attribute__((constructor)) void answer_for_the_program() {
  if (!in_simulation()) return;
  Search search;
  for (const std::string& path : loaded_files()) search.look_at(path, {});
  search.answer();
}

}  // namespace

void answer_unknown_names(const char* file, const void* caller) {
  if (file == nullptr || *file == '\0' || !in_simulation() || library_of_file(file) != nullptr)
    return;
  std::vector<std::string> folders;
  Dl_info info{};
  if (std::string_view{file}.find('/') == std::string_view::npos && dladdr(caller, &info) != 0) {
    if (const auto user = ElfFile::open(info.dli_fname)) folders = user->search_path();
  }
  if (const std::string path = Search::locate(file, folders); !path.empty()) {
    Search search;
    search.look_at(path, folders);
    search.answer();
  }
}

}  // namespace phantora::libc
