#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

/// What ranks print, line by line.
namespace phantora::run {

/// Stands between the ranks' standard output and error and ours.
///
/// Each process writes into a pipe of its own, or a terminal of its own where ours is a terminal,
/// so that it buffers as it would without us. A thread passes on whole lines: a carriage return
/// ends one too. A line that waits for its end is shown on a terminal after a moment, and elsewhere
/// once it has ended. Each process's order is kept, also between its output and its error where
/// both of ours are the same file.
class Output {
 public:
  /// @param label  whether each line begins with the name of who printed it.
  explicit Output(bool label);
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// What a process gets as its standard output and error. To be closed here once it has them.
  struct Ends {
    int out = -1, err = -1;
    void close() const;
  };
  /// For a process that is about to be started. Not after start(). @throws Error
  Ends add(const std::string& name);
  /// Passes on from now on. What a thread has locked a fork would copy: start processes before.
  void start();

  /// A line of Phantora's own on the standard error, after what the ranks wrote until now.
  void say(const std::string& text);
  /// The line below all others on a terminal that shows the standard error; nothing elsewhere.
  void show_status(const std::string& text);
  [[nodiscard]] bool has_status() const noexcept { return err_.terminal; }
  /// How long nobody has read what is to be written.
  [[nodiscard]] std::chrono::milliseconds blocked() const;
  /// Passes on what is left of ended processes and stops. What a process that lives on may still
  /// write is not waited for.
  void finish();

 private:
  struct Source;
  struct Destination {
    int descriptor = -1;
    bool terminal = false;
    bool gone = false;                ///< nobody will ever read it
    const Source* unended = nullptr;  ///< whose line is shown in part
  };
  struct Source {
    int descriptor = -1;
    Destination* to = nullptr;
    std::string name{};
    std::string pending{};  ///< read and not yet passed on
    bool at_line_start = true;
    std::chrono::steady_clock::time_point since{};  ///< when pending was last added to
  };

  int open_pipe(Destination& to, const std::string& name);
  void pass_on_until_stopped();
  bool read_from(Source& source);
  void catch_up();
  void pass_on(Source& source, std::size_t length);
  void show_unended(Source& source);
  void put(Destination& to, std::string_view text);
  void draw_status();

  bool label_ = false;
  Destination out_{}, err_{};
  bool same_ = false;  ///< both are the same file
  std::deque<Source> sources_{};
  std::timed_mutex mutex_{};
  std::thread thread_{};
  int wake_ = -1;
  std::atomic<bool> stop_{false};
  std::atomic<std::int64_t> writing_since_{0};  ///< steady clock's ns; 0: not writing
  std::string status_{};
  bool status_shown_ = false;
};

}  // namespace phantora::run
