#include "kernels/work/reading.hpp"

#include <phantora/error.hpp>
#include <phantora/kernels/kernel_database.hpp>
#include <phantora/kernels/measured_table.hpp>
#include <phantora/kernels/query_text.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <system_error>
#include <utility>

#include <sqlite3.h>

namespace phantora {
namespace {

namespace fs = std::filesystem;

/// In the file's header, so that file(1) and we know whose it is: "PhKn".
constexpr int application_id = 0x50684b6e;
/// Of the tables below. A file of a greater one is refused; older ones are brought up to it when
/// they are opened for writing (so far there are none).
constexpr int schema_version = 1;
constexpr const char* schema = R"(
CREATE TABLE source(
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  gpu TEXT NOT NULL,
  driver TEXT NOT NULL,
  libraries TEXT NOT NULL,
  command TEXT NOT NULL,
  date TEXT NOT NULL);
CREATE TABLE kernel(
  id INTEGER PRIMARY KEY,
  query TEXT NOT NULL UNIQUE);
CREATE TABLE duration(
  source INTEGER NOT NULL REFERENCES source,
  kernel INTEGER NOT NULL REFERENCES kernel,
  picoseconds INTEGER NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY(source, kernel, picoseconds)) WITHOUT ROWID;
)";
/// How long a writer waits for others, which hold the file for milliseconds.
constexpr int busy_milliseconds = 60'000;

struct Close {
  void operator()(sqlite3* connection) const noexcept { sqlite3_close_v2(connection); }
};
using Connection = std::unique_ptr<sqlite3, Close>;

std::string quoted(const fs::path& path) { return "kernel database '" + path.string() + "'"; }

[[noreturn]] void fail(const fs::path& path, sqlite3* connection, int code) {
  const std::string name = quoted(path);
  switch (code & 0xff) {
    case SQLITE_NOTADB:
      throw ConfigError{name + ": expected a file of phantora measure, this is no SQLite database"};
    case SQLITE_CORRUPT:
      throw ConfigError{name + " is damaged (" + sqlite3_errmsg(connection) +
                        "): restore it, or measure again into a new file"};
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      throw ConfigError{name + ": another process has held it for a minute"};
    default:
      throw ConfigError{
          name + ": " +
          (connection != nullptr ? sqlite3_errmsg(connection) : sqlite3_errstr(code))};
  }
}

/// A prepared statement. Steps through its rows; reset() before it is used again.
class Statement {
 public:
  Statement(const fs::path& path, sqlite3* connection, const char* text)
      : path_{path}, connection_{connection} {
    check(sqlite3_prepare_v2(connection, text, -1, &statement_, nullptr));
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(int at, std::int64_t value) {
    check(sqlite3_bind_int64(statement_, at, value));
    return *this;
  }
  Statement& bind(int at, std::string_view value) {
    check(sqlite3_bind_text(statement_, at, value.data(), static_cast<int>(value.size()),
                            SQLITE_TRANSIENT));
    return *this;
  }
  /// Whether there is another row.
  bool step() {
    const int code = sqlite3_step(statement_);
    if (code == SQLITE_ROW) return true;
    if (code != SQLITE_DONE) fail(path_, connection_, code);
    return false;
  }
  /// For a statement without rows, to be used again.
  void run() {
    while (step()) {
    }
    sqlite3_reset(statement_);
  }
  void reset() { sqlite3_reset(statement_); }
  [[nodiscard]] std::int64_t number(int column) const {
    return sqlite3_column_int64(statement_, column);
  }
  [[nodiscard]] std::string text(int column) const {
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    if (bytes == nullptr) return {};
    return {bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
  }

 private:
  void check(int code) {
    if (code != SQLITE_OK) fail(path_, connection_, code);
  }
  const fs::path& path_;
  sqlite3* connection_;
  sqlite3_stmt* statement_ = nullptr;
};

/// Between begin and commit; undone if it is left before.
class Transaction {
 public:
  Transaction(const fs::path& path, sqlite3* connection) : path_{path}, connection_{connection} {
    // Immediate: two that read first and then both want to write could not both go on.
    Statement{path, connection, "BEGIN IMMEDIATE"}.run();
  }
  ~Transaction() {
    if (!committed_) sqlite3_exec(connection_, "ROLLBACK", nullptr, nullptr, nullptr);
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit() {
    Statement{path_, connection_, "COMMIT"}.run();
    committed_ = true;
  }

 private:
  const fs::path& path_;
  sqlite3* connection_;
  bool committed_ = false;
};

std::int64_t pragma(const fs::path& path, sqlite3* connection, const char* text) {
  Statement statement{path, connection, text};
  return statement.step() ? statement.number(0) : 0;
}

/// @throws ConfigError if the file is not ours to read. @return whether it has tables yet.
bool check_kind(const fs::path& path, sqlite3* connection) {
  // In this order: another process may make the file meanwhile. Once there are tables its mark is
  // there, and once there is the mark the version is, since all come in one transaction.
  const bool empty = pragma(path, connection, "SELECT count(*) FROM sqlite_master") == 0;
  const std::int64_t application = pragma(path, connection, "PRAGMA application_id");
  const std::int64_t version = pragma(path, connection, "PRAGMA user_version");
  if (application == application_id && version > schema_version)
    throw ConfigError{quoted(path) + " is of version " + std::to_string(version) +
                      ", which a newer phantora made; this one knows version " +
                      std::to_string(schema_version)};
  if (application == application_id && version == schema_version) return true;
  if (empty && application == 0) return false;
  throw ConfigError{quoted(path) +
                    ": expected a file of phantora measure, this is another program's database"};
}

Connection open(const fs::path& path, int flags) {
  sqlite3* made = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &made, flags, nullptr);
  Connection connection{made};
  if (code != SQLITE_OK) {
    std::error_code ignored;
    if (!fs::exists(path, ignored))
      throw ConfigError{quoted(path) + ": there is no such file, and none can be made there"};
    fail(path, made, code);
  }
  sqlite3_busy_timeout(made, busy_milliseconds);
  return connection;
}

/// As a path in a URI.
std::string escaped(const std::string& path) {
  std::string text;
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#') {
      char code[4];
      std::snprintf(code, sizeof code, "%%%02X", static_cast<unsigned>(c));
      text += code;
    } else {
      text += c;
    }
  }
  return text;
}

/// Who may write also takes over what a writer left that was killed.
Connection open_to_read(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) throw ConfigError{quoted(path) + ": there is no such file"};
  Connection connection = open(path, SQLITE_OPEN_READWRITE);
  if (sqlite3_exec(connection.get(), "PRAGMA user_version", nullptr, nullptr, nullptr) !=
      SQLITE_CANTOPEN)
    return connection;
  // In a folder where nothing can be written nobody writes.
  return open("file:" + escaped(fs::absolute(path).string()) + "?immutable=1",
              SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
}

Connection open_to_write(const fs::path& path) {
  Connection connection = open(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  sqlite3* const raw = connection.get();
  if (sqlite3_db_readonly(raw, "main") == 1) throw ConfigError{quoted(path) + " cannot be written"};
  if (!check_kind(path, raw)) {
    // Readers and a writer at a time, and what is committed is in the file's log: killing a writer
    // loses only what it had not committed. A change of the mode does not wait for others.
    for (int tries = 0;; ++tries) {
      const int code = sqlite3_exec(raw, "PRAGMA journal_mode=WAL", nullptr, nullptr, nullptr);
      if (code == SQLITE_OK) break;
      if (code != SQLITE_BUSY || tries == busy_milliseconds / 10) fail(path, raw, code);
      sqlite3_sleep(10);
    }
    Transaction transaction{path, raw};
    if (!check_kind(path, raw)) {  // unless another process made them meanwhile
      const std::string text = std::string{schema} +
                               "PRAGMA application_id=" + std::to_string(application_id) +
                               ";PRAGMA user_version=" + std::to_string(schema_version);
      const int code = sqlite3_exec(raw, text.c_str(), nullptr, nullptr, nullptr);
      if (code != SQLITE_OK) fail(path, raw, code);
    }
    transaction.commit();
  }
  return connection;
}

std::string made_up_id() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) {
    char part[9];
    std::snprintf(part, sizeof part, "%08x", static_cast<unsigned>(random()));
    id += part;
  }
  return id;
}

