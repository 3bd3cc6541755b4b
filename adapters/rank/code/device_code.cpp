#include "rank/code/device_code.hpp"

#include "rank/code/machine_code.hpp"
#include "rank/kernels/word_hash.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/memory/tensor_ends.hpp"
#include "rank/runtime/process.hpp"

#include <phantora/kernels/occupancy.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace phantora::rank {

namespace {

// Instructions of 16 bytes, since sm_70. Their numbers and fields as nvdisasm -hex prints them for
// Triton's kernels (sm_90); the forms without a uniform register, and branches before sm_90, for
// older GPUs.
constexpr std::size_t instruction_bytes = 16;
constexpr std::uint64_t operation_mask = 0xfff;
constexpr std::uint64_t branch = 0x947;
constexpr std::array<std::uint64_t, 5> global_accesses{0x981, 0x986, 0xfae, 0x381, 0x386};
constexpr std::array<std::uint64_t, 4> matrix_products{0x23c, 0x237, 0x9f0, 0xdf0};

bool is_one_of(std::span<const std::uint64_t> operations, std::uint64_t operation) {
  return std::find(operations.begin(), operations.end(), operation) != operations.end();
}

/// Bytes per thread of an access, in bits 73 to 75: signed and unsigned 1 and 2, then 4, 8, 16.
double width(std::uint64_t high) {
  constexpr std::array<double, 8> widths{1, 1, 2, 2, 4, 8, 16, 0};
  return widths[high >> 9 & 7];
}

/// Bytes from the next instruction to where a branch leads.
std::int64_t distance(std::uint64_t low, int architecture) {
  const auto offset = static_cast<std::int32_t>(low >> 32);
  if (architecture < 90) return offset;
  // Quarters of them: the low 8 bits in bits 16 to 23, the others from bit 34 on.
  return (static_cast<std::int64_t>(offset >> 2) * 256 +
          static_cast<std::int64_t>(low >> 16 & 0xff)) *
         4;
}

/// Whether blocks of 2^k elements cover `n` with so many of them, for some k.
bool covers(std::uint32_t blocks, std::int64_t n) {
  for (std::int64_t block = 1; block / 2 < n; block *= 2) {
    if ((n + block - 1) / block == blocks) return true;
  }
  return false;
}

/// The most axes of the grid that can be given an integer of their own, and the product of all.
struct Covered {
  int axes = 0;
  double product = 1;
};
Covered best(std::span<const std::uint32_t> axes, std::vector<std::int64_t>& integers) {
  if (axes.empty()) {
    const auto rest = std::max_element(integers.begin(), integers.end());
    return {0, rest == integers.end() ? 1.0 : static_cast<double>(*rest)};
  }
  Covered chosen = best(axes.subspan(1), integers);
  chosen.product *= axes.front();
  for (std::size_t i = 0; i < integers.size(); ++i) {
    if (!covers(axes.front(), integers[i])) continue;
    const std::int64_t taken = integers[i];
    integers.erase(integers.begin() + static_cast<std::ptrdiff_t>(i));
    Covered other = best(axes.subspan(1), integers);
    integers.insert(integers.begin() + static_cast<std::ptrdiff_t>(i), taken);
    other.axes += 1;
    other.product *= static_cast<double>(taken);
    if (other.axes > chosen.axes) chosen = other;
  }
  return chosen;
}

/// Of what lies at an address, to the end of what wrote it last or of the allocation: in quarters
/// of octaves, so that launches on tables of about one size are alike. Beyond 128 MiB, of which no
/// cache holds much, all are.
std::uint64_t reach_of_table(std::uint64_t address) {
  constexpr double most_bytes = 128.0 * (1 << 20), steps_of_an_octave = 4;
  const std::size_t bytes = bytes_of_tensor(reinterpret_cast<const void*>(address));
  if (bytes == 0 || static_cast<double>(bytes) > most_bytes) return 0;
  const double steps = std::ceil(std::log2(static_cast<double>(bytes)) * steps_of_an_octave);
  return static_cast<std::uint64_t>(std::exp2(steps / steps_of_an_octave));
}

bool is_of_peer(std::uint64_t address) {
  const auto owner = owner_of(reinterpret_cast<const void*>(address));
  return owner && *owner != current_device();
}

}  // namespace

