#include <phantora/error.hpp>
#include <phantora/simulation/simulation.hpp>
#include <phantora/simulation/traces.hpp>

#include <cstdio>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace phantora {
namespace {

using namespace std::chrono_literals;

TraceWorkload read(const std::string& text) {
  std::istringstream in{text};
  return read_kineto(in, "p.json");
}
Report run(const Workload& workload) { return Simulation{parse_cluster("h200:1x8")}.run(workload); }
double milliseconds(Duration time) { return 1e3 * to_seconds(time); }

std::string event(const std::string& kind, const std::string& name, double start, double length,
                  const std::string& arguments, int thread = 1) {
  std::ostringstream text;
  text.precision(12);
  text << R"({"ph": "X", "cat": ")" << kind << R"(", "name": ")" << name << R"(", "tid": )"
       << thread << ", \"ts\": " << start << ", \"dur\": " << length << R"(, "args": {)"
       << arguments << "}}";
  return text.str();
}
std::string profile(const std::vector<std::string>& events, const std::string& about = {}) {
  std::string text = "{" + about + "\"traceEvents\": [";
  for (const std::string& it : events) text += (&it == events.data() ? "\n" : ",\n") + it;
  return text + "\n]}";
}
std::string call(const std::string& name, double start, double length, int correlation,
                 int thread = 1) {
  return event("cuda_runtime", name, start, length,
               "\"correlation\": " + std::to_string(correlation), thread);
}
std::string kernel(double start, double length, int correlation, int stream = 7,
                   const std::string& more = {}) {
  return event("kernel", "k", start, length,
               "\"correlation\": " + std::to_string(correlation) +
                   ", \"stream\": " + std::to_string(stream) + more);
}

TEST(Kineto, TheProfileOfGpt2ReplaysToItself) {
  // Two steps on an H200 (../shared/h200/gpt2_b8_kernel_trace.json.gz), without what is not read.
  const std::unique_ptr<FILE, int (*)(FILE*)> file{
      popen("gzip -dc " PHANTORA_TEST_DATA "/gpt2_b8_profile.json.gz", "r"), pclose};
  ASSERT_TRUE(file);
  std::string text;
  char block[65536];
  for (std::size_t got = 0; (got = fread(block, 1, sizeof block, file.get())) > 0;)
    text.append(block, got);
  const TraceWorkload trace = read(text);
  const Report report = run(trace.workload);
  EXPECT_NEAR(milliseconds(trace.recorded[0]), 131.495, 0.001);
  EXPECT_NEAR(milliseconds(report.makespan) / milliseconds(trace.recorded[0]), 1, 0.005);
  // All of the kernels' time, and none twice.
  EXPECT_NEAR(milliseconds(report.computing()), 110.772, 0.002);
  EXPECT_EQ(trace.workload.rank_count(), 1U);
}

TEST(Kineto, KernelsFollowTheirCalls) {
  // The second is launched while the first runs, the third long after it.
  const TraceWorkload trace =
      read(profile({call("cudaLaunchKernel", 0, 5, 1), call("cudaLaunchKernel", 8, 4, 2),
                    call("cudaLaunchKernel", 900, 5, 3), kernel(10, 100, 1), kernel(111, 50, 2),
                    kernel(907, 20, 3)}));
  EXPECT_TRUE(trace.notes.empty());
  EXPECT_EQ(trace.recorded[0], 927us);
  // 5 us of the first call, 1.5 to the first kernel, ...; the third starts 1.5 after its launch.
  EXPECT_EQ(run(trace.workload).makespan, 905us + 1500ns + 20us);
}

TEST(Kineto, HostsWaitWhereTheyDid) {
  // A synchronisation that ends 7 us after the kernel; then 100 us of the host's work.
  const std::vector<std::string> events{
      call("cudaLaunchKernel", 0, 5, 1), call("cudaDeviceSynchronize", 20, 493.5, 2),
      call("cudaLaunchKernel", 613.5, 5, 3), kernel(6.5, 500, 1), kernel(620, 10, 3)};
  EXPECT_EQ(run(read(profile(events)).workload).makespan, 630us);
  // A blocking copy is launched and waited for.
  const TraceWorkload copy = read(
      profile({call("cudaMemcpyAsync", 0, 120, 1), call("cudaLaunchKernel", 200, 5, 2),
               event("gpu_memcpy", "Memcpy DtoH", 11.5, 100, R"("correlation": 1, "stream": 7)"),
               kernel(206.5, 10, 2)}));
  EXPECT_EQ(run(copy.workload).makespan, 216500ns);
}

TEST(Kineto, StreamsWaitForEvents) {
  // Stream 20 waits for the kernel of stream 7, although it was launched when that had but begun.
  const std::vector<std::string> events{call("cudaLaunchKernel", 0, 5, 1),
                                        call("cudaEventRecord", 6, 1, 2),
                                        call("cudaStreamWaitEvent", 8, 1, 3),
                                        call("cudaLaunchKernel", 10, 5, 4),
                                        kernel(6.5, 500, 1),
                                        kernel(507.5, 100, 4, 20)};
  // 1 us and a half from the event to the kernel, as after a launch.
  std::vector<std::string> told = events;
  told.push_back(event("cuda_sync", "Stream Wait Event", 8, 0,
                       R"("cuda_sync_kind": "Stream Wait Event", "correlation": 3, "stream": 20,
                          "wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 2)"));
  const TraceWorkload known = read(profile(told)), guessed = read(profile(events));
  EXPECT_TRUE(known.notes.empty());
  ASSERT_EQ(guessed.notes.size(), 1U);
  EXPECT_EQ(guessed.notes[0],
            "p.json: 1 waits of streams without their events, guessed from what followed on what");
  EXPECT_EQ(known.workload, guessed.workload);
  EXPECT_NEAR(milliseconds(run(known.workload).makespan), 0.6075, 0.002);
}

TEST(Kineto, ConcurrentKernelsKeepTheirTimes) {
  const TraceWorkload trace =
      read(profile({call("cudaLaunchKernel", 0, 5, 1), call("cudaLaunchKernel", 5, 5, 2),
                    kernel(6.5, 500, 1), kernel(11.5, 500, 2, 20)}));
  EXPECT_EQ(run(trace.workload).makespan, 511500ns);
}

std::string nccl(const std::string& what, const std::string& ranks) {
  return R"(, "Collective name": ")" + what +
         R"(", "dtype": "BFloat16", "In msg nelems": 1048576, "Out msg nelems": 2097152,
         "Process Group Ranks": ")" +
         ranks + "\"";
}