/// A file of another program, or a damaged one, may say anything.
Duration checked_duration(const fs::path& path, std::int64_t picoseconds, std::int64_t count) {
  if (picoseconds < 0 || count <= 0)
    throw ConfigError{quoted(path) + " is damaged: a kernel that took " +
                      std::to_string(picoseconds) + " ps " + std::to_string(count) + " times"};
  return Duration{picoseconds};
}

std::vector<MeasuredKernel> read_kernels(const fs::path& path, Statement& rows) {
  std::vector<MeasuredKernel> kernels;
  std::int64_t last = -1;
  while (rows.step()) {
    if (kernels.empty() || rows.number(0) != last) {
      last = rows.number(0);
      try {
        kernels.push_back({query_from_text(rows.text(1)), {}});
      } catch (const ConfigError& error) {
        throw ConfigError{quoted(path) + " is damaged: " + error.what()};
      }
    }
    const Duration duration = checked_duration(path, rows.number(2), rows.number(3));
    kernels.back().durations[duration] += static_cast<std::uint64_t>(rows.number(3));
  }
  return kernels;
}

double sum_of(const DurationCounts& durations) {
  double sum = 0;
  for (const auto& [duration, count] : durations)
    sum += static_cast<double>(duration.count()) * static_cast<double>(count);
  return sum;
}

}  // namespace

