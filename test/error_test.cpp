#include <phantora/error.hpp>
#include <phantora/network/flow_network.hpp>

#include <string>

#include <gtest/gtest.h>

namespace phantora {
namespace {

// What an embedder gets wrong is caught as an Error, and tells of the argument before the place.
TEST(Error, BadArgumentsAreErrorsThatSayWhatWasExpected) {
  FlowNetwork net{NetworkView{{1_GBps}}};
  try {
    net.start({.size = 0_B, .links = {{LinkId{0}}}});
    FAIL() << "a flow without bytes was taken";
  } catch (const Error& error) {
    const std::string said = error.what();
    EXPECT_EQ(said.rfind("a flow has a size (flow_network.cpp:", 0), 0U) << said;
  }
}

}  // namespace
}  // namespace phantora
