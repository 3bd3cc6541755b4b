#pragma once

#include "gpu_calls.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

/// Both ends of a TCP connection within this process, for native test programs.
struct Connection {
  int from = -1, to = -1;
  Connection() {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    gpu::expect(bind(listener, any, length) == 0 && listen(listener, 1) == 0 &&
                    getsockname(listener, any, &length) == 0,
                "listen");
    to = socket(AF_INET, SOCK_STREAM, 0);
    gpu::expect(connect(to, any, length) == 0, "connect");
    from = accept(listener, nullptr, nullptr);
    close(listener);
  }
  void send() const { gpu::expect(::send(to, "x", 1, 0) == 1, "send"); }
  void receive() const {
    char byte = 0;
    gpu::expect(::recv(from, &byte, 1, 0) == 1, "recv");
  }
};
