#include "collectives/communicator_impl.hpp"

namespace phantora {

Communicator::Communicator(const Cluster& cluster, std::vector<NodeId> ranks,
                           const NcclVariables& variables)
    : impl_{std::make_shared<const Impl>(cluster, std::move(ranks), variables)} {}

int Communicator::size() const noexcept { return impl_->size(); }

CollectivePlan Communicator::plan(CollectiveOp op, Bytes total, int root) const {
  return impl_->plan(op, total, root);
}

CollectivePlan Communicator::plan(std::span<const GroupedCollective> group) const {
  return impl_->plan(group);
}

CollectivePlan Communicator::plan(std::span<const SendRecv> group) const {
  return impl_->plan(group);
}

CollectivePlan Communicator::plan(const SendRecv& message, const RankMessages& sender,
                                  const RankMessages& receiver) const {
  return impl_->plan(message, sender, receiver);
}

int Communicator::channels(const SendRecv& message) const { return impl_->channels(message); }

}  // namespace phantora
