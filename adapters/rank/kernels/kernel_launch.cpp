#include "rank/kernels/kernel_launch.hpp"

#include "rank/code/behind_pointers.hpp"
#include "rank/code/code_execution.hpp"
#include "rank/code/device_code.hpp"
#include "rank/code/fat_binary.hpp"
#include "rank/code/module_variable.hpp"
#include "rank/kernels/gpus_met.hpp"
#include "rank/kernels/kept_by_hash.hpp"
#include "rank/kernels/kernel_effect.hpp"
#include "rank/kernels/kernel_name.hpp"
#include "rank/kernels/stable_work.hpp"
#include "rank/kernels/word_hash.hpp"
#include "rank/memory/cached_operands.hpp"
#include "rank/memory/data_queue.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/memory/host_reach.hpp"
#include "rank/memory/unknown_reads.hpp"
#include "rank/runtime/api_call.hpp"
#include "rank/runtime/process.hpp"
#include "rank/small_data.hpp"

#include <phantora/kernels/gpu_model.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace phantora::rank {

namespace {

/// A query among those of one kernel, and what tells it from them: of features only the values,
/// whose names are the same for all.
struct KnownQuery {
  LaunchShape shape;
  double bytes = 0, flops = 0;
  Features features, by_data;
  KernelQuery::Operands operands;
  QueryId id{};

  [[nodiscard]] bool describes(const LaunchShape& other, const Effect& effect,
                               const KernelQuery::Operands& cached) const {
    const auto same_value = [](const Feature& a, const Feature& b) { return a.second == b.second; };
    return shape == other && bytes == effect.bytes && flops == effect.flops && operands == cached &&
           std::ranges::equal(features, effect.features, same_value) &&
           std::ranges::equal(by_data, effect.by_data, same_value);
  }
};
std::uint64_t word(double value) { return std::bit_cast<std::uint64_t>(value); }
std::uint64_t word(std::uint32_t low, std::uint32_t high) {
  return std::uint64_t{high} << 32U | low;
}
WordHash hash_of(const LaunchShape& shape) {
  const auto& [grid, block, shared_bytes] = shape;
  WordHash hash;
  hash.mix(word(grid.x, grid.y), word(grid.z, block.x));
  hash.mix(word(block.y, block.z), shared_bytes);
  return hash;
}
std::uint64_t hash_of(const LaunchShape& shape, const Effect& effect,
                      const KernelQuery::Operands& operands) {
  WordHash hash = hash_of(shape);
  hash.mix(word(effect.bytes), word(effect.flops));
  hash.mix(word(operands.cold));
  for (const Feature& feature : effect.features) hash.mix(word(feature.second));
  for (const Feature& feature : effect.by_data) hash.mix(word(feature.second));
  return hash.value();
}

constexpr Reader readers[] = {
    read_elementwise,
    read_reduction,
    read_multi_tensor,
    read_range,
    read_concatenation,
    read_indexing,
    read_selection,
    read_scan,
    read_sort,
    read_random,
    read_batch_norm,
    read_rowwise,
    read_attention,
    read_lookup,
    read_embedding,
    read_pooling,
    read_block_top_k,
    read_jiterated,
    read_packed_copies,
    read_symmetric_memory,
    read_grouped_product,
    read_depthwise,
    read_router,
};

/// Host time of loading a module's code, which the driver does when the first of its kernels is
/// launched (CUDA_MODULE_LOADING=LAZY, the default), and of each other kernel's first launch:
/// fitted to 144 first launches in training steps on H200 hosts, 2026-11-21
/// (test/data/first_launch.tsv; half of them lie within 15 % of it), and to modules of 1 KiB to
/// 256 KiB of code (60, 55, 91, 134 and 405 us; test/data/h200_native_calls.jsonl.gz).
/// Each other kernel: the median of 156 in training steps.
struct LoadingCost {
  static constexpr std::chrono::microseconds module{40};
  static constexpr double ns_per_root_of_bytes = 600.0;
  static constexpr std::chrono::microseconds kernel{27};
};

FatBinary& fat_binary(const Module& module) {
  return small_data().code.binaries.try_emplace(&module, module.image).first->second;
}

std::chrono::nanoseconds loading_time(const FatBinary& code) {
  return LoadingCost::module + std::chrono::nanoseconds{static_cast<std::int64_t>(
                                   LoadingCost::ns_per_root_of_bytes *
                                   std::sqrt(static_cast<double>(code.bytes_read())))};
}

}  // namespace

