#pragma once

#include "cuda/driver/copy.hpp"
#include "cuda/driver/function.hpp"
#include "rank/runtime/graph.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

/// What nodes of graphs do that programs can make, read and change.
namespace phantora::driver {

/// A kernel with arguments of its own.
class KernelWork final : public rank::Work {
 public:
  /// @param arguments  as launch() takes them.
  KernelWork(Function& function, const rank::LaunchShape& shape, void** arguments);
  rank::NodeType type() const noexcept override { return rank::NodeType::kernel; }
  void issue(rank::Stream& stream) const override;
  std::string label() const override;

  /// One pointer per parameter, to what launches read.
  [[nodiscard]] void** arguments() const noexcept { return const_cast<void**>(pointers_.data()); }

  Function& function;
  const rank::LaunchShape shape;

 private:
  std::vector<std::byte> bytes_{};
  std::vector<void*> pointers_{};
};

class CopyWork final : public rank::Work {
 public:
  explicit CopyWork(const Copy& what) : copied{what} { copied.of_graph = true; }
  rank::NodeType type() const noexcept override { return rank::NodeType::memcpy; }
  void issue(rank::Stream& stream) const override;
  std::string label() const override;

  Copy copied;
};

/// As fill() takes it.
struct Fill {
  void* destination = nullptr;
  std::size_t pitch = 0;
  unsigned value = 0;
  std::size_t unit = 1;
  std::size_t width = 0;  ///< bytes
  std::size_t rows = 1;
};
class FillWork final : public rank::Work {
 public:
  explicit FillWork(const Fill& fill) : filled{fill} {}
  rank::NodeType type() const noexcept override { return rank::NodeType::memset; }
  void issue(rank::Stream& stream) const override;
  std::string label() const override;

  const Fill filled;
};

/// Memory that graphs take and give back: addresses from when its node is made, memory from one of
/// its launches until it is freed.
///
/// @note Approximation: the GPU's ledger is charged when the host launches the graph.
struct GraphMemory;
/// nullptr if no addresses are left.
std::shared_ptr<GraphMemory> reserve_graph_memory(int device, std::size_t bytes);
/// Of an address of reserve_graph_memory(); nullptr if it is none.
std::shared_ptr<GraphMemory> graph_memory_at(const void* address);
void* address_of(const GraphMemory& memory) noexcept;
std::size_t size_of(const GraphMemory& memory) noexcept;
int device_of(const GraphMemory& memory) noexcept;
/// Gives memory at `address` back that a launch has taken. False if there is none.
bool free_graph_memory(void* address);
/// Bytes that graphs hold of a device now, and the most so far.
struct GraphMemoryUse {
  std::size_t now = 0, high = 0;
};
GraphMemoryUse graph_memory_use(int device);
void reset_graph_memory_high(int device);

class AllocationWork final : public rank::Work {
 public:
  explicit AllocationWork(std::shared_ptr<GraphMemory> taken) : memory{std::move(taken)} {}
  rank::NodeType type() const noexcept override { return rank::NodeType::mem_alloc; }
  /// @throws Refusal if the GPU has not that much left.
  void issue(rank::Stream& stream) const override;
  std::string label() const override;

  const std::shared_ptr<GraphMemory> memory;
};
class FreeWork final : public rank::Work {
 public:
  explicit FreeWork(std::shared_ptr<GraphMemory> freed) : memory{std::move(freed)} {}
  rank::NodeType type() const noexcept override { return rank::NodeType::mem_free; }
  void issue(rank::Stream& stream) const override;
  std::string label() const override;

  const std::shared_ptr<GraphMemory> memory;
};

}  // namespace phantora::driver
