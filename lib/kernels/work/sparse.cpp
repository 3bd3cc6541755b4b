#include "kernels/work/families.hpp"
#include "kernels/work/reading.hpp"

#include <algorithm>
#include <string>
#include <string_view>

namespace phantora::detail {

KernelWork sparse_product(const KernelQuery& query) {
  const std::string_view type = attribute(query, "type", "fp32"),
                         format = attribute(query, "format", "csr");
  const double rows = feature(query, "rows", 1.0), columns = feature(query, "columns", 1.0),
               entries = std::max(1.0, feature(query, "entries", 1.0)),
               right = feature(query, "right", 1.0);
  const double size = type_bytes(type), index = attribute(query, "index", "32") == "64" ? 8.0 : 4.0;
  KernelWork work;
  work.arithmetic = arithmetic_of(type, "fp32");
  // An entry is met with a row of the dense operand, which comes from the cache if from anywhere:
  // on the plain units.
  if (work.arithmetic == Arithmetic::half) work.arithmetic = Arithmetic::fp32;
  // sddmm walks down the columns of its second operand, each element of which is a sector of 32
  // bytes.
  constexpr double sector = 32.0;
  const double gathered = entries * right * (query.name == "sddmm" ? size + sector : size),
               dense = columns * right * size;
  constexpr double of_cache = 0.5;  // the L2 cache is twice as fast as the memory
  const double matrix = entries * (size + (format == "coo" ? 2.0 : 1.0) * index) + rows * index;
  work.bytes = matrix + rows * right * size + std::min(dense, gathered) +
               of_cache * std::max(0.0, gathered - dense);
  work.flops = 2.0 * entries * right;
  // The rows are dealt to the blocks first.
  work.round_trips = 1.5 * launch_round_trips;
  work.group = query.name;
  work.family = std::string{format} + '/' + std::string{attribute(query, "algorithm", "0")};
  work.coordinates = {log_coordinate(work.bytes, 1.0),     log_coordinate(entries / rows, 1.0),
                      log_coordinate(right, 1.0),          log_coordinate(rows, 1.5),
                      log_coordinate(columns / rows, 2.0), log_coordinate(size, 0.7),
                      log_coordinate(index, 1.0)};
  return work;
}

}  // namespace phantora::detail
