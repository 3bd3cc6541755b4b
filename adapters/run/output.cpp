#include "run/output.hpp"

#include <phantora/error.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

namespace phantora::run {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// A line that has not ended after this is shown on a terminal: a question, a bar.
constexpr milliseconds patience{150};
/// A line longer than this is passed on in parts.
constexpr std::size_t longest_line = std::size_t{1} << 20U;

bool same_file(int a, int b) {
  struct stat x {
  }, y{};
  return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino &&
         x.st_rdev == y.st_rdev;
}

/// The length of what has ended. A carriage return at the very end may be half of a line's end.
std::size_t ended(std::string_view text) {
  const std::size_t line = text.rfind('\n');
  std::size_t bar = text.empty() ? text.npos : text.substr(0, text.size() - 1).rfind('\r');
  if (bar != text.npos && text[bar + 1] == '\n') bar = text.npos;  // then that is the last one
  const std::size_t last = line == text.npos ? bar : bar == text.npos ? line : std::max(line, bar);
  return last == text.npos ? 0 : last + 1;
}

std::int64_t now_ns() { return steady_clock::now().time_since_epoch().count(); }

}  // namespace

void Output::Ends::close() const {
  ::close(out);
  if (err != out) ::close(err);
}

Output::Output(bool label)
    : label_{label},
      out_{.descriptor = STDOUT_FILENO, .terminal = isatty(STDOUT_FILENO) != 0},
      err_{.descriptor = STDERR_FILENO, .terminal = isatty(STDERR_FILENO) != 0},
      same_{same_file(STDOUT_FILENO, STDERR_FILENO)},
      wake_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)} {}

Output::~Output() {
  finish();
  ::close(wake_);
}

int Output::open_pipe(Destination& to, const std::string& name) {
  std::array<int, 2> ends{-1, -1};
  bool made = false;
  if (to.terminal) {
    winsize size{};
    ioctl(to.descriptor, TIOCGWINSZ, &size);
    termios raw{};
    if (tcgetattr(to.descriptor, &raw) == 0) cfmakeraw(&raw);
    made = openpty(ends.data(), &ends[1], nullptr, &raw, &size) == 0;
    for (const int end : ends) fcntl(end, F_SETFD, FD_CLOEXEC);
  } else {
    made = pipe2(ends.data(), O_CLOEXEC) == 0;
  }
  if (!made)
    throw Error{std::string{"cannot make a pipe for a rank's output: "} + std::strerror(errno)};
  fcntl(ends[0], F_SETFL, fcntl(ends[0], F_GETFL) | O_NONBLOCK);
  sources_.push_back({.descriptor = ends[0], .to = &to, .name = name});
  return ends[1];
}

Output::Ends Output::add(const std::string& name) {
  Ends ends;
  ends.out = open_pipe(out_, name);
  ends.err = same_ ? ends.out : open_pipe(err_, name);
  return ends;
}

void Output::start() {
  thread_ = std::thread{[this] { pass_on_until_stopped(); }};
}

void Output::pass_on_until_stopped() {
  std::vector<pollfd> polled;
  while (!stop_.load()) {
    polled.assign(1, {.fd = wake_, .events = POLLIN, .revents = 0});
    bool unended = false;
    {
      const std::lock_guard lock{mutex_};
      for (const Source& source : sources_) {
        if (source.descriptor < 0) continue;
        polled.push_back({.fd = source.descriptor, .events = POLLIN, .revents = 0});
        unended = unended || (!source.pending.empty() && source.to->terminal);
      }
    }
    poll(polled.data(), polled.size(), unended ? static_cast<int>(patience.count()) : -1);
    const std::lock_guard lock{mutex_};
    std::size_t next = 1;
    for (Source& source : sources_) {
      if (source.descriptor < 0) continue;
      if (next < polled.size() && polled[next].fd == source.descriptor &&
          polled[next++].revents != 0) {
        read_from(source);
      }
      show_unended(source);
    }
    draw_status();
  }
}

