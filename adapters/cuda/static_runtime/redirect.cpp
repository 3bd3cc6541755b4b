#include "channel/settings.hpp"
#include "cuda/static_runtime/stripped_functions.hpp"
#include "libc/elf_file.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

// A CUDA runtime that is linked into a program or a library (nvcc's and CMake's default,
// `-cudart static`) calls NVIDIA's driver through tables that NVIDIA does not publish. So its
// functions, which the symbol table of the file names or what they tell profilers does
// (stripped_functions.hpp), are made to jump to the stand-in for the shared runtime. That happens
// before any initializer of the file runs, because initializers register the kernels: for what is
// loaded at the start by an initializer that comes before all others (-z initfirst), for what is
// opened later when the dynamic linker tells debuggers that it has mapped a file.
//
// Nothing here may use what initializers of other libraries set up, the C library's environment
// included.
namespace phantora {

namespace {

using libc::ElfFile;
using libc::Function;

/// What each object with kernels calls when it is initialized, and each runtime has.
constexpr std::string_view registration = "__cudaRegisterFatBinary";

/// `jmp *0(%rip)`, and behind it the address that it jumps to.
struct __attribute__((packed)) Jump {
  std::array<std::uint8_t, 6> instruction{0xff, 0x25, 0, 0, 0, 0};
  const void* target = nullptr;
};

/// Whether a jump overwrites nothing else: a function that is shorter is followed by an instruction
/// that does nothing, which fills up the 16 bytes to which compilers align the next.
bool has_room(std::uintptr_t function, std::uint64_t size) {
  if (size >= sizeof(Jump)) return true;
  constexpr std::array<std::string_view, 5> fillers{"\x90", "\xcc", "\x0f\x1f", "\x66\x0f\x1f",
                                                    "\x66\x2e\x0f\x1f"};
  const std::string_view behind{reinterpret_cast<const char*>(function + size), 4};
  return function % 16 == 0 && std::any_of(fillers.begin(), fillers.end(),
                                           [&](auto filler) { return behind.starts_with(filler); });
}

/// The bytes of memory that are a program's code, writable as long as this lives.
class Writable {
 public:
  Writable(std::uintptr_t first, std::uintptr_t end) {
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const std::uintptr_t begin = first / page * page;
    pages_ = reinterpret_cast<void*>(begin);
    size_ = end - begin;
    possible_ = mprotect(pages_, size_, PROT_READ | PROT_WRITE | PROT_EXEC) == 0;
  }
  Writable(const Writable&) = delete;
  Writable& operator=(const Writable&) = delete;
  ~Writable() {
    if (possible_) mprotect(pages_, size_, PROT_READ | PROT_EXEC);
  }
  explicit operator bool() const { return possible_; }

