#include "kernels/work/families.hpp"
#include "kernels/work/launch.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace phantora::detail {

namespace {

/// What a launch does at the places that indices name.
enum class Way : std::uint8_t { reads, writes, adds };

Way way_of(const KernelSignature& signature) {
  const auto says = [&](std::string_view part) {
    return signature.identity.find(part) != std::string_view::npos;
  };
  if (says("ReduceAdd") || says("ReduceMean")) return Way::adds;
  const bool writes = says("index_put_kernel_impl") || says("fill_internal_kernel") ||
                      says("scatter_gather_internal_kernel<true");
  return writes ? Way::writes : Way::reads;
}

/// Picoseconds of the whole GPU for each element and tensor of indices, of the H200's launches of a
/// million elements and more in data/h200_sweep14.jsonl.gz: 3 to 8 read; 4 to 15 written, up to 70
/// where many go to one place; added in fp32 12 to 16, up to 100 in one place, and in 16 bits,
/// which compare and swap, twice as long. Elements that go to places side by side (`run` by each
/// index: the features of a graph's nodes) share lines, down to 2.7 to 3 ps, added or written, of
/// runs of 64 and more in data/h100_sweep21.jsonl.gz; fp32 adds in runs of 3, 8, 16 and 32 take 10
/// to 12, 7, 4 to 5 and 3.4 to 4.6 ps there.
double place_ps(Way way, double size, double run) {
  constexpr double together = 2.9;
  const double apart =
      way == Way::adds ? (size <= 2.0 ? 28.0 : 14.0) : (way == Way::writes ? 8.0 : 4.0);
  return together + (apart - together) / std::cbrt(run * run);
}

}  // namespace

KernelWork moved_by_index(const KernelQuery& query, const KernelSignature& signature) {
  const Way way = way_of(signature);
  const double numel = std::max(1.0, feature(query, "numel", 1.0)),
               indices = std::max(1.0, feature(query, "rows", numel)),
               tensors = feature(query, "dims", 1.0), table = feature(query, "table", 1.0),
               run = feature(query, "run", 1.0);
  // Of the bytes, each element is read and written, and each index has 8.
  const double size = std::max(1.0, (query.bytes - 8.0 * indices * tensors) / (2.0 * numel));
  KernelWork work;
  work.bytes = query.bytes;
  work.blocks = blocks_of(query);
  work.arithmetic = Arithmetic::fp32;
  work.flops = flops_per_ps * numel * place_ps(way, size, run) * tensors;
  constexpr std::array<std::string_view, 3> ways = {"reads", "writes", "adds"};
  work.group = "by index/" + std::string{ways[static_cast<std::size_t>(way)]};
  work.family = with_halves_alike(signature.identity);
  // What decides beside the size: how many elements an index moves, how many go to one place, and
  // whether the cache holds the table.
  work.coordinates = {log_coordinate(work.bytes, 1.0),
                      log_coordinate(numel / indices, 1.0),
                      log_coordinate(numel / table, 1.0),
                      log_coordinate(table * size, 1.0),
                      log_coordinate(tensors, 1.0),
                      log_coordinate(size, 1.0),
                      log_coordinate(run, 3.0)};
  return work;
}

}  // namespace phantora::detail