/// What a launch of a kernel that nobody can read does.
struct Walked {
  /// As far as the parameters tell; nothing where the code does not.
  std::optional<CodeWork> blind;
  BehindPointers read, written;
  /// The same with what was known of memory; nothing where that does not tell more.
  struct WithData {
    BehindPointers looked_at;
    std::uint64_t content = 0;  ///< of `looked_at`
    std::optional<CodeWork> work;
  };
  /// Of the last launches that differed in that.
  std::deque<WithData> with_data;
  StableWork stable;
};

struct KernelReading {
  std::string name;
  Signature parts;
  std::vector<ParameterKind> parameter_kinds;
  KernelResources kernel_resources;
  std::unique_ptr<Meaning> meaning;
  mutable KeptByHash<KnownQuery> queries;
  /// Of its launches that nobody can read; empty: not counted apart. Made at the first of them.
  mutable std::once_flag counted;
  mutable std::string counter;
  /// Of a kernel that nobody can read: that what it asks of the driver was told.
  mutable std::once_flag externals_told;
  /// Whether its code waits for other GPUs; told where there are any whose memory shows.
  mutable std::once_flag meets_told;
  mutable bool meets = false;
  /// Of a kernel that nobody can read: its code, and what launches of it do, by shape and values of
  /// the parameters. Behind ModuleCode's walks.
  mutable std::optional<std::vector<std::byte>> code;
  mutable std::unordered_map<std::uint64_t, Walked> walks;
  /// What of the constants that, and what follows, hangs on. Behind ModuleCode's walks.
  mutable ReadConstants looked_at;
  /// The pointers among them of which walks, not executions, ask how much lies behind them. Behind
  /// ModuleCode's walks.
  mutable ReadConstants tables;
  /// Of such launches that gave nothing known, or took long: what became of them, by shape and
  /// parameters.
  /// Behind ModuleCode's walks.
  mutable std::unordered_map<std::uint64_t, Outcome> outcomes;
  /// Of launches to whose memory nothing was known: those that gave nothing known either, by shape
  /// and numbers. Behind ModuleCode's walks.
  mutable std::unordered_set<std::uint64_t> barren;
  /// What is tried in vain with launches, by what decides that. Behind ModuleCode's walks.
  mutable std::unordered_set<std::uint64_t> in_vain;
  /// Of instructions of its launches, for LongLaunches. Behind ModuleCode's walks.
  mutable std::int64_t balance = 0;

  /// A walk has looked at these. What is kept under keys that leave some of them out is forgotten:
  /// returns whether it was.
  bool look_at(const ReadConstants& more) const {
    if (!looked_at.add(more)) return false;
    walks.clear();
    outcomes.clear();
    barren.clear();
    in_vain.clear();
    return true;
  }
};

