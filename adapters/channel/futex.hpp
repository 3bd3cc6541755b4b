#pragma once

#include <atomic>
#include <cstdint>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>

namespace phantora::channel {

/// The system call, made by hand: the hooks on the C library, which account for the waits of a
/// program, must not see ours.
/// @return what the kernel does: an error is a negative number, and errno stays.
inline long futex(std::atomic<std::uint32_t>& word, long operation, std::uint32_t value,
                  const timespec* patience = nullptr) noexcept {
  long result = SYS_futex;
  register long r10 __asm__("r10") = reinterpret_cast<long>(patience);
  __asm__ volatile("syscall"
                   : "+a"(result)
                   : "D"(&word), "S"(operation), "d"(static_cast<long>(value)), "r"(r10)
                   : "rcx", "r11", "memory");
  return result;
}

}  // namespace phantora::channel