Accesses accesses(std::span<const std::byte> code, int architecture) {
  struct Access {
    std::size_t at;
    double width;
  };
  std::vector<Access> all;
  std::vector<std::pair<std::size_t, std::size_t>> loops;  // first and last instruction
  Accesses result;
  for (std::size_t at = 0; at + instruction_bytes <= code.size(); at += instruction_bytes) {
    std::uint64_t low = 0, high = 0;
    std::memcpy(&low, code.data() + at, sizeof low);
    std::memcpy(&high, code.data() + at + sizeof low, sizeof high);
    const std::uint64_t operation = low & operation_mask;
    if (operation == branch) {
      const std::int64_t back = -distance(low, architecture);
      const auto next = static_cast<std::int64_t>(at + instruction_bytes);
      if (back > 0 && back <= next) loops.emplace_back(static_cast<std::size_t>(next - back), at);
    } else if (is_one_of(matrix_products, operation)) {
      result.multiplies_matrices = true;
    } else if (is_one_of(global_accesses, operation)) {
      all.push_back({at, width(high)});
    }
  }
  for (const Access& access : all) {
    const bool repeated = std::any_of(loops.begin(), loops.end(), [&](const auto& loop) {
      return loop.first <= access.at && access.at < loop.second;
    });
    (repeated ? result.repeated : result.once) += 1;
    (repeated ? result.repeated_bytes : result.once_bytes) += access.width;
    if (repeated) result.widest = std::max(result.widest, access.width);
  }
  return result;
}

std::optional<double> elements(const Arguments& arguments) {
  // More are strides: each is tried for each axis.
  constexpr std::size_t most = 16;
  std::vector<std::int64_t> integers;
  for (std::size_t p = 0; p < arguments.sizes.size() && integers.size() < most; ++p) {
    std::int64_t value = 0;
    if (arguments.sizes[p] == 4) {
      value = arguments.get<std::int32_t>(p);
    } else if (arguments.sizes[p] == 8 && !is_device_address(arguments.pointer(p))) {
      value = arguments.get<std::int64_t>(p);
    }
    // Larger ones are addresses of the host, or floating point numbers.
    constexpr std::int64_t most_elements = std::int64_t{1} << 40;
    if (value > 0 && value < most_elements) integers.push_back(value);
  }
  if (integers.empty()) return std::nullopt;
  const KernelQuery::Dim3& grid = arguments.shape.grid;
  std::vector<std::uint32_t> axes{grid.x};
  if (grid.y > 1) axes.push_back(grid.y);
  if (grid.z > 1) axes.push_back(grid.z);
  return best(axes, integers).product;
}

std::optional<double> moved_bytes(const Arguments& arguments, const KernelResources& resources) {
  const Accesses& code = resources.accesses;
  if (code.once + code.repeated == 0 || code.multiplies_matrices) return std::nullopt;
  double reach = 0, pointers = 0;
  for (std::size_t p = 0; p < arguments.sizes.size(); ++p) {
    // Also those that lie in a structure: PyTorch's Array<char*, n>.
    for (std::size_t at = 0; at + sizeof(void*) <= arguments.sizes[p]; at += sizeof(void*)) {
      const std::byte* const address = arguments.pointer(p, at);
      const auto allocation = allocation_of(address);
      if (!allocation) continue;
      reach +=
          static_cast<double>(allocation->size) - static_cast<double>(address - allocation->base);
      ++pointers;
    }
  }
  if (pointers == 0) return std::nullopt;
  double bytes = code.once_bytes * arguments.shape.grid.count() * arguments.shape.block.count();
  if (code.repeated > 0) {
    const auto count = elements(arguments);
    if (!count) return std::nullopt;
    // Threads access as many elements of each tensor at a time, so that the widest access is of
    // the widest elements, which are taken to be float32.
    constexpr double widest_element = 4;
    const double element = widest_element * code.repeated_bytes / (code.repeated * code.widest);
    const double share = code.repeated / (code.once + code.repeated);
    bytes += *count * element * pointers * share;
  }
  return std::min(bytes, 2 * reach);
}

std::vector<std::byte> constants(const Arguments& arguments, const KernelResources& resources) {
  if (resources.parameters_at == 0 && !arguments.sizes.empty()) return {};
  // The shape lies first in the bank, the parameters from where the code says.
  std::vector<std::byte> bank(std::max<std::size_t>(resources.parameters_at, 24));
  const auto put = [&](std::size_t at, std::span<const std::byte> bytes) {
    if (bank.size() < at + bytes.size()) bank.resize(at + bytes.size());
    std::copy(bytes.begin(), bytes.end(), bank.begin() + static_cast<std::ptrdiff_t>(at));
  };
  std::size_t at = 0;
  for (const KernelQuery::Dim3& size : {arguments.shape.block, arguments.shape.grid}) {
    for (const std::uint32_t extent : {size.x, size.y, size.z}) {
      put(at, std::as_bytes(std::span{&extent, 1}));
      at += sizeof extent;
    }
  }
  for (std::size_t p = 0; p < arguments.sizes.size() && p < resources.parameter_offsets.size(); ++p)
    put(resources.parameters_at + resources.parameter_offsets[p], arguments.bytes(p));
  return bank;
}

