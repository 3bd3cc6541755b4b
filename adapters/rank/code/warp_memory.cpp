#include "rank/code/code_execution.hpp"
#include "rank/code/warp.hpp"
#include "rank/small_data.hpp"

#include <cmath>
#include <utility>

/// Of Warp: constants, shuffles, shared and device memory.
namespace phantora::rank::code {

Lanes Warp::special_register(unsigned number) const {
  Lanes result;
  result.known = all_lanes;
  const unsigned threads = walk_.launch.block.x * walk_.launch.block.y * walk_.launch.block.z;
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    std::uint32_t value = 0;
    switch (number) {
      case 0x00:
        value = static_cast<std::uint32_t>(lane);
        break;
      case 0x20:  // all three of the thread's indices
        value = thread_[lane].x | thread_[lane].y << 16 | thread_[lane].z << 26;
        break;
      case 0x21:
        value = thread_[lane].x;
        break;
      case 0x22:
        value = thread_[lane].y;
        break;
      case 0x23:
        value = thread_[lane].z;
        break;
      case 0x25:
        value = block_.x;
        break;
      case 0x26:
        value = block_.y;
        break;
      case 0x27:
        value = block_.z;
        break;
      case 0x29:
        value = threads;
        break;
      case 0x38:
        value = 1U << lane;
        break;
      case 0x39:
        value = (1U << lane) - 1;
        break;
      case 0x2f:
        value = shared_window;
        break;
      case 0x88:  // of a block in its cluster: blocks are taken to be alike
      case 0xff:
        break;
      default:
        result.known = 0;
        break;
    }
    result.value[lane] = value;
  }
  return result;
}

void Warp::load_constant(const Instruction& i, Mask mask) {
  const unsigned size = i.field(73, 3);
  const unsigned words = size == 5 ? 2 : size == 6 ? 4 : 1;
  const unsigned to = register_of(i, 16);
  const bool indexed = i.operation() == op_ldc && i.field(24, 8) != 255;
  // Threads that ask for different ones are served one after the other (CUDA C++ Programming Guide,
  // "Constant Memory").
  if (indexed && names()) {
    std::array<std::uint64_t, lanes> places{};
    std::size_t threads = 0;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      if ((mask >> lane & 1) != 0) places[threads++] = get(i.field(24, 8)).identity(lane);
    }
    const auto end = places.begin() + static_cast<std::ptrdiff_t>(threads);
    std::sort(places.begin(), end);
    count(Counts::lsu, static_cast<double>(std::unique(places.begin(), end) - places.begin()));
  }
  for (unsigned w = 0; w < words; ++w) {
    Lanes value = indexed ? bank_at(i, 4 * w) : bank(i, rooms_.b, 4 * w);
    if (indexed) value = determined(value, get(i.field(24, 8)), constant(w));
    const std::uint32_t kept = size < 2 ? 0xffU : 0xffffU;
    for (std::uint32_t& v : value.value) {
      if (size >= 4) break;
      v &= kept;
      const bool is_signed = (size & 1) != 0;
      if (is_signed && v > kept / 2) v |= ~kept;
    }
    if (!is_zero(to)) set(to + w, value, mask);
  }
}

void Warp::exchange(const Instruction& i, Mask mask) {
  const Lanes x = a(i);
  const unsigned mode = i.field(58, 2);
  const bool by_number = i.form() == 7 || i.form() == 4,
             within_number = i.form() == 7 || i.form() == 2;
  const Lanes by = by_number ? constant(i.field(53, 5)) : get(i.field(32, 8));
  // The last thread that is asked, and above it the bits that parts of the warp have in common.
  const Lanes within = within_number ? constant(i.field(40, 13)) : get(i.field(64, 8));
  Lanes result;
  Truth inside{0, by.known & within.known};
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    const auto me = static_cast<std::uint32_t>(lane), n = by.value[lane] & 31;
    const std::uint32_t common = within.value[lane] >> 8 & 31, limit = within.value[lane] & 31;
    const std::uint32_t last = (me & common) | (limit & ~common);
    std::uint32_t from = 0;
    bool is_inside = false;
    switch (mode) {
      case 0:
        from = (me & common) | (n & ~common);
        is_inside = from <= last;
        break;
      case 1:
        from = me - n;
        is_inside = static_cast<std::int32_t>(from) >= static_cast<std::int32_t>(last);
        break;
      case 2:
        from = me + n;
        is_inside = from <= last;
        break;
      default:
        from = me ^ n;
        is_inside = from <= last;
        break;
    }
    if (is_inside) {
      inside.value |= Mask{1} << lane;
    } else {
      from = me;
    }
    result.value[lane] = x.value[from];
    result.unknown[lane] = (inside.known >> lane & 1) != 0 ? x.name(from) : no_name;
    const bool goes_there = !executes() || (mask >> from & 1) != 0;
    if ((inside.known >> lane & 1) != 0 && (x.known >> from & 1) != 0 && goes_there)
      result.known |= Mask{1} << lane;
  }
  set(register_of(i, 16), result, mask);
  set_predicate(i, 81, inside, mask);
}