namespace {

/// "float const*" is read only; "float*" and "void*" may be written; others are not pointers, or
/// hold some.
bool may_be_written(std::string_view parameter_type) {
  return !parameter_type.ends_with("const*") && !parameter_type.ends_with("const*&");
}

ParameterKind kind_of(std::string_view parameter_type) {
  if (parameter_type.ends_with('*')) return ParameterKind::pointer;
  return element_type_named(parameter_type) ? ParameterKind::number : ParameterKind::other;
}

/// The element type behind "float const*"; nullopt for pointers to pointers, structs and void.
std::optional<ElementType> pointee(std::string_view parameter_type) {
  if (!parameter_type.ends_with('*')) return std::nullopt;
  parameter_type.remove_suffix(1);
  if (parameter_type.ends_with(" const")) parameter_type.remove_suffix(6);
  return element_type_named(parameter_type);
}

/// What an unknown kernel may write: from each device address in its parameters to the end of the
/// allocation, except through pointers to const, and what pointers that lie there lead to; its
/// module's variables on the device.
Effect unknown_effect(const Kernel& kernel, const KernelReading& reading,
                      const Arguments& arguments, int device) {
  Effect effect;
  effect.follows_pointers = true;
  for (std::size_t p = 0; p < arguments.sizes.size(); ++p) {
    bool written = true, holds_pointers = true;
    std::optional<ElementType> type;
    if (arguments.sizes[p] == sizeof(void*) && p < reading.parts.parameters.size()) {
      const std::string_view parameter = reading.parts.parameters[p];
      type = pointee(parameter);
      written = may_be_written(parameter);
      // Bytes and 64-bit integers may be addresses; other numbers are not.
      holds_pointers =
          !type || size_of(*type) == 1 || (size_of(*type) == sizeof(void*) && !is_floating(*type));
      if (!written && !holds_pointers) continue;
    }
    for (std::size_t offset = 0; offset + sizeof(void*) <= arguments.sizes[p];
         offset += sizeof(void*)) {
      std::byte* const address = arguments.pointer(p, offset);
      const auto allocation = allocation_of(address);
      if (!allocation) {
        if (written && reached_by_device(address)) {
          effect.operands.push_back({address, 0, false, true, type});
        }
        continue;
      }
      const auto before = static_cast<std::size_t>(address - allocation->base);
      effect.operands.push_back(
          {address, allocation->size - before, holds_pointers, written, type});
    }
  }
  if (kernel.module == nullptr) return effect;
  const std::scoped_lock lock{small_data().code.variables};
  kernel.module->touched = true;
  for (const auto& [address, bytes] : kernel.module->variables) {
    const auto allocation = allocation_of(address);
    if (!allocation || allocation->device != device) continue;
    effect.operands.push_back({static_cast<std::byte*>(address), bytes, true, true});
  }
  return effect;
}

/// How many kernels with launches that nobody can read have a counter of their own, which has the
/// name that the report's kernels have: enough to say what a program is made of, few enough for a
/// report.
constexpr int counted_apart = 32;

/// The machine code of a kernel, read once; empty where it has none. Behind ModuleCode's walks.
std::span<const std::byte> code_of(const Kernel& kernel, const KernelReading& reading) {
  if (kernel.module == nullptr || reading.kernel_resources.code_size == 0) return {};
  if (!reading.code) {
    const std::scoped_lock reading_lock{small_data().code.reading};
    reading.code = fat_binary(*kernel.module).code(reading.kernel_resources, kernel.mangled);
  }
  return *reading.code;
}

/// Of how many launches of one kernel with other parameters is kept what they do: a number may
/// change with every step of a program.
constexpr std::size_t kept_launches = 4096;

/// Whether anything is known of the memory that these pointers lead to.
bool leads_to_known(std::span<const std::byte> constants) {
  return std::ranges::any_of(pointers(constants), [&](std::size_t at) {
    auto* const address = reinterpret_cast<std::byte*>(pointer_at(constants, at));
    const auto allocation = allocation_of(address);
    if (!allocation) return true;  // the host's memory is always known
    const auto before = static_cast<std::size_t>(address - allocation->base);
    return may_know(address, allocation->size - before);
  });
}

/// What a launch of a kernel that nobody can read does, as its code tells: as far as the parameters
/// tell, and with what is known of memory.
struct Work {
  std::optional<CodeWork> blind, with_data;
  std::vector<AddressRange> read, written;  ///< as far as the parameters tell where
};

/// The walks of one launch. Behind ModuleCode's walks.
class Walks {
 public:
  Walks(const Kernel& kernel, const KernelReading& reading, const Arguments& arguments,
        std::span<const std::byte> constants)
      : code_{code_of(kernel, reading)},
        reading_{reading},
        arguments_{arguments},
        constants_{constants} {}

  [[nodiscard]] Work work() const {
    const auto found = reading_.walks.find(key());
    Walked* known = found != reading_.walks.end() ? &found->second : nullptr;
    if (known == nullptr) {
      if (code_.empty()) return {};
      ReadConstants looked_at, tables;
      auto blind = walk(looked_at, tables, nullptr);
      note(looked_at, tables);
      known = &keep(of(std::move(blind)));
    }
    if (!known->blind) return {};
    Work work{known->blind, {}, known->read.ranges(constants_), known->written.ranges(constants_)};
    // What is held back would be seen as it was before.
    if (known->blind->by_data && data::run_at_once()) work.with_data = with_data(*known);
    return work;
  }

