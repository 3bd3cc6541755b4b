#include "kernels/round_trips.hpp"
#include "kernels/work/families.hpp"
#include "kernels/work/reading.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace phantora::detail {

namespace {

struct Shape {
  double m, n, k, right;
};

double least(const Shape& s) { return std::min(s.m, s.n); }

/// How many floating-point operations each takes: LAPACK Working Note 41, appendix C, leading
/// terms; eigenvalues and singular values by Golub and van Loan, 8.3 and 8.6, with vectors.
double lu_flops(const Shape& s) {
  const double k = least(s);
  return 2.0 * (s.m * s.n * k - (s.m + s.n) * k * k / 2.0 + k * k * k / 3.0);
}
double qr_flops(const Shape& s) { return 2.0 * lu_flops(s); }
double cholesky_flops(const Shape& s) { return s.n * s.n * s.n / 3.0; }
double inverse_flops(const Shape& s) { return 4.0 / 3.0 * s.n * s.n * s.n; }
double two_solves_flops(const Shape& s) { return 2.0 * s.n * s.n * s.right; }
double one_solve_flops(const Shape& s) { return s.n * s.n * s.right; }
double generate_flops(const Shape& s) {
  return 4.0 * s.m * s.n * s.k - 2.0 * (s.m + s.n) * s.k * s.k + 4.0 * s.k * s.k * s.k / 3.0;
}
double multiply_flops(const Shape& s) {
  return 4.0 * s.m * s.n * s.k - 2.0 * std::min(s.m, s.n) * s.k * s.k;
}
double symmetric_flops(const Shape& s) { return 9.0 * s.n * s.n * s.n; }
double general_flops(const Shape& s) { return 25.0 * s.n * s.n * s.n; }
double singular_flops(const Shape& s) {
  const double shorter = least(s);
  return 14.0 * std::max(s.m, s.n) * shorter * shorter + 8.0 * shorter * shorter * shorter;
}

/// A routine goes through its columns one after the other, in panels that wait for one another or
/// in sweeps, and what follows a column is short. That takes `column_us` for each, of the H200's
/// calls of one matrix in fp32 in data/h200_sweep15.jsonl.gz, over all sizes (README.md has the
/// spread).
struct Routine {
  std::string_view name;
  double column_us;
  double (*flops)(const Shape&);
};
constexpr std::array<Routine, 18> routines{{{"potrf", 0.34, cholesky_flops},
                                            {"potri", 0.8, inverse_flops},
                                            {"potrs", 0.6, two_solves_flops},
                                            {"getrf", 1.8, lu_flops},
                                            {"getri", 1.8, inverse_flops},
                                            {"getrs", 1.0, two_solves_flops},
                                            {"sytrf", 1.8, cholesky_flops},
                                            {"sytrs", 0.6, two_solves_flops},
                                            {"geqrf", 3.9, qr_flops},
                                            {"orgqr", 0.8, generate_flops},
                                            {"ormqr", 0.5, multiply_flops},
                                            {"trsm", 0.22, one_solve_flops},
                                            {"syevd", 10.5, symmetric_flops},
                                            {"syevj", 20.0, symmetric_flops},
                                            {"geev", 160.0, general_flops},
                                            {"gesvd", 120.0, singular_flops},
                                            {"gesvdj", 30.0, singular_flops},
                                            {"gesvda", 30.0, singular_flops}}};

const Routine& routine(std::string_view name) {
  return *std::ranges::find(routines, name, &Routine::name);
}

/// How a routine runs: `path` names the way, for all of whose calls a column takes about as long.
struct Way {
  std::string_view path;
  double column_us;
};

/// cuSOLVER has other ways for the smallest matrices, which fit a block of threads, and for a few
/// reflectors, each of which it applies by two kernels of its own.
Way way_of(const Routine& called, const Shape& shape, double batch) {
  constexpr double in_a_block = 32.0, few = 128.0;
  const bool small = std::max(shape.m, shape.n) <= in_a_block;
  if (called.name == "ormqr") {
    if (small) return {"/small", 0.6};
    if (shape.k <= few) return {"/single", 6.3};
  }
  if (called.name == "gesvdj" && small) return {"/small", 9.0};
  if (called.name == "syevj" && small) return {"/small", 10.8};
  if (called.name == "getrf" && small) return {"/small", batch > 1.0 ? 0.36 : 2.7};
  // One vector has a kernel of its own, from 64 places on.
  if (called.name == "trsm" && shape.right == 1.0 && batch == 1.0 && shape.n > 64.0)
    return {"/vector", 0.1};
  if (batch > 1.0) return {"/batch", called.name == "potrf" ? 0.8 : called.column_us};
  return {"", called.column_us};
}

}  // namespace

bool is_dense_algebra(std::string_view name) {
  return std::ranges::find(routines, name, &Routine::name) != routines.end();
}

KernelWork dense_algebra(const KernelQuery& query) {
  const Routine& called = routine(query.name);
  const std::string_view type = attribute(query, "type", "fp32");
  const double n = feature(query, "n", 1.0), batch = feature(query, "batch", 1.0);
  const Shape shape{feature(query, "m", n), n, feature(query, "k", n),
                    feature(query, "right", 1.0)};
  KernelWork work;
  work.limit = KernelLimit::arithmetic;
  work.arithmetic = arithmetic_of(type, "fp32");
  // A product of complex numbers is four of real ones.
  work.flops = called.flops(shape) * batch * (is_complex(type) ? 4.0 : 1.0);
  work.bytes = batch * type_bytes(type) *
               (shape.m * n + (query.features.contains("right") ? 2.0 * n * shape.right : 0.0));
  const double columns = query.features.contains("k") ? shape.k : least(shape);
  const Way way = way_of(called, shape, batch);
  work.round_trips = columns * way.column_us * 1e-6 / round_trip_seconds;
  work.group = called.name;
  work.group += way.path;
  work.family = std::string{type} + '/' + std::string{attribute(query, "vectors", "1")} +
                std::string{attribute(query, "side", "left")};
  work.coordinates = {log_coordinate(columns, 1.0), log_coordinate(shape.m / n, 1.0),
                      log_coordinate(shape.right, 1.5), log_coordinate(batch, 1.0),
                      log_coordinate(n / columns, 1.0)};
  return work;
}

}  // namespace phantora::detail
