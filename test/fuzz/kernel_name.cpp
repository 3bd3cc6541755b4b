#include "rank/kernels/kernel_name.hpp"

#include "fuzz.hpp"
#include "rank/kernels/families/elementwise_function.hpp"

#include <string>

namespace {

using namespace phantora;

void check(const rank::TemplateName& name, std::string_view whole) {
  fuzz::expect_within(name.name, whole);
  for (const std::string_view argument : name.arguments) fuzz::expect_within(argument, whole);
}

}  // namespace

// A kernel's name, mangled or as the demangler prints it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string name{fuzz::text_of(data, size)};
  const std::string text = rank::demangled(name.c_str());
  const rank::Signature signature = rank::signature(text);
  check(signature.kernel, text);
  for (const std::string_view parameter : signature.parameters)
    fuzz::expect_within(parameter, text);
  check(rank::template_name(text), text);
  fuzz::expect_within(rank::unqualified(text), text);
  const rank::LambdaName lambda = rank::lambda_name(text);
  check(lambda.function, text);
  for (const std::string_view parameter : lambda.parameters) fuzz::expect_within(parameter, text);
  fuzz::expect(lambda.function.name.empty() || !lambda.path.empty(), "lambdas have a number");
  (void)rank::elementwise_function(text);
  (void)rank::functor_types(text);
  return 0;
}