void Warp::spill(const Instruction& i, bool stores, Mask mask) {
  // What is kept of it: 2 MB for a warp. A kernel of flash-linear-attention has 18 KiB of stack.
  constexpr std::uint32_t most_words = 8192;
  constexpr std::uint32_t word_bytes = 4;
  const std::uint32_t words = (width(i) + word_bytes - 1) / word_bytes;
  count(Counts::local_bytes, 1.0 * word_bytes * words * std::popcount(mask));
  const unsigned data = stores ? i.field(32, 8) : i.field(16, 8);
  const Lanes base = get(i.field(24, 8));
  const auto first = static_cast<std::size_t>(std::countr_zero(mask));
  bool alike = (mask & ~base.known) == 0 && width(i) >= word_bytes;
  for (std::size_t lane = 0; lane < lanes; ++lane)
    alike = alike && ((mask >> lane & 1) == 0 || base.value[lane] == base.value[first]);
  const auto offset = static_cast<std::uint32_t>(offset_of(i));
  const std::uint32_t below = 0U - (base.value[first] + offset);  // bytes to the stack's end
  if (!alike || below % word_bytes != 0 || below / word_bytes < words ||
      below / word_bytes > most_words) {
    if (stores) registers_.lose_words();
    if (!stores) forget(data, words, mask);
    return;
  }
  for (std::uint32_t w = 0; w < words; ++w) {
    const std::size_t at = below / word_bytes - w - 1;
    if (!stores) {
      set(is_zero(data) ? data : data + w, registers_.word(at), mask);
      continue;
    }
    const Lanes& from = get(is_zero(data) ? data : data + w);
    Lanes& word = registers_.changed_word(at);
    replace(word, from, mask);
    word.known &= ~(unsure_ & mask);
  }
}

double Warp::share(const Instruction& i, unsigned operation, Mask mask) {
  if (executes()) {
    exchange_shared(i, operation, mask);
    if (operation == op_atoms_cas || operation == op_ldsm)
      forget(i.field(16, 8), operation == op_ldsm ? 1U << i.field(72, 2) : (width(i) + 3) / 4,
             mask);
    return shared_latency;
  }
  const bool matrices = operation == op_ldsm || operation == op_stsm;
  const std::uint32_t bytes = matrices ? 4U << i.field(72, 2) : width(i);
  const bool loads = operation == op_lds || operation == op_ldsm;
  // Passes: as many as the busiest bank has different words.
  double passes = 1;
  const Lanes address = get(i.field(24, 8));
  if (matrices) {
    passes = bytes / 4.0;
  } else {
    std::vector<std::uint32_t> words;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      if ((mask >> lane & 1) == 0 || (address.known >> lane & 1) == 0) continue;
      for (std::uint32_t w = 0; w < std::max(1U, bytes / 4); ++w)
        words.push_back(address.value[lane] / 4 + w);
    }
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    std::array<int, 32> in_bank{};
    for (const std::uint32_t word : words) passes = std::max<double>(passes, ++in_bank[word % 32]);
    // Of threads at addresses that are not known: as if they were one after the other.
    const double elsewhere = std::popcount(mask & ~address.known);
    passes = std::max(passes, elsewhere * bytes / 128.0);
  }
  if (operation == op_atoms || operation == op_atoms_cas) {
    // Random places: with 32 threads at 32 banks the busiest has 3.5 in the mean.
    passes = std::max(passes, address.known == 0 ? 3.5 : 1.0) * 2;
    forget(i.field(16, 8), (bytes + 3) / 4, mask);
  }
  count(Counts::lsu, passes);
  if (loads && matrices) forget(i.field(16, 8), (bytes + 3) / 4, mask);
  if (loads && !matrices) {
    // Each block has its own there.
    std::array<std::uint64_t, lanes> places{};
    for (std::size_t lane = 0; lane < lanes; ++lane)
      places[lane] = address.identity(lane) + mixed(walk_.warps);
    name_loaded(i.field(16, 8), (bytes + 3) / 4, mask, places);
  }
  return shared_latency + passes;
}

void Warp::name_loaded(unsigned number, std::uint32_t words, Mask mask,
                       const std::array<std::uint64_t, lanes>& places) {
  // What lies there may have changed since the last time.
  const auto time = static_cast<std::uint64_t>(++visits_[at_]);
  for (unsigned n = number; n < number + words && !is_zero(n); ++n) {
    Lanes& to = registers_.changed(n);
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      to.value[lane] = 0;
      to.unknown[lane] = name_by(places[lane] + (at_ << 40) + (time << 8) + (n - number));
    }
    to.known &= ~mask;
  }
}

