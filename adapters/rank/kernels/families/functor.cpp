#include "rank/kernels/families/functor.hpp"

#include "rank/kernels/families/aligned.hpp"

#include <algorithm>

namespace phantora::rank {

Functor functor_of(std::string_view text) {
  const LambdaName lambda = lambda_name(text);
  if (!lambda.function.name.empty()) {
    return {unqualified(lambda.function.name), lambda.function.arguments, lambda.parameters,
            lambda.path, true};
  }
  const TemplateName name = template_name(text);
  return {unqualified(name.name), name.arguments, {}, {}, false};
}

std::size_t closure_bytes(std::initializer_list<std::size_t> captures) {
  std::size_t size = 0;
  std::size_t alignment = 8;
  for (const std::size_t capture : captures) {
    size = aligned(size, capture) + capture;
    alignment = std::max(alignment, capture);
  }
  return aligned(aligned(size, host_pointer_bytes) + host_pointer_bytes, alignment);
}

}  // namespace phantora::rank
