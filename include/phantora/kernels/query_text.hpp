#pragma once

#include <phantora/kernels/kernel_cost_model.hpp>

#include <string>
#include <string_view>

namespace phantora {

/// A kernel query as text of one line (JSON): equal queries have equal texts.
std::string to_text(const KernelQuery& query);
/// @throws ConfigError if `text` was not made by to_text().
KernelQuery query_from_text(std::string_view text);

}  // namespace phantora
