// The program's NVTX ranges and marks. NVTX is in headers: each library that uses it has tables of
// function pointers of its own, loads the library named by NVTX_INJECTION64_PATH at its first call,
// and lets InitializeInjectionNvtx2 fill them in. The layouts below are those of NVTX 3, which it
// promises to keep; the headers themselves are not needed to build.

#include "rank/runtime/host_thread.hpp"
#include "rank/runtime/process.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rank = phantora::rank;

namespace {

using phantora::Time;

// --- What NVTX defines ---

constexpr std::uint32_t callbacks_table = 1;  // NVTX_ETID_CALLBACKS
enum Module : int { core = 1, core2 = 5 };    // NVTX_CB_MODULE_CORE, NVTX_CB_MODULE_CORE2

using Function = void (*)();
struct Callbacks {  // NvtxExportTableCallbacks
  std::size_t struct_size;
  int (*module_table)(Module module, Function*** table, unsigned* size);
};
using GetExportTable = const void* (*)(std::uint32_t id);

struct EventAttributes {  // nvtxEventAttributes_v2
  std::uint16_t version, size;
  std::uint32_t category;
  std::int32_t color_type;
  std::uint32_t color;
  std::int32_t payload_type, reserved;
  std::uint64_t payload;
  std::int32_t message_type;
  const void* message;
};
enum MessageType : std::int32_t { ascii = 1, unicode = 2, registered = 3 };

// --- Names ---

/// As UTF-8.
std::string narrow(const wchar_t* text) {
  std::string out;
  for (; text != nullptr && *text != 0; ++text) {
    const auto code = static_cast<std::uint32_t>(*text);
    const auto tail = [&](unsigned shift) {
      out += static_cast<char>(0x80U | ((code >> shift) & 0x3fU));
    };
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else if (code < 0x800) {
      out += static_cast<char>(0xc0U | (code >> 6U));
      tail(0);
    } else if (code < 0x10000) {
      out += static_cast<char>(0xe0U | (code >> 12U));
      tail(6), tail(0);
    } else if (code < 0x110000) {
      out += static_cast<char>(0xf0U | (code >> 18U));
      tail(12), tail(6), tail(0);
    } else {
      out += '?';
    }
  }
  return out;
}

/// Strings that a program has registered: their handles are pointers to them.
const std::string* registered_name(std::string text) {
  static std::mutex mutex;
  static auto& names = *new std::set<std::string>;
  const std::lock_guard lock{mutex};
  return &*names.insert(std::move(text)).first;
}

std::string name_of(const EventAttributes* event) {
  if (event == nullptr || event->message == nullptr) return {};
  switch (event->message_type) {
    case ascii:
      return static_cast<const char*>(event->message);
    case unicode:
      return narrow(static_cast<const wchar_t*>(event->message));
    case registered:
      return *static_cast<const std::string*>(event->message);
    default:
      return {};
  }
}
std::string name_of(const char* message) { return message == nullptr ? "" : message; }
std::string name_of(const wchar_t* message) { return narrow(message); }

// --- Ranges ---

struct Open {
  const void* domain = nullptr;
  std::string name;
  Time start{};
  std::uint64_t number = 0;  ///< for the simulation; 0: of a mark
};

/// Of the calling thread, innermost last. Domains nest apart from each other.
std::vector<Open>& pushed() {
  thread_local std::vector<Open> ranges;
  return ranges;
}

/// Ranges that may end on another thread.
struct Started {
  std::mutex mutex;
  std::uint64_t last = 0;
  std::map<std::uint64_t, Open> ranges;
};
Started& started() {
  static auto& all = *new Started;
  return all;
}

Time now() { return rank::in_virtual_time() ? rank::virtual_now() : Time{}; }

Open begin(const void* domain, std::string name) {
  const Time start = now();
  return {domain, std::move(name), start, rank::in_virtual_time() ? rank::begin_range(start) : 0};
}
void note(const Open& range) {
  if (rank::in_virtual_time()) rank::note_range(range.number, range.name, range.start, now());
}

void mark(std::string name) { note({.name = std::move(name), .start = now()}); }

int push(const void* domain, std::string name) {
  pushed().push_back(begin(domain, std::move(name)));
  return static_cast<int>(pushed().size()) - 1;
}

int pop(const void* domain) {
  std::vector<Open>& ranges = pushed();
  const auto found = std::find_if(ranges.rbegin(), ranges.rend(),
                                  [&](const Open& range) { return range.domain == domain; });
  if (found == ranges.rend()) return -2;  // NVTX_NO_PUSH_POP_TRACKING
  note(*found);
  ranges.erase(std::next(found).base());
  return static_cast<int>(ranges.size());
}

std::uint64_t start(std::string name) {
  const std::lock_guard lock{started().mutex};
  started().ranges.emplace(++started().last, begin(nullptr, std::move(name)));
  return started().last;
}

void end(std::uint64_t id) {
  const std::lock_guard lock{started().mutex};
  const auto found = started().ranges.find(id);
  if (found == started().ranges.end()) return;
  note(found->second);
  started().ranges.erase(found);
}

// --- Entry points, as NVTX calls them ---

template <class Message>
void mark_in_default(const Message* message) {
  mark(name_of(message));
}
template <class Message>
std::uint64_t start_in_default(const Message* message) {
  return start(name_of(message));
}
template <class Message>
int push_in_default(const Message* message) {
  return push(nullptr, name_of(message));
}
int pop_in_default() { return pop(nullptr); }
void mark_in(const void* /*domain*/, const EventAttributes* event) { mark(name_of(event)); }
std::uint64_t start_in(const void* /*domain*/, const EventAttributes* event) {
  return start(name_of(event));
}
void end_in(const void* /*domain*/, std::uint64_t id) { end(id); }
int push_in(const void* domain, const EventAttributes* event) {
  return push(domain, name_of(event));
}
const void* register_ascii(const void* /*domain*/, const char* text) {
  return registered_name(name_of(text));
}
const void* register_unicode(const void* /*domain*/, const wchar_t* text) {
  return registered_name(narrow(text));
}

template <class F>
std::pair<unsigned, Function> entry(unsigned id, F* function) {
  return {id, reinterpret_cast<Function>(function)};
}

void fill(const Callbacks& callbacks, Module module,
          const std::vector<std::pair<unsigned, Function>>& entries) {
  Function** table = nullptr;
  unsigned size = 0;
  if (callbacks.module_table(module, &table, &size) == 0) return;
  for (const auto& [id, function] : entries) {
    if (id < size && table[id] != nullptr) *table[id] = function;
  }
}

}  // namespace

/// @return 1 for success.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    GetExportTable get_export_table) {
  const auto* callbacks = static_cast<const Callbacks*>(get_export_table(callbacks_table));
  if (callbacks == nullptr || callbacks->struct_size < sizeof *callbacks) return 0;
  // By NvtxCallbackIdCore and NvtxCallbackIdCore2.
  fill(*callbacks, core,
       {entry(1, mark_in_default<EventAttributes>), entry(2, mark_in_default<char>),
        entry(3, mark_in_default<wchar_t>), entry(4, start_in_default<EventAttributes>),
        entry(5, start_in_default<char>), entry(6, start_in_default<wchar_t>), entry(7, end),
        entry(8, push_in_default<EventAttributes>), entry(9, push_in_default<char>),
        entry(10, push_in_default<wchar_t>), entry(11, pop_in_default)});
  fill(*callbacks, core2,
       {entry(1, mark_in), entry(2, start_in), entry(3, end_in), entry(4, push_in), entry(5, pop),
        entry(10, register_ascii), entry(11, register_unicode)});
  return 1;
}
