#include "rank/kernels/families/complex_function.hpp"

#include <cmath>
#include <unordered_map>

namespace phantora::rank {

namespace {

using Complex = std::complex<double>;

Complex sign(Complex z) { return z == 0.0 ? z : z / std::abs(z); }
Complex angle(Complex z) {
  // NaN where a part is, else atan2.
  return std::isnan(z.real()) ? z.real() : std::isnan(z.imag()) ? z.imag() : std::arg(z);
}

}  // namespace

ComplexFunction complex_function(std::string_view kernel) {
#define PHANTORA_STD(function) [](Complex z) -> Complex { return std::function(z); }
  static const auto* const table = new std::unordered_map<std::string_view, ComplexFunction>{
      {"conj", PHANTORA_STD(conj)},
      {"neg_conj", [](Complex z) { return -std::conj(z); }},
      {"neg", [](Complex z) { return -z; }},
      {"abs", PHANTORA_STD(abs)},
      {"angle", angle},
      {"sgn", sign},
      {"reciprocal", [](Complex z) { return 1.0 / z; }},
      {"sqrt", PHANTORA_STD(sqrt)},
      {"rsqrt", [](Complex z) { return 1.0 / std::sqrt(z); }},
      {"exp", PHANTORA_STD(exp)},
      {"exp2", [](Complex z) { return std::exp(z * M_LN2); }},
      {"expm1",
       [](Complex z) {
         // Without cancellation near zero: the real part is e^x cos y - 1.
         const double half = std::sin(z.imag() / 2);
         return Complex{std::expm1(z.real()) * std::cos(z.imag()) - 2 * half * half,
                        std::exp(z.real()) * std::sin(z.imag())};
       }},
      {"log", PHANTORA_STD(log)},
      {"log2", [](Complex z) { return std::log(z) / M_LN2; }},
      {"log10", PHANTORA_STD(log10)},
      {"log1p",
       [](Complex z) {
         const double x = z.real(), y = z.imag();
         return Complex{std::log1p(x * (2 + x) + y * y) / 2, std::atan2(y, 1 + x)};
       }},
      {"sin", PHANTORA_STD(sin)},
      {"cos", PHANTORA_STD(cos)},
      {"tan", PHANTORA_STD(tan)},
      {"asin", PHANTORA_STD(asin)},
      {"acos", PHANTORA_STD(acos)},
      {"atan", PHANTORA_STD(atan)},
      {"sinh", PHANTORA_STD(sinh)},
      {"cosh", PHANTORA_STD(cosh)},
      {"tanh", PHANTORA_STD(tanh)},
      {"asinh", PHANTORA_STD(asinh)},
      {"acosh", PHANTORA_STD(acosh)},
      {"atanh", PHANTORA_STD(atanh)},
      {"sigmoid", [](Complex z) { return 1.0 / (1.0 + std::exp(-z)); }},
      {"silu", [](Complex z) { return z / (1.0 + std::exp(-z)); }},
  };
#undef PHANTORA_STD
  for (const std::string_view suffix : {"_cuda", "_kernel", "_impl"}) {
    if (kernel.ends_with(suffix)) kernel.remove_suffix(suffix.size());
  }
  const auto found = table->find(kernel);
  return found == table->end() ? nullptr : found->second;
}

}  // namespace phantora::rank
