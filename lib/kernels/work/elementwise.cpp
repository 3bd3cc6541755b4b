#include "kernels/work/families.hpp"
#include "kernels/work/reading.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace phantora::detail {

namespace {

/// Elements that one thread of the kernel handles, as PyTorch 2.11 is compiled; 0 = unknown.
double elements_per_thread(const KernelSignature& signature) {
  // Measured: 2^20 elements make 1024 blocks of 128 threads, whatever the vector width.
  if (signature.base == "vectorized_elementwise_kernel") return 8.0;
  if (signature.base == "unrolled_elementwise_kernel") return 4.0;
  if (signature.base == "elementwise_kernel" && signature.arguments.size() > 1) {
    return leading_integer(signature.arguments[1]);
  }
  return 0.0;
}

/// Number of arrays that an elementwise kernel touches: the N of std::array<char*, N>.
double array_count(std::string_view identity) {
  constexpr std::string_view array = "std::array<char*, ";
  const auto at = identity.rfind(array);
  return at == std::string_view::npos ? 0.0 : leading_integer(identity.substr(at + array.size()));
}

/// What stands between the first parentheses of `text`.
std::string_view operand_list(std::string_view text) {
  const auto open = text.find('(');
  const auto close = text.find(')', open);
  if (open == std::string_view::npos || close == std::string_view::npos) return {};
  return text.substr(open + 1, close - open - 1);
}

/// Bytes per element of an elementwise kernel whose functor is `functor`, with `arrays` arrays.
double element_bytes(std::string_view functor, double arrays) {
  // A lambda names the types of its operands: {lambda(bool, float, float)#1}.
  const auto lambda = functor.rfind("{lambda(");
  if (lambda != std::string_view::npos && functor.find('}', lambda) + 1 == functor.size()) {
    double bytes = 0.0;
    double operands = 0.0;
    double last = 4.0;
    for (std::string_view rest = operand_list(functor.substr(lambda)); !rest.empty();) {
      const auto comma = rest.find(',');
      last = std::max(1.0, last_type_bytes(rest.substr(0, comma)));
      bytes += last;
      operands += 1.0;
      rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    }
    const bool narrowing = functor.find("float16_copy_kernel") != std::string_view::npos;
    const bool comparison = functor.find("compare_") != std::string_view::npos;
    const double result = narrowing ? 2.0 : comparison ? 1.0 : last;
    return bytes + std::max(0.0, arrays - operands) * result;
  }
  const KernelSignature type = parse_signature(functor);
  const double size = type.arguments.empty() ? 4.0 : last_type_bytes(first_argument(type));
  return std::max(1.0, size) * arrays;
}

/// What runs in an elementwise_kernel, whose operands are strided: it is named within the name of
/// PyTorch's gpu_kernel_impl, or gpu_kernel_impl_nocast where nothing is converted.
struct StridedFunctor {
  std::string_view name;
  double operands;  ///< with the result
  bool converts;
};

StridedFunctor strided_functor(std::string_view text) {
  const KernelSignature outer = parse_signature(text);
  const std::string_view name = outer.arguments.empty() ? text : outer.arguments.front();
  const bool converts = outer.base == "gpu_kernel_impl";
  // A lambda's operands are its own; of other functors, unary ones have one, most have two.
  const auto lambda = name.rfind("{lambda(");
  if (lambda == std::string_view::npos) {
    return {name, name.find("UnaryFunctor") != std::string_view::npos ? 2.0 : 3.0, converts};
  }
  const std::string_view list = operand_list(name.substr(lambda));
  const auto operands = std::ranges::count(list, ',') + (list.empty() ? 0 : 1);
  return {name, 1.0 + static_cast<double>(operands), converts};
}

/// What elementwise_kernel takes for an element, whose place in each operand is found by a division
/// for each of `dims` dimensions, which takes longer than the traffic. 512 elements touch `lines`
/// of 128 bytes, where an operand is transposed.
double place_ps(const StridedFunctor& functor, double elements_per_thread, double dims,
                double lines) {
  // Of 342 launches of 2 million elements and more on an H200 (data/h200_sweep9.jsonl.gz): those of
  // 2 bytes, of which a thread has 4 elements, and those of 4, of which it has 2. Mean errors
  // of 6.6 and 6.4 %. Converting takes 1.9 ps more: of 4 launches of earlier sweeps, and 26 in
  // models.
  const bool four = elements_per_thread > 2.0;
  const double once = four ? 1.65 : 2.5, each = four ? 0.12 : 0.07;
  // 125 launches more touch lines that lie apart: 0.4 ps for 80 to 96 of them, 3.8 for 256, 4.2 for
  // 512, where no element finds its line in the L1 cache.
  constexpr double all_apart_ps = 4.2, near = 64.0, length = 100.0;
  const double apart = 1.0 - std::exp(-std::max(0.0, lines - near) / length);
  return once + each * dims * functor.operands + (functor.converts ? 1.9 : 0.0) +
         all_apart_ps * apart;
}

}  // namespace

