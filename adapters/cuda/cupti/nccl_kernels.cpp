#include "cuda/cupti/nccl_kernels.hpp"

#include "rank/runtime/mutex.hpp"

#include <array>
#include <mutex>
#include <set>
#include <string>

namespace phantora::cupti {
namespace {

using channel::Collective;

/// Kernels are compiled for sums alone: other reductions run in those, by a number in their
/// arguments (`strings libnccl.so.2 | grep ncclDevKernel_`, NCCL 2.28).
std::string reduced(const char* operation, channel::DataType type, const char* algorithm) {
  // Signed integers are summed as unsigned ones.
  constexpr std::array types = {"u8",  "u8",  "u32", "u32",  "u64",    "u64",
                                "f16", "f32", "f64", "bf16", "f8e4m3", "f8e5m2"};
  return std::string{operation} + "_Sum_" + types[static_cast<std::size_t>(type)] + '_' +
         algorithm + "_LL";
}

std::string operation_name(Collective op, channel::DataType type, bool tree) {
  switch (op) {
    case Collective::all_reduce:
      return reduced("AllReduce", type, tree ? "TREE" : "RING");
    case Collective::reduce_scatter:
      return reduced("ReduceScatter", type, "RING");
    case Collective::reduce:
      return reduced("Reduce", type, "RING");
    case Collective::all_gather:
      return "AllGather_RING_LL";
    case Collective::broadcast:
      return "Broadcast_RING_LL";
    case Collective::all_to_all:
    case Collective::gather:
    case Collective::scatter:
    case Collective::send:
    case Collective::recv:
      break;
  }
  return "SendRecv";
}

}  // namespace

const char* nccl_kernel(Collective op, channel::DataType type, bool tree) {
  static rank::Mutex mutex;
  static auto& names = *new std::set<std::string>;
  const std::string name = "ncclDevKernel_" + operation_name(op, type, tree);
  const std::lock_guard lock{mutex};
  // Mangled, as CUPTI has names: its parameter is 4 KiB of arguments.
  return names
      .insert("_Z" + std::to_string(name.size()) + name + "24ncclDevKernelArgsStorageILm4096EE")
      .first->c_str();
}

}  // namespace phantora::cupti
