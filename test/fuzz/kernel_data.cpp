#include "fuzz.hpp"

#include <phantora/error.hpp>
#include <phantora/kernels/kernel_data.hpp>
#include <phantora/kernels/measured_table.hpp>

#include <cmath>
#include <sstream>

// lib/kernels/data/h200.tsv and its like.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace phantora;
  using fuzz::expect;
  std::istringstream text{std::string{fuzz::text_of(data, size)}};
  fuzz::accepts<ConfigError>("gpu.tsv:", [&] {
    for (const Measurement& row : read_measurements(text, "gpu.tsv")) {
      expect(!row.query.name.empty(), "kernels have names");
      expect(row.duration > Duration{} && row.duration <= std::chrono::hours{1},
             "kernels take between nothing and an hour");
      expect(row.stddev >= Duration{}, "spreads are none or more");
      expect(!row.query.grid || row.query.grid->count() >= 1, "grids have blocks");
      expect(row.query.block.count() >= 1, "blocks have threads");
      expect(std::isfinite(row.query.bytes) && row.query.bytes >= 0, "bytes are bytes");
      for (const auto& [key, value] : row.query.features)
        expect(!key.empty() && std::isfinite(value), "features are finite");
    }
  });
  return 0;
}
