#include "cuda/library/gemm.hpp"

#include "rank/kernels/kept_by_hash.hpp"
#include "rank/kernels/word_hash.hpp"
#include "rank/memory/cached_operands.hpp"
#include "rank/memory/data_queue.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/runtime/api_call.hpp"
#include "rank/runtime/mutex.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace phantora::library {
namespace {

using rank::ElementType;

/// A matrix that was read from the device, column by column.
using Values = std::vector<double>;

/// Bytes from a matrix's first to its last element.
std::size_t extent(std::int64_t rows, std::int64_t columns, std::int64_t ld, std::size_t element) {
  if (rows <= 0 || columns <= 0) return 0;
  return static_cast<std::size_t>(ld * (columns - 1) + rows) * element;
}

/// Work that fits the rule of small data: each operand's bytes and a bounded number of products, so
/// that a real small product never takes a noticeable time.
bool small(const Gemm& g) {
  const auto elements = std::max({g.m * g.k, g.k * g.n, g.m * g.n}) * g.batch;
  const auto bytes = static_cast<std::size_t>(elements) * size_of(g.d.type);
  return bytes <= rank::small_bytes && g.m * g.n * g.k * g.batch <= (std::int64_t{1} << 22);
}

/// What an operand's matrix holds in memory, column by column.
struct Operand {
  const std::byte* address = nullptr;
  std::int64_t rows = 0, columns = 0;
  std::int64_t ld = 0;
  ElementType type{};