void Warp::read_known(const Instruction& i, Mask mask, Extent& extent,
                      const std::array<std::uint64_t, lanes>& places) {
  // What a launch writes itself it may have written before; of large tensors nothing is known.
  constexpr int enough = 64;
  const std::uint32_t bytes = width(i);
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    if (extent.written || extent.in_vain >= enough) return;
    const bool reads = ((mask & ~unsure_) >> lane & 1) != 0;
    if (!reads || (places[lane] & unknown_base) != 0) continue;
    Word word{};
    LaunchMemory::Known known = 0;
    const bool is_there = walk_.launch.known->load(places[lane], bytes, word.data(), known);
    if (is_there && known == (LaunchMemory::Known{1} << bytes) - 1) {
      extent.in_vain = 0;
      walk_.knew = true;
      scatter(i, bytes, lane, word, known);
    } else {
      ++extent.in_vain;
    }
  }
}

LaunchMemory::Known Warp::gather(unsigned number, std::uint32_t bytes, std::size_t lane,
                                 Word& word) const {
  LaunchMemory::Known known = 0;
  for (std::uint32_t at = 0; at < bytes; at += 4) {
    const Lanes& from = get(is_zero(number) ? number : number + at / 4);
    std::memcpy(word.data() + at, &from.value[lane], sizeof from.value[lane]);
    if ((from.known >> lane & 1) != 0) known |= 0xfU << at;
  }
  return known & ((LaunchMemory::Known{1} << bytes) - 1);
}

void Warp::scatter(const Instruction& i, std::uint32_t bytes, std::size_t lane, const Word& word,
                   LaunchMemory::Known known) {
  const unsigned to = i.field(16, 8);
  if (is_zero(to)) return;
  for (std::uint32_t at = 0; at < bytes; at += 4) {
    const std::uint32_t part = std::min(4U, bytes - at);
    const LaunchMemory::Known whole = (LaunchMemory::Known{1} << part) - 1;
    Lanes& lanes_of =
        registers_.changed(std::min(to + static_cast<unsigned>(at / 4), first_uniform - 2));
    std::uint32_t value = 0;
    std::memcpy(&value, word.data() + at, part);
    const bool is_signed = (i.field(73, 3) & 1) != 0 && part < 4;
    if (is_signed && (value >> (8 * part - 1) & 1) != 0) value |= ~0U << (8 * part);
    lanes_of.value[lane] = value;
    const Mask bit = Mask{1} << lane;
    lanes_of.known = (known >> at & whole) == whole ? lanes_of.known | bit : lanes_of.known & ~bit;
  }
}

bool Warp::counts_threads(const Instruction& i) const {
  const unsigned function = i.field(87, 4);
  return i.operation() == op_atoms && i.field(9, 3) == 7 && is_zero(i.field(16, 8)) &&
         function == (walk_.launch.architecture >= 90 ? 11U : 10U);
}

bool Warp::change_shared(const Instruction& i, std::size_t lane, std::size_t at, bool sure) {
  SharedBytes& shared = *walk_.shared;
  constexpr LaunchMemory::Known whole = 0xf;
  Word word{};
  std::uint32_t before = 0, operand = 0;
  const bool counts = counts_threads(i);
  const bool known_operand = counts || gather(i.field(32, 8), sizeof operand, lane, word) == whole;
  std::memcpy(&operand, word.data(), sizeof operand);
  std::memcpy(&before, shared.bytes.data() + at, sizeof before);
  const auto first = shared.known.begin() + static_cast<std::ptrdiff_t>(at);
  const bool known_before =
      std::all_of(first, first + sizeof before, [](std::uint8_t k) { return k != 0; });
  const std::optional<std::uint32_t> after = counts ? before + 1 : changed(i, before, operand);
  if (!after) return false;
  std::memcpy(shared.bytes.data() + at, &*after, sizeof *after);
  std::fill_n(first, sizeof *after, known_before && known_operand && sure ? 1 : 0);
  std::memcpy(word.data(), &before, sizeof before);
  scatter(i, sizeof before, lane, word, known_before && sure ? whole : 0);
  return true;
}

