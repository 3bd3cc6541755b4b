#include <phantora/kernels/kernel_limits.hpp>
#include <phantora/kernels/measured_table.hpp>

#include <cstddef>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace phantora {

namespace {

void mix(std::size_t& seed, std::size_t value) {
  // Boost's hash_combine constant: the golden ratio's bits.
  seed ^= value + 0x9e3779b97f4a7c15ULL + (seed << 6U) + (seed >> 2U);
}

std::size_t key_hash(const KernelQuery& query) {
  std::size_t seed = std::hash<std::string_view>{}(query.name);
  for (const auto& dim : {query.grid.value_or(KernelQuery::Dim3{0, 0, 0}), query.block}) {
    for (const std::uint32_t extent : {dim.x, dim.y, dim.z}) mix(seed, extent);
  }
  for (const auto& [key, value] : query.features) {
    mix(seed, std::hash<std::string_view>{}(key));
    mix(seed, std::hash<double>{}(value));
  }
  for (const auto& [key, value] : query.attributes) {
    mix(seed, std::hash<std::string_view>{}(key));
    mix(seed, std::hash<std::string_view>{}(value));
  }
  return seed;
}

bool same_launch(const KernelQuery& a, const KernelQuery& b) {
  return a.name == b.name && a.grid == b.grid && a.block == b.block && a.features == b.features &&
         a.attributes == b.attributes;
}

}  // namespace

struct MeasuredTable::Body {
  std::optional<GpuModel> gpu;
  CostSource source{};
  std::vector<Measurement> rows;
  std::unordered_multimap<std::size_t, std::size_t> index;
};

MeasuredTable::MeasuredTable(std::vector<Measurement> rows, std::optional<GpuModel> measured_on,
                             CostSource source) {
  auto body = std::make_shared<Body>();
  body->gpu = std::move(measured_on);
  body->source = source;
  body->index.reserve(rows.size());
  for (Measurement& row : rows) {
    const std::size_t hash = key_hash(row.query);
    const auto [begin, end] = body->index.equal_range(hash);
    auto same = begin;
    const auto is_same = [&](const KernelQuery& other) {
      return same_launch(other, row.query) && other.bytes == row.query.bytes;
    };
    while (same != end && !is_same(body->rows[same->second].query)) ++same;
    if (same != end) {
      body->rows[same->second] = std::move(row);
      continue;
    }
    body->index.emplace(hash, body->rows.size());
    body->rows.push_back(std::move(row));
  }
  body_ = std::move(body);
}

std::optional<CostEstimate> MeasuredTable::estimate(const KernelQuery& query) const {
  const auto [begin, end] = body_->index.equal_range(key_hash(query));
  for (auto entry = begin; entry != end; ++entry) {
    const Measurement& row = body_->rows[entry->second];
    const bool same_bytes = row.query.bytes <= 0.0 || row.query.bytes == query.bytes;
    if (same_bytes && same_launch(row.query, query)) {
      CostEstimate estimate{row.duration, row.stddev, body_->source};
      if (body_->gpu) estimate = with_limits(estimate, query, *body_->gpu);
      // Of a program of one's own it was measured at the clock that power had left.
      if (body_->source == CostSource::database) estimate.power_share.reset();
      return estimate;
    }
  }
  return std::nullopt;
}

}  // namespace phantora