TEST(Kineto, CollectivesOfAllRanksAreCollectivesAgain) {
  const auto rank = [](int number, const std::string& ranks) {
    std::ofstream{::testing::TempDir() + "kineto_" + std::to_string(number) + ".json"} << profile(
        {call("cudaLaunchKernel", 0, 5, 1), kernel(7, 90, 1, 20, nccl("_allgather_base", ranks))},
        R"("distributedInfo": {"rank": )" + std::to_string(4 + number) + "}, ");
  };
  const std::string folder = ::testing::TempDir();
  const std::vector<std::string> paths{folder + "kineto_1.json", folder + "kineto_0.json"};
  rank(0, "[4, 5]");
  rank(1, "[4, 5]");
  const TraceWorkload both = read_kineto(paths);
  EXPECT_TRUE(both.notes.empty());
  ASSERT_EQ(both.workload.calls().size(), 1U);
  EXPECT_EQ(both.workload.describe(0, 1), "all_gather of 4194304 bytes by ranks 0, 1");
  EXPECT_GT(run(both.workload).makespan, 5us);
  // Another rank of the group has no profile here.
  rank(0, "[4, 5, 6]");
  rank(1, "[4, 5, 6]");
  const TraceWorkload some = read_kineto(paths);
  EXPECT_EQ(some.notes.size(), 2U);
  EXPECT_EQ(run(some.workload).makespan, 5us + 1500ns + 90us);
}

