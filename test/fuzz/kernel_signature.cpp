#include "fuzz.hpp"

#include <phantora/kernels/kernel_signature.hpp>
#include <phantora/kernels/kernel_work.hpp>

#include <cmath>
#include <string>

// A line with the kernel's name, then the shape of its launch in binary.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace phantora;
  using fuzz::expect;
  fuzz::Input input{data, size};
  KernelQuery query;
  query.name = input.line();
  const KernelSignature signature = parse_signature(query.name);
  fuzz::expect_within(signature.base, query.name);
  fuzz::expect_within(signature.identity, query.name);
  for (const std::string_view argument : signature.arguments)
    fuzz::expect_within(argument, query.name);
  expect(query.name.empty() || !signature.base.empty(), "a kernel with a name has a base name");
  expect(last_type_bytes(query.name) >= 0, "types have a size or none");
  expect(std::isfinite(leading_integer(query.name)), "integers are finite");

  const auto dimension = [&] { return std::max<std::uint32_t>(1, input.take<std::uint32_t>()); };
  query.grid = {dimension(), dimension(), dimension()};
  query.block = {dimension(), dimension(), dimension()};
  query.shared_bytes = input.take<std::uint32_t>();
  query.bytes = input.take<std::uint32_t>();
  while (!input.empty()) {
    const std::string_view line = input.line();
    const std::size_t equals = std::min(line.find('='), line.size());
    const std::string key{line.substr(0, equals)},
        value{line.substr(std::min(equals + 1, line.size()))};
    query.features[key] = std::fabs(leading_integer(value));
    query.attributes[key] = value;
  }
  const KernelWork work = describe(query);
  for (const double amount :
       {work.m, work.n, work.k, work.batch, work.parts, work.repeats, work.flops, work.tiles,
        work.bytes, work.converted_bytes, work.conversions, work.conversion_tiles, work.blocks,
        work.round_trips})
    expect(std::isfinite(amount) && amount >= 0, "work is finite", query.name);
  for (const float coordinate : work.coordinates)
    expect(std::isfinite(coordinate), "kernels lie somewhere", query.name);
  return 0;
}
