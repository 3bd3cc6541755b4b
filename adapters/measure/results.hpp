#pragma once

#include <phantora/units.hpp>

#include <cstdint>
#include <string_view>

/// What was measured, on its way to the database.
namespace phantora::measure {

/// Something is about to be measured: at the program's end it will be written.
void expect_results();
/// Writes what was measured until now, once the GPU has come to it, and says how much that is.
void write_results();
/// A query took that long. Written within seconds, so that little is lost if the program is killed.
void took(std::uint32_t query, Duration time);
/// GPU time that no query stands for.
void had_no_key(std::string_view what, Duration time);

}  // namespace phantora::measure