void Warp::exchange_shared(const Instruction& i, unsigned operation, Mask mask) {
  SharedBytes& shared = *walk_.shared;
  const auto forget_all = [&] { std::ranges::fill(shared.known, std::uint8_t{0}); };
  if (operation == op_ldsm) return;
  const bool changes = operation == op_atoms;
  if (operation != op_lds && operation != op_sts && !changes) return forget_all();
  const bool stores = operation != op_lds;
  const std::uint32_t bytes = width(i);
  Lanes base = get(i.field(24, 8));
  const unsigned scale = i.field(78, 2);  // 1, 4, 8, 16
  for (std::uint32_t& v : base.value) v <<= scale == 0 ? 0 : scale + 1;
  Lanes more = constant(0);
  if (i.bit(91)) more = get(first_uniform + i.field(stores ? 64 : 32, 6));
  const std::uint32_t offset = i.field(40, 24);
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const Mask bit = Mask{1} << lane;
    const bool sure = (unsure_ & bit) == 0;
    const std::uint32_t at =
        (base.value[lane] + more.value[lane] + offset) & 0xffffff;  // the block in its cluster: 0
    const bool known = (base.known & more.known & bit) != 0 && at + bytes <= shared.bytes.size();
    Word word{};
    if (changes) {
      if (!known || !change_shared(i, lane, at, sure)) {
        forget_all();
        forget(i.field(16, 8), (bytes + 3) / 4, bit);
      }
    } else if (stores) {
      if (!known) {
        forget_all();
        continue;
      }
      const LaunchMemory::Known bits = sure ? gather(i.field(32, 8), bytes, lane, word) : 0;
      for (std::uint32_t b = 0; b < bytes; ++b) {
        shared.bytes[at + b] = word[b];
        shared.known[at + b] = bits >> b & 1;
      }
    } else {
      LaunchMemory::Known bits = 0;
      for (std::uint32_t b = 0; known && sure && b < bytes; ++b) {
        word[b] = shared.bytes[at + b];
        bits |= LaunchMemory::Known{shared.known[at + b]} << b;
      }
      scatter(i, bytes, lane, word, bits);
    }
  }
}

std::optional<std::uint32_t> Warp::changed(const Instruction& i, std::uint32_t before,
                                           std::uint32_t operand) {
  // Of a reduction without a result the bit behind says that its address has a descriptor.
  const unsigned type = i.field(73, 3), function = i.field(87, i.operation() == op_red ? 3 : 4);
  if (type > 1) return std::nullopt;
  const bool less = type == 1
                        ? static_cast<std::int32_t>(operand) < static_cast<std::int32_t>(before)
                        : operand < before;
  switch (function) {
    case 0:
      return before + operand;
    case 1:
      return less ? operand : before;
    case 2:
      return less ? before : operand;
    case 5:
      return before & operand;
    case 6:
      return before | operand;
    case 7:
      return before ^ operand;
    default:
      return std::nullopt;
  }
}

void Warp::touch(const Instruction& i, unsigned operation, std::uint32_t bytes, std::size_t lane,
                 std::uint64_t address, bool unsure) {
  Word word{};
  LaunchMemory::Known known = 0;
  if (operation == op_ldg || operation == op_ld) {
    // A thread that only may execute it may have an address that leads nowhere.
    if (!unsure) walk_.stop_unless(walk_.memory->load(address, bytes, word.data(), known));
    scatter(i, bytes, lane, word, known);
    return;
  }
  if (operation == op_stg || operation == op_st) {
    const unsigned from = i.field(32, 8);
    if (!unsure) known = gather(from, bytes, lane, word);
    walk_.stop_unless(walk_.memory->store(address, bytes, word.data(), known));
    return;
  }
  // Atomics on 32 bits, which give what was there before. Of others what they reach is told.
  if (!executes()) {
    walk_.stop_unless(walk_.memory->store(address, bytes, word.data(), 0));
    return;
  }
  std::uint32_t before = 0, operand = 0;
  LaunchMemory::Known known_before = 0;
  walk_.stop_unless(operation == op_atomg || operation == op_red, Obstacle::code);
  walk_.stop_unless(walk_.memory->load(address, 4, word.data(), known_before));
  std::memcpy(&before, word.data(), sizeof before);
  known = gather(i.field(32, 8), 4, lane, word) & known_before;
  std::memcpy(&operand, word.data(), sizeof operand);
  const std::optional<std::uint32_t> after = changed(i, before, operand);
  walk_.stop_unless(after.has_value(), Obstacle::code);
  if (!after) return;
  Word result{};
  std::memcpy(result.data(), &*after, sizeof *after);
  constexpr LaunchMemory::Known whole = 0xf;
  walk_.stop_unless(
      walk_.memory->store(address, 4, result.data(), known == whole && !unsure ? whole : 0));
  if (operation == op_red || is_zero(i.field(16, 8))) return;
  Lanes& to = registers_.changed(i.field(16, 8));
  const Mask bit = Mask{1} << lane;
  to.value[lane] = before;
  to.known = known_before == whole && !unsure ? to.known | bit : to.known & ~bit;
}