// --- A kernel ---

std::uint64_t MeasuredKernel::count() const {
  std::uint64_t sum = 0;
  for (const auto& [duration, count] : durations) sum += count;
  return sum;
}

Duration MeasuredKernel::total() const { return Duration{std::llround(sum_of(durations))}; }

Duration MeasuredKernel::mean() const {
  if (durations.empty()) return {};
  return Duration{std::llround(sum_of(durations) / static_cast<double>(count()))};
}

Duration MeasuredKernel::median() const {
  std::uint64_t before = 0;
  const std::uint64_t half = (count() + 1) / 2;
  for (const auto& [duration, times] : durations) {
    before += times;
    if (before >= half) return duration;
  }
  return {};
}

Duration MeasuredKernel::least() const {
  return durations.empty() ? Duration{} : durations.begin()->first;
}

Duration MeasuredKernel::stddev() const {
  const auto n = static_cast<double>(count());
  if (n < 2) return {};
  const double mean = sum_of(durations) / n;
  double squares = 0;
  for (const auto& [duration, times] : durations) {
    const double off = static_cast<double>(duration.count()) - mean;
    squares += off * off * static_cast<double>(times);
  }
  return Duration{std::llround(std::sqrt(squares / (n - 1)))};
}

// --- The file ---

struct KernelDatabase::Body {
  fs::path path;
  Connection connection;

  [[nodiscard]] Statement prepare(const char* text) const {
    return Statement{path, connection.get(), text};
  }
};

KernelDatabase::KernelDatabase(const fs::path& path, Access access)
    : body_{new Body{path, access == Access::write ? open_to_write(path) : open_to_read(path)}} {
  if (access == Access::read && !check_kind(path, body_->connection.get()))
    throw ConfigError{quoted(path) + " is empty: expected a file of phantora measure"};
  Statement check = body_->prepare("PRAGMA quick_check(1)");
  if (check.step() && check.text(0) != "ok")
    throw ConfigError{quoted(path) + " is damaged (" + check.text(0) +
                      "): restore it, or measure again into a new file"};
}
KernelDatabase::KernelDatabase(KernelDatabase&&) noexcept = default;
KernelDatabase& KernelDatabase::operator=(KernelDatabase&&) noexcept = default;
KernelDatabase::~KernelDatabase() = default;

const fs::path& KernelDatabase::path() const noexcept { return body_->path; }

namespace {

enum class Known : std::uint8_t { add, same };

void write(const fs::path& path, sqlite3* connection, const KernelSource& source,
           std::span<const MeasuredKernel> kernels, Known how) {
  Transaction transaction{path, connection};
  const std::string id = source.id.empty() ? made_up_id() : source.id;
  Statement{path, connection,
            "INSERT INTO source(name, gpu, driver, libraries, command, date) "
            "VALUES(?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"}
      .bind(1, id)
      .bind(2, source.gpu)
      .bind(3, source.driver)
      .bind(4, source.libraries)
      .bind(5, source.command)
      .bind(6, source.date)
      .run();
  Statement number{path, connection, "SELECT id FROM source WHERE name = ?"};
  number.bind(1, id).step();
  const std::int64_t source_number = number.number(0);
  number.reset();
  Statement new_kernel{path, connection,
                       "INSERT INTO kernel(query) VALUES(?) ON CONFLICT DO NOTHING"};
  Statement find_kernel{path, connection, "SELECT id FROM kernel WHERE query = ?"};
  // Of two states of one source the later has counted on: every count is at least as great.
  Statement add_duration{path, connection,
                         how == Known::add
                             ? "INSERT INTO duration VALUES(?, ?, ?, ?) "
                               "ON CONFLICT DO UPDATE SET count = count + excluded.count"
                             : "INSERT INTO duration VALUES(?, ?, ?, ?) "
                               "ON CONFLICT DO UPDATE SET count = max(count, excluded.count)"};
  for (const MeasuredKernel& kernel : kernels) {
    const std::string text = to_text(kernel.query);
    new_kernel.bind(1, text).run();
    find_kernel.bind(1, text).step();
    const std::int64_t kernel_number = find_kernel.number(0);
    find_kernel.reset();
    for (const auto& [duration, count] : kernel.durations) {
      add_duration.bind(1, source_number)
          .bind(2, kernel_number)
          .bind(3, std::int64_t{duration.count()})
          .bind(4, static_cast<std::int64_t>(count))
          .run();
    }
  }
  transaction.commit();
}

}  // namespace

