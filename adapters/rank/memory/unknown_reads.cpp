#include "rank/memory/unknown_reads.hpp"

#include "rank/kernels/kernel_name.hpp"
#include "rank/runtime/process.hpp"
#include "rank/small_data.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include <dlfcn.h>
#include <execinfo.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace phantora::rank {

namespace {

channel::Unknown filler() {
  const channel::Settings* const told = settings();
  return told != nullptr ? told->unknown : channel::Unknown::zero;
}

/// A standard normal number for an address: two rounds of splitmix64 (Vigna, public domain
/// algorithm) make the uniform ones that Box and Muller's method needs.
double normal_at(std::uint64_t address) {
  const auto uniform = [](std::uint64_t x) {
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
    x ^= x >> 31U;
    return (static_cast<double>(x >> 11U) + 0.5) * 0x1p-53;  // never 0
  };
  return std::sqrt(-2 * std::log(uniform(2 * address))) *
         std::cos(2 * M_PI * uniform(2 * address + 1));
}

// --- Telling

// Of the environment, which says it once the process has one of its own.
bool tells() {
  static const bool answer = [] {
    const char* rank = std::getenv("RANK");
    return rank == nullptr || std::strcmp(rank, "0") == 0;
  }();
  return answer;
}

struct Read {
  std::size_t bytes = 0;
  Writer writer{};
  std::optional<Assumption> assumed{};  ///< no read, but this by a kernel
};

/// "reduce_kernel" of a long signature.
std::string short_name(const char* name) {
  const std::string_view kernel = unqualified(template_name(signature(name).kernel.name).name);
  return std::string{kernel.empty() ? std::string_view{name} : kernel};
}

/// Says it, once per place.
void tell(const std::string& place, const Read& read) {
  const ToldPlaces::Tell answer = small_data().told_places.tell(place);
  if (answer == ToldPlaces::Tell::no) return;
  std::string text = "phantora: " + place;
  if (read.assumed == Assumption::test) {
    text += " tests values that are not computed; the outcome is assumed";
  } else if (read.assumed == Assumption::selection) {
    text += " selects by values that are not computed; how many pass is assumed";
  } else {
    text += " reads " + std::to_string(read.bytes) + " bytes that are not computed";
    if (read.writer.name != nullptr) {
      text += " (last written by " + short_name(read.writer.name);
      text += read.writer.unread ? ", a kernel that is not executed)" : ")";
    }
    text +=
        filler() == channel::Unknown::zero ? "; it sees zeros" : "; it sees what --unknown says";
  }
  if (answer == ToldPlaces::Tell::last) text += ". Further places are only counted (unknown_reads)";
  std::fprintf(stderr, "%s\n", text.c_str());
}

/// The functions of Python's stable C interface that are needed, found in the running program: it
/// may have no Python, or any version of it.
struct Python {
  int (*is_initialized)() = nullptr;
  int (*add_pending_call)(int (*)(void*), void*) = nullptr;
  void* (*frame)() = nullptr;
  void* (*frame_back)(void*) = nullptr;
  void* (*frame_code)(void*) = nullptr;
  int (*frame_line)(void*) = nullptr;
  void* (*attribute)(void*, const char*) = nullptr;
  const char* (*text)(void*) = nullptr;
  long (*integer)(void*) = nullptr;
  void (*release)(void*) = nullptr;
  void (*clear_error)() = nullptr;
  bool complete = false;

  Python() {
    const auto find = [](auto& function, const char* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(RTLD_DEFAULT, name));
      return function != nullptr;
    };
    complete = find(is_initialized, "Py_IsInitialized") &&
               find(add_pending_call, "Py_AddPendingCall") && find(frame, "PyEval_GetFrame") &&
               find(frame_back, "PyFrame_GetBack") && find(frame_code, "PyFrame_GetCode") &&
               find(frame_line, "PyFrame_GetLineNumber") &&
               find(attribute, "PyObject_GetAttrString") && find(text, "PyUnicode_AsUTF8") &&
               find(integer, "PyLong_AsLong") && find(release, "Py_DecRef") &&
               find(clear_error, "PyErr_Clear");
  }
};