bool Warp::touch_at_once(const Instruction& i, unsigned operation, std::uint32_t bytes,
                         const std::array<std::uint64_t, lanes>& addresses) {
  const bool loads = operation == op_ldg || operation == op_ld;
  const bool moves = loads || operation == op_stg || operation == op_st;
  if (!moves || bytes < sizeof(std::uint32_t) || unsure_ != 0) return false;
  const std::uint64_t apart = addresses[1] - addresses[0];
  if (apart != bytes && (apart != 0 || !loads)) return false;
  for (std::size_t lane = 2; lane < lanes; ++lane) {
    if (addresses[lane] - addresses[lane - 1] != apart) return false;
  }
  // A thread's word after the other, one register after the other.
  std::array<std::byte, lanes * sizeof(Word)> room{};
  const std::span<std::byte> all = std::span{room}.first((lanes - 1) * apart + bytes);
  const auto each = [&](unsigned number, auto f) {
    for (std::uint32_t at = 0; at < bytes; at += sizeof(std::uint32_t)) {
      for (std::size_t lane = 0; lane < lanes; ++lane)
        f(number + at / 4, lane, all.data() + lane * apart + at);
    }
  };
  if (!loads) {
    const unsigned from = i.field(32, 8);
    for (unsigned n = from; n < from + bytes / 4 && !is_zero(from); ++n) {
      if (get(n).known != all_lanes) return false;
    }
    if (!is_zero(from)) {
      each(from, [&](unsigned number, std::size_t lane, std::byte* to) {
        std::memcpy(to, &get(number).value[lane], sizeof(std::uint32_t));
      });
    }
    walk_.stop_unless(walk_.memory->store_known(addresses[0], all));
    return true;
  }
  bool known = false;
  walk_.stop_unless(walk_.memory->load_all(addresses[0], all, known));
  const unsigned to = i.field(16, 8);
  if (!known || to + bytes / 4 >= first_uniform) return false;
  each(to, [&](unsigned number, std::size_t lane, const std::byte* from) {
    std::memcpy(&registers_.changed(number).value[lane], from, sizeof(std::uint32_t));
  });
  for (unsigned n = to; n < to + bytes / 4; ++n) registers_.changed(n).known = all_lanes;
  return true;
}

const Origin* Walk::origin(std::size_t access) {
  if (!origins) origins = address_origins(program, pointers).value_or(std::vector<Origin>{});
  return origins->empty() ? nullptr : &(*origins)[access];
}

bool Walk::stays_on_chip(std::size_t access, unsigned operation) {
  if (!is_generic(operation)) return false;
  const Origin* const from = origin(access);
  return from != nullptr && from->none();
}

const Table& Walk::table(std::size_t access) {
  tables.resize(extents.size());
  std::optional<Table>& table = tables[access];
  if (table) return *table;
  table.emplace();
  if (!origins && launch.reach != nullptr) {
    pointers = rank::pointers(launch.constants);
    if (pointers.size() > most_pointers) pointers.clear();
  }
  const Origin* const from = origin(access);
  if (from == nullptr || from->loads != 0 || from->elsewhere) return *table;
  if (from->variables == 0 && std::popcount(from->pointers) == 1) {
    const std::size_t at = pointers[static_cast<std::size_t>(std::countr_zero(from->pointers))];
    if (launch.tables != nullptr) launch.tables->note(at, sizeof(void*));
    const std::uint64_t address = pointer_at(launch.constants, at), bytes = launch.reach(address);
    if (bytes != 0) table = {address, static_cast<double>(bytes)};
  } else if (from->pointers == 0 && std::popcount(from->variables) == 1) {
    const auto number = static_cast<std::size_t>(std::countr_zero(from->variables));
    const std::uint64_t bytes = launch.links.variables[number].bytes;
    if (bytes != 0) table = {variables_base | number << 32, static_cast<double>(bytes)};
  }
  return *table;
}

void Walk::store_somewhere(std::size_t number) {
  const Origin* const found = origin(number);
  if (found == nullptr) return stop_unless(false, Obstacle::code);
  const Origin& from = *found;
  stop_unless(!from.none() && !from.beside_parameters());
  if (lost()) return;
  for (std::uint64_t rest = from.pointers & ~written_behind; rest != 0; rest &= rest - 1)
    memory->store_somewhere_behind(pointer(rest), most_behind(rest));
  written_behind |= from.pointers;
  if (from.loads == 0) return;
  followed.resize(extents.size());
  for (std::size_t load = 0; load < extents.size(); ++load) {
    if ((from.loads >> load % most_pointers & 1) != 0) follow_table(load);
  }
}

std::uint64_t Walk::most_behind(std::uint64_t these) {
  const std::uint64_t first = these & -these;
  if (!updated) {
    updated = 0;
    for (std::size_t at = 0; at < program.code.size(); ++at) {
      const unsigned operation = program.code[at].operation();
      const bool stores_alone = operation == op_stg || operation == op_st;
      if (!is_access(operation) || stores_alone) continue;
      const Origin& from = (*origins)[static_cast<std::size_t>(program.number[at])];
      if (std::popcount(from.pointers) == 1) *updated |= from.pointers;
    }
  }
  if ((*updated & first) == 0) return 0;
  return small_data().tensor_ends.bytes_from(reinterpret_cast<const void*>(pointer(first)),
                                             launch.writes_before);
}

void Walk::follow_table(std::size_t load) {
  // What a kernel reads as pointers: as much as is followed where no code tells.
  constexpr std::uint64_t most_bytes = 4096;
  const Extent& extent = extents[load];
  const bool known =
      !extent.unknown && extent.first < extent.last && extent.last - extent.first <= most_bytes;
  const AddressRange table =
      known ? AddressRange{extent.first, extent.last} : AddressRange{0, most_bytes};
  if (std::exchange(followed[load], table) == table) return;
  if (known) return memory->store_somewhere_behind_those_in(table);
  const Origin& of = (*origins)[load];
  stop_unless(of.pointers != 0 && !of.beside_parameters());
  for (std::uint64_t rest = of.pointers; rest != 0; rest &= rest - 1)
    memory->store_somewhere_behind_those_in({pointer(rest), pointer(rest) + most_bytes});
}

