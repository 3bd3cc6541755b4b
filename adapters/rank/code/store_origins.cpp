#include "rank/code/store_origins.hpp"

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace phantora::rank::code {

namespace {

using Registers = std::array<Origin, all_registers>;

bool always(const Instruction& i) {
  constexpr unsigned truth = 7;
  return i.field(12, 3) == truth && !i.bit(15);
}

/// The origin of a sum: what is added to a pointer is an index.
Origin sum(std::initializer_list<Origin> parts) {
  const auto is_base = [](const Origin& o) { return o.pointers != 0 || o.variables != 0; };
  const bool based = std::any_of(parts.begin(), parts.end(), is_base);
  Origin all;
  for (const Origin& part : parts) {
    if (!based || is_base(part)) all |= part;
  }
  return all;
}

/// Goes through the code until no way through it brings an origin that was not there before.
class Flow {
 public:
  Flow(const Program& program, std::span<const std::size_t> pointers)
      : program_{program},
        pointers_{pointers},
        accesses_(static_cast<std::size_t>(program.accesses)),
        begins_(program.code.size()),
        callers_(program.code.size()) {}

  std::optional<std::vector<Origin>> run() {
    if (program_.code.empty() || !find_beginnings()) return std::nullopt;
    do {
      kept_more_ = false;
      entries_.clear();
      come_to({0, none}, {});
      while (!pending_.empty()) {
        const Place at = pending_.back();
        pending_.pop_back();
        follow(at);
      }
    } while (kept_more_);
    return std::move(accesses_);
  }

 private:
  /// Where ways meet or part; false where the code goes to addresses that only data tell, or
  /// stores otherwise than by accesses.
  bool find_beginnings() {
    begins_[0] = true;
    for (std::size_t at = 0; at < program_.code.size(); ++at) {
      const Instruction& i = program_.code[at];
      const unsigned operation = i.operation();
      if (stores_elsewhere(operation)) return false;
      switch (operation) {
        case op_brx:
          if (i.form() != 4 || program_.links->jumps.empty()) return false;
          for (const std::uint32_t jump : program_.links->jumps) {
            if (const std::int64_t to = program_.switch_target(at, jump); inside(to))
              begins_[static_cast<std::size_t>(to)] = true;
          }
          break;
        case op_call_absolute:
          if (!program_.links->calls_assert_alone) return false;
          break;
        case op_brxu:
        case op_jmp:
        case op_jmx:
        case op_jmxu:
          return false;
        case op_bra:
        case op_call:
          if (i.form() != 4) return false;
          if (const std::int64_t to = program_.target(at); inside(to))
            begins_[static_cast<std::size_t>(to)] = true;
          break;
        default:
          continue;
      }
      if (at + 1 >= program_.code.size()) continue;
      begins_[at + 1] = true;
    }
    return true;
  }
  [[nodiscard]] bool inside(std::int64_t at) const {
    return at >= 0 && static_cast<std::size_t>(at) < program_.code.size();
  }

  /// An instruction, and the call that is gone through: what functions leave in the registers is
  /// told apart by where they were called.
  struct Place {
    std::size_t at, call;
    auto operator<=>(const Place&) const = default;
  };
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  void come_to(const Place& place, const Registers& with) {
    if (place.at >= program_.code.size()) return;
    const auto [found, is_new] = entries_.try_emplace(place, with);
    bool more = is_new;
    for (std::size_t r = 0; r < with.size(); ++r) {
      Origin& origin = found->second[r];
      const Origin before = origin;
      origin |= with[r];
      more = more || origin != before;
    }
    if (more) pending_.push_back(place);
  }

  void follow(const Place& from) {
    registers_ = entries_.at(from);
    guarded_.clear();
    for (std::size_t at = from.at; at < program_.code.size(); ++at) {
      if (at != from.at && begins_[at]) return come_to({at, from.call}, registers_);
      const Instruction& i = program_.code[at];
      const bool goes_on = !always(i) || !unconditional(i);
      switch (i.operation()) {
        case op_exit:
        case op_call_absolute:  // of a failed assertion
          if (!goes_on) return;
          break;
        case op_ret:
          if (from.call != none) {
            for (const std::size_t caller : callers_[from.call])
              come_to({from.call + 1, caller}, registers_);
          }
          if (!goes_on) return;
          break;
        case op_call:
          call(at, from.call);
          if (!goes_on) return;
          break;
        case op_bra:
          if (const std::int64_t to = program_.target(at); inside(to))
            come_to({static_cast<std::size_t>(to), from.call}, registers_);
          if (!goes_on) return;
          break;
        case op_brx:
          for (const std::uint32_t jump : program_.links->jumps) {
            if (const std::int64_t to = program_.switch_target(at, jump); inside(to))
              come_to({static_cast<std::size_t>(to), from.call}, registers_);
          }
          if (!goes_on) return;
          break;
        default:
          perform(at, i, i.operation());
          break;
      }
    }
  }
  void call(std::size_t at, std::size_t caller) {
    const std::int64_t to = program_.target(at);
    if (!inside(to)) return;
    // Where it comes back to has another caller now.
    const bool is_new = callers_[at].insert(caller).second;
    come_to({static_cast<std::size_t>(to), at}, registers_);
    if (!is_new) return;
    for (const auto& [place, entry] : entries_) {
      if (place.call == at) pending_.push_back(place);
    }
  }
  /// Branches and ends have a condition beside their guard.
  static bool unconditional(const Instruction& i) {
    constexpr unsigned truth = 7;
    const bool has_condition =
        i.operation() == op_bra || i.operation() == op_brx || i.operation() == op_exit;
    return !has_condition || (i.field(87, 3) == truth && !i.bit(90));
  }

  [[nodiscard]] Origin of(int number) const {
    if (number < 0 || is_zero(static_cast<unsigned>(number))) return {};
    const auto r = std::min<std::size_t>(static_cast<std::size_t>(number), all_registers - 1);
    if (const auto found = guarded_.find(r); found != guarded_.end() && found->second.by == guard_)
      return found->second.origin;
    return registers_[r];
  }
  [[nodiscard]] Origin of_two(int number) const {
    Origin both = of(number);
    if (number >= 0 && !is_zero(static_cast<unsigned>(number))) both |= of(number + 1);
    return both;
  }
  /// Of constants from `at` on, in bank 0.
  [[nodiscard]] Origin in_bank(std::size_t at, std::size_t bytes) const {
    Origin found;
    for (std::size_t n = 0; n < pointers_.size(); ++n) {
      if (pointers_[n] < at + bytes && at < pointers_[n] + sizeof(void*))
        found.pointers |= std::uint64_t{1} << n;
    }
    return found;
  }
  /// The variable whose address is there.
  [[nodiscard]] Origin variable(std::size_t at, bool in_bank, std::size_t bytes) const {
    const std::vector<VariableAddress>& all = program_.links->variables;
    const auto found = std::ranges::find_if(all, [&](const VariableAddress& address) {
      return address.in_bank == in_bank && address.at < at + bytes &&
             at < address.at + (in_bank ? sizeof(void*) : instruction_bytes);
    });
    if (found == all.end()) return {};
    const auto first = std::ranges::find(all, found->variable, &VariableAddress::variable);
    const auto number = static_cast<std::size_t>(first - all.begin());
    if (number >= most_pointers) return {.elsewhere = true};
    return {.variables = std::uint64_t{1} << number};
  }
  /// What a constant bank has from `at` on: bank 4 has addresses of variables.
  [[nodiscard]] Origin bank(const Instruction& i, std::size_t at, std::size_t bytes) const {
    constexpr unsigned parameters = 0, jumps = 2, addresses = 4;
    const unsigned number = i.field(54, 5);
    if (!i.bit(91) && number == parameters) return in_bank(at, bytes);
    if (!i.bit(91) && number == jumps) return {};
    const bool one = bytes <= sizeof(void*);
    const Origin found =
        !i.bit(91) && number == addresses && one ? variable(at, true, bytes) : Origin{};
    return found.none() ? Origin{.elsewhere = true} : found;
  }
  [[nodiscard]] Origin bank(const Instruction& i, std::size_t bytes) const {
    return bank(i, i.field(38, 16), bytes);
  }
  [[nodiscard]] Origin immediate(const Instruction& i) const {
    return variable(static_cast<std::size_t>(&i - program_.code.data()) * instruction_bytes, false,
                    instruction_bytes);
  }
  [[nodiscard]] Origin a(const Instruction& i) const {
    return of(static_cast<int>(register_of(i, 24)));
  }
  [[nodiscard]] Origin b(const Instruction& i, bool wide = false) const {
    const int number = b_register(i);
    if (number < 0) return i.form() == 4 ? immediate(i) : bank(i, wide ? 8 : 4);
    return wide ? of_two(number) : of(number);
  }
  [[nodiscard]] Origin c(const Instruction& i, bool wide = false) const {
    const int number = c_register(i);
    if (number < 0) return i.form() == 2 ? immediate(i) : bank(i, wide ? 8 : 4);
    return wide ? of_two(number) : of(number);
  }

  void set(const Instruction& i, unsigned number, const Origin& origin) {
    if (is_zero(number) || number >= all_registers) return;
    if (always(i)) {
      registers_[number] = origin;
      guarded_.erase(number);
    } else {
      registers_[number] |= origin;
      guarded_[number] = {guard_, origin};
    }
  }
  /// The predicate that an instruction has before it, and whether it has to hold.
  static unsigned guard(const Instruction& i) { return i.field(12, 4) | (is_of_warp(i) ? 16 : 0); }
  /// What was set where predicates held that may be others after the instruction.
  void forget_guarded(const Instruction& i) {
    if (guarded_.empty() || writes_no_predicate(i)) return;
    constexpr unsigned negated = 8;
    const unsigned of_warp = is_of_warp(i) ? 16 : 0, first = i.field(81, 3) | of_warp,
                   second = i.field(84, 3) | of_warp;
    std::erase_if(guarded_, [&](const auto& entry) {
      const unsigned predicate = entry.second.by & ~negated;
      return i.operation() == op_r2p || predicate == first ||
             (may_write_two_predicates(i) && predicate == second);
    });
  }
  void keep(Origin& where, const Origin& what) {
    const Origin before = where;
    where |= what;
    kept_more_ = kept_more_ || where != before;
  }
  /// The registers from `first` on that hold so many bytes.
  [[nodiscard]] Origin held(unsigned first, std::uint32_t bytes) const {
    Origin all;
    if (is_zero(first)) return all;
    for (unsigned r = 0; r < (bytes + 3) / 4; ++r) all |= of(static_cast<int>(first + r));
    return all;
  }
  void give(const Instruction& i, std::uint32_t bytes, const Origin& origin) {
    const unsigned to = i.field(16, 8);
    for (unsigned r = 0; !is_zero(to) && r < (bytes + 3) / 4; ++r) set(i, to + r, origin);
  }

  /// Whether the stack's pointer stays where it is while the stack is used: then words at different
  /// offsets from it are different ones.
  static bool keeps_its_frame(const Program& program) {
    std::size_t last_moved = 0, first_used = program.code.size();
    for (std::size_t at = 0; at < program.code.size(); ++at) {
      const Instruction& i = program.code[at];
      const bool uses = i.operation() == op_ldl || i.operation() == op_stl;
      if (uses) first_used = std::min(first_used, at);
      if (!uses && !gives_nothing(i) && i.field(16, 8) == stack_pointer) last_moved = at;
    }
    return last_moved < first_used;
  }
  [[nodiscard]] bool is_in_frame(const Instruction& i) const {
    return keeps_its_frame_ && i.field(24, 8) == stack_pointer;
  }
  /// Of the byte `at` of what it puts aside or gets back.
  static int word_of_frame(const Instruction& i, std::uint32_t at) {
    return (offset_of(i) + static_cast<int>(at)) / word_bytes;
  }
  void spill(const Instruction& i) {
    const unsigned from = i.field(32, 8);
    if (!is_in_frame(i)) return keep(local_, held(from, width(i)));
    for (std::uint32_t at = 0; at < width(i); at += word_bytes)
      keep(frame_[word_of_frame(i, at)],
           is_zero(from) ? Origin{} : of(static_cast<int>(from + at / word_bytes)));
  }
  void reload(const Instruction& i) {
    const unsigned to = i.field(16, 8);
    if (is_zero(to)) return;
    Origin anywhere = local_;
    if (!is_in_frame(i))
      for (const auto& [offset, origin] : frame_) anywhere |= origin;
    for (std::uint32_t at = 0; at < width(i); at += word_bytes) {
      Origin word = anywhere;
      if (is_in_frame(i)) word |= frame_[word_of_frame(i, at)];
      set(i, to + at / word_bytes, word);
    }
  }

  void access(std::size_t at, const Instruction& i, unsigned operation) {
    const auto number = static_cast<std::size_t>(program_.number[at]);
    const std::uint32_t bytes = width(i);
    const auto base = static_cast<int>(i.field(24, 8));
    accesses_[number] |= has_wide_address(i) ? of_two(base) : of(base);
    const bool loads = is_load(operation);
    Origin loaded = device_;
    // A pointer is loaded at once.
    if (bytes >= sizeof(void*)) loaded.loads |= std::uint64_t{1} << number % most_pointers;
    if (operation == op_ld) loaded |= shared_;
    if (!loads) {
      // Pointers alone: whatever else is stored is found by its load.
      Origin stored = held(i.field(32, 8), bytes);
      if (operation == op_atomg_cas || operation == op_atom_cas)
        stored |= held(i.field(64, 8), bytes);
      if (is_generic(operation) && operation != op_ld) keep(shared_, stored);
      keep(device_, {.pointers = stored.pointers,
                     .variables = stored.variables,
                     .elsewhere = stored.elsewhere});
    }
    if (operation == op_ldgsts) {
      keep(shared_, loaded);
    } else if (operation != op_stg && operation != op_st && operation != op_red &&
               operation != op_red_float) {
      give(i, bytes, loaded);
    }
  }

  void perform(std::size_t at, const Instruction& i, unsigned operation) {
    guard_ = guard(i);
    note(at, i, operation);
    forget_guarded(i);
  }
  void note(std::size_t at, const Instruction& i, unsigned operation) {
    if (is_access(operation)) return access(at, i, operation);
    const unsigned to = register_of(i, 16);
    switch (operation) {
      case op_ldc:
      case op_uldc: {
        const unsigned size = i.field(73, 3);
        const unsigned words = size == 5 ? 2 : size == 6 ? 4 : 1;
        const bool indexed = operation == op_ldc && i.field(24, 8) != 255;
        for (unsigned w = 0; w < words; ++w) {
          const std::size_t from = i.field(38, 16) + std::size_t{4} * w;
          // An index counts upwards.
          constexpr std::size_t to_the_end = 1 << 16;
          set(i, to + w, bank(i, from, indexed ? to_the_end : 4));
        }
        return;
      }
      case op_lds:
      case op_ldsm:
      case op_atoms:
      case op_atoms_cas:
        if (operation == op_atoms || operation == op_atoms_cas)
          keep(shared_, held(i.field(32, 8), width(i)));
        return give(i, operation == op_ldsm ? 4U << i.field(72, 2) : width(i), shared_);
      case op_sts:
        return keep(shared_, held(i.field(32, 8), width(i)));
      case op_stsm:
        return keep(shared_, held(i.field(32, 8), 4U << i.field(72, 2)));
      case op_ldl:
        return reload(i);
      case op_stl:
        return spill(i);
      case op_r2ur:
        return set(i, first_uniform + i.field(16, 6), a(i));
      case op_redux:
      case op_s2ur:
        return set(i, first_uniform + i.field(16, 6), {});
      case op_shfl:
        return set(i, to, a(i));
      case op_uiadd3_wide: {
        const Origin wide =
            sum({of_two(static_cast<int>(register_of(i, 24))), b(i, true), c(i, true)});
        set(i, to, wide);
        return set(i, to + 1, wide);
      }
      default:
        break;
    }
    if (is_texture(operation)) return give(i, 16, {.elsewhere = true});
    if (gives_nothing(i)) return;
    if (gives_no_address(operation)) {
      set(i, to, {});
      const bool two = (operation == op_cs2r && i.bit(80)) || operation == op_dmul ||
                       operation == op_dadd || operation == op_dfma;
      return two ? set(i, to + 1, {}) : void();
    }
    switch (operation < 0x100 ? operation & ~uniform : operation) {
      case op_mov:
        return set(i, to, b(i));
      case op_sel:
      case op_fsel:
      case op_imnmx:
      case op_vimnmx: {
        Origin either = a(i);
        either |= b(i);
        return set(i, to, either);
      }
      case op_viadd:
        return set(i, to, sum({a(i), b(i)}));
      case op_iadd3:
      case op_lea:
      case op_lop3:
      case op_prmt:
      case op_shf:
      case op_imad:
      case op_imad_high:
      case op_viaddmnmx:
        return set(i, to, sum({a(i), b(i), c(i)}));
      case op_imad_wide: {
        const Origin wide = sum({a(i), b(i), c(i, true)});
        set(i, to, wide);
        return set(i, to + 1, wide);
      }
      case op_iabs:
      case op_sgxt:
      case op_vote:
      case op_p2r:
        return set(i, to, {});
      default:
        return set(i, to, {.elsewhere = true});
    }
  }
  /// Floats, and what is counted.
  static bool gives_no_address(unsigned operation) {
    if (is_of_floats(operation)) return true;
    switch (operation) {
      case op_s2r:
      case op_cs2r:
      case op_hset2:
      case op_hmma:
      case op_dmma:
      case op_imma:
      case op_hgmma:
      case op_igmma:
      case op_qgmma:
      case op_flo:
      case op_uflo:
      case op_brev:
      case op_ubrev:
      case op_popc:
      case op_upopc:
      case op_f2f_double:
      case op_f2i_double:
      case op_i2f_double:
      case op_frnd_double:
      case op_syncs:
        return true;
      default:
        return false;
    }
  }

  const Program& program_;
  std::span<const std::size_t> pointers_;
  std::vector<Origin> accesses_;
  std::map<Place, Registers> entries_{};
  std::vector<bool> begins_;
  std::vector<std::set<std::size_t>> callers_;  ///< of each call: the calls that led to it
  std::vector<Place> pending_{};
  Registers registers_{};
  /// Of registers that were set where a predicate holds: what they have there. A thread that goes
  /// to an address under a predicate has set it under the same one.
  struct Guarded {
    unsigned by = 0;
    Origin origin{};
  };
  std::map<std::size_t, Guarded> guarded_{};
  unsigned guard_ = 0;  ///< of the present instruction
  /// Of all that is stored there, wherever: to shared, local and device memory.
  Origin shared_{}, local_{}, device_{};
  static constexpr unsigned stack_pointer = 1;
  static constexpr int word_bytes = 4;
  bool keeps_its_frame_ = keeps_its_frame(program_);
  std::map<int, Origin> frame_{};  ///< registers put aside, by word from the stack's pointer
  bool kept_more_ = false;
};

}  // namespace

std::optional<std::vector<Origin>> address_origins(const Program& program,
                                                   std::span<const std::size_t> pointers) {
  if (pointers.size() > most_pointers) return std::nullopt;
  return Flow{program, pointers}.run();
}

}  // namespace phantora::rank::code