 private:
  [[nodiscard]] std::uint64_t key() const {
    return hash_of(arguments_.shape).value() ^
           std::rotl(hash_of_values(arguments_, reading_.kernel_resources, reading_.looked_at,
                                    reading_.tables),
                     1);
  }
  [[nodiscard]] std::optional<CodeWork> walk(ReadConstants& looked_at, ReadConstants& tables,
                                             LaunchMemory* memory) const {
    return code_work(code_, arguments_.shape, constants_, reading_.kernel_resources, looked_at,
                     tables, memory);
  }
  /// Returns whether what was kept under keys that leave some of these out was forgotten.
  bool note(const ReadConstants& looked_at, const ReadConstants& tables) const {
    const bool looked = reading_.look_at(looked_at), more = reading_.tables.add(tables);
    if (more) reading_.walks.clear();
    return looked || more;
  }
  /// Where it reads and writes is kept by this launch's pointers.
  [[nodiscard]] Walked of(std::optional<CodeWork> blind) const {
    Walked walked;
    if (blind) {
      walked.read = BehindPointers{std::exchange(blind->read, {}), constants_};
      walked.written = BehindPointers{std::exchange(blind->written, {}), constants_};
    }
    walked.blind = std::move(blind);
    return walked;
  }
  Walked& keep(Walked walked) const {
    if (reading_.walks.size() >= kept_launches) reading_.walks.clear();
    return reading_.walks.insert_or_assign(key(), std::move(walked)).first->second;
  }
  [[nodiscard]] std::optional<CodeWork> with_data(Walked& known) const {
    /// As batches take turns.
    constexpr std::size_t kept = 4;
    for (const Walked::WithData& one : known.with_data)
      if (one.looked_at.content(constants_) == one.content) return one.work;
    if (!leads_to_known(constants_)) return std::nullopt;
    if (!known.with_data.empty() && known.stable.is_taken_to_last()) {
      Walked::WithData& last = known.with_data.front();
      last.content = last.looked_at.content(constants_);
      return last.work;
    }
    LaunchMemory memory;
    ReadConstants looked_at, tables;
    auto work = walk(looked_at, tables, &memory);
    if (work && !work->knew) work.reset();
    if (!known.with_data.empty()) known.stable.note(known.with_data.front().work, work);
    Walked as_before{known.blind, known.read, known.written, {}, {}};
    // Where data led, parameters may have been looked at that nobody had looked at before.
    Walked& here = note(looked_at, tables) ? keep(std::move(as_before)) : known;
    if (here.with_data.size() >= kept) here.with_data.pop_back();
    BehindPointers read{memory.read(), constants_};
    const std::uint64_t content = read.content(constants_);
    return here.with_data.emplace_front(std::move(read), content, std::move(work)).work;
  }

  std::span<const std::byte> code_;
  const KernelReading& reading_;
  const Arguments& arguments_;
  std::span<const std::byte> constants_;
};

Work walked(const Kernel& kernel, const KernelReading& reading, const Arguments& arguments,
            std::span<const std::byte> constants) {
  const std::scoped_lock lock{small_data().code.walks};
  return Walks{kernel, reading, arguments, constants}.work();
}

/// To a thousandth: steps whose lengths differ by one ask for one price, of which a run has few.
double rounded(double value) {
  constexpr double steps = 1024;
  int exponent = 0;
  const double part = std::frexp(value, &exponent);
  return std::ldexp(std::round(part * steps) / steps, exponent);
}

/// A launch of a kernel that nobody can read, kept until its turn in its stream comes.
struct CodeRun {
  const KernelReading& reading;
  std::span<const std::byte> code;
  std::vector<std::byte> constants;
  LaunchShape shape;
  Effect unknown;  ///< where the code does not tell
  std::uint64_t writes_before = small_data().tensor_ends.count();

  CodeRun(const Kernel& kernel, const KernelReading& of, const LaunchShape& launched,
          std::vector<std::byte> bank, Effect effect)
      : reading{of}, constants{std::move(bank)}, shape{launched}, unknown{std::move(effect)} {
    const std::scoped_lock lock{small_data().code.walks};
    code = code_of(kernel, of);
  }

  void operator()() const {
    const Writer writer{reading.name.c_str(), true};
    if (code.empty() || constants.empty()) return apply();
    if (!anything_known()) return run_on_nothing(writer);
    {
      const std::scoped_lock lock{small_data().code.walks};
      if (const Outcome* const past = outcome_before()) return come_to(*past, writer);
    }
    ReadConstants looked_at;
    const CodeLaunch launch = code_launch(looked_at);
    Attempt made = attempt(Way::execution, looked_at, [&] {
      return execute(launch, shared_bytes(), writer, most_instructions());
    });
    note_cost(made);
    if (made.reach && made.reach->gave) return keep_long(std::move(made), looked_at);
    std::vector<AddressRange> read = std::move(made.read);
    const bool never = !made.reach && made.obstacle != Obstacle::data;
    if (!made.reach) {
      made = attempt(Way::reach, looked_at, [&] { return reach(launch); });
      read.insert(read.end(), made.read.begin(), made.read.end());
    }
    if (!made.reach) {
      made = attempt(Way::all, looked_at, [&] { return reach_of_all_ways(launch); });
      read.insert(read.end(), made.read.begin(), made.read.end());
    }
    Outcome outcome = outcome_of(read, made);
    come_to(outcome, writer);
    keep(std::move(outcome), looked_at, never, hangs_on_places(read, made));
  }