void KernelDatabase::add(const KernelSource& source, std::span<const MeasuredKernel> kernels) {
  write(body_->path, body_->connection.get(), source, kernels, Known::add);
}

void KernelDatabase::merge(const KernelSource& source, std::span<const MeasuredKernel> kernels) {
  write(body_->path, body_->connection.get(), source, kernels, Known::same);
}

void KernelDatabase::merge(const KernelDatabase& other) {
  for (const KernelSource& source : other.sources()) merge(source, other.kernels_of(source.id));
}

std::vector<KernelSource> KernelDatabase::sources() const {
  Statement rows =
      body_->prepare("SELECT gpu, driver, libraries, command, date, name FROM source ORDER BY id");
  std::vector<KernelSource> sources;
  while (rows.step())
    sources.push_back(
        {rows.text(0), rows.text(1), rows.text(2), rows.text(3), rows.text(4), rows.text(5)});
  return sources;
}

std::vector<std::string> KernelDatabase::gpus() const {
  Statement rows = body_->prepare("SELECT DISTINCT gpu FROM source ORDER BY gpu");
  std::vector<std::string> names;
  while (rows.step()) names.push_back(rows.text(0));
  return names;
}

std::vector<MeasuredKernel> KernelDatabase::kernels(const std::optional<std::string>& gpu) const {
  Statement rows = body_->prepare(
      "SELECT kernel.id, query, picoseconds, sum(count) FROM duration "
      "JOIN kernel ON kernel.id = duration.kernel JOIN source ON source.id = duration.source "
      "WHERE ?1 = '' OR gpu = ?1 GROUP BY kernel.id, picoseconds ORDER BY query, picoseconds");
  rows.bind(1, gpu.value_or(""));
  return read_kernels(body_->path, rows);
}

std::vector<MeasuredKernel> KernelDatabase::kernels_of(const std::string& source_id) const {
  Statement rows = body_->prepare(
      "SELECT kernel.id, query, picoseconds, count FROM duration "
      "JOIN kernel ON kernel.id = duration.kernel JOIN source ON source.id = duration.source "
      "WHERE source.name = ?1 ORDER BY query, picoseconds");
  rows.bind(1, source_id);
  return read_kernels(body_->path, rows);
}

namespace {

/// Of a convolution that is tried out, a program's database has what it ran, and not how that was
/// chosen.
struct Measured {
  MeasuredTable table;
  [[nodiscard]] std::optional<CostEstimate> estimate(const KernelQuery& query) const {
    if (!detail::is_tried(query)) return table.estimate(query);
    KernelQuery first = query;
    first.attributes.erase("plan");
    return table.estimate(first);
  }
};

}  // namespace

KernelCostModel KernelDatabase::model(const GpuModel& gpu) const {
  // The table does not compare these, which a launch's name and sizes imply.
  std::map<KernelQuery, MeasuredKernel> known;
  for (MeasuredKernel& kernel : kernels(gpu.name)) {
    kernel.query.shared_bytes = 0;
    kernel.query.flops = 0;
    kernel.query.operands = {};
    kernel.query.by_data.clear();
    MeasuredKernel& all = known[kernel.query];
    all.query = kernel.query;
    for (const auto& [duration, count] : kernel.durations) all.durations[duration] += count;
  }
  std::vector<Measurement> measured;
  for (const auto& [query, kernel] : known)
    measured.push_back({query, kernel.mean(), kernel.stddev()});
  return Measured{MeasuredTable{std::move(measured), gpu, CostSource::database}};
}

}  // namespace phantora