const Python& python() {
  static const Python instance;
  return instance;
}

struct Position {
  std::string file;
  int line = 0;
  bool entered = false;  ///< the function has only just begun

  [[nodiscard]] bool in_library() const {
    return file.find("/site-packages/") != std::string::npos ||
           file.find("/dist-packages/") != std::string::npos || file.starts_with("<");
  }
  /// Of a library "torch/nn/utils/clip_grad.py:120", else the file's name and the line.
  [[nodiscard]] std::string text() const {
    const std::size_t library = file.find("-packages/");
    const std::size_t cut = library != std::string::npos ? library + 10 : file.rfind('/') + 1;
    return file.substr(cut) + ":" + std::to_string(line);
  }
};

Position position(const Python& py, void* frame) {
  Position found;
  found.line = py.frame_line(frame);
  if (void* const code = py.frame_code(frame)) {
    if (void* const name = py.attribute(code, "co_filename")) {
      if (const char* const file = py.text(name)) found.file = file;
      py.release(name);
    }
    if (void* const first = py.attribute(code, "co_firstlineno")) {
      found.entered = py.integer(first) == found.line;
      py.release(first);
    }
    py.release(code);
  }
  py.clear_error();
  return found;
}

/// The innermost Python line; if that is a library's, also the program's own that led there.
/// Needs the interpreter's lock.
std::string python_place(const Python& py) {
  void* frame = py.frame();  // borrowed
  bool owned = false;
  const auto outwards = [&] {
    void* const back = py.frame_back(frame);
    if (owned) py.release(frame);
    frame = back;
    owned = true;
  };
  std::string place;
  bool innermost = true;
  for (; frame != nullptr; outwards()) {
    const Position here = position(py, frame);
    // The interpreter looks for pending calls when a function begins: a read by an "if" before that
    // call is its caller's.
    if (innermost && here.entered) continue;
    if (innermost) place = here.text();
    if (!innermost && !here.in_library()) {
      place += ", called from " + here.text() + ",";
      break;
    }
    if (innermost && !here.in_library()) break;
    innermost = false;
  }
  if (frame != nullptr && owned) py.release(frame);
  return place;
}

/// Called by the interpreter on its main thread, as soon as the call that read has returned.
int tell_with_python_place(void* argument) {
  const std::unique_ptr<Read> read{static_cast<Read*>(argument)};
  const std::string place = python_place(python());
  if (!place.empty()) tell(place, *read);
  small_data().told_places.end();
  return 0;
}

/// The innermost return address outside of the libraries between the program and the GPU.
std::string native_place() {
  constexpr std::string_view passed_over[] = {"libphantora", "libcuda",  "libcublas", "libcudnn",
                                              "libnccl",     "libtorch", "libc10",    "libstdc++",
                                              "libc.so",     "libnvrtc"};
  void* addresses[48];
  const int depth = backtrace(addresses, 48);
  for (int i = 1; i < depth; ++i) {
    Dl_info found{};
    if (dladdr(addresses[i], &found) == 0 || found.dli_fname == nullptr) continue;
    std::string_view file = found.dli_fname;
    file = file.substr(file.rfind('/') + 1);
    if (std::any_of(std::begin(passed_over), std::end(passed_over),
                    [&](auto part) { return file.starts_with(part); })) {
      continue;
    }
    char offset[32];
    std::snprintf(offset, sizeof offset, "+0x%zx",
                  static_cast<std::size_t>(static_cast<char*>(addresses[i]) -
                                           static_cast<char*>(found.dli_fbase)));
    return std::string{file} + offset;
  }
  return {};
}

