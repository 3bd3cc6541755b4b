#include "kernels/work/reading.hpp"

#include <algorithm>
#include <cmath>

namespace phantora::detail {

double feature(const KernelQuery& query, std::string_view key, double otherwise) {
  const auto found = query.features.find(key);
  return found != query.features.end() && found->second > 0.0 ? found->second : otherwise;
}

std::string_view attribute(const KernelQuery& query, std::string_view key,
                           std::string_view otherwise) {
  const auto found = query.attributes.find(key);
  return found != query.attributes.end() ? std::string_view{found->second} : otherwise;
}

bool is_tried(const KernelQuery& query) { return attribute(query, "plan", "") == "tried"; }

double type_bytes(std::string_view type) {
  if (type.starts_with("fp8") || type == "int8" || type == "bool") return 1.0;
  if (type == "bf16" || type == "fp16") return 2.0;
  if (type == "fp64" || type == "complex64") return 8.0;
  return type == "complex128" ? 16.0 : 4.0;
}

bool is_complex(std::string_view type) { return type.starts_with("complex"); }

Arithmetic arithmetic_of(std::string_view type, std::string_view compute) {
  if (type.starts_with("fp8")) return Arithmetic::fp8;
  if (type == "int8") return Arithmetic::int8;
  if (type == "bf16" || type == "fp16") return Arithmetic::half;
  if (type == "fp64" || type == "complex128" || compute == "fp64") return Arithmetic::fp64;
  if (compute == "fp16" || compute == "bf16") return Arithmetic::half;
  return compute == "tf32" ? Arithmetic::tf32 : Arithmetic::fp32;
}

std::string label(Arithmetic arithmetic) { return '/' + std::string{to_string(arithmetic)}; }

double alignment_of(double bytes, double most) {
  double alignment = most;
  while (std::fmod(bytes, alignment) != 0.0) alignment /= 2.0;
  return alignment;
}

float log_coordinate(double value, double scale) {
  return static_cast<float>(std::log(std::max(value, 1.0)) / scale);
}

std::string_view first_argument(const KernelSignature& signature) {
  return signature.arguments.empty() ? std::string_view{} : signature.arguments.front();
}

double blocks_of(const KernelQuery& query) { return query.grid ? query.grid->count() : 0.0; }

double resident_blocks(const KernelQuery& query) {
  return std::max(1.0, std::floor(2048.0 / query.block.count()));
}

}  // namespace phantora::detail