 private:
  /// Where a launch goes that went the same way for so many data does not hang on them. One that
  /// can be executed, where as much is known as then, is tried again after it was taken to for a
  /// while.
  static constexpr int enough_alike = 3, taken_on_trust = 15;
  enum class Way : std::uint8_t { execution = 1, reach, all };

  [[nodiscard]] CodeLaunch code_launch(ReadConstants& looked_at) const {
    return {.code = code,
            .grid = shape.grid,
            .block = shape.block,
            .constants = constants,
            .links = reading.kernel_resources.links,
            .architecture = reading.kernel_resources.architecture,
            .looked_at = &looked_at,
            .writes_before = writes_before};
  }
  [[nodiscard]] std::size_t shared_bytes() const {
    return reading.kernel_resources.static_shared + shape.shared_bytes;
  }
  /// Of launches that come to the same with the same in the memory that they read: wherever their
  /// tensors lie, or where they lie there too.
  [[nodiscard]] std::uint64_t key(bool in_place) const {
    return in_place ? ~hash(constants) : hash(related_pointers(constants));
  }
  /// What such a launch came to; nullptr if there was none. Behind ModuleCode's walks.
  [[nodiscard]] const Outcome* outcome_before() const {
    for (const bool in_place : {false, true}) {
      const auto past = reading.outcomes.find(key(in_place));
      if (past == reading.outcomes.end()) continue;
      const Outcome& outcome = past->second;
      if (outcome.alike >= enough_alike && outcome.never) return &outcome;
      const KnownBytes known = outcome.read.known(constants);
      if (known.content == outcome.known.content) return &outcome;
      if (outcome.alike >= enough_alike && outcome.taken < taken_on_trust &&
          known.places == outcome.known.places) {
        ++outcome.taken;
        return &outcome;
      }
    }
    return nullptr;
  }
  [[nodiscard]] static bool hangs_on_places(const std::vector<AddressRange>& read,
                                            const Attempt& made) {
    return made.to_the_end || holds_addresses(read);
  }
  [[nodiscard]] Outcome outcome_of(const std::vector<AddressRange>& read,
                                   const Attempt& made) const {
    Outcome outcome{.read = {read, constants}};
    outcome.known = outcome.read.known(constants);
    if (made.reach) outcome.written = {made.reach->written, constants};
    return outcome;
  }
  void keep(Outcome outcome, const ReadConstants& looked_at, bool never, bool in_place) const {
    const std::scoped_lock lock{small_data().code.walks};
    reading.look_at(looked_at);
    if (reading.outcomes.size() >= kept_launches) reading.outcomes.clear();
    Outcome& past = reading.outcomes[key(in_place)];
    const bool gave_nothing = past.given.empty() && outcome.given.empty();
    const bool as_before = past.written == outcome.written && past.never == never &&
                           (never || (gave_nothing && past.known.places == outcome.known.places));
    outcome.never = never;
    if (as_before) outcome.alike = past.alike + 1;
    past = std::move(outcome);
  }
  /// What a launch gave, if that took long: programs that try kernels out repeat it.
  void keep_long(Attempt made, const ReadConstants& looked_at) const {
    if (made.given.empty()) return;
    // What it read may be what it wrote.
    const bool reads_its_own = std::ranges::any_of(made.given, [&](const Given& given) {
      return std::ranges::any_of(made.read, [&](const AddressRange& range) {
        return range.first < given.range.last && given.range.first < range.last;
      });
    });
    if (reads_its_own) return;
    Outcome outcome = outcome_of(made.read, made);
    std::vector<AddressRange> given;
    for (const Given& one : made.given) given.push_back(one.range);
    outcome.given_at = {given, constants};
    outcome.given = std::move(made.given);
    keep(std::move(outcome), looked_at, false, hangs_on_places(made.read, made));
  }
  /// Whether anything is known of the memory that the parameters lead to: of what it may write, and
  /// of what it only reads.
  [[nodiscard]] bool anything_known() const {
    const auto may_be_known = [](const Operand& operand) {
      return may_know(operand.address, operand.extent);
    };
    return std::ranges::any_of(unknown.operands, may_be_known) || leads_to_known(constants);
  }
  /// Where nothing is known there is nothing to lose, and nothing to compute from but the
  /// parameters' numbers and the threads' own: a first filling of memory. That is not tried again
  /// with launches that have shown to be something else.
  void run_on_nothing(const Writer& writer) const {
    {
      const std::scoped_lock lock{small_data().code.walks};
      if (reading.barren.contains(hash_of_numbers())) return apply();
    }
    ReadConstants looked_at;
    Attempt made = execute(code_launch(looked_at), shared_bytes(), writer, most_instructions());
    note_cost(made);
    if (made.reach && made.reach->gave) return keep_long(std::move(made), looked_at);
    apply();
    const std::scoped_lock lock{small_data().code.walks};
    reading.look_at(looked_at);
    if (reading.barren.size() >= kept_launches) reading.barren.clear();
    reading.barren.insert(hash_of_numbers());
  }
  /// What `way` gives, unless a launch that would come as far as this one has come to nothing.
  template <class F>
  [[nodiscard]] Attempt attempt(Way way, const ReadConstants& looked_at, F f) const {
    const auto key = [&](bool with_numbers) {
      return std::rotl(with_numbers ? hash_of_numbers() : hash_of(shape).value(),
                       static_cast<int>(way) + (with_numbers ? 8 : 0));
    };
    {
      const std::scoped_lock lock{small_data().code.walks};
      if (reading.in_vain.contains(key(false)) || reading.in_vain.contains(key(true)))
        return {.obstacle = Obstacle::code};
    }
    Attempt made = f();
    if (made.obstacle == Obstacle::code || made.obstacle == Obstacle::length) {
      const std::scoped_lock lock{small_data().code.walks};
      reading.look_at(looked_at);
      if (reading.in_vain.size() >= kept_launches) reading.in_vain.clear();
      reading.in_vain.insert(key(made.obstacle == Obstacle::length));
    }
    return made;
  }

