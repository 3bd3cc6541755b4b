#include "kernels/code_roofline.hpp"
#include "kernels/work/families.hpp"
#include "kernels/work/reading.hpp"

#include <algorithm>
#include <string_view>

namespace phantora::detail {

namespace {

/// The kernel's name without its template's arguments: other namespaces have kernels of their own
/// under the same last name.
std::string_view template_name(const KernelSignature& signature) {
  const auto before = static_cast<std::size_t>(signature.base.data() - signature.identity.data());
  return signature.identity.substr(0, before + signature.base.size());
}

}  // namespace

void compare_by_code(KernelWork& work, const KernelQuery& query, const KernelSignature& signature) {
  work.group.assign(template_name(signature)).append("/code");
  work.family = signature.identity;
  const double blocks = std::max(1.0, blocks_of(query));
  const auto of_a_block = [&](std::string_view key) {
    return log_coordinate(std::max(1.0, feature(query, key, 0.0) / blocks), 1.0);
  };
  /// What the walk of the code did not know, and took from anywhere.
  const double anywhere =
      query.bytes > 0.0 ? feature(query, "random_bytes", 0.0) / query.bytes : 0.0;
  constexpr float apart = 2.0F;
  work.coordinates = {log_coordinate(std::max(1.0, query.bytes), 1.0),
                      log_coordinate(blocks, 1.0),
                      of_a_block("warp_instructions"),
                      of_a_block("l2_bytes"),
                      log_coordinate(query.block.count(), 1.0),
                      apart * static_cast<float>(anywhere),
                      of_a_block("atomic_sectors"),
                      of_a_block("atomics")};
}

}  // namespace phantora::detail