double Warp::access(std::size_t at, const Instruction& i, unsigned operation, Mask mask) {
  const std::uint32_t bytes = width(i);
  const bool stores = operation == op_stg || operation == op_st;
  const bool loads = is_load(operation);
  const bool atomic = !stores && !loads;
  const auto number = static_cast<std::size_t>(program_.number[at]);
  const unsigned base = i.field(24, 8);
  const Lanes low = get(base), upper = high(base);
  const bool is_wide = has_wide_address(i);
  const std::int64_t offset = offset_of(i);
  if (is_generic(operation) && is_wide && reaches_shared(upper, mask)) {
    walk_.stop_unless(!executes(), Obstacle::code);
    return share(i, loads ? op_lds : stores ? op_sts : op_atoms, mask);
  }
  if (walk_.memory != nullptr && walk_.stays_on_chip(number, operation)) {
    walk_.stop_unless(!executes(), Obstacle::code);
    if (!loads) registers_.lose_words();
    if (!stores) forget(i.field(16, 8), (bytes + 3) / 4, mask);
    return shared_latency;
  }
  Extent& extent = walk_.extents[number];
  extent.written = extent.written || !loads;
  std::array<std::uint64_t, lanes> sectors{};
  std::size_t count_of_sectors = 0;
  if (walk_.memory != nullptr) {
    // Beside the address' register may stand a uniform one, which is no descriptor then. What is
    // copied to shared memory has other bits there, and no matter where from. Atomics with a result
    // have a bit of their function there, and always a descriptor since sm_80.
    const bool gives_before =
        operation == op_atomg || operation == op_atomg_cas || operation == op_atomg_float;
    const bool other_bits =
        operation == op_ldgsts || (gives_before && walk_.launch.architecture >= 80);
    walk_.stop_unless(other_bits || !i.bit(91) || i.bit(90), Obstacle::code);
    const bool gives = !stores && operation != op_ldgsts && operation != op_red;
    if (gives) forget(i.field(16, 8), (bytes + 3) / 4, mask);
  }
  std::array<std::uint64_t, lanes> places{};
  const auto address_of = [&](std::size_t lane) {
    return (is_wide ? std::uint64_t{upper.value[lane]} << 32 : 0) + low.value[lane] +
           static_cast<std::uint64_t>(offset);
  };
  if (walk_.memory != nullptr &&
      (mask & low.known & (is_wide ? upper.known : all_lanes)) == all_lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) places[lane] = address_of(lane);
    if (touch_at_once(i, operation, bytes, places)) {
      extent.first = std::min(extent.first, places.front());
      extent.last = std::max(extent.last, places.back() + bytes);
      if (!loads) walk_.stores += lanes;
      return loads ? memory_latency : special_latency;
    }
  }
  bool from_l1 = false;  // where other warps have been before
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const bool known = (low.known >> lane & 1) != 0 && (!is_wide || (upper.known >> lane & 1) != 0);
    if (!known) {
      if (walk_.memory == nullptr) {
        walk_.by_data = true;
        // So many bytes behind a base that is taken to lie at a sector's begin.
        const auto behind = low.value[lane] + static_cast<std::uint32_t>(offset);
        const Name base_name =
            name_by(std::uint64_t{low.name(lane)} << 32 | (is_wide ? upper.name(lane) : no_name));
        places[lane] = behind_base(base_name, behind);
        const Table& table = walk_.table(number);
        if (loads && table.bytes <= kept_of_l1) {
          // All over a small table.
          const auto size = static_cast<std::uint64_t>(table.bytes);
          const std::uint64_t all = (size + sector_bytes - 1) / sector_bytes;
          const std::uint64_t sector = (mixed(base_name) + behind / sector_bytes) % all;
          sectors[count_of_sectors++] = table.first / sector_bytes + sector;
          extent.first = std::min(extent.first, table.first);
          extent.last = std::max(extent.last, table.first + size);
          from_l1 = true;
          continue;
        }
        extent.unknown = true;
        sectors[count_of_sectors++] = behind_base(base_name, behind / sector_bytes);
        reach_behind(extent, base_name, behind, bytes);
        continue;
      }
      extent.unknown = true;
      if (!loads) {
        walk_.store_somewhere(number);
      }
      continue;
    }
    const std::uint64_t address = address_of(lane);
    extent.first = std::min(extent.first, address);
    extent.last = std::max(extent.last, address + bytes);
    if (!loads) ++walk_.stores;
    if (walk_.memory != nullptr && operation != op_ldgsts)
      touch(i, operation, bytes, lane, address, (unsure_ >> lane & 1) != 0);
    places[lane] = address;
    sectors[count_of_sectors++] = address / sector_bytes;
  }
  // What it costs is of no interest where data are followed.
  if (walk_.memory != nullptr) return loads ? memory_latency : special_latency;
  std::sort(sectors.begin(), sectors.begin() + static_cast<std::ptrdiff_t>(count_of_sectors));
  if (stores) {
    // Those that are not written whole.
    std::optional<std::uint64_t> line{};
    for (std::size_t s = 0, next = 0; s < count_of_sectors; s = next) {
      while (next < count_of_sectors && sectors[next] == sectors[s]) ++next;
      if (static_cast<double>((next - s) * bytes) >= sector_bytes) continue;
      count(Counts::partial_sectors);
      if (line != sectors[s] / sectors_of_line) count(Counts::partial_lines);
      line = sectors[s] / sectors_of_line;
    }
  }
  count_of_sectors = static_cast<std::size_t>(
      std::unique(sectors.begin(),
                  sectors.begin() + static_cast<std::ptrdiff_t>(count_of_sectors)) -
      sectors.begin());
  const double threads = std::popcount(mask);
  // L1 takes a request's lines one after the other.
  double lines = 0;
  for (std::size_t s = 0; s < count_of_sectors; ++s) {
    if (s == 0 || sectors[s] / sectors_of_line != sectors[s - 1] / sectors_of_line) lines += 1;
  }
  if (from_l1) lines /= lines_of_a_pass;
  count(Counts::lsu, std::max(lines, threads * bytes / 128.0));
  std::vector<std::uint64_t>& first = first_sectors_[number];
  if (first.empty())
    first.assign(sectors.begin(), sectors.begin() + static_cast<std::ptrdiff_t>(count_of_sectors));
  double missed = 0;
  for (std::size_t s = 0; s < count_of_sectors; ++s) {
    if (loads && hit(sectors[s])) {
      count(Counts::hits);
      continue;
    }
    missed += 1;
    // Device memory's bursts are of two sectors, and what is written in part is read before.
    const bool beside = (s > 0 && sectors[s - 1] / 2 == sectors[s] / 2) ||
                        (s + 1 < count_of_sectors && sectors[s + 1] / 2 == sectors[s] / 2);
    if ((sectors[s] & unknown_base) == 0 || beside) continue;
    counts_.random[number] += sector_bytes * (loads ? 1.0 : 3.0);
    if (loads) count(Counts::lone_sectors);
  }
  counts_.sectors[number] += missed;
  extent.gone_to += missed;
  if (atomic) {
    count(Counts::atomics, threads);
    extent.requests += static_cast<double>(count_of_sectors);
    extent.atomics += threads;
    for (std::size_t s = 0; s < count_of_sectors && extent.changed.size() < Extent::most_bases; ++s)
      extent.changed.insert(sectors[s]);
  }
  const std::uint32_t words = (bytes + 3) / 4;
  if (atomic) forget(i.field(16, 8), words, mask);
  if (operation == op_ldg || operation == op_ld) {
    name_loaded(i.field(16, 8), words, mask, places);
    if (walk_.launch.known != nullptr) read_known(i, mask, extent, places);
  }
  if (stores) return special_latency;
  if (walk_.meets_others) {
    const std::uint64_t place = places[static_cast<std::size_t>(std::countr_zero(mask))];
    // An address that comes from a table of the GPUs' buffers is some peer's.
    const bool is_known = place != 0 && (place & unknown_base) == 0;
    if (!is_known || walk_.launch.is_of_peer(place)) return peer_latency;
    if (loads && is_of_system(i)) return told_latency;
  }
  if (missed == 0 || from_l1) return shared_latency + 4;
  received_ = missed * sector_bytes;
  return memory_latency;
}