  [[nodiscard]] std::int64_t most_instructions() const {
    const std::scoped_lock lock{small_data().code.walks};
    return small_data().code.long_launches.most(reading.balance);
  }
  void note_cost(const Attempt& made) const {
    // What is too long, though all of it would be known, is no reason to leave others alone.
    if (made.gave) return;
    const std::scoped_lock lock{small_data().code.walks};
    small_data().code.long_launches.note(made.steps, made.reach && made.reach->gave,
                                         reading.balance);
  }
  void apply() const { rank::apply(unknown, reading.name.c_str()); }
  void come_to(const Outcome& outcome, const Writer& writer) const {
    if (!outcome.written) return apply();
    for (const AddressRange& range : outcome.written->ranges(constants))
      rank::forget(reinterpret_cast<void*>(range.first), range.last - range.first, writer);
    const std::vector<AddressRange> places = outcome.given_at.ranges(constants);
    for (std::size_t k = 0; k < places.size(); ++k)
      rank::write(outcome.given[k], places[k].first, writer);
  }
  /// Of what walks look at. Behind ModuleCode's walks.
  [[nodiscard]] std::uint64_t hash(std::span<const std::byte> of) const {
    WordHash hash = hash_of(shape);
    for (std::size_t at = 0; at < of.size(); at += sizeof(std::uint32_t)) {
      if (!reading.looked_at.has(at)) continue;
      std::uint32_t word = 0;
      std::memcpy(&word, of.data() + at, std::min(sizeof word, of.size() - at));
      hash.mix(word);
    }
    return hash.value();
  }
  /// Of the parameters that lead to no memory.
  [[nodiscard]] std::uint64_t hash_of_numbers() const {
    std::vector<std::byte> numbers{constants};
    for (const std::size_t at : pointers(constants))
      std::fill_n(numbers.begin() + static_cast<std::ptrdiff_t>(at), sizeof(void*), std::byte{});
    return hash(numbers);
  }
};

/// Lets a launch wait for those of other GPUs that its kernel waits for.
void meet_others(const Kernel& kernel, const KernelReading& reading, const Arguments& arguments,
                 std::span<const std::byte> bank, Stream& stream) {
  std::call_once(reading.meets_told, [&] {
    const std::scoped_lock lock{small_data().code.walks};
    reading.meets = meets_others(code_of(kernel, reading), reading.kernel_resources.architecture);
  });
  if (!reading.meets) return;
  const bool is_walked = !bank.empty();
  const std::vector<int> devices =
      is_walked ? gpus_met(bank, &reading.looked_at, stream.device)
                : gpus_met(constants(arguments, reading.kernel_resources), nullptr, stream.device);
  if (devices.size() > 1) meet(stream, devices);
}

void count_unread(const KernelReading& reading) {
  count("unread_kernels");
  std::call_once(reading.counted, [&] {
    if (++small_data().code.unread_kernels <= counted_apart)
      reading.counter = "unread_kernel " + reading.name;
  });
  if (!reading.counter.empty()) count(reading.counter.c_str());
}

/// Reads the kernel, at its first launch. Apart from reading_of, so that this stays small.
[[gnu::noinline]] const KernelReading& read_first(const Kernel& kernel) {
  const std::scoped_lock lock{small_data().code.reading};
  if (const KernelReading* known = kernel.reading.load(std::memory_order_acquire)) return *known;
  auto* const reading = new KernelReading;  // lives as long as the kernel: until the process ends
  reading->name = demangled(kernel.mangled);
  reading->parts = signature(reading->name);
  for (const std::string_view type : reading->parts.parameters) {
    reading->parameter_kinds.push_back(kind_of(type));
  }
  const int architecture = 10 * gpu().capability_major + gpu().capability_minor;
  if (kernel.module != nullptr) {
    FatBinary& code = fat_binary(*kernel.module);
    if (auto found = code.find(kernel.mangled, architecture)) {
      // Its variables and the names of its kernels may have been asked for before.
      const bool loaded = std::exchange(code.loading_charged, true);
      costs_more(loaded ? LoadingCost::kernel : loading_time(code));
      reading->kernel_resources = std::move(*found);
    } else {
      warn_once(kernel.mangled, "no GPU code was found for kernel " + reading->name +
                                    ": its parameters and registers are unknown");
    }
  }
  if (reading->kernel_resources.architecture == 0) {
    reading->kernel_resources.architecture = architecture;
  }
  if (!reading->kernel_resources.signature.empty()) {
    reading->parts = signature(reading->kernel_resources.signature);
  }
  auto& sizes = reading->kernel_resources.parameter_sizes;
  if (sizes.empty()) {
    // Without its code, what a C++ signature tells: pointers. The others' bytes are not looked at.
    for (const std::string_view type : reading->parts.parameters) {
      sizes.push_back(type.ends_with('*') ? sizeof(void*) : 0);
    }
  }
  for (const Reader read : readers) {
    reading->meaning = read(reading->parts, reading->kernel_resources);
    if (reading->meaning) break;
  }
  const_cast<Kernel&>(kernel).reading.store(reading, std::memory_order_release);
  return *reading;
}

const KernelReading& reading_of(const Kernel& kernel) {
  const KernelReading* const known = kernel.reading.load(std::memory_order_acquire);
  return known != nullptr ? *known : read_first(kernel);
}

/// What a launch that was walked finds of its operands in the cache.
KernelQuery::Operands cached(const Work& work, int device) {
  const CodeWork& told = work.with_data ? *work.with_data : *work.blind;
  std::vector<Touched> touched;
  const auto touch = [&](const std::vector<AddressRange>& ranges, double most, bool written) {
    for (const AddressRange& range : ranges) {
      const auto bytes = std::min(range.last - range.first, static_cast<std::uint64_t>(most));
      touched.push_back({reinterpret_cast<void*>(range.first), bytes, !written, written});
    }
  };
  touch(work.read, told.read_bytes, false);
  touch(work.written, told.written_bytes, true);
  return touch_operands(device, touched);
}

/// What a launch finds of its operands in the cache. Of what reaches through a whole table, it
/// touches no more than the bytes that it moves.
KernelQuery::Operands cached(const Effect& effect, int device) {
  const std::size_t most = effect.bytes > 0.0 ? static_cast<std::size_t>(effect.bytes)
                                              : std::numeric_limits<std::size_t>::max();
  return small_data().cached.touch(device, effect.operands, [most](const Operand& operand) {
    return Touched{operand.address, std::min(operand.extent, most), operand.read, operand.written};
  });
}

QueryId query_of(const char* mangled, const KernelReading& reading, const LaunchShape& shape,
                 const Effect& effect, const KernelQuery::Operands& operands) {
  const std::uint64_t hash = hash_of(shape, effect, operands);
  const auto describes = [&](const KnownQuery& known) {
    return known.describes(shape, effect, operands);
  };
  if (const KnownQuery* const known = reading.queries.find(hash, describes)) return known->id;
  KernelQuery query;
  query.name = reading.name;
  query.grid = shape.grid;
  query.block = shape.block;
  query.shared_bytes = static_cast<std::uint32_t>(shape.shared_bytes);
  // A kernel that only bears the name of one that we know can be misread: sizes that cannot be are
  // not told, and the grid decides.
  query.bytes = std::max(0.0, effect.bytes);
  query.flops = std::max(0.0, effect.flops);
  for (const auto& [name, value] : effect.features) {
    if (value > 0) query.features.emplace(name, value);
  }
  query.by_data.insert(effect.by_data.begin(), effect.by_data.end());
  query.operands = operands;
  const KernelResources& code = reading.kernel_resources;
  const QueryId id = intern(query, {.name = mangled,
                                    .registers = code.registers,
                                    .static_shared = code.static_shared,
                                    .local = code.local});
  reading.queries.add(
      hash, {shape, effect.bytes, effect.flops, effect.features, effect.by_data, operands, id});
  return id;
}

}  // namespace