 private:
  void* pages_ = nullptr;
  std::size_t size_ = 0;
  bool possible_ = false;
};

void write(const std::vector<std::pair<std::uintptr_t, Jump>>& jumps) {
  if (jumps.empty()) return;
  const auto [first, last] = std::minmax_element(
      jumps.begin(), jumps.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const Writable code{first->first, last->first + sizeof(Jump)};
  if (!code) return;  // a runtime then asks the driver, which says what to do
  for (const auto& [place, jump] : jumps) {
    std::memcpy(reinterpret_cast<void*>(place), &jump, sizeof jump);
  }
}

/// Found in the dynamic linker's own list. By dlopen, which runs the initializers of what it opens,
/// this would not do: they read the environment.
const link_map* loaded(std::string_view end_of_path) {
  const link_map* object = _r_debug.r_map;
  while (object != nullptr && !std::string_view{object->l_name}.ends_with(end_of_path)) {
    object = object->l_next;
  }
  return object;
}

/// Whether an import or a function of this name is among them.
template <class Named>
bool has(const std::vector<Named>& all, std::string_view name) {
  return std::any_of(all.begin(), all.end(), [&](const Named& one) { return one.name == name; });
}

/// Of a runtime that is linked into the file; empty where none is. One looks for the driver by
/// name, its user needs no other, and a shared runtime is none.
std::vector<Function> runtime_functions(const ElfFile& file) {
  if (file.defines(registration)) return {};
  for (const std::string_view name : file.needed()) {
    if (name.starts_with("libcudart.so")) return {};
  }
  const std::vector<libc::Import> imports = file.imports();
  if (!has(imports, "dlsym")) return {};
  std::vector<Function> functions = file.hidden_functions({"cuda", "__cuda"});
  if (has(functions, registration)) return functions;
  // Runtimes import dlvsym, which hardly anything else does: few files are searched for a stripped
  // one.
  return has(imports, "dlvsym") ? stripped_functions(file) : std::vector<Function>{};
}

/// Which stand-in takes the place of the runtime that has these functions, by the end of its path;
/// empty for one of CUDA 11 and before, whose types are others.
std::string_view stand_in_for(const std::vector<Function>& runtime) {
  if (has(runtime, "cudaBindTexture")) return {};
  return has(runtime, "cudaGetDeviceProperties_v2") ? "/libcudart.so.12" : "/libcudart.so.13";
}

/// Objects with a runtime that was redirected. Never destroyed: the last may call while all ends.
std::vector<const link_map*>& redirected() {
  static auto* const objects = new std::vector<const link_map*>;
  return *objects;
}

void redirect(const link_map& object) {
  const bool program = *object.l_name == '\0';
  const auto file = ElfFile::open(program ? "/proc/self/exe" : object.l_name);
  if (!file) return;
  const std::vector<Function> functions = runtime_functions(*file);
  if (functions.empty()) return;
  const std::string_view name = stand_in_for(functions);
  const link_map* const stand_in = name.empty() ? nullptr : loaded(name);
  if (stand_in == nullptr) return;
  const auto exports = ElfFile::open(stand_in->l_name);
  if (!exports) return;

  std::vector<std::pair<std::uintptr_t, Jump>> jumps;
  for (const Function& function : functions) {
    if (!has_room(object.l_addr + function.address, function.size)) continue;
    if (const auto target = exports->address_of(function.name)) {
      jumps.emplace_back(object.l_addr + function.address,
                         Jump{.target = reinterpret_cast<const void*>(stand_in->l_addr + *target)});
    }
  }
  write(jumps);
  redirected().push_back(&object);
}

const link_map* last_object() {
  const link_map* last = _r_debug.r_map;
  while (last != nullptr && last->l_next != nullptr) last = last->l_next;
  return last;
}

/// The last of the dynamic linker's objects that were looked at; nullptr while it takes some away.
const link_map* last_seen = nullptr;

/// Takes the place of the empty function that the dynamic linker calls for debuggers, with a lock
/// of its own held, before its list of objects changes and when that is done: what is new is at the
/// end, mapped and not yet initialized (<link.h>, r_brk).
void objects_change() noexcept {
  if (_r_debug.r_state == r_debug::RT_ADD) return;
  if (_r_debug.r_state == r_debug::RT_CONSISTENT && last_seen != nullptr) {
    for (const link_map* next = last_seen->l_next; next != nullptr; next = next->l_next) {
      redirect(*next);
    }
  }
  last_seen = _r_debug.r_state == r_debug::RT_CONSISTENT ? last_object() : nullptr;
}

/// Whether the function returns at once. The linker's functions are aligned to 16 bytes, which is
/// room for a jump.
bool is_empty(const std::uint8_t* function) {
  constexpr std::array<std::uint8_t, 4> endbr64{0xf3, 0x0f, 0x1e, 0xfa};
  constexpr std::uint8_t ret = 0xc3;
  if (reinterpret_cast<std::uintptr_t>(function) % 16 != 0) return false;
  if (std::equal(endbr64.begin(), endbr64.end(), function)) function += endbr64.size();
  return *function == ret;
}

bool has_variable(char** environment, std::string_view name) {
  for (; *environment != nullptr; ++environment) {
    const std::string_view variable = *environment;
    if (variable.starts_with(name) && variable.substr(name.size()).starts_with('=')) return true;
  }
  return false;
}

__attribute__((constructor)) void start(int, char**, char** environment) {
  if (!has_variable(environment, channel::settings_variable)) return;
  for (const link_map* object = _r_debug.r_map; object != nullptr; object = object->l_next) {
    redirect(*object);
  }
  last_seen = last_object();
  if (is_empty(reinterpret_cast<const std::uint8_t*>(_r_debug.r_brk))) {
    write({{_r_debug.r_brk, Jump{.target = reinterpret_cast<const void*>(&objects_change)}}});
  }
}

}  // namespace

}  // namespace phantora

/// Whether this object has a runtime that was redirected.
extern "C" __attribute__((visibility("default"))) bool phantora_runtime_redirected(
    const link_map* object) {
  const auto& objects = phantora::redirected();
  return std::find(objects.begin(), objects.end(), object) != objects.end();
}
