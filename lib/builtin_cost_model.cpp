#include <phantora/builtin_cost_model.hpp>
#include <phantora/error.hpp>
#include <phantora/fitted_model.hpp>
#include <phantora/kernel_data.hpp>
#include <phantora/measured_table.hpp>
#include <phantora/roofline.hpp>

#include <cstdlib>
#include <string>
#include <system_error>
#include <vector>

namespace phantora {

namespace {
constexpr const char* measured_gpu = "h200";
constexpr const char* measured_file = "h200.tsv";
}  // namespace

std::filesystem::path data_directory() {
  namespace fs = std::filesystem;
  if (const char* chosen = std::getenv("PHANTORA_DATA")) return chosen;
  std::vector<fs::path> places{PHANTORA_SOURCE_DATA};
  std::error_code none;
  const fs::path program = fs::read_symlink("/proc/self/exe", none);
  if (!none) places.push_back(program.parent_path().parent_path() / "share/phantora");
  places.emplace_back(PHANTORA_INSTALLED_DATA);
  std::string tried;
  for (const fs::path& place : places) {
    if (fs::exists(place / measured_file, none)) return place;
    tried += "\n  " + place.string();
  }
  throw ConfigError{"kernel data: expected " + std::string{measured_file} +
                    " in one of the following; set PHANTORA_DATA to its directory:" + tried};
}

KernelCostModel builtin_cost_model(const GpuModel& gpu) {
  auto rows = read_measurements(data_directory() / measured_file);
  FittedModel fitted{gpu_model(measured_gpu), rows, gpu};
  Roofline roofline{gpu};
  if (gpu.key != measured_gpu) return first_of(std::move(fitted), std::move(roofline));
  // A launch of which only the grid is known may have had any size: no exact hit can be told.
  std::erase_if(rows, [](const Measurement& row) {
    return row.query.features.empty() && row.query.bytes <= 0.0;
  });
  return first_of(MeasuredTable{std::move(rows)}, std::move(fitted), std::move(roofline));
}

}  // namespace phantora