void add_variable(Module& module, void* address, std::size_t bytes) {
  const std::scoped_lock lock{small_data().code.variables};
  module.variables.emplace_back(address, bytes);
  if (module.touched) forget(address, bytes);
}

std::optional<ModuleVariable> variable(const Module& module, const char* name) {
  const int architecture = 10 * gpu().capability_major + gpu().capability_minor;
  const std::scoped_lock lock{small_data().code.reading};
  return fat_binary(module).variable(name, architecture);
}

bool has_kernel(const Module& module, const char* name) {
  const int architecture = 10 * gpu().capability_major + gpu().capability_minor;
  const std::scoped_lock lock{small_data().code.reading};
  return fat_binary(module).has(name, architecture).value_or(true);
}

std::vector<std::string> kernel_names(const Module& module) {
  const int architecture = 10 * gpu().capability_major + gpu().capability_minor;
  const std::scoped_lock lock{small_data().code.reading};
  return fat_binary(module).kernel_names(architecture);
}

const KernelResources& resources(const Kernel& kernel) {
  return reading_of(kernel).kernel_resources;
}

void launch_kernel(Kernel& kernel, const LaunchShape& shape, void** args, Stream& stream) {
  const KernelReading& reading = reading_of(kernel);
  const Arguments arguments{args, reading.kernel_resources.parameter_sizes, shape,
                            reading.parameter_kinds};
  std::optional<Effect> effect =
      reading.meaning ? reading.meaning->effect(arguments) : std::nullopt;
  const bool unread = !effect || arguments.misread;
  // Of a kernel that nobody can read or walk only what it may write is known.
  std::optional<KernelQuery::Operands> operands;
  std::vector<std::byte> bank;
  if (unread) {
    effect = unknown_effect(kernel, reading, arguments, stream.device);
    if (!reading.meaning && !reading.kernel_resources.externals.empty()) {
      std::call_once(reading.externals_told, [&] {
        tell_skipped_calls(reading.name.c_str(), reading.kernel_resources.externals);
      });
    }
  }
  if (unread || effect->priced_by_code) {
    bank = constants(arguments, reading.kernel_resources);
    if (const Work work = walked(kernel, reading, arguments, bank); work.blind) {
      effect->bytes = work.blind->read_bytes + work.blind->written_bytes;
      effect->features = features_of(*work.blind, arguments, reading.kernel_resources);
      if (const auto& with_data = work.with_data) {
        effect->by_data = features_of(*with_data, arguments, reading.kernel_resources);
        effect->by_data.emplace_back("bytes", with_data->read_bytes + with_data->written_bytes);
        for (Feature& feature : effect->by_data) feature.second = rounded(feature.second);
      }
      operands = cached(work, stream.device);
    } else if (const auto bytes = moved_bytes(arguments, reading.kernel_resources)) {
      effect->bytes = *bytes;
    } else if (unread) {
      count_unread(reading);
    }
  }
  if (!operands) operands = unread ? KernelQuery::Operands{} : cached(*effect, stream.device);
  if (shows_peers() && !effect->one_sided) meet_others(kernel, reading, arguments, bank, stream);
  launch(stream, query_of(kernel.mangled, reading, shape, *effect, *operands));
  if (unread) {
    data::enqueue(stream, CodeRun{kernel, reading, shape, std::move(bank), std::move(*effect)});
    return;
  }
  for (const Operand& operand : effect->operands) {
    if (operand.written) small_data().tensor_ends.note(operand.address, operand.extent);
  }
  const char* const name = reading.name.c_str();
  if (data::run_at_once()) return apply(*effect, name);
  data::enqueue(stream, [effect = std::move(*effect), name] { apply(effect, name); });
}

}  // namespace phantora::rank
