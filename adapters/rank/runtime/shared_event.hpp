#pragma once

#include <atomic>
#include <cstdint>

/// Events that several processes of a host have (cudaIpcGetEventHandle).
///
/// The latest record of such an event stands in memory that they share, as the marker of the
/// process that made it, behind the engine's number of that process and one: any of them may
/// record, wait and ask. A process's own markers have nothing in front.
namespace phantora::rank {

class SharedMarker {
 public:
  /// How another process finds it, while this one has it open.
  struct Name {
    std::int32_t process_id = 0, descriptor = -1;
  };

  SharedMarker() = default;
  ~SharedMarker();
  SharedMarker(const SharedMarker&) = delete;
  SharedMarker& operator=(const SharedMarker&) = delete;

  /// False where the system has no room.
  bool make();
  /// False where there is no such memory any more.
  bool open(const Name& name);
  [[nodiscard]] Name name() const noexcept;
  [[nodiscard]] bool is_open() const noexcept { return latest_ != nullptr; }

  /// As this process has to say it to the engine.
  [[nodiscard]] std::uint64_t load() const noexcept;
  void store(std::uint64_t own_marker) noexcept;

 private:
  bool map();

  int descriptor_ = -1;
  std::atomic<std::uint64_t>* latest_ = nullptr;
};

}  // namespace phantora::rank
