#pragma once

#include "network/trail.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace phantora {

/// What flows, or keys of links, were before the instants that changed them: records, each of one
/// subject at one instant.
///
/// The subject itself keeps the number of its last record, counted from 1, and the instant of that
/// record, since when it is what it is. A record says for how long the subject had been what it was
/// (`age`), and how many records before this one its previous record is (`back`). So no record
/// holds an instant.
template <class Record>
class Journal {
 public:
  using Ps = std::int64_t;

  /// Adds a record of an instant, not before any other in order of time, and returns its number.
  /// @param last  the subject's record before, or 0
  /// @param age   for how long the subject had been what it was, in ps
  std::uint64_t push(Record record, Ps at, std::uint64_t last, Ps age) {
    const std::uint64_t number = records_.end() + 1;
    const std::uint64_t back = keeps(last) ? number - last : 0;
    if (age < far && back <= Record::max_back) {
      record.age = static_cast<std::uint32_t>(age);
      record.back = static_cast<std::uint32_t>(back) & Record::max_back;
    } else {
      record.age = far;
      far_.push({number, age, back});
    }
    records_.push(record);
    if (latest_ < at) {
      if (pages_.empty() || number > pages_.back().record + records_per_page)
        pages_.push({at, number});
      latest_ = at;
    }
    return number;
  }

  [[nodiscard]] const Record& operator[](std::uint64_t record) const noexcept {
    return records_[record - 1];
  }
  [[nodiscard]] Record& operator[](std::uint64_t record) noexcept { return records_[record - 1]; }
  /// Whether there is such a record and it has not been dropped.
  [[nodiscard]] bool keeps(std::uint64_t record) const noexcept {
    return record > records_.begin();
  }
  /// The first record that has not been dropped, less one.
  [[nodiscard]] std::uint64_t begin() const noexcept { return records_.begin(); }
  /// The last record.
  [[nodiscard]] std::uint64_t end() const noexcept { return records_.end(); }
  /// A record before which all are of instants before `instant`, or void: where a walk over the
  /// records since then may begin.
  [[nodiscard]] std::uint64_t first_since(Ps instant) const noexcept {
    for (std::uint64_t i = pages_.end(); i-- > pages_.begin();)
      if (pages_[i].at <= instant) return std::max(pages_[i].record, begin() + 1);
    return begin() + 1;
  }

  /// The same subject's record before; 0 if none.
  [[nodiscard]] std::uint64_t previous(std::uint64_t record) const noexcept {
    const Record& entry = (*this)[record];
    const std::uint64_t back = entry.age == far ? far_of(record).back : entry.back;
    return back == 0 ? 0 : record - back;
  }
  /// For how long the subject had been what it was before a record.
  [[nodiscard]] Ps age(std::uint64_t record) const noexcept {
    const std::uint32_t age = (*this)[record].age;
    return age == far ? far_of(record).age : age;
  }

  /// Drops the records of instants before `instant`, but for some of the last; calls
  /// visit(record) for each dropped one first.
  template <class Visit>
  void drop_before(Ps instant, Visit visit) {
    std::uint64_t kept = latest_ < instant ? records_.end() : records_.begin();
    pages_.drop_while([&](const Page& page) {
      if (page.at > instant) return false;
      kept = std::max(kept, page.record - 1);
      return true;
    });
    for (std::uint64_t record = records_.begin() + 1; record <= kept; ++record) visit(record);
    records_.drop_to(kept);
    far_.drop_while([&](const Far& entry) { return entry.record <= kept; });
  }

  /// Drops all records after `to`; what is kept is of instants up to `latest`, or void.
  void cut_back(std::uint64_t to, Ps latest) {
    records_.cut_back(to);
    const auto cut = [&](const auto& item) { return item.record > to; };
    far_.cut_while(cut);
    pages_.cut_while(cut);
    latest_ = std::min(latest_, latest);
  }

  [[nodiscard]] std::size_t bytes() const noexcept {
    return records_.size() * sizeof(Record) + far_.size() * sizeof(Far) +
           pages_.size() * sizeof(Page);
  }

 private:
  static constexpr std::uint32_t far = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::uint64_t records_per_page = 64;
  /// What does not fit into a record, whose age is then `far`.
  struct Far {
    std::uint64_t record;
    Ps age;
    std::uint64_t back;
  };
  [[nodiscard]] const Far& far_of(std::uint64_t record) const noexcept {
    return *far_.find_first([&](const Far& entry) { return entry.record >= record; });
  }
  /// All records before `record` are of instants before `at`.
  struct Page {
    Ps at;
    std::uint64_t record;
  };

  Trail<Record> records_;
  Trail<Far> far_;
  Trail<Page> pages_;
  Ps latest_ = -1;  ///< the last instant with a record
};

}  // namespace phantora