  [[nodiscard]] const std::byte* column(std::int64_t at) const {
    return address + static_cast<std::size_t>(at * ld) * rank::size_of(type);
  }
  [[nodiscard]] std::size_t column_bytes() const {
    return static_cast<std::size_t>(rows) * rank::size_of(type);
  }
};

Operand operand(const void* address, const Matrix& matrix, ElementType type, std::int64_t rows,
                std::int64_t columns) {
  return {static_cast<const std::byte*>(address), rows, columns, matrix.ld, type};
}

bool known(const Operand& operand) {
  for (std::int64_t j = 0; j < operand.columns; ++j)
    if (!rank::known(operand.column(j), operand.column_bytes())) return false;
  return true;
}

/// Of a known operand.
Values read(const Operand& operand) {
  const std::size_t element = rank::size_of(operand.type);
  Values values(static_cast<std::size_t>(operand.rows * operand.columns));
  std::vector<std::byte> column(operand.column_bytes());
  auto value = values.begin();
  for (std::int64_t j = 0; j < operand.columns; ++j) {
    rank::read(column.data(), operand.column(j), column.size());
    for (std::size_t i = 0; i < column.size(); i += element)
      *value++ = rank::load(operand.type, column.data() + i).to_real();
  }
  return values;
}

/// alpha or beta; nullopt if it lies in unknown device memory or is complex.
std::optional<double> scalar(const void* address, cudaDataType type, bool on_device) {
  const auto element = real_type(type);
  if (!address || !element) return std::nullopt;
  if (!on_device || !rank::is_device_address(address))
    return rank::load(*element, static_cast<const std::byte*>(address)).to_real();
  std::byte bytes[8];
  const std::size_t size = rank::size_of(*element);
  if (!rank::known(address, size)) return std::nullopt;
  rank::read(bytes, address, size);
  return rank::load(*element, bytes).to_real();
}

/// alpha and beta as far as they are known when the call is made: host scalars are read at once,
/// since the program may change them as soon as the call returns.
struct Scalars {
  std::optional<double> alpha{}, beta{};
};

/// Computes one product of the batch. False if an operand is unknown.
bool execute(const Gemm& g, const Scalars& scalars, const void* a_address, const void* b_address,
             const void* c_address, void* d_address) {
  const auto a_type = real_type(g.a.type), b_type = real_type(g.b.type),
             d_type = real_type(g.d.type);
  if (!a_type || !b_type || !d_type || !scalars.alpha || !scalars.beta) return false;
  const auto c_type = real_type(g.c.type), bias_type = real_type(g.bias_type);
  const bool reads_c = *scalars.beta != 0;  // with beta = 0, C need not hold numbers
  if ((reads_c && !c_type) || (g.bias && !bias_type)) return false;
  std::vector<Operand> operands{g.transpose_a ? operand(a_address, g.a, *a_type, g.k, g.m)
                                              : operand(a_address, g.a, *a_type, g.m, g.k),
                                g.transpose_b ? operand(b_address, g.b, *b_type, g.n, g.k)
                                              : operand(b_address, g.b, *b_type, g.k, g.n)};
  if (reads_c) operands.push_back(operand(c_address, g.c, *c_type, g.m, g.n));
  if (g.bias) operands.push_back(operand(g.bias, {}, *bias_type, g.m, 1));
  // Reading is the greater part, for nothing where one of them is unknown: when a model generates
  // text, small weights are known and nothing that they are multiplied with.
  if (!std::all_of(operands.begin(), operands.end(), known)) return false;
  const Values a = read(operands[0]), b = read(operands[1]);
  const Values c = reads_c ? read(operands[2]) : Values{};
  const Values bias = g.bias ? read(operands.back()) : Values(static_cast<std::size_t>(g.m));
  const std::size_t element = rank::size_of(*d_type);
  std::vector<std::byte> column(static_cast<std::size_t>(g.m) * element);
  for (std::int64_t j = 0; j < g.n; ++j) {
    for (std::int64_t i = 0; i < g.m; ++i) {
      double sum = 0;
      for (std::int64_t l = 0; l < g.k; ++l) {
        const auto left = static_cast<std::size_t>(g.transpose_a ? l + i * g.k : i + l * g.m);
        const auto right = static_cast<std::size_t>(g.transpose_b ? j + l * g.n : l + j * g.k);
        sum += a[left] * b[right];
      }
      double value = *scalars.alpha * sum + bias[static_cast<std::size_t>(i)];
      if (reads_c) value += *scalars.beta * c[static_cast<std::size_t>(i + j * g.m)];
      rank::store(*d_type, value, column.data() + static_cast<std::size_t>(i) * element);
    }
    rank::write(static_cast<std::byte*>(d_address) + static_cast<std::size_t>(j * g.d.ld) * element,
                column.data(), column.size());
  }
  return true;
}

std::uint64_t alignment(const Matrix& matrix) {
  return alignment_of(matrix.data, static_cast<std::uint64_t>(matrix.ld) * size_of(matrix.type));
}

KernelQuery describe(const Gemm& g, bool reads_c) {
  const auto count = [](auto value) { return static_cast<double>(value); };
  KernelQuery query;
  query.name = "gemm";
  query.features = {{"m", count(g.m)},
                    {"n", count(g.n)},
                    {"k", count(g.k)},
                    {"batch", count(g.batch)},
                    {"lda", count(g.a.ld)},
                    {"ldb", count(g.b.ld)},
                    {"ldc", count(g.d.ld)},
                    {"a_align", count(alignment(g.a))},
                    {"b_align", count(alignment(g.b))},
                    {"c_align", count(alignment(g.d))}};
  query.attributes = {{"a_type", name_of(g.a.type)},
                      {"b_type", name_of(g.b.type)},
                      {"c_type", name_of(g.d.type)},
                      {"compute", g.compute},
                      {"transa", g.transpose_a ? "T" : "N"},
                      {"transb", g.transpose_b ? "T" : "N"},
                      {"epilogue", g.epilogue}};
  query.flops = 2 * count(g.m) * count(g.n) * count(g.k) * count(g.batch);
  const auto bytes = [&](std::int64_t elements, cudaDataType type) {
    return count(elements) * static_cast<double>(size_of(type)) * count(g.batch);
  };
  query.bytes = bytes(g.m * g.k, g.a.type) + bytes(g.k * g.n, g.b.type) +
                bytes(g.m * g.n, g.d.type) * (reads_c ? 2 : 1);
  return query;
}

const void* offset(const Matrix& matrix, std::int64_t index) {
  return static_cast<const std::byte*>(matrix.data) +
         static_cast<std::size_t>(index * matrix.stride) * size_of(matrix.type);
}

/// Device array of pointers; empty if it is not known.
std::vector<const void*> pointers(const void* const* array, std::int64_t count) {
  std::vector<const void*> values(static_cast<std::size_t>(count));
  const std::size_t bytes = values.size() * sizeof(void*);
  if (!rank::is_device_address(array)) {
    std::memcpy(values.data(), array, bytes);
  } else if (rank::known(array, bytes)) {
    rank::read(values.data(), array, bytes);
  } else {
    values.clear();
  }
  return values;
}

/// What runs in stream order: the products, where they are small and can be computed, or else
/// making the output unknown.
void run(const Gemm& g, const Scalars& of_host, bool executable) {
  const Scalars of_device = g.scalars_on_device ? Scalars{scalar(g.alpha, g.scale_type, true),
                                                          scalar(g.beta, g.scale_type, true)}
                                                : Scalars{};
  const Scalars& scalars = g.scalars_on_device ? of_device : of_host;
  std::vector<const void*> a_list, b_list, d_list;
  if (g.d_array) {
    a_list = pointers(g.a_array, g.batch);
    b_list = pointers(g.b_array, g.batch);
    d_list = pointers(const_cast<const void* const*>(g.d_array), g.batch);
    if (d_list.empty()) return;  // nobody can know what was written
  }
  executable = executable && (!g.d_array || !(a_list.empty() || b_list.empty()));
  for (std::int64_t i = 0; i < g.batch; ++i) {
    const auto at = static_cast<std::size_t>(i);
    void* const d = const_cast<void*>(g.d_array ? d_list[at] : offset(g.d, i));
    if (executable) {
      const void* const a = g.d_array ? a_list[at] : offset(g.a, i);
      const void* const b = g.d_array ? b_list[at] : offset(g.b, i);
      const void* const c = g.d_array ? d : offset(g.c, i);
      if (execute(g, scalars, a, b, c, d)) continue;
    }
    rank::forget(d, extent(g.m, g.n, g.d.ld, size_of(g.d.type)),
                 {.name = "a matrix product", .type = real_type(g.d.type)});
  }
}

/// Charges what the library does once: it loads itself with the first product, and a kernel with
/// the first of each kind (types and layout decide most of it). Host time in training steps on H200
/// hosts: test/data/first_use.jsonl, by the means of 4 and 38 calls.
void charge_first_use(const Gemm& g) {
  constexpr std::chrono::microseconds library{69'700}, kernel{3'100};
  using Sort = std::tuple<cudaDataType, cudaDataType, bool, bool, std::string, std::string>;
  static auto* const seen = new std::set<Sort>;
  if (seen->empty()) rank::costs_more(library);
  if (seen->emplace(g.a.type, g.d.type, g.transpose_a, g.transpose_b, g.compute, g.epilogue).second)
    rank::costs_more(kernel);
}

/// What describe() looks at, and what the product finds in the cache, so that a product is
/// described once.
using Key = std::array<std::uint64_t, 14>;
Key key_of(const Gemm& g, bool reads_c, const KernelQuery::Operands& operands) {
  const auto word = [](auto value) { return static_cast<std::uint64_t>(value); };
  const auto text = [](const char* literal) { return reinterpret_cast<std::uintptr_t>(literal); };
  const auto type = [&](const Matrix& matrix) { return word(matrix.type) & 0xffff'ffffU; };
  const auto bits = [](double value) { return std::bit_cast<std::uint64_t>(value); };
  // Alignments are 16 at most.
  const std::uint64_t alignments = alignment(g.a) | alignment(g.b) << 8U | alignment(g.d) << 16U;
  const std::uint64_t flags = word(g.transpose_a) | word(g.transpose_b) << 1U | word(reads_c) << 2U;
  return {word(g.m),
          word(g.n),
          word(g.k),
          word(g.batch),
          word(g.a.ld),
          word(g.b.ld),
          word(g.d.ld),
          type(g.a) | type(g.b) << 32U,
          type(g.d) | alignments << 32U | flags << 56U,
          text(g.compute),
          text(g.epilogue),
          bits(operands.read),
          bits(operands.written),
          bits(operands.cold)};
}
std::uint64_t hash_of(const Key& key) {
  rank::WordHash hash;
  for (std::size_t i = 0; i < key.size(); i += 2) hash.mix(key[i], key[i + 1]);
  return hash.value();
}

/// What the product finds of its operands in the cache; nothing where a list of pointers tells
/// them.
KernelQuery::Operands cached(const rank::Stream& stream, const Gemm& g, bool reads_c) {
  if (g.d_array != nullptr) return {};
  const auto touched = [&](const Matrix& matrix, std::int64_t rows, std::int64_t columns, bool read,
                           bool written) {
    const auto apart = static_cast<std::size_t>((g.batch - 1) * matrix.stride);
    const std::size_t element = size_of(matrix.type);
    return rank::Touched{matrix.data, apart * element + extent(rows, columns, matrix.ld, element),
                         read, written};
  };
  const auto of = [](bool transposed, std::int64_t rows, std::int64_t columns) {
    return transposed ? std::pair{columns, rows} : std::pair{rows, columns};
  };
  const auto [a_rows, a_columns] = of(g.transpose_a, g.m, g.k);
  const auto [b_rows, b_columns] = of(g.transpose_b, g.k, g.n);
  return rank::touch_operands(
      stream.device, std::array{touched(g.a, a_rows, a_columns, true, false),
                                touched(g.b, b_rows, b_columns, true, false),
                                touched(g.d, g.m, g.n, reads_c && g.c.data == g.d.data, true)});
}

rank::QueryId query_of(const Gemm& g, bool reads_c, const KernelQuery::Operands& operands) {
  struct KnownQuery {
    Key key;
    rank::QueryId id;
  };
  static auto& known = *new rank::KeptByHash<KnownQuery>;
  const Key key = key_of(g, reads_c, operands);
  const std::uint64_t hash = hash_of(key);
  const auto is_it = [&](const KnownQuery& query) { return query.key == key; };
  if (const KnownQuery* const found = known.find(hash, is_it)) return found->id;
  static rank::Mutex describing;
  const std::lock_guard first{describing};
  charge_first_use(g);
  KernelQuery described = describe(g, reads_c);
  described.operands = operands;
  const rank::QueryId query = rank::intern(described);
  known.add(hash, {key, query});
  return query;
}

}  // namespace

void gemm(rank::Stream& stream, const Gemm& g) {
  if (g.m <= 0 || g.n <= 0 || g.batch <= 0) return;
  const bool executable = g.plain && small(g);
  Scalars scalars;
  if (!g.scalars_on_device) {
    if (executable) scalars.alpha = scalar(g.alpha, g.scale_type, false);
    scalars.beta = scalar(g.beta, g.scale_type, false);
  }
  const bool reads_c = scalars.beta != 0.0;
  rank::launch(stream, query_of(g, reads_c, cached(stream, g, reads_c)));
  if (rank::data::run_at_once()) {
    run(g, scalars, executable);
  } else {
    rank::data::enqueue(stream, [g, scalars, executable] { run(g, scalars, executable); });
  }
}

}  // namespace phantora::library
