#include <phantora/error.hpp>
#include <phantora/kernels/query_text.hpp>

#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace phantora {
namespace {

KernelQuery example() {
  KernelQuery query;
  query.name = "void at::native::vectorized_elementwise_kernel<4, \"quoted\", \\back>(int)";
  query.grid = {4'294'967'295U, 2, 3};
  query.block = {1024, 1, 1};
  query.shared_bytes = 232'448;
  query.bytes = 1.5e13;
  query.flops = 0.1;  // no finite binary fraction
  query.features = {{"m", 4096},
                    {"third", 1.0 / 3.0},
                    {"least", std::numeric_limits<double>::denorm_min()},
                    {"most", std::numeric_limits<double>::max()}};
  query.attributes = {{"layout", "tn"}, {"empty", ""}, {"line\nbreak", "\xc3\xa9"}};
  query.operands = {.read = 1e9, .written = 1.0 / 3.0, .cold = 0.1};
  query.by_data = {{"bytes", 0.7}, {"fma", 0}};
  return query;
}

TEST(QueryText, RoundTripIsExact) { EXPECT_EQ(query_from_text(to_text(example())), example()); }

TEST(QueryText, EmptyQueryRoundTrips) {
  EXPECT_EQ(query_from_text(to_text(KernelQuery{})), KernelQuery{});
}

TEST(QueryText, RandomQueriesRoundTrip) {
  std::mt19937_64 random{3};
  for (int i = 0; i < 200; ++i) {
    KernelQuery query = example();
    query.bytes = static_cast<double>(random()) / 3.0;
    query.flops = static_cast<double>(random()) * 1e-7;
    query.grid = {static_cast<std::uint32_t>(random()), static_cast<std::uint32_t>(random()),
                  static_cast<std::uint32_t>(random())};
    query.arithmetic = random() % 2 == 0 ? Arithmetic::none : Arithmetic::half;
    query.features["random"] = static_cast<double>(random()) / 7.0;
    query.name.assign(random() % 40, static_cast<char>(1 + random() % 127));
    EXPECT_EQ(query_from_text(to_text(query)), query);
  }
}

TEST(QueryText, NamesThatAreNotUtf8AreReplacedNotRefused) {
  KernelQuery query = example();
  query.name = "kernel\xff";
  EXPECT_EQ(query_from_text(to_text(query)).name, "kernel\xef\xbf\xbd");  // U+FFFD
}

// What is not a query's text is refused by name; nothing else is thrown, nothing crashes.
void expect_refused_or_valid(const std::string& text) {
  try {
    (void)query_from_text(text);
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string{error.what()}.find("malformed kernel query"), std::string::npos);
  }
}

TEST(QueryText, MalformedTextIsRefused) {
  for (const char* text : {"", "{", "null", "[]", "{}", "\"name\"", "{\"name\":3}",
                           "{\"name\":\"k\",\"grid\":[1,2]}", "\xff\xfe"}) {
    EXPECT_THROW((void)query_from_text(text), ConfigError) << text;
  }
}

// 2^32 would become 0, -1 the largest, 1e30 anything, and true 1.
TEST(QueryText, NumbersThatDoNotFitAreRefused) {
  const std::string rest =
      R"(,"block":[1,1,1],"shared":0,"flops":0,"arithmetic":"none","attributes":{})";
  const auto text = [&](const std::string& grid, const std::string& bytes,
                        const std::string& features) {
    return R"({"name":"k","grid":)" + grid + R"(,"bytes":)" + bytes + R"(,"features":)" + features +
           rest + "}";
  };
  EXPECT_EQ(query_from_text(text("[1,2,4294967295]", "1e30", "{}")).bytes, 1e30);
  for (const char* grid : {"[1,1,4294967296]", "[1,1,-1]", "[1,1,1e30]", "[1,1,1.5]", "[1,1,true]",
                           "[1,1,1,1]", "{}"}) {
    EXPECT_THROW((void)query_from_text(text(grid, "0", "{}")), ConfigError) << grid;
  }
  EXPECT_THROW((void)query_from_text(text("[1,1,1]", "true", "{}")), ConfigError);
  std::string unknown = text("null", "1", "{}");
  EXPECT_FALSE(query_from_text(unknown).grid);
  unknown.replace(unknown.find("none"), 4, "fp31");
  EXPECT_THROW((void)query_from_text(unknown), ConfigError);
  EXPECT_THROW((void)query_from_text(text("[1,1,1]", "0", "[1]")), ConfigError);
  EXPECT_THROW((void)query_from_text(text("[1,1,1]", "0", R"({"m":false})")), ConfigError);
}

TEST(QueryText, DamagedTextIsRefusedOrReadable) {
  const std::string good = to_text(example());
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_THROW((void)query_from_text(good.substr(0, length)), ConfigError) << length;
  }
  std::mt19937 random{5};
  for (int i = 0; i < 5000; ++i) {
    std::string text = good;
    for (unsigned edits = 1 + random() % 4; edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 8);
          break;
        default:
          text.insert(at, 1, static_cast<char>(random()));
      }
      if (text.empty()) break;
    }
    expect_refused_or_valid(text);
  }
}

}  // namespace
}  // namespace phantora
