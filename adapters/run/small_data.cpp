#include "run/small_data.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace phantora::run {
namespace {

using channel::Collective;
using channel::DataType;
using channel::Reduction;

float from_half(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t exponent = (bits >> 10U) & 0x1fU;
  const std::uint32_t fraction = bits & 0x3ffU;
  if (exponent == 0) {
    const float value = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -value : value;
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000U | (fraction << 13U));
  return std::bit_cast<float>(sign | ((exponent + 112U) << 23U) | (fraction << 13U));
}

std::uint16_t to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16U) & 0x8000U);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00U);
  if (magnitude >= 65520.0F) return static_cast<std::uint16_t>(sign | 0x7c00U);
  // Nearest multiple of the local spacing, ties to even, by the rounding of nearbyint.
  const int exponent = magnitude < 0x1p-14F ? -14 : std::ilogb(magnitude);
  const float scaled = std::nearbyint(std::ldexp(magnitude, 10 - exponent));
  const auto fraction = static_cast<std::uint32_t>(scaled);
  const auto biased = static_cast<std::uint32_t>(exponent + 14) << 10U;
  return static_cast<std::uint16_t>(sign | (fraction < 1024 ? fraction : biased + fraction));
}

float from_bfloat(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

std::uint16_t to_bfloat(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}

using Operands = std::span<const channel::PartlyKnown* const>;

/// Integer arithmetic wraps: it is done on the unsigned type, where that is defined.
template <class Value, class F>
Value wrapping(Value a, Value b, F f) {
  if constexpr (std::is_integral_v<Value>) {
    const auto wide = [](Value v) { return static_cast<std::uint64_t>(v); };
    return static_cast<Value>(f(wide(a), wide(b)));
  } else {
    return f(a, b);
  }
}

/// As C divides: towards zero. In 64 bits, which hold any number of ranks.
template <class Value>
Value divided(Value total, std::size_t by) {
  if constexpr (std::is_floating_point_v<Value>) {
    return total / static_cast<Value>(by);
  } else if constexpr (std::is_signed_v<Value>) {
    return static_cast<Value>(std::int64_t{total} / static_cast<std::int64_t>(by));
  } else {
    return static_cast<Value>(std::uint64_t{total} / by);
  }
}

/// How one element type is read into `Value`, in which it is combined, and written back.
template <class Stored, class Value, Value (*Load)(Stored), Stored (*Store)(Value)>
std::vector<std::byte> combine(Operands operands, Reduction reduction, double premul) {
  const std::size_t size = operands.front()->bytes.size();
  std::vector<std::byte> result(size);
  const auto sum = [](auto a, auto b) { return a + b; };
  const auto product = [](auto a, auto b) { return a * b; };
  for (std::size_t i = 0; i < size / sizeof(Stored); ++i) {
    Value total{};
    for (std::size_t r = 0; r < operands.size(); ++r) {
      Stored stored{};
      std::memcpy(&stored, operands[r]->bytes.data() + i * sizeof(Stored), sizeof stored);
      Value value = Load(stored);
      // The factor was given in the element's own type.
      if (reduction == Reduction::premul_sum) {
        value = wrapping(value, static_cast<Value>(premul), product);
      }
      if (r == 0) {
        total = value;
        continue;
      }
      switch (reduction) {
        case Reduction::sum:
        case Reduction::avg:
        case Reduction::premul_sum:
          total = wrapping(total, value, sum);
          break;
        case Reduction::prod:
          total = wrapping(total, value, product);
          break;
        case Reduction::max:
          total = std::max(total, value);
          break;
        case Reduction::min:
          total = std::min(total, value);
          break;
      }
    }
    if (reduction == Reduction::avg) total = divided(total, operands.size());
    const Stored stored = Store(total);
    std::memcpy(result.data() + i * sizeof(Stored), &stored, sizeof stored);
  }
  return result;
}

template <class T>
T same(T value) {
  return value;
}
template <class T>
std::vector<std::byte> combine_as(Operands operands, Reduction reduction, double premul) {
  return combine<T, T, same<T>, same<T>>(operands, reduction, premul);
}

/// nullopt for types that are not reduced here.
std::optional<std::vector<std::byte>> combined(Operands operands, DataType type,
                                               Reduction reduction, double premul) {
  switch (type) {
    case DataType::int8:
      return combine_as<std::int8_t>(operands, reduction, premul);
    case DataType::uint8:
      return combine_as<std::uint8_t>(operands, reduction, premul);
    case DataType::int32:
      return combine_as<std::int32_t>(operands, reduction, premul);
    case DataType::uint32:
      return combine_as<std::uint32_t>(operands, reduction, premul);
    case DataType::int64:
      return combine_as<std::int64_t>(operands, reduction, premul);
    case DataType::uint64:
      return combine_as<std::uint64_t>(operands, reduction, premul);
    case DataType::float16:
      return combine<std::uint16_t, float, from_half, to_half>(operands, reduction, premul);
    case DataType::float32:
      return combine_as<float>(operands, reduction, premul);
    case DataType::float64:
      return combine_as<double>(operands, reduction, premul);
    case DataType::bfloat16:
      return combine<std::uint16_t, float, from_bfloat, to_bfloat>(operands, reduction, premul);
    case DataType::float8e4m3:
    case DataType::float8e5m2:
      break;
  }
  return std::nullopt;
}

}  // namespace