std::optional<CodeWork> code_work(std::span<const std::byte> code, const LaunchShape& shape,
                                  std::span<const std::byte> constants,
                                  const KernelResources& resources, ReadConstants& looked_at,
                                  ReadConstants& tables, LaunchMemory* known) {
  if (constants.empty()) return std::nullopt;
  return walk({.code = code,
               .grid = shape.grid,
               .block = shape.block,
               .constants = constants,
               .links = resources.links,
               .architecture = resources.architecture,
               .parameters_at = resources.parameters_at,
               .sms = gpu().sm_count,
               .at_a_time = blocks_per_sm(
                   gpu(), {.threads = static_cast<int>(shape.block.count()),
                           .registers = resources.registers,
                           .shared_bytes = resources.static_shared + shape.shared_bytes}),
               .l2_bytes = static_cast<double>(gpu().l2.count()),
               .looked_at = &looked_at,
               .reach = reach_of_table,
               .tables = &tables,
               .known = known,
               .is_of_peer = shows_peers() ? is_of_peer : nullptr});
}

bool meets_others(std::span<const std::byte> code, int architecture) {
  return code::parse(code, architecture, no_links).meets_others();
}

std::uint64_t hash_of_values(const Arguments& arguments, const KernelResources& resources,
                             const ReadConstants& of_interest, const ReadConstants& tables) {
  WordHash hash;
  for (std::size_t p = 0; p < arguments.sizes.size(); ++p) {
    const auto bytes = arguments.bytes(p);
    const std::size_t begin =
        resources.parameters_at +
        (p < resources.parameter_offsets.size() ? resources.parameter_offsets[p] : 0);
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
      const bool first = of_interest.has(begin + at), second = of_interest.has(begin + at + 4);
      if (!first && !second) continue;
      std::uint64_t word = 0;
      const std::size_t size = std::min(sizeof word, bytes.size() - at);
      std::memcpy(&word, bytes.data() + at, size);
      // How an address is aligned decides how many lines of a cache are touched.
      constexpr std::uint64_t line = 128;
      if (size == sizeof word && is_device_address(reinterpret_cast<const void*>(word))) {
        const std::uint64_t reach = tables.has(begin + at) ? reach_of_table(word) : 0;
        word = ~(word % line) ^ reach * line;
      } else {
        constexpr std::uint64_t half = 0xffff'ffffU;
        word &= (first ? half : 0) | (second ? ~half : 0);
      }
      hash.mix(word);
    }
  }
  return hash.value();
}

Features features_of(const CodeWork& work, const Arguments& arguments,
                     const KernelResources& resources) {
  // In the time of one sector the L2 cache gives two that lie side by side: single ones of 4 to 16
  // MB come at 4.4 TB/s on an H100, lines at 8.2 to 8.9 (sums_of_64 and rows_64 in
  // bench/accuracy/user_kernels/table_kernels.cu).
  const double l2_sectors = work.sectors + work.lone_sectors;
  return {{"warp_instructions", work.instructions},
          {"warp_cycles", work.warp_cycles},
          {"longest_cycles", work.longest_cycles},
          {"warm_cycles", work.warm_cycles},
          {"stack_waits", work.stack_waits},
          {"uneven_ends", work.unevenness.ends},
          {"uneven_work", work.unevenness.work},
          {"alu", work.alu},
          {"fma", work.fma},
          {"double", work.fp64},
          {"special", work.special},
          {"l1_passes", work.l1_passes},
          {"l2_bytes", 32 * l2_sectors},
          {"tensor_half", work.half_flops},
          {"tensor_tf32", work.tf32_flops},
          {"tensor_8_bits", work.eight_flops},
          {"tensor_fp64", work.fp64_flops},
          {"mma_sync", work.mma_sync},
          {"atomics", work.atomics},
          {"atomic_sectors", work.atomic_sectors},
          {"hot_atomics", work.hot_atomics},
          {"local_bytes", work.local_bytes},
          {"partial_sectors", work.partial_sectors},
          {"partial_lines", work.partial_lines},
          {"random_bytes", work.random_bytes},
          {"guessed", work.guessed},
          {"roles", work.roles ? 1.0 : 0.0},
          {"registers", static_cast<double>(resources.registers)},
          {"shared", static_cast<double>(resources.static_shared + arguments.shape.shared_bytes)},
          {"local", static_cast<double>(resources.local)}};
}

}  // namespace phantora::rank