std::optional<TensorMap> Warp::tensor_map(unsigned number) const {
  // The bank has zeros for the address at which its parameters can be read.
  const auto low = known_of_warp(number), upper = known_of_warp(number + 1);
  const std::size_t at = walk_.launch.parameters_at + low.value_or(0);
  if (!low || upper != 0U || at + tensor_map_bytes > walk_.launch.constants.size()) {
    return std::nullopt;
  }
  if (walk_.launch.looked_at) walk_.launch.looked_at->note(at, sizeof(TensorMap));
  TensorMap map{};
  std::memcpy(&map, walk_.launch.constants.data() + at, sizeof map);
  if (map.rank < 1 || map.rank > TensorMap::most_dimensions) return std::nullopt;
  // A box lies in shared memory, or the bytes are no map of ours.
  constexpr double most_bytes = 256 << 10;
  double bytes = map.element_bits / 8.0;
  for (unsigned d = 0; d < map.rank; ++d) bytes *= map.box[d];
  return bytes > 0 && bytes <= most_bytes ? std::optional{map} : std::nullopt;
}

std::vector<AddressRange> Warp::runs_of_box(const TensorMap& map, unsigned first_coordinate) const {
  // First and last element in each dimension, of those that the tensor has.
  std::array<std::int64_t, TensorMap::most_dimensions> first{}, last{};
  for (unsigned d = 0; d < map.rank; ++d) {
    const auto begin = static_cast<std::int32_t>(known_of_warp(first_coordinate + d).value_or(0));
    first[d] = std::max(begin, 0);
    last[d] = std::min<std::int64_t>(std::int64_t{begin} + map.box[d],
                                     static_cast<std::int64_t>(map.sizes[d]));
    if (first[d] >= last[d]) return {};
  }
  const auto bytes = [&](std::int64_t elements) {
    return static_cast<std::uint64_t>(elements) * map.element_bits / 8;
  };
  std::vector<AddressRange> runs;
  auto index = first;
  for (;;) {
    std::uint64_t row = map.address;
    for (unsigned d = 1; d < map.rank; ++d)
      row += static_cast<std::uint64_t>(index[d]) * map.strides[d - 1];
    runs.push_back({row + bytes(first[0]), row + bytes(last[0])});
    unsigned d = 1;
    while (d < map.rank && ++index[d] == last[d]) {
      index[d] = first[d];
      ++d;
    }
    if (d >= map.rank) return runs;
  }
}