channel::PartlyKnown reduce(Operands operands, DataType type, Reduction reduction, double premul) {
  channel::PartlyKnown result;
  const std::size_t size = operands.front()->bytes.size();
  auto bytes = combined(operands, type, reduction, premul);
  if (!bytes) {
    // Eight-bit floats are not reduced: nothing of the result is known.
    return {std::vector<std::byte>(size), std::vector<std::uint8_t>(size, 0)};
  }
  result.bytes = std::move(*bytes);
  if (std::all_of(operands.begin(), operands.end(), [](auto* o) { return o->known.empty(); })) {
    return result;
  }
  const std::size_t element = channel::size_of(type);
  result.known.assign(size, 1);
  for (std::size_t i = 0; i < size; ++i) {
    if (std::all_of(operands.begin(), operands.end(), [&](auto* o) { return o->is_known(i); })) {
      continue;
    }
    const std::size_t first = i / element * element;
    const std::size_t last = std::min(first + element, size);
    for (std::size_t at = first; at < last; ++at) {
      result.known[at] = 0;
      result.bytes[at] = std::byte{0};
    }
  }
  return result;
}

void SmallData::call(const Call& call, std::uint64_t order) {
  Key key{.communicator = call.communicator, .order = order};
  if (call.op == Collective::send || call.op == Collective::recv) {
    key.from = call.op == Collective::send ? call.rank : call.peer;
    key.to = call.op == Collective::send ? call.peer : call.rank;
  }
  // A rank that sends to itself takes part twice: once as sender, once (negative) as receiver.
  const int part = call.op == Collective::recv ? -1 - call.rank : call.rank;
  operations_[key].calls.emplace(part, call);
  tickets_[{call.process, call.ticket}] = {key, part};
}

std::vector<Delivered> SmallData::operand(std::uint32_t process, std::uint64_t ticket,
                                          std::span<const std::byte> bytes) {
  const auto found = tickets_.find({process, ticket});
  if (found == tickets_.end()) return {};
  const auto [key, part] = found->second;
  tickets_.erase(found);
  Operation& operation = operations_.at(key);
  operation.operands[part] = channel::unpacked(bytes);
  const Call& first = operation.calls.begin()->second;
  const bool message = key.from >= 0;
  const std::size_t needed = message ? 2 : static_cast<std::size_t>(first.ranks);
  if (operation.operands.size() < needed) return {};

  const auto at = [&](int rank) -> const channel::PartlyKnown& {
    return operation.operands.at(rank);
  };
  const std::size_t one = first.count * channel::size_of(first.type);
  channel::PartlyKnown reduced;
  if (!message && (first.op == Collective::all_reduce || first.op == Collective::reduce ||
                   first.op == Collective::reduce_scatter)) {
    std::vector<const channel::PartlyKnown*> all;
    for (int r = 0; r < first.ranks; ++r) all.push_back(&at(r));
    reduced = reduce(all, first.type, first.reduction, first.premul);
  }
  std::vector<Delivered> results;
  for (const auto& [rank, call] : operation.calls) {
    channel::PartlyKnown result;
    const auto add_range = [&](const channel::PartlyKnown& from, std::size_t begin,
                               std::size_t end) {
      const auto append = [&](auto& to, const auto& source) {
        to.insert(to.end(), source.begin() + static_cast<std::ptrdiff_t>(begin),
                  source.begin() + static_cast<std::ptrdiff_t>(end));
      };
      if (!from.known.empty()) result.known.resize(result.bytes.size(), 1);
      append(result.bytes, from.bytes);
      if (!from.known.empty()) {
        append(result.known, from.known);
      } else if (!result.known.empty()) {
        result.known.resize(result.bytes.size(), 1);
      }
    };
    const auto add = [&](const channel::PartlyKnown& from) {
      add_range(from, 0, from.bytes.size());
    };
    const auto add_slice = [&](const channel::PartlyKnown& from, int index) {
      const std::size_t begin = std::min(from.bytes.size(), one * static_cast<std::size_t>(index));
      add_range(from, begin, std::min(from.bytes.size(), begin + one));
    };
    switch (call.op) {
      case Collective::all_reduce:
        add(reduced);
        break;
      case Collective::reduce:
        if (call.rank == call.peer) add(reduced);
        break;
      case Collective::reduce_scatter:
        add_slice(reduced, call.rank);
        break;
      case Collective::all_gather:
        for (int r = 0; r < call.ranks; ++r) add(at(r));
        break;
      case Collective::gather:
        if (call.rank == call.peer) {
          for (int r = 0; r < call.ranks; ++r) add(at(r));
        }
        break;
      case Collective::broadcast:
        add(at(call.peer));
        break;
      case Collective::scatter:
        add_slice(at(call.peer), call.rank);
        break;
      case Collective::all_to_all:
        for (int r = 0; r < call.ranks; ++r) add_slice(at(r), call.rank);
        break;
      case Collective::send:
        continue;
      case Collective::recv:
        add(at(key.from));
        break;
    }
    results.push_back(
        {.process = call.process, .ticket = call.ticket, .bytes = channel::packed(result)});
  }
  operations_.erase(key);
  return results;
}

}  // namespace phantora::run
