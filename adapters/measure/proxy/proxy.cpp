// The process that is, in a simulated run, the rank which runs on a real GPU: it starts the program
// there, outside of the simulation, and issues the program's NCCL calls in its place.
//
// Usage: proxy VARIABLE[=VALUE]... -- COMMAND...    The environment of COMMAND: without =, unset.
#include "measure/proxy/messages.hpp"
#include "rank/memory/device_memory.hpp"
#include "rank/runtime/api_call.hpp"
#include "rank/runtime/operands.hpp"
#include "rank/runtime/process.hpp"
#include "rank/runtime/timeline.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

namespace phantora::measure {
namespace {

/// Where the rank's GPU is among those of its simulated host.
int own_device() {
  const char* const local_rank = std::getenv("LOCAL_RANK");
  return local_rank != nullptr ? std::atoi(local_rank) : 0;
}

/// Stands for large operands, of which nothing is known: addresses, without memory.
class LargeOperand {
 public:
  void* of(std::size_t bytes) {
    const std::lock_guard lock{mutex_};
    if (bytes > bytes_) {
      // Older ranges are left to the operations that are on their way.
      constexpr std::size_t granularity = std::size_t{2} << 20;
      bytes_ = std::max((bytes + granularity - 1) / granularity * granularity, 2 * bytes_);
      address_ = rank::reserve_addresses(own_device(), bytes_);
      if (address_ == nullptr) throw std::runtime_error{"an operand is too large"};
    }
    return address_;
  }

 private:
  std::mutex mutex_{};
  void* address_ = nullptr;
  std::size_t bytes_ = 0;
};

/// A stream of the program's: where its collectives are in the simulated GPU's timeline.
struct StreamOfProgram {
  rank::Stream* stream = &rank::create_stream(own_device(), 1 /* cudaStreamNonBlocking */, 0);
  std::mutex mutex{};
  std::vector<void*> operands{};  ///< small ones of operations that may be on their way
};

class Proxy {
 public:
  /// Answers one thread of the program until that ends.
  void serve(int descriptor) {
    for (Message request; receive_message(descriptor, request);) {
      Message reply;
      answer(request, reply);
      send_message(descriptor, reply);
    }
    close(descriptor);
  }

 private:
  void answer(Message& request, Message& reply) {
    const rank::ApiCall call{rank::Api::nccl_enqueue};
    switch (request.take<Ask>()) {
      case Ask::unique_id: {
        std::array<std::byte, 128> id{};
        rank::make_unique_id(id);
        reply.put(id);
        return;
      }
      case Ask::join: {
        const auto join = request.take<Join>();
        const auto handle = rank::join_communicator(std::span<const std::byte, 128>{join.unique_id},
                                                    join.ranks, join.rank, own_device());
        reply.put(Joined{handle.value_or(0), join.ranks, join.rank});
        return;
      }
      case Ask::split: {
        const auto split = request.take<Split>();
        const std::uint64_t handle = rank::split_communicator(split.parent, split.color, split.key);
        const rank::CommunicatorInfo info = rank::communicator_info(handle);
        reply.put(Joined{handle, info.ranks, info.rank});
        return;
      }
      case Ask::leave:
        rank::leave_communicator(request.take<std::uint64_t>());
        return;
      case Ask::enqueue:
        enqueue(request, reply);
        return;
    }
    throw std::runtime_error{"a request that there is not"};
  }

