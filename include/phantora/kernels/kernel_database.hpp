#pragma once

#include <phantora/kernels/gpu_model.hpp>
#include <phantora/kernels/kernel_cost_model.hpp>
#include <phantora/units.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace phantora {

/// Where measurements come from: one process of one program on one GPU.
struct KernelSource {
  std::string gpu{};        ///< as cudaDeviceProp::name reports it
  std::string driver{};     ///< its version
  std::string libraries{};  ///< theirs, as "cublas 13.1, cudnn 9.19"
  std::string command{};    ///< what ran
  std::string date{};       ///< when it began, as 2026-11-22T11:00:00Z
  std::string id{};         ///< unique in the world; empty: one is made up
};

/// How often a kernel took how long. Exact, so that databases can be merged.
using DurationCounts = std::map<Duration, std::uint64_t>;

/// What is known of a kernel.
struct MeasuredKernel {
  KernelQuery query{};         ///< by which it is priced
  DurationCounts durations{};  ///< that were measured

  [[nodiscard]] std::uint64_t count() const;  ///< how often it ran
  [[nodiscard]] Duration total() const;       ///< of all its runs
  /// What a kernel is priced at: many of them take their total time.
  [[nodiscard]] Duration mean() const;
  [[nodiscard]] Duration median() const;  ///< of its runs
  [[nodiscard]] Duration least() const;   ///< of its runs
  [[nodiscard]] Duration stddev() const;  ///< of one from the mean; 0 of a single one
};

/// Kernel times of the user's own GPUs: what `phantora measure` writes and `--kernels` reads. One
/// SQLite file. Any number of processes may write to it at a time; what a transaction wrote
/// survives the end of its process, however that comes. Target phantora::kernel_database.
///
///     const KernelDatabase mine{"my.db"};
///     const Simulation simulation{cluster, {.costs = [&](const GpuModel& gpu) {
///       return first_of(mine.model(gpu), builtin_cost_model(gpu));
///     }}};
///
/// Not thread-safe: a thread opens its own.
class KernelDatabase {
 public:
  /// What the file is opened for.
  enum class Access : std::uint8_t {
    read,  ///< it has to be there
    write  ///< the file is made if there is none
  };
  /// @throws ConfigError that names the file: if it cannot be opened, is damaged, is something else
  ///   or was made by a newer version.
  explicit KernelDatabase(const std::filesystem::path& path, Access access = Access::read);
  KernelDatabase(KernelDatabase&&) noexcept;
  KernelDatabase& operator=(KernelDatabase&&) noexcept;
  ~KernelDatabase();

  /// Adds to what is known of `source`, which is told apart by its id, in one transaction.
  /// @throws ConfigError if the file cannot be written or is full.
  void add(const KernelSource& source, std::span<const MeasuredKernel> kernels);
  /// Adds what `other` has. What came from the same source is not counted twice.
  void merge(const KernelDatabase& other);
  /// The same of all that is known of one source, which has an id.
  void merge(const KernelSource& source, std::span<const MeasuredKernel> kernels);

  /// Who measured.
  [[nodiscard]] std::vector<KernelSource> sources() const;
  /// Names of the GPUs that were measured.
  [[nodiscard]] std::vector<std::string> gpus() const;
  /// Of one GPU, or all together; by query.
  [[nodiscard]] std::vector<MeasuredKernel> kernels(
      const std::optional<std::string>& gpu = std::nullopt) const;
  /// Of one source, by its id.
  [[nodiscard]] std::vector<MeasuredKernel> kernels_of(const std::string& source_id) const;

  /// A link of a cost chain that knows the very queries that were measured on such a GPU.
  [[nodiscard]] KernelCostModel model(const GpuModel& gpu) const;

  /// The file, as it was named.
  [[nodiscard]] const std::filesystem::path& path() const noexcept;

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace phantora