KernelWork elementwise(const KernelQuery& query, const KernelSignature& signature) {
  const double threads = blocks_of(query) * query.block.count();
  KernelWork work;
  const bool counted = query.features.find("numel") != query.features.end();
  const double numel =
      feature(query, "numel", threads * std::max(1.0, elements_per_thread(signature)));
  // The functor comes after the vector width, which is a number.
  const auto functor = std::ranges::find_if(
      signature.arguments, [](std::string_view a) { return leading_integer(a) == 0.0; });
  const bool named = functor != signature.arguments.end();
  std::optional<StridedFunctor> strided;
  if (named && signature.base == "elementwise_kernel") strided = strided_functor(*functor);
  const double counted_arrays =
      strided ? strided->operands : feature(query, "arrays", array_count(signature.identity));
  const double arrays = counted_arrays > 0.0 ? counted_arrays : 2.0;
  // A kernel that was compiled at run time has a plain name, and its bytes are told.
  const bool plain = signature.arguments.empty() && numel > 0.0 && query.bytes > 0.0;
  const double used = plain    ? query.bytes / numel
                      : !named ? 4.0 * arrays
                               : element_bytes(strided ? strided->name : *functor, arrays);
  work.bytes = numel * used;
  if (signature.identity.find("WithCast") != std::string_view::npos) {
    // With casts the types are only known at run time, and converting them takes longer than the
    // traffic: 0.95 ps per array and one more for the functor, which is 64 times fp32's peak.
    work.arithmetic = Arithmetic::fp32;
    work.flops = numel * (arrays + 1.0) * 64.0;
  } else if (strided) {
    work.arithmetic = Arithmetic::fp32;
    work.flops = 64.0 * numel *
                 place_ps(*strided, elements_per_thread(signature), feature(query, "dims", 3.0),
                          feature(query, "lines", 0.0));
  }
  work.exact = counted;
  work.group = plain ? "vectorized_elementwise_kernel" : signature.base;
  work.family = with_halves_alike(signature.identity);
  // Launches of which it is not told how their operands lie say nothing of the others.
  const float told = feature(query, "dims", 0.0) > 0.0 ? 1.0F : 0.0F;
  work.coordinates = {log_coordinate(work.bytes, 0.8), log_coordinate(used / arrays, 0.7),
                      static_cast<float>(arrays * 0.5), told,
                      log_coordinate(feature(query, "lines", 1.0), 2.0)};
  return work;
}

/// multi_tensor_apply cuts its tensors into chunks of up to 65536 elements, a block each, whose
/// threads take 4 elements after the other.
KernelWork multi_tensor(const KernelQuery& query, const KernelSignature& signature) {
  constexpr double chunk = 65536.0;
  KernelWork work;
  const double numel = feature(query, "numel", blocks_of(query) * chunk);
  // Where nobody tells, one block has all that the others' single elements leave.
  const double longest =
      feature(query, "cols", std::clamp(numel - blocks_of(query) + 1.0, 1.0, chunk));
  const double size =
      signature.arguments.size() > 1 ? last_type_bytes(signature.arguments[1]) : 0.0;
  const auto depth_at = signature.identity.find("Metadata<");
  double lists = 1.0;
  if (depth_at != std::string_view::npos) {
    const KernelSignature metadata = parse_signature(first_argument(signature));
    if (!metadata.arguments.empty()) lists = leading_integer(metadata.arguments.back());
  }
  // Each list is read; one more pass writes the result.
  work.bytes = numel * std::max(2.0, size) * (std::max(1.0, lists) + 1.0);
  work.blocks = query.grid ? query.grid->count() : std::ceil(numel / chunk);
  if (query.grid) {
    work.round_trips = std::ceil(longest / (4.0 * query.block.count()));
    work.resident = resident_blocks(query);
  }
  work.group = signature.base;
  work.family = with_halves_alike(signature.identity);
  work.coordinates = {log_coordinate(numel, 0.8), log_coordinate(lists, 0.5),
                      log_coordinate(size, 0.7), log_coordinate(longest, 0.8)};
  return work;
}

}  // namespace phantora::detail
