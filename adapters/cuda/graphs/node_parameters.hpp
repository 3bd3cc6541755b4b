#pragma once

#include "cuda/driver/graph_work.hpp"
#include "cuda/graphs/api.hpp"

/// What nodes do, as the program's structures say it. Who reads a node of another type is refused.
namespace phantora::graphs {

rank::WorkPointer work_of(const KernelParameters& parameters);
rank::WorkPointer work_of(const CopyParameters& parameters);
rank::WorkPointer work_of(const FillParameters& parameters);
rank::WorkPointer work_of(const HostParameters& parameters);
/// Gives the structure the new memory's address.
rank::WorkPointer work_of(AllocationParameters& parameters);
rank::WorkPointer work_of_free(DeviceAddress address);
rank::WorkPointer work_of_record(EventHandle event);
rank::WorkPointer work_of_wait(EventHandle event);
rank::WorkPointer work_of_child(GraphHandle graph);
#ifndef PHANTORA_DRIVER_API
/// A copy of one row.
rank::WorkPointer work_of_row(void* to, const void* from, std::size_t bytes);
/// A place in a registered variable on the current device.
void* in_symbol(const void* symbol, std::size_t offset, std::size_t bytes);
#endif
/// Of any type.
rank::WorkPointer work_of(NodeParameters& parameters);

void tell(KernelParameters& parameters, const rank::Node& node);
void tell(CopyParameters& parameters, const rank::Node& node);
void tell(FillParameters& parameters, const rank::Node& node);
void tell(HostParameters& parameters, const rank::Node& node);
void tell(AllocationParameters& parameters, const rank::Node& node);
DeviceAddress freed_by(const rank::Node& node);
EventHandle event_in(const rank::Node& node, rank::NodeType type);
GraphHandle child_in(const rank::Node& node);

/// The node's work, if it is of this kind.
template <class T>
const T& work_as(const rank::Node& node) {
  const auto* const work = dynamic_cast<const T*>(node.work.get());
  expect(work != nullptr);
  return *work;
}

}  // namespace phantora::graphs
