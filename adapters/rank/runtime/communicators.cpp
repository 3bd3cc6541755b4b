#include "rank/runtime/communicators.hpp"

#include "channel/partly_known.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/runtime/connection.hpp"
#include "rank/runtime/operands.hpp"

#include <boost/container/small_vector.hpp>

#include <algorithm>
#include <cstring>
#include <vector>

namespace phantora::rank {

using channel::Op;

void Communicators::make_unique_id(std::span<std::byte, 128> out) {
  std::memset(out.data(), 0, out.size());
  // The engine numbers processes: no other process of the job makes the same pair.
  const channel::UniqueId id{
      .process = static_cast<std::uint64_t>(clocks_.connection()->welcome().process),
      .sequence = ++unique_ids_};
  std::memcpy(out.data(), &id, sizeof id);
}

void Communicators::add(std::uint64_t communicator, const CommunicatorInfo& info) {
  const std::lock_guard lock{mutex_};
  all_[communicator] = info;
}

std::optional<std::uint64_t> Communicators::join(HostThread& thread,
                                                 std::span<const std::byte, 128> unique_id,
                                                 const CommunicatorInfo& place,
                                                 int physical_device) {
  clocks_.become_issuer(thread);
  const channel::Reply reply = streams_.ask(thread,
                                            {.op = Op::join_communicator,
                                             .device = static_cast<std::uint16_t>(physical_device),
                                             .a = static_cast<std::uint64_t>(place.ranks),
                                             .b = static_cast<std::uint64_t>(place.rank)},
                                            unique_id);
  if (reply.value == channel::no_communicator) return std::nullopt;
  const auto handle = static_cast<std::uint64_t>(reply.value);
  add(handle, place);
  return handle;
}

std::uint64_t Communicators::split(HostThread& thread, std::uint64_t parent, int color, int key) {
  clocks_.become_issuer(thread);
  const int device = info(parent).device;
  const channel::Reply reply =
      streams_.ask(thread, {.op = Op::split_communicator,
                            .a = parent,
                            .b = static_cast<std::uint64_t>(std::int64_t{color}),
                            .c = static_cast<std::uint64_t>(std::int64_t{key})});
  if (reply.value == channel::no_communicator) return 0;
  const auto handle = static_cast<std::uint64_t>(reply.value);
  add(handle, {reply.ranks, reply.rank, device});
  return handle;
}

void Communicators::leave(HostThread& thread, std::uint64_t communicator) {
  streams_.append(thread, {.op = Op::leave_communicator, .a = communicator});
  const std::lock_guard lock{mutex_};
  all_.erase(communicator);
}

CommunicatorInfo Communicators::info(std::uint64_t communicator) {
  const std::lock_guard lock{mutex_};
  const auto found = all_.find(communicator);
  return found == all_.end() ? CommunicatorInfo{} : found->second;
}

void Communicators::enqueue(HostThread& thread, std::span<const CollectiveCall> group) {
  // One record per communicator and stream, in the order of the calls.
  for (auto head = group.begin(); head != group.end(); ++head) {
    const auto beside_head = [&](const CollectiveCall& call) {
      return call.communicator == head->communicator && call.stream == head->stream;
    };
    if (std::any_of(group.begin(), head, beside_head)) continue;
    const CommunicatorInfo place = info(head->communicator);
    // Most groups are one call: they need no memory of the heap's.
    constexpr std::size_t few = 4;
    boost::container::small_vector<channel::CollectiveRecord, few> records;
    boost::container::small_vector<const CollectiveCall*, few> calls;
    for (auto call = head; call != group.end(); ++call) {
      if (!beside_head(*call)) continue;
      calls.push_back(&*call);
      channel::CollectiveRecord& record = records.emplace_back();
      record.communicator = call->communicator;
      record.ticket = carries_data(*call, place) ? ++last_ticket_ : 0;
      record.count = call->count;
      record.op = static_cast<std::uint8_t>(call->op);
      record.type = static_cast<std::uint8_t>(call->type);
      record.reduction = static_cast<std::uint8_t>(call->reduction);
      record.peer = call->peer;
      record.premul = call->premul;
    }
    // All collectives of the group run as one kernel, and all messages.
    const auto tag = [&](bool messages) -> std::uint64_t {
      if (!activities_.wants(Activities::launches)) return 0;
      const auto found = std::find_if(calls.begin(), calls.end(), [&](const CollectiveCall* call) {
        return channel::collective_op(call->op).has_value() != messages;
      });
      return found == calls.end() ? 0 : activities_.launched(thread, **found);
    };
    streams_.append(thread, *head->stream, {.op = Op::collective, .a = tag(false), .b = tag(true)},
                    std::as_bytes(std::span{records.data(), records.size()}));
    // Sends first: a receive of the same group may depend on them.
    for (const bool receiving : {false, true}) {
      for (std::size_t i = 0; i < calls.size(); ++i) {
        if ((calls[i]->op == Collective::recv) == receiving)
          enqueue_data(thread, *calls[i], place, records[i].ticket);
      }
    }
  }
}

/// What `call` does to data; of large ones, that their results are not known.
void Communicators::enqueue_data(HostThread& thread, const CollectiveCall& call,
                                 const CommunicatorInfo& info, std::uint64_t ticket) {
  const BufferBytes size = operand_bytes(call, info.ranks, call.peer == info.rank);
  const auto send_bytes = static_cast<std::size_t>(size.send.count());
  const auto receive_bytes = static_cast<std::size_t>(size.receive.count());
  if (ticket == 0) {
    if (receive_bytes > 0) {
      streams_.enqueue(thread, *call.stream,
                       [to = call.recv, receive_bytes] { forget(to, receive_bytes); });
    }
    return;
  }
  const auto send = [connection = clocks_.connection(), ticket, from = call.send,
                     bytes = send_bytes] {
    channel::PartlyKnown operand{std::vector<std::byte>(bytes), std::vector<std::uint8_t>(bytes)};
    if (bytes > 0) read_with_mask(operand.bytes.data(), operand.known.data(), from, bytes);
    connection->append({.op = Op::operand, .thread = channel::no_thread, .a = ticket},
                       channel::packed(operand));
    connection->ring();  // other ranks' blocking calls may wait for nothing else
  };
  if (call.op == Collective::send) {
    // A send leaves nothing behind it to wait for.
    streams_.enqueue(thread, *call.stream, send);
    return;
  }
  streams_.next_data(thread, *call.stream)
      .exchange(*call.stream, ticket, send, [to = call.recv](std::span<const std::byte> message) {
        const auto result = channel::unpacked(message);
        if (result.bytes.empty()) return;
        write_known(to, result.bytes.data(), result.known, result.bytes.size(),
                    {.name = "a collective"});
      });
}

}  // namespace phantora::rank
