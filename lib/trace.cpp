#include <phantora/error.hpp>
#include <phantora/trace.hpp>

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

}  // namespace

TraceWriter::TraceWriter(const std::string& path, std::function<int(ProcessIndex)> rank_of)
    : path_{path}, file_{path}, rank_of_{std::move(rank_of)} {
  if (!file_) throw Error{"cannot write the trace " + path};
}

void TraceWriter::on_span(const Span& span) {
  auto [found, added] = rows_.try_emplace(span.stream);
  Row& row = found->second;
  if (added) {
    row.rank = rank_of_(span.process);
    row.gpu = span.gpu;
  }
  std::string event = "\"name\":" + quoted(span.name) + ",\"cat\":\"";
  event += kinds[static_cast<std::size_t>(span.kind)];
  event += "\",\"ph\":\"X\",\"ts\":" + microseconds(span.start.time_since_epoch().count()) +
           ",\"dur\":" + microseconds((span.end - span.start).count());
  if (span.kind != Span::Kind::communication) {
    event += ",\"args\":{\"cost\":" + quoted(to_string(span.source)) + '}';
  }
  row.events.push_back(std::move(event));
}

void TraceWriter::close() {
  // Streams in order, so that equal runs write equal files whichever rank the engine heard first.
  std::vector<Row*> rows;
  for (auto& [stream, row] : rows_) rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row* a, const Row* b) { return a->rank < b->rank; });
  file_ << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  const char* separator = "";
  int previous = -1, number = 0;
  for (Row* row : rows) {
    number = row->rank == previous ? number + 1 : 0;
    if (number == 0) {
      file_ << separator << R"({"ph":"M","name":"process_name","pid":)" << row->rank
            << R"(,"args":{"name":"rank )" << row->rank << " (GPU " << row->gpu << ")\"}}";
      separator = ",\n";
    }
    previous = row->rank;
    file_ << separator << R"({"ph":"M","name":"thread_name","pid":)" << row->rank
          << ",\"tid\":" << number << R"(,"args":{"name":"stream )" << number << "\"}}";
    for (const std::string& event : row->events) {
      file_ << ",\n{" << event << ",\"pid\":" << row->rank << ",\"tid\":" << number << '}';
    }
  }
  file_ << "\n]}\n";
  file_.close();
  if (!file_) throw Error{"cannot write the trace " + path_};
}

}  // namespace phantora