/// Says it with the place of the program that is being executed.
void tell_place(const Read& read) {
  const Python& py = python();
  if (py.complete && py.is_initialized() != 0) {
    // This thread may not hold the interpreter's lock, and must not wait for it. Pending calls are
    // made on the main thread, whose place is the reader's if it is that which reads or waits.
    ToldPlaces& places = small_data().told_places;
    if (syscall(SYS_gettid) != getpid() || !places.begin()) return;
    auto owned = std::make_unique<Read>(read);
    if (py.add_pending_call(tell_with_python_place, owned.get()) == 0) {
      owned.release();
    } else {
      places.end();
    }
    return;
  }
  if (read.writer.unread) {
    warn_once("unread kernel's output", "a copy to the host reads what kernel " +
                                            short_name(read.writer.name) +
                                            " wrote; user kernels are not executed, the host sees "
                                            "zeros (said once; unknown_reads counts them)");
    return;
  }
  const std::string place = native_place();
  if (!place.empty()) tell(place, read);
}

}  // namespace

bool ToldPlaces::look() noexcept {
  if (looked_for_.load(std::memory_order_relaxed) >= most_looked_for) return false;
  looked_for_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

ToldPlaces::Tell ToldPlaces::tell(const std::string& place) {
  const std::lock_guard lock{mutex_};
  if (told_.size() >= most || !told_.insert(place).second) return Tell::no;
  return told_.size() == most ? Tell::last : Tell::yes;
}

bool fills_unknown() { return filler() != channel::Unknown::zero; }

void fill_unknown(std::byte* destination, const void* device_source,
                  std::span<const std::uint8_t> mask) {
  const auto first =
      static_cast<std::size_t>(std::find(mask.begin(), mask.end(), 0) - mask.begin());
  if (first == mask.size() || !fills_unknown()) return;
  const auto address = reinterpret_cast<std::uint64_t>(device_source);
  const auto type =
      small_data().writers.last(static_cast<const std::byte*>(device_source) + first).type;
  const bool ones = filler() == channel::Unknown::one;
  if (!type || (!ones && !is_floating(*type))) return;
  const std::size_t size = size_of(*type);
  // Elements lie at multiples of their size.
  for (std::size_t at = (size - address % size) % size; at + size <= mask.size(); at += size) {
    if (std::find(mask.begin() + static_cast<std::ptrdiff_t>(at),
                  mask.begin() + static_cast<std::ptrdiff_t>(at + size),
                  0) == mask.begin() + static_cast<std::ptrdiff_t>(at + size)) {
      continue;
    }
    store(*type, ones ? Value{1} : Value{normal_at(address + at)}, destination + at);
  }
}

void tell_unknown_read(const void* unknown, std::size_t bytes) {
  count("unknown_reads");
  if (!tells() || !small_data().told_places.look()) return;
  tell_place({.bytes = bytes, .writer = small_data().writers.last(unknown)});
}

void tell_assumed(Assumption assumption) {
  count(assumption == Assumption::test ? "assumed_tests" : "assumed_selections");
  if (!tells() || !small_data().told_places.look()) return;
  tell_place({.assumed = assumption});
}

void tell_skipped_calls(const char* kernel, std::span<const std::string> functions) {
  struct Skipped {
    const char* function;
    const char* what;
  };
  // As the externals of machine code are named, and calls in PTX (nvcc 13.0, sm_90).
  constexpr Skipped all[] = {
      {"__assertfail", " checks assertions; it is not executed, so that none of them fails"},
      {"vprintf", " prints; it is not executed, so that nothing is printed"},
      {"__cuda_syscall_cnpv2LaunchDeviceV2",
       " launches kernels; it is not executed, so that they take no time"},
      {"__cudaCDP2LaunchDeviceV2",
       " launches kernels; it is not executed, so that they take no time"},
  };
  if (!tells()) return;
  for (const auto& [function, what] : all) {
    if (std::ranges::find(functions, function) == functions.end()) continue;
    warn_once(function, "kernel " + short_name(kernel) + what + " (said once)");
  }
}

void tell_host_write(const Writer& writer) {
  count("uncomputed_host_writes");
  if (!tells()) return;
  warn_once(
      "host memory stays",
      std::string{writer.name ? short_name(writer.name) : "work of the device"} +
          " may write page-locked or managed memory; it is not executed, and the memory stays "
          "as it is (said once; uncomputed_host_writes counts them)");
}

}  // namespace phantora::rank
