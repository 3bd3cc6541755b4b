#include <phantora/error.hpp>
#include <phantora/simulation/trace.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>
#include <utility>

namespace phantora {
namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned>(c));
      out += escape.data();
    } else {
      out += c;
    }
  }
  return out + '"';
}

/// Chrome traces count microseconds; the fraction keeps our picoseconds.
std::string microseconds(std::int64_t ps) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%lld.%06lld", static_cast<long long>(ps / 1'000'000),
                static_cast<long long>(ps % 1'000'000));
  return text.data();
}

constexpr std::array<std::string_view, 3> kinds = {"compute", "copy", "communication"};

std::string complete_event(std::string_view name, std::string_view kind, Time start, Time end) {
  return "\"name\":" + quoted(name) + ",\"cat\":\"" + std::string{kind} +
         "\",\"ph\":\"X\",\"ts\":" + microseconds(start.time_since_epoch().count()) +
         ",\"dur\":" + microseconds((end - start).count());
}

}  // namespace

TraceWriter::TraceWriter(const std::string& path, std::function<int(ProcessIndex)> rank_of,
                         std::vector<std::string> gpu_names)
    : path_{path}, file_{path}, rank_of_{std::move(rank_of)}, gpu_names_{std::move(gpu_names)} {
  if (!file_) throw Error{"cannot write the trace " + path};
}

void TraceWriter::on_span(const Span& span) {
  auto [found, added] = streams_.try_emplace(span.stream);
  Row& row = found->second;
  if (added) {
    row.rank = rank_of_(span.process);
    row.gpu = span.gpu;
  }
  std::string event =
      complete_event(span.name, kinds[static_cast<std::size_t>(span.kind)], span.start, span.end);
  if (span.kind != Span::Kind::communication) {
    event += ",\"args\":{\"cost\":" + quoted(to_string(span.source)) + '}';
  }
  row.events.push_back(std::move(event));
}

void TraceWriter::on_range(const NamedRange& range) {
  auto [found, added] = threads_.try_emplace({range.process, range.thread});
  if (added) found->second.rank = rank_of_(range.process);
  found->second.events.push_back(complete_event(range.name, "range", range.start, range.end));
}

void TraceWriter::close() {
  // Rows in order, so that equal runs write equal files whichever rank the engine heard first.
  std::vector<const Row*> rows;
  for (const auto& [stream, row] : streams_) rows.push_back(&row);
  for (const auto& [thread, row] : threads_) rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row* a, const Row* b) { return a->rank < b->rank; });
  file_ << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  const char* separator = "";
  int rank = -1, number = 0, streams = 0;
  for (const Row* row : rows) {
    number = row->rank == rank ? number + 1 : 0;
    if (number == 0) {
      rank = row->rank;
      streams = 0;
      file_ << separator << R"({"ph":"M","name":"process_name","pid":)" << rank
            << R"(,"args":{"name":"rank )" << rank;
      if (row->gpu) {
        file_ << " (GPU " << *row->gpu;
        if (*row->gpu < gpu_names_.size()) file_ << ", " << gpu_names_[*row->gpu];
        file_ << ')';
      }
      file_ << "\"}}";
      separator = ",\n";
    }
    streams += row->gpu ? 1 : 0;
    file_ << separator << R"({"ph":"M","name":"thread_name","pid":)" << rank
          << ",\"tid\":" << number << R"(,"args":{"name":")"
          << (row->gpu ? "stream " : "host thread ") << (row->gpu ? number : number - streams)
          << "\"}}";
    for (const std::string& event : row->events) {
      file_ << ",\n{" << event << ",\"pid\":" << rank << ",\"tid\":" << number << '}';
    }
  }
  file_ << "\n]}\n";
  file_.close();
  if (!file_) throw Error{"cannot write the trace " + path_};
}

}  // namespace phantora
