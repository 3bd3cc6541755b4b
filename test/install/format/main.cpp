#include <phantora/format.hpp>

#include <cassert>

int main() {
  using namespace phantora;
  assert(fmt::format("{} over {}", 3_KiB, 400_Gbps) == "3.00 KiB over 50 GB/s");
  assert(fmt::format("{}", CostSource::fitted) == "fitted");
}
