#include "run/small_data.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

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

/// How one element type is read into `Value`, in which it is combined, and written back.
template <class Stored, class Value, Value (*Load)(Stored), Stored (*Store)(Value)>
std::vector<std::byte> combine(std::span<const std::span<const std::byte>> operands,
                               Reduction reduction, double premul) {
  const std::size_t count = operands.front().size() / sizeof(Stored);
  std::vector<std::byte> result(operands.front().size());
  for (std::size_t i = 0; i < count; ++i) {
    Value total{};
    for (std::size_t r = 0; r < operands.size(); ++r) {
      Stored stored{};
      std::memcpy(&stored, operands[r].data() + i * sizeof(Stored), sizeof stored);
      Value value = Load(stored);
      if (reduction == Reduction::premul_sum) {
        value = static_cast<Value>(static_cast<double>(value) * premul);
      }
      if (r == 0) {
        total = value;
        continue;
      }
      switch (reduction) {
        case Reduction::sum:
        case Reduction::avg:
        case Reduction::premul_sum:
          total = static_cast<Value>(total + value);
          break;
        case Reduction::prod:
          total = static_cast<Value>(total * value);
          break;
        case Reduction::max:
          total = std::max(total, value);
          break;
        case Reduction::min:
          total = std::min(total, value);
          break;
      }
    }
    if (reduction == Reduction::avg) {
      total = static_cast<Value>(total / static_cast<Value>(operands.size()));
    }
    const Stored stored = Store(total);
    std::memcpy(result.data() + i * sizeof(Stored), &stored, sizeof stored);
  }
  return result;
}

template <class T>
T same(T value) {
  return value;
}
// Integer sums wrap; the arithmetic is done on the unsigned type, where that is defined.
template <class T>
std::vector<std::byte> combine_as(std::span<const std::span<const std::byte>> operands,
                                  Reduction reduction, double premul) {
  return combine<T, T, same<T>, same<T>>(operands, reduction, premul);
}

}  // namespace

std::vector<std::byte> reduce(std::span<const std::span<const std::byte>> operands, DataType type,
                              Reduction reduction, double premul) {
  const bool wraps = reduction == Reduction::sum || reduction == Reduction::prod;
  switch (type) {
    case DataType::int8:
      return combine_as<std::int8_t>(operands, reduction, premul);
    case DataType::uint8:
      return combine_as<std::uint8_t>(operands, reduction, premul);
    case DataType::int32:
      return wraps ? combine_as<std::uint32_t>(operands, reduction, premul)
                   : combine_as<std::int32_t>(operands, reduction, premul);
    case DataType::uint32:
      return combine_as<std::uint32_t>(operands, reduction, premul);
    case DataType::int64:
      return wraps ? combine_as<std::uint64_t>(operands, reduction, premul)
                   : combine_as<std::int64_t>(operands, reduction, premul);
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
  // Eight-bit floats are not reduced: the result is unknown, which reads as zeros.
  return std::vector<std::byte>(operands.front().size());
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
  operation.operands[part].assign(bytes.begin(), bytes.end());
  const Call& first = operation.calls.begin()->second;
  const bool message = key.from >= 0;
  const std::size_t needed = message ? 2 : static_cast<std::size_t>(first.ranks);
  if (operation.operands.size() < needed) return {};

  const auto at = [&](int rank) -> const std::vector<std::byte>& {
    return operation.operands.at(rank);
  };
  const std::size_t one = first.count * channel::size_of(first.type);
  const auto slice = [&](const std::vector<std::byte>& from, int index) {
    const std::size_t begin = std::min(from.size(), one * static_cast<std::size_t>(index));
    const std::size_t end = std::min(from.size(), begin + one);
    return std::span{from}.subspan(begin, end - begin);
  };
  std::vector<std::byte> combined;
  if (!message && (first.op == Collective::all_reduce || first.op == Collective::reduce ||
                   first.op == Collective::reduce_scatter)) {
    std::vector<std::span<const std::byte>> all;
    for (int r = 0; r < first.ranks; ++r) all.emplace_back(at(r));
    combined = reduce(all, first.type, first.reduction, first.premul);
  }
  std::vector<Delivered> results;
  for (const auto& [rank, call] : operation.calls) {
    Delivered result{.process = call.process, .ticket = call.ticket};
    const auto add = [&](std::span<const std::byte> part_bytes) {
      result.bytes.insert(result.bytes.end(), part_bytes.begin(), part_bytes.end());
    };
    switch (call.op) {
      case Collective::all_reduce:
        add(combined);
        break;
      case Collective::reduce:
        if (call.rank == call.peer) add(combined);
        break;
      case Collective::reduce_scatter:
        add(slice(combined, call.rank));
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
        add(slice(at(call.peer), call.rank));
        break;
      case Collective::all_to_all:
        for (int r = 0; r < call.ranks; ++r) add(slice(at(r), call.rank));
        break;
      case Collective::send:
        continue;
      case Collective::recv:
        add(at(key.from));
        break;
    }
    results.push_back(std::move(result));
  }
  operations_.erase(key);
  return results;
}

}  // namespace phantora::run
