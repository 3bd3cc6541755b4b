#include "run/doing.hpp"

#include <gtest/gtest.h>

namespace phantora::run {
namespace {

using namespace std::chrono_literals;
using channel::Op;
using channel::ThreadState;
using channel::Wait;

TEST(Doing, ACallThatHasNotReturned) {
  SeenThread thread{.call = SeenThread::Call{.in = Op::synchronize, .since = Time{2s}}};
  EXPECT_EQ(in_words(thread), "waits for its GPU (a synchronisation or a copy) since 2.000000 s");
  thread.call->answered = true;
  EXPECT_EQ(in_words(thread), "may go on, and waits for its turn to run");
  thread.call->data_outstanding = true;
  EXPECT_EQ(in_words(thread), "waits for the data of a small collective");
}

TEST(Doing, WhatTheKernelShows) {
  EXPECT_EQ(in_words(SeenThread{.kernel = 'T'}), "was stopped by a signal or a debugger");
  EXPECT_EQ(
      in_words(SeenThread{.kernel = 'R', .state = ThreadState::running, .cpu_ns = 7'400'000'000}),
      "runs host code, 7 s on a core since its last call");
  EXPECT_EQ(
      in_words(SeenThread{.kernel = 'S', .state = ThreadState::running, .where = "pipe_read"}),
      "sleeps in host code (in pipe_read)");
  EXPECT_EQ(in_words(SeenThread{.kernel = 'D', .state = ThreadState::running}), "waits for a disk");
  EXPECT_EQ(
      in_words(SeenThread{
          .kernel = 'S', .state = ThreadState::waiting, .wait = Wait::lock, .where = "futex"}),
      "waits for a lock (in futex)");
  EXPECT_EQ(
      in_words(SeenThread{.kernel = 'S', .state = ThreadState::sleeping, .clock = Time{1500ms}}),
      "sleeps until 1.500000 s");
}

TEST(Doing, AProcessByItsThreads) {
  EXPECT_EQ(in_words(SeenProcess{.ended = true}), "has ended");
  EXPECT_EQ(in_words(SeenProcess{}), "waits for its turn to run");
  EXPECT_EQ(in_words(SeenProcess{.runs = true}), "runs host code, without a GPU so far");
  const SeenThread sleeps{.kernel = 'D', .state = ThreadState::running};
  SeenProcess process{.runs = true, .threads = {sleeps, sleeps}};
  process.threads[0].main = true;
  process.threads[1].background = true;
  EXPECT_EQ(in_words(process), "waits for a disk; a background thread waits for a disk");
  process.threads.insert(process.threads.end(), 4, sleeps);
  EXPECT_EQ(in_words(process),
            "waits for a disk; a background thread waits for a disk; another thread waits for a "
            "disk; another thread waits for a disk; and 2 more threads");
}

TEST(Doing, WhatHoldsAProcessUpComesBeforeSleepers) {
  const SeenThread sleeps{.kernel = 'S', .state = ThreadState::sleeping, .clock = Time{1500ms}};
  const SeenThread main{
      .main = true, .kernel = 'S', .state = ThreadState::sleeping, .clock = Time{2s}};
  const SeenThread waits{.kernel = 'S', .state = ThreadState::waiting, .wait = Wait::lock};
  const SeenThread calls{.call =
                             SeenThread::Call{.in = channel::Op::synchronize, .since = Time{1s}}};
  EXPECT_EQ(
      in_words(SeenProcess{.runs = true,
                           .threads = {sleeps, sleeps, sleeps, sleeps, main, waits, calls}}),
      "sleeps until 2.000000 s; another thread waits for its GPU (a synchronisation or a copy) "
      "since 1.000000 s; another thread waits for a lock; another thread sleeps until 1.500000 "
      "s; and 3 more threads");
}

}  // namespace
}  // namespace phantora::run