  void enqueue(Message& request, Message& reply) {
    const auto count = request.take<std::uint32_t>();
    std::vector<rank::CollectiveCall> calls;
    std::vector<std::size_t> received;  // bytes, of each call that carries data
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto operation = request.take<Operation>();
      StreamOfProgram& stream = stream_of(operation.stream);
      const rank::CommunicatorInfo info = rank::communicator_info(operation.communicator);
      rank::CollectiveCall& call = calls.emplace_back(rank::CollectiveCall{
          .op = operation.op,
          .communicator = operation.communicator,
          .count = operation.count,
          .type = operation.type,
          .reduction = operation.reduction,
          .premul = operation.premul,
          .peer = operation.peer,
          .stream = stream.stream,
      });
      const BufferBytes size = rank::operand_bytes(call, info.ranks, call.peer == info.rank);
      const auto send = static_cast<std::size_t>(size.send.count());
      const auto receive = static_cast<std::size_t>(size.receive.count());
      if (operation.carries_data) {
        call.send = small_operand(stream, send);
        call.recv = small_operand(stream, receive);
        const auto bytes = request.take_bytes_counted();
        if (!bytes.empty()) rank::write(const_cast<void*>(call.send), bytes.data(), bytes.size());
        received.push_back(receive);
      } else {
        call.recv = large_.of(std::max(send, receive));
        call.send = call.recv;
        received.push_back(0);
      }
    }
    rank::enqueue_collectives(calls);
    // Who receives what it may look at waits for it; others go on, as with NCCL.
    for (std::uint32_t i = 0; i < count; ++i) {
      if (received[i] == 0) continue;
      rank::synchronize(*calls[i].stream);
      std::vector<std::byte> bytes(received[i]);
      std::vector<std::uint8_t> known(received[i]);
      rank::read_with_mask(bytes.data(), known.data(), calls[i].recv, received[i]);
      reply.put_bytes_counted(bytes);
      reply.put_bytes_counted(std::as_bytes(std::span{known}));
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      if (received[i] != 0) forget_operands(calls[i].stream);
    }
  }

  StreamOfProgram& stream_of(std::uint64_t handle) {
    const std::lock_guard lock{mutex_};
    return streams_[handle];
  }
  static void* small_operand(StreamOfProgram& stream, std::size_t bytes) {
    if (bytes == 0) return nullptr;
    void* const address = rank::allocate(own_device(), bytes);
    if (address == nullptr) throw std::runtime_error{"the simulated GPU's memory is full"};
    const std::lock_guard lock{stream.mutex};
    stream.operands.push_back(address);
    return address;
  }
  /// What came before in the stream is over.
  void forget_operands(const rank::Stream* synchronized) {
    const std::lock_guard lock{mutex_};
    for (auto& [handle, stream] : streams_) {
      if (stream.stream != synchronized) continue;
      const std::lock_guard inner{stream.mutex};
      for (void* const address : stream.operands) rank::deallocate(address);
      stream.operands.clear();
    }
  }

  std::mutex mutex_{};
  std::map<std::uint64_t, StreamOfProgram> streams_{};
  LargeOperand large_{};
};

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "phantora: the rank on the real GPU: %s\n", what);
  std::_Exit(70);
}

/// A socket that only this run's processes know of, and its name.
int listening_socket(std::string& name) {
  name = "phantora-proxy-" + std::to_string(getpid());
  const ProxyAddress address{name};
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  constexpr int threads_that_may_wait = 64;
  if (listener < 0 || bind(listener, address.get(), address.length) != 0 ||
      listen(listener, threads_that_may_wait) != 0)
    fail("cannot make a socket");
  return listener;
}

/// Becomes the program, outside of the simulation.
[[noreturn]] void become(char** variables, char** command, const std::string& socket_name) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (; variables != command - 1; ++variables) {
    std::string_view variable{*variables};
    const std::size_t equals = variable.find('=');
    const std::string name{variable.substr(0, equals)};
    if (equals == variable.npos) {
      unsetenv(name.c_str());
    } else {
      setenv(name.c_str(), *variables + equals + 1, 1);
    }
  }
  setenv(proxy_variable, socket_name.c_str(), 1);
  execvp(command[0], command);
  fail("cannot run the program");
}

}  // namespace
}  // namespace phantora::measure

int main(int argc, char** argv) {
  using namespace phantora;
  using namespace phantora::measure;
  char** command = argv + 1;
  while (command < argv + argc && std::string_view{*command} != "--") ++command;
  if (++command >= argv + argc) fail("no command");
  std::string name;
  const int listener = listening_socket(name);
  const pid_t program = fork();
  if (program < 0) fail("cannot fork");
  if (program == 0) become(argv + 1, command, name);
  if (!rank::simulated()) fail("not under phantora run");

  static Proxy proxy;
  std::thread{[listener] {
    for (int connection = 0; (connection = accept(listener, nullptr, nullptr)) >= 0;) {
      std::thread{[connection] {
        try {
          proxy.serve(connection);
        } catch (const std::exception& problem) {
          fail(problem.what());
        }
      }}.detach();
    }
  }}.detach();

  int status = 0;
  while (waitpid(program, &status, 0) < 0 && errno == EINTR) {
  }
  std::_Exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
}
