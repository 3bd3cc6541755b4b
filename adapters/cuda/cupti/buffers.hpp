#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <cupti.h>

namespace phantora::cupti {

/// The program's buffers, into which records go one after the other.
class Buffers {
 public:
  void use(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete);
  [[nodiscard]] bool usable() const noexcept { return request_ != nullptr; }

  /// Asks for a buffer if there is none at hand.
  void have_one();
  /// Hands the buffer at hand back where it has no room, and asks for another. What fits into none
  /// is dropped.
  void put(std::span<const std::byte> record);
  /// Hands the buffer at hand back.
  void hand_back();
  /// Records dropped since this was last asked.
  std::size_t take_dropped();

 private:
  CUpti_BuffersCallbackRequestFunc request_ = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete_ = nullptr;
  std::uint8_t* buffer_ = nullptr;
  std::size_t size_ = 0, used_ = 0, most_records_ = 0, records_ = 0, dropped_ = 0;
};

}  // namespace phantora::cupti