TEST(Kineto, StepsAreThoseOfTheProfiler) {
  const TraceWorkload trace = read(profile(
      {call("cudaLaunchKernel", 0, 5, 1), call("cudaLaunchKernel", 200, 5, 2), kernel(6.5, 100, 1),
       kernel(206.5, 100, 2), event("user_annotation", "ProfilerStep#3", 0, 150, ""),
       event("user_annotation", "ProfilerStep#4", 150, 100, "")}));
  const Report report = run(trace.workload);
  ASSERT_EQ(report.steps.size(), 2U);
  // From the host at 150 us, whose stream was idle, to the end of the second kernel.
  EXPECT_EQ(report.step(), 156500ns);
}

std::string error_of(const std::string& text) {
  try {
    (void)read(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Kineto, ErrorsNameEventAndField) {
  EXPECT_NE(error_of("{").find("p.json: expected a profile of PyTorch as JSON: "),
            std::string::npos);
  EXPECT_EQ(error_of("{}"), "p.json: traceEvents: expected a list of events");
  EXPECT_EQ(error_of("3"), "p.json: traceEvents: expected a list of events");
  EXPECT_EQ(error_of(profile({})),
            "p.json: traceEvents: expected kernels, copies or fills of a GPU, found none");
  EXPECT_EQ(error_of(profile({kernel(1, 1, 1), kernel(1, -1, 1)})),
            "p.json: event 1 (k): dur: expected a time in microseconds of at most 4e12 from the "
            "first event");
  EXPECT_EQ(error_of(profile({kernel(1, 1, 1, -1)})),
            "p.json: event 0 (k): args: stream: expected a number of 32 bits");
  EXPECT_EQ(error_of(profile(
                {kernel(1, 1, 1, 0, R"(, "Collective name": "x", "In msg nelems": 1e300)")})),
            "p.json: event 0 (k): args: In msg nelems: expected a whole number of at most 9e15");
  EXPECT_THROW((void)read_kineto(std::vector<std::string>{"no such file"}), ConfigError);
  EXPECT_THROW((void)read_kineto(std::vector<std::string>{}), ConfigError);
}

TEST(Kineto, ReadsAnyTextOrRefusesIt) {
  const std::string text =
      profile({call("cudaLaunchKernel", 0, 5, 1), call("cudaEventRecord", 6, 1, 2),
               call("cudaStreamWaitEvent", 8, 1, 3), call("cudaLaunchKernel", 10, 5, 4),
               call("cudaStreamSynchronize", 20, 600, 5), call("cudaMemcpyAsync", 700, 90, 6),
               kernel(6.5, 500, 1), kernel(507.5, 100, 4, 20, nccl("allreduce", "[0, 1]")),
               event("gpu_memcpy", "c", 710, 50, R"("correlation": 6, "stream": 7)"),
               event("cuda_sync", "s", 8, 0,
                     R"("cuda_sync_kind": "Stream Wait Event", "correlation": 3, "stream": 20,
                        "wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 2)"),
               event("user_annotation", "ProfilerStep#4", 150, 100, "")},
              R"("distributedInfo": {"rank": 1}, )");
  std::mt19937_64 random{1};
  const std::string letters = "0123456789-,[]{}\":. eE\nx\xff";
  int read_again = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string changed = text;
    for (std::uint64_t n = random() % 3 + 1; n > 0; --n) {
      const std::size_t at = random() % changed.size();
      switch (random() % 3) {
        case 0:
          changed[at] = letters[random() % letters.size()];
          break;
        case 1:
          changed.erase(at, random() % 4 + 1);
          break;
        default:
          changed.insert(at, 1, letters[random() % letters.size()]);
      }
    }
    try {
      // What was read can be run: nothing waits for what never comes.
      const Workload workload = read(changed).workload;
      if (i % 20 == 0) (void)run(workload);
      ++read_again;
    } catch (const ConfigError&) {
    }
  }
  EXPECT_GT(read_again, 2'000);
}

}  // namespace
}  // namespace phantora