namespace {

/// From the first to the last byte of a tensor.
AddressRange whole(const TensorMap& map) {
  std::uint64_t last = map.address + map.sizes[0] * map.element_bits / 8;
  for (unsigned d = 1; d < map.rank; ++d) last += (map.sizes[d] - 1) * map.strides[d - 1];
  return {map.address, last};
}

}  // namespace

double Warp::copy_in_bulk(std::size_t at, const Instruction& i, unsigned operation) {
  if (walk_.memory != nullptr) return special_latency;
  const bool is_box = operation != op_ublkcp && operation != op_ublkred;
  const bool loads = operation == op_utmaldg || (operation == op_ublkcp && i.bit(64 + 9));
  const unsigned described = first_uniform + i.field(24, 6), place = first_uniform + i.field(32, 6);
  std::vector<AddressRange> runs;
  AddressRange somewhere{~std::uint64_t{0}, 0};  // of a box whose place is not known
  if (is_box) {
    // The registers of a load name the place in shared memory, the barrier, and the coordinates.
    const unsigned first_coordinate = place + (loads ? 2 : 1);
    if (const auto map = tensor_map(described)) {
      runs = runs_of_box(*map, first_coordinate);
      for (unsigned d = 0; d < map->rank; ++d)
        if (!known_of_warp(first_coordinate + d)) somewhere = whole(*map);
    }
  } else {
    // The source, the destination, and how often 16 bytes.
    const unsigned device = loads ? described : place;
    const auto low = known_of_warp(device), upper = known_of_warp(device + 1),
               count = known_of_warp(first_uniform + i.field(64, 6));
    if (low && upper && count) {
      const std::uint64_t from = std::uint64_t{*upper} << 32 | *low;
      runs.push_back({from, from + 16 * (*count & 0xffff)});
    }
  }
  const auto number = static_cast<std::size_t>(program_.number[at]);
  Extent& extent = walk_.extents[number];
  extent.written = extent.written || !loads;
  extent.past_l1 = true;
  extent.first = std::min(extent.first, somewhere.first);
  extent.last = std::max(extent.last, somewhere.last);
  std::vector<std::uint64_t>& all = first_sectors_[number];
  const bool is_first = all.empty();
  for (const AddressRange& run : runs) {
    if (run.first >= run.last) continue;
    extent.first = std::min(extent.first, run.first);
    extent.last = std::max(extent.last, run.last);
    const std::uint64_t begin = run.first / sector_bytes,
                        end = (run.last + sector_bytes - 1) / sector_bytes;
    counts_.sectors[number] += static_cast<double>(end - begin);
    for (std::uint64_t sector = begin; is_first && sector < end; ++sector) all.push_back(sector);
  }
  if (is_first) std::sort(all.begin(), all.end());
  return special_latency;
}

void Warp::reach_behind(Extent& extent, Name base, std::uint32_t from, std::uint32_t bytes) {
  if (extent.goes_anywhere()) return;
  const auto [place, is_new] =
      extent.behind.try_emplace(base, Behind{from, from + bytes, walk_.warps, false});
  if (is_new) return;
  Behind& behind = place->second;
  behind.first = std::min(behind.first, from);
  behind.last = std::max(behind.last, from + bytes);
  behind.shared = behind.shared || behind.warp != walk_.warps;
}

bool Warp::hit(std::uint64_t sector) {
  constexpr std::size_t kept = 128;
  const auto found = std::find(cached_.begin(), cached_.end(), sector);
  const bool here = found != cached_.end();
  if (here) {
    std::rotate(cached_.begin(), found, found + 1);
  } else {
    cached_.insert(cached_.begin(), sector);
    if (cached_.size() > kept) cached_.pop_back();
  }
  return here;
}

}  // namespace phantora::rank::code
