#include "cuda/cupti/buffers.hpp"

#include <cstring>
#include <utility>

namespace phantora::cupti {

void Buffers::use(CUpti_BuffersCallbackRequestFunc request,
                  CUpti_BuffersCallbackCompleteFunc complete) {
  request_ = request;
  complete_ = complete;
}

void Buffers::have_one() {
  if (buffer_ != nullptr || request_ == nullptr) return;
  used_ = records_ = size_ = most_records_ = 0;
  request_(&buffer_, &size_, &most_records_);
}

void Buffers::put(std::span<const std::byte> record) {
  have_one();
  const auto has_room = [&] {
    return buffer_ != nullptr && record.size() <= size_ - used_ &&
           (most_records_ == 0 || records_ < most_records_);
  };
  if (!has_room()) {
    hand_back();
    have_one();
  }
  if (!has_room()) {
    ++dropped_;
    return;
  }
  std::memcpy(buffer_ + used_, record.data(), record.size());
  used_ += record.size();
  ++records_;
}

void Buffers::hand_back() {
  std::uint8_t* const buffer = std::exchange(buffer_, nullptr);
  if (buffer != nullptr) complete_(nullptr, 0, buffer, size_, used_);
}

std::size_t Buffers::take_dropped() { return std::exchange(dropped_, 0); }

}  // namespace phantora::cupti
