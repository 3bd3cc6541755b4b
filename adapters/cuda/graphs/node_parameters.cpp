#include "cuda/graphs/node_parameters.hpp"

#include "cuda/driver/host_memory.hpp"
#include "rank/runtime/process.hpp"

#ifndef PHANTORA_DRIVER_API
#include "cuda/cudart/kernels.hpp"
#endif

#include <memory>
#include <optional>

namespace phantora::graphs {
namespace {

[[noreturn]] void not_supported(const char* what) {
  rank::unsupported(what);
  refuse(rank::Refusal::not_supported);
}

/// Where one side of a box begins, and its pitch and the bytes from plane to plane.
struct Side {
  void* begin = nullptr;
  std::size_t pitch = 0, slice = 0;
};
Side side(void* base, std::size_t pitch, std::size_t height, std::size_t x, std::size_t y,
          std::size_t z) {
  const std::size_t slice = pitch * height;
  return {static_cast<std::byte*>(base) + z * slice + y * pitch + x, pitch, slice};
}

rank::WorkPointer copy_work(const Side& to, const Side& from, std::size_t width, std::size_t rows,
                            std::size_t depth) {
  expect(to.begin != nullptr && from.begin != nullptr);
  return std::make_shared<driver::CopyWork>(driver::Copy{.destination = to.begin,
                                                         .destination_pitch = to.pitch,
                                                         .source = from.begin,
                                                         .source_pitch = from.pitch,
                                                         .width = width,
                                                         .rows = rows,
                                                         .slices = depth,
                                                         .destination_slice = to.slice,
                                                         .source_slice = from.slice});
}

template <class Parameters>
rank::WorkPointer fill_work(const Parameters& p) {
  expect(p.elementSize == 1 || p.elementSize == 2 || p.elementSize == 4);
  return std::make_shared<driver::FillWork>(
      driver::Fill{.destination = reinterpret_cast<void*>(p.dst),
                   .pitch = p.pitch,
                   .value = p.value,
                   .unit = p.elementSize,
                   .width = p.width * p.elementSize,
                   .rows = p.height});
}

template <class Parameters>
rank::WorkPointer allocation_work(Parameters& p) {
  expect(p.bytesize > 0 && valid_device(p.poolProps.location.id));
  auto memory = driver::reserve_graph_memory(p.poolProps.location.id, p.bytesize);
  if (!memory) refuse(rank::Refusal::out_of_memory);
  p.dptr = reinterpret_cast<DeviceAddress>(address_of(*memory));
  return std::make_shared<driver::AllocationWork>(std::move(memory));
}

rank::WorkPointer kernel_work(driver::Function* function, const rank::LaunchShape& shape,
                              void** arguments, void** extra) {
  if (function == nullptr) refuse(rank::Refusal::invalid_function);
  if (arguments == nullptr && extra != nullptr)
    not_supported("a kernel node with CU_LAUNCH_PARAM_BUFFER_POINTER");
  expect(driver::check(*function, shape) == driver::LaunchStatus::launched);
  return std::make_shared<driver::KernelWork>(*function, shape, arguments);
}

}  // namespace

#ifdef PHANTORA_DRIVER_API

namespace {

template <class Parameters>
rank::WorkPointer kernel_parameters(const Parameters& p) {
  const void* const handle =
      p.func != nullptr ? static_cast<const void*>(p.func) : static_cast<const void*>(p.kern);
  return kernel_work(static_cast<driver::Function*>(const_cast<void*>(handle)),
                     {.grid = {p.gridDimX, p.gridDimY, p.gridDimZ},
                      .block = {p.blockDimX, p.blockDimY, p.blockDimZ},
                      .shared_bytes = p.sharedMemBytes},
                     p.kernelParams, p.extra);
}

void* memory_of(CUmemorytype type, const void* host, CUdeviceptr device) {
  switch (type) {
    case CU_MEMORYTYPE_HOST:
      return const_cast<void*>(host);
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED:
      return pointer(device);
    default:
      not_supported("a memcpy node of an array");
  }
}

}  // namespace

rank::WorkPointer work_of(const KernelParameters& p) { return kernel_parameters(p); }

rank::WorkPointer work_of(const CopyParameters& p) {
  void* const to = memory_of(p.dstMemoryType, p.dstHost, p.dstDevice);
  void* const from = memory_of(p.srcMemoryType, p.srcHost, p.srcDevice);
  return copy_work(side(to, p.dstPitch, p.dstHeight, p.dstXInBytes, p.dstY, p.dstZ),
                   side(from, p.srcPitch, p.srcHeight, p.srcXInBytes, p.srcY, p.srcZ),
                   p.WidthInBytes, p.Height, p.Depth);
}

void tell(KernelParameters& p, const rank::Node& node) {
  const auto& work = work_as<driver::KernelWork>(node);
  p = {};
  p.func = reinterpret_cast<CUfunction>(&work.function);
  p.gridDimX = work.shape.grid.x, p.gridDimY = work.shape.grid.y, p.gridDimZ = work.shape.grid.z;
  p.blockDimX = work.shape.block.x, p.blockDimY = work.shape.block.y,
  p.blockDimZ = work.shape.block.z;
  p.sharedMemBytes = static_cast<unsigned>(work.shape.shared_bytes);
  p.kernelParams = work.arguments();
}

void tell(CopyParameters& p, const rank::Node& node) {
  const driver::Copy& copied = work_as<driver::CopyWork>(node).copied;
  p = {};
  p.srcMemoryType = p.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  p.srcDevice = address(copied.source);
  p.dstDevice = address(copied.destination);
  p.srcPitch = copied.source_pitch;
  p.dstPitch = copied.destination_pitch;
  p.srcHeight = p.srcPitch > 0 ? copied.source_slice / p.srcPitch : 0;
  p.dstHeight = p.dstPitch > 0 ? copied.destination_slice / p.dstPitch : 0;
  p.WidthInBytes = copied.width;
  p.Height = copied.rows;
  p.Depth = copied.slices;
}

#else

namespace {

template <class Parameters>
rank::WorkPointer kernel_parameters(const Parameters& p) {
  return kernel_work(function_of(p.func),
                     {.grid = {p.gridDim.x, p.gridDim.y, p.gridDim.z},
                      .block = {p.blockDim.x, p.blockDim.y, p.blockDim.z},
                      .shared_bytes = p.sharedMemBytes},
                     p.kernelParams, p.extra);
}

}  // namespace

rank::WorkPointer work_of(const KernelParameters& p) { return kernel_parameters(p); }

rank::WorkPointer work_of(const CopyParameters& p) {
  if (p.srcArray != nullptr || p.dstArray != nullptr) not_supported("a memcpy node of an array");
  return copy_work(
      side(p.dstPtr.ptr, p.dstPtr.pitch, p.dstPtr.ysize, p.dstPos.x, p.dstPos.y, p.dstPos.z),
      side(p.srcPtr.ptr, p.srcPtr.pitch, p.srcPtr.ysize, p.srcPos.x, p.srcPos.y, p.srcPos.z),
      p.extent.width, p.extent.height, p.extent.depth);
}

rank::WorkPointer work_of_row(void* to, const void* from, std::size_t bytes) {
  expect(to != nullptr && from != nullptr && bytes > 0);
  return std::make_shared<driver::CopyWork>(driver::Copy{.destination = to,
                                                         .destination_pitch = bytes,
                                                         .source = from,
                                                         .source_pitch = bytes,
                                                         .width = bytes});
}

void* in_symbol(const void* symbol, std::size_t offset, std::size_t bytes) {
  const cudart::Variable variable = variable_of(symbol);
  if (variable.size == 0) refuse(rank::Refusal::invalid_symbol);
  if (variable.address == nullptr) refuse(rank::Refusal::out_of_memory);
  expect(offset + bytes <= variable.size);
  return static_cast<std::byte*>(variable.address) + offset;
}

void tell(KernelParameters& p, const rank::Node& node) {
  const auto& work = work_as<driver::KernelWork>(node);
  const auto& [grid, block, shared] = work.shape;
  p = {};
  // The host's function where it has one, as cudaLaunchKernel takes it.
  p.func = work.function.host_stub != nullptr ? const_cast<void*>(work.function.host_stub)
                                              : static_cast<void*>(&work.function);
  p.gridDim = {grid.x, grid.y, grid.z};
  p.blockDim = {block.x, block.y, block.z};
  p.sharedMemBytes = static_cast<unsigned>(shared);
  p.kernelParams = work.arguments();
}

void tell(CopyParameters& p, const rank::Node& node) {
  const driver::Copy& copied = work_as<driver::CopyWork>(node).copied;
  const auto rows = [&](std::size_t slice, std::size_t pitch) {
    return pitch > 0 ? slice / pitch : copied.rows;
  };
  p = {};
  p.srcPtr = {const_cast<void*>(copied.source), copied.source_pitch, copied.width,
              rows(copied.source_slice, copied.source_pitch)};
  p.dstPtr = {copied.destination, copied.destination_pitch, copied.width,
              rows(copied.destination_slice, copied.destination_pitch)};
  p.extent = {copied.width, copied.rows, copied.slices};
  p.kind = cudaMemcpyDefault;
}

#endif

rank::WorkPointer work_of(const FillParameters& parameters) { return fill_work(parameters); }

rank::WorkPointer work_of(const HostParameters& parameters) {
  expect(parameters.fn != nullptr);
  return std::make_shared<rank::HostWork>(parameters.fn, parameters.userData);
}

rank::WorkPointer work_of(AllocationParameters& parameters) { return allocation_work(parameters); }

rank::WorkPointer work_of_free(DeviceAddress address) {
  auto memory = driver::graph_memory_at(reinterpret_cast<const void*>(address));
  expect(memory != nullptr);
  return std::make_shared<driver::FreeWork>(std::move(memory));
}

rank::WorkPointer work_of_record(EventHandle event) {
  return std::make_shared<rank::EventWork>(rank::NodeType::event_record, event_of(event));
}

rank::WorkPointer work_of_wait(EventHandle event) {
  return std::make_shared<rank::EventWork>(rank::NodeType::wait_event, event_of(event));
}

rank::WorkPointer work_of_child(GraphHandle graph) {
  return std::make_shared<rank::ChildWork>(std::make_unique<rank::Graph>(graph_of(graph)));
}

namespace {

/// The program goes on naming the nodes of a graph that it hands over, and no longer destroys it.
rank::WorkPointer work_of_moved_child(GraphHandle graph) {
  return std::make_shared<rank::ChildWork>(std::unique_ptr<rank::Graph>(&graph_of(graph)));
}

}  // namespace

rank::WorkPointer work_of(NodeParameters& p) {
  switch (static_cast<rank::NodeType>(p.type)) {
    case rank::NodeType::kernel:
      return kernel_parameters(p.kernel);
    case rank::NodeType::memcpy:
      return work_of(p.memcpy.copyParams);
    case rank::NodeType::memset:
      return fill_work(p.memset);
    case rank::NodeType::host:
      expect(p.host.fn != nullptr);
      return std::make_shared<rank::HostWork>(p.host.fn, p.host.userData);
    case rank::NodeType::graph:
      return p.graph.ownership == ownership_moves ? work_of_moved_child(p.graph.graph)
                                                  : work_of_child(p.graph.graph);
    case rank::NodeType::empty:
      return std::make_shared<rank::EmptyWork>();
    case rank::NodeType::wait_event:
      return work_of_wait(p.eventWait.event);
    case rank::NodeType::event_record:
      return work_of_record(p.eventRecord.event);
    case rank::NodeType::mem_alloc:
      return allocation_work(p.alloc);
    case rank::NodeType::mem_free:
      return work_of_free(p.free.dptr);
    case rank::NodeType::conditional:
      not_supported("a conditional node of a graph");
  }
  not_supported("a node of a graph for semaphores or memory operations");
}

void tell(FillParameters& p, const rank::Node& node) {
  const driver::Fill& filled = work_as<driver::FillWork>(node).filled;
  p = {};
  p.dst = reinterpret_cast<DeviceAddress>(filled.destination);
  p.pitch = filled.pitch;
  p.value = filled.value;
  p.elementSize = static_cast<unsigned>(filled.unit);
  p.width = filled.width / filled.unit;
  p.height = filled.rows;
}

void tell(HostParameters& p, const rank::Node& node) {
  const auto& work = work_as<rank::HostWork>(node);
  p = {};
  p.fn = work.function;
  p.userData = work.argument;
}

void tell(AllocationParameters& p, const rank::Node& node) {
  const driver::GraphMemory& memory = *work_as<driver::AllocationWork>(node).memory;
  p = {};
  p.poolProps.location.id = device_of(memory);
  p.bytesize = size_of(memory);
  p.dptr = reinterpret_cast<DeviceAddress>(address_of(memory));
}

DeviceAddress freed_by(const rank::Node& node) {
  return reinterpret_cast<DeviceAddress>(address_of(*work_as<driver::FreeWork>(node).memory));
}

EventHandle event_in(const rank::Node& node, rank::NodeType type) {
  const auto& work = work_as<rank::EventWork>(node);
  expect(work.type() == type);
  return reinterpret_cast<EventHandle>(&work.event);
}

GraphHandle child_in(const rank::Node& node) {
  return handle_of(work_as<rank::ChildWork>(node).graph.get());
}

}  // namespace phantora::graphs
