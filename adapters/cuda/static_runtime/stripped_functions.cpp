#include "cuda/static_runtime/stripped_functions.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string_view>
#include <utility>

namespace phantora {

namespace {

using libc::ElfFile;
using libc::Function;

/// Texts that functions may refer to as their names.
constexpr std::string_view prefix = "cuda";
/// The runtimes of CUDA 12.4, 12.9, 13.0 and 13.5 have 401 to 442 functions that name themselves,
/// which lie within 365 to 440 kB.
constexpr std::size_t fewest_functions = 300;
constexpr std::uint64_t most_bytes = 1U << 20U;

/// The functions that compilers call, in the order in which the runtime has them. The sizes, in
/// bytes, are those of CUDA 12.4, 12.9, 13.0 and 13.5; of those that are 0 they differ.
struct Registration {
  std::string_view name;
  std::uint64_t size;
};
constexpr std::array<Registration, 14> registrations{{{"__cudaRegisterFatBinary", 0x2b},
                                                      {"__cudaRegisterFatBinaryEnd", 0x22},
                                                      {"__cudaUnregisterFatBinary", 0x37},
                                                      {"__cudaRegisterVar", 0x7b},
                                                      {"__cudaRegisterManagedVar", 0x7b},
                                                      {"__cudaRegisterHostVar", 0x38},
                                                      {"__cudaRegisterFunction", 0x69},
                                                      {"__cudaInitModule", 0},
                                                      {"__cudaPushCallConfiguration", 0},
                                                      {"__cudaPopCallConfiguration", 0},
                                                      {"__cudaGetKernel", 0},
                                                      {"__cudaLaunchKernel", 0x0a},
                                                      {"__cudaLaunchKernel_ptsz", 0x0a},
                                                      {"__cudaRegisterUnifiedTable", 0x4a}}};

/// Finds the texts that instructions refer to.
class Texts {
 public:
  explicit Texts(const ElfFile& file) : file_{file} {
    for (const auto& [place, target] : file.relocated()) {
      if (const auto name = name_at(target); !name.empty()) pointers_.emplace_back(place, name);
    }
    std::sort(pointers_.begin(), pointers_.end());
  }

  /// The one name that a function's code refers to, be it by its address or by a pointer to it;
  /// empty for none or several.
  [[nodiscard]] std::string_view only_name_in(const Function& function) const {
    const std::span<const std::byte> code = file_.bytes_at(function.address, function.size);
    std::string_view only;
    // An operand relative to the next instruction: ModRM with mod 00 and r/m 101, and 32 bits
    // (Intel's manual, volume 2, table 2-7).
    for (std::size_t i = 0; i + 5 <= code.size(); ++i) {
      if ((code[i] & std::byte{0xc7}) != std::byte{0x05}) continue;
      std::int32_t displacement = 0;
      std::memcpy(&displacement, code.data() + i + 1, sizeof displacement);
      const std::string_view name = name_by(function.address + i + 5 +
                                            static_cast<std::uint64_t>(std::int64_t{displacement}));
      if (name.empty() || name == only) continue;
      if (!only.empty()) return {};
      only = name;
    }
    return only;
  }

 private:
  [[nodiscard]] std::string_view name_at(std::uint64_t address) const {
    const std::string_view text = file_.text_at(address, prefix.size() + 1);
    if (!text.starts_with(prefix)) return {};
    const std::string_view name = file_.text_at(address);
    const auto of_a_name = [](char c) {
      return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0;
    };
    return std::all_of(name.begin(), name.end(), of_a_name) ? name : std::string_view{};
  }

  [[nodiscard]] std::string_view name_by(std::uint64_t address) const {
    const auto pointer = std::lower_bound(
        pointers_.begin(), pointers_.end(), address,
        [](const auto& known, std::uint64_t wanted) { return known.first < wanted; });
    if (pointer != pointers_.end() && pointer->first == address) return pointer->second;
    return name_at(address);
  }

  const ElfFile& file_;
  std::vector<std::pair<std::uint64_t, std::string_view>> pointers_;  // place, name
};

/// Those that lie closest together: a runtime is one object file, of which linkers leave out
/// nothing, while a program may have a function anywhere that names one of the runtime's.
std::span<const Function> densest(std::span<const Function> by_address) {
  std::span<const Function> densest;
  std::size_t end = 0;
  for (std::size_t first = 0; first < by_address.size(); ++first) {
    while (end < by_address.size() &&
           by_address[end].address - by_address[first].address < most_bytes) {
      ++end;
    }
    if (end - first > densest.size()) densest = by_address.subspan(first, end - first);
  }
  return densest;
}

/// Without those whose name another has, too.
std::vector<Function> named_once(std::span<const Function> functions) {
  std::map<std::string_view, int> count;
  for (const Function& function : functions) ++count[function.name];
  std::vector<Function> found;
  for (const Function& function : functions) {
    if (count[function.name] == 1) found.push_back(function);
  }
  return found;
}

std::span<const Function> between(std::span<const Function> by_address, const Function& first,
                                  const Function& last) {
  const auto before = [](const Function& a, const Function& b) { return a.address < b.address; };
  const auto begin = std::lower_bound(by_address.begin(), by_address.end(), first, before);
  const auto end = std::upper_bound(by_address.begin(), by_address.end(), last, before);
  return {begin, end};
}

bool is_run_of_registrations(std::span<const Function> functions) {
  return std::equal(registrations.begin(), registrations.end(), functions.begin(),
                    [](const Registration& known, const Function& found) {
                      return known.size == 0 || known.size == found.size;
                    });
}

}  // namespace

std::vector<Function> stripped_functions(const ElfFile& file) {
  const std::vector<Function> all = file.unwound_functions();
  const Texts texts{file};
  std::vector<Function> named;
  for (const Function& function : all) {
    const std::string_view name = texts.only_name_in(function);
    if (!name.empty()) named.push_back({name, function.address, function.size});
  }
  const std::span<const Function> runtime = densest(named);
  if (runtime.size() < fewest_functions) return {};
  // What the program has beside the runtime, and names a function that the runtime names as well,
  // lies before or behind those that the runtime alone names.
  const std::vector<Function> sure = named_once(runtime);
  if (sure.empty()) return {};
  std::vector<Function> found = named_once(between(runtime, sure.front(), sure.back()));
  for (std::size_t i = 0; i + registrations.size() <= all.size(); ++i) {
    if (!is_run_of_registrations(std::span{all}.subspan(i, registrations.size()))) continue;
    for (std::size_t k = 0; k < registrations.size(); ++k) {
      found.push_back({registrations[k].name, all[i + k].address, all[i + k].size});
    }
    break;
  }
  return found;
}

}  // namespace phantora