/// One piece of what has come. False if nothing had.
bool Output::read_from(Source& source) {
  if (source.descriptor < 0) return false;
  std::array<char, 65536> buffer;
  const ssize_t got = read(source.descriptor, buffer.data(), buffer.size());
  if (got > 0) {
    source.pending.append(buffer.data(), static_cast<std::size_t>(got));
    source.since = steady_clock::now();
    std::size_t length = ended(source.pending);
    if (source.pending.size() - length > longest_line) length = source.pending.size();
    if (length > 0) pass_on(source, length);
    if (source.to->gone) {  // the next to write to it is told so
      ::close(source.descriptor);
      source.descriptor = -1;
    }
    return true;
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  // Its end: of a terminal that nobody else has open this is an error.
  if (!source.pending.empty()) pass_on(source, source.pending.size());
  ::close(source.descriptor);
  source.descriptor = -1;
  return false;
}

void Output::show_unended(Source& source) {
  if (source.pending.empty() || !source.to->terminal) return;
  if (steady_clock::now() - source.since < patience) return;
  pass_on(source, source.pending.size());
}

/// @param length  of what is passed on of what the source holds.
void Output::pass_on(Source& source, std::size_t length) {
  Destination& to = *source.to;
  std::string text;
  if (to.unended != nullptr && to.unended != &source) text += '\n';
  const std::string_view whole{source.pending.data(), length};
  if (!label_) {
    text.append(whole);
    source.at_line_start = whole.back() == '\n' || whole.back() == '\r';
  } else {
    for (const char c : whole) {
      const bool ends = c == '\n' || c == '\r';
      if (source.at_line_start && c != '\r') text += "[" + source.name + "] ";
      source.at_line_start = ends;
      text += c;
    }
  }
  to.unended = whole.back() == '\n' ? nullptr : &source;
  source.pending.erase(0, length);
  put(to, text);
}

void Output::put(Destination& to, std::string_view text) {
  if (to.terminal && status_shown_) {
    status_shown_ = false;
    put(err_, "\r\033[K");
  }
  writing_since_.store(now_ns());
  while (!text.empty() && !to.gone) {
    const ssize_t done = write(to.descriptor, text.data(), text.size());
    if (done > 0) {
      text.remove_prefix(static_cast<std::size_t>(done));
      writing_since_.store(now_ns());
    } else if (done < 0 && errno == EAGAIN) {  // somebody made our terminal non-blocking
      pollfd ready{.fd = to.descriptor, .events = POLLOUT, .revents = 0};
      poll(&ready, 1, -1);
    } else if (done < 0 && errno != EINTR) {
      to.gone = true;
    }
  }
  writing_since_.store(0);
}

/// Everything that was written until now, if that is possible within a moment.
void Output::catch_up() {
  for (Source& source : sources_) {
    // A rank that writes on and on is not waited for.
    for (int pieces = 0; pieces < 64 && read_from(source); ++pieces) {
    }
  }
}

void Output::say(const std::string& text) {
  const std::string line = "phantora: " + text + "\n";
  const std::unique_lock lock{mutex_, milliseconds{200}};
  if (!lock.owns_lock()) {  // our output is full; the error may be another file
    pollfd ready{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    if (poll(&ready, 1, 0) > 0) (void)!write(STDERR_FILENO, line.data(), line.size());
    return;
  }
  catch_up();
  if (err_.unended != nullptr || (same_ && out_.unended != nullptr)) put(err_, "\n");
  if (same_) out_.unended = nullptr;
  err_.unended = nullptr;
  put(err_, line);
}

void Output::show_status(const std::string& text) {
  if (!err_.terminal) return;
  const std::unique_lock lock{mutex_, std::try_to_lock};
  if (!lock.owns_lock()) return;
  if (status_shown_) {
    put(err_, "\r\033[K");
    status_shown_ = false;
  }
  status_ = text;
  draw_status();
}

void Output::draw_status() {
  if (status_.empty() || status_shown_ || out_.unended != nullptr || err_.unended != nullptr)
    return;
  winsize size{};
  const bool known = ioctl(err_.descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  put(err_, std::string_view{status_}.substr(0, known ? size.ws_col - 1U : 79U));
  status_shown_ = true;
}

milliseconds Output::blocked() const {
  const std::int64_t since = writing_since_.load();
  if (since == 0) return {};
  return std::chrono::duration_cast<milliseconds>(std::chrono::nanoseconds{now_ns() - since});
}

void Output::finish() {
  show_status({});
  if (thread_.joinable()) {
    stop_.store(true);
    eventfd_write(wake_, 1);
    thread_.join();
  }
  const std::lock_guard lock{mutex_};
  for (Source& source : sources_) {
    while (read_from(source)) {
    }
    if (source.descriptor < 0) continue;
    if (!source.pending.empty()) pass_on(source, source.pending.size());
    ::close(source.descriptor);
    source.descriptor = -1;
  }
}

}  // namespace phantora::run
