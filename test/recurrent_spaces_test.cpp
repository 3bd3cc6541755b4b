#include "cuda/cudnn/recurrent_spaces.hpp"

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace phantora::cudnn {
namespace {

struct Answer {
  RecurrentShape shape;
  RecurrentSpaces spaces;
};

/// Of cuDNN 9.19 on an H100: every fifth of bench/accuracy/h100_rnn_spaces.jsonl.gz.
std::vector<Answer> answers() {
  std::vector<Answer> all;
  std::ifstream file{PHANTORA_TEST_DATA "/h100_rnn_spaces.txt"};
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words{line};
    Answer answer;
    RecurrentShape& s = answer.shape;
    words >> s.gates >> s.directions >> s.layers >> s.steps >> s.batch >> s.input >> s.hidden >>
        s.projection >> s.element >> s.dropout >> s.packed >> s.persistent >>
        answer.spaces.inference >> answer.spaces.training >> answer.spaces.reserve;
    EXPECT_TRUE(words) << line;
    all.push_back(answer);
  }
  return all;
}

double off_by(std::size_t predicted, std::size_t asked) {
  return std::abs(static_cast<double>(predicted) / static_cast<double>(asked) - 1);
}

TEST(RecurrentSpaces, AreWhatCudnnAsksFor) {
  int exact = 0, count = 0;
  for (const auto& [shape, asked] : answers()) {
    const RecurrentSpaces spaces = spaces_of(shape);
    // Matrices and rows begin at multiples of some bytes.
    if (shape.projection == 0) {
      EXPECT_LT(off_by(spaces.inference, asked.inference), 5e-5);
    }
    EXPECT_LT(off_by(spaces.inference, asked.inference), 0.2);
    EXPECT_LT(off_by(spaces.training, asked.training), 0.2);
    EXPECT_LT(off_by(spaces.reserve, asked.reserve), 0.06);
    exact += off_by(spaces.training, asked.training) < 1e-3 ? 1 : 0;
    ++count;
  }
  EXPECT_GT(count, 700);
  EXPECT_GT(exact, 0.85 * count);
}

// LSTM of one layer, 16 steps of 32 sequences with 64 features, 128 units, in floats: 8 MiB and
// 4 x 16 x 32 x 128 gates, 16 x 32 x (128 + 64) of input and output without padding, 10 x 32 x 128
// of states, 4 x 128 x (64 + 128) weights.
TEST(RecurrentSpaces, OfASmallLstm) {
  const RecurrentSpaces spaces =
      spaces_of({.gates = 4, .steps = 16, .batch = 32, .input = 64, .hidden = 128});
  EXPECT_EQ(spaces.inference, 8388608U + 4 * (262144 + 98304 + 40960 + 98304) + 256 + 8 * 32);
  EXPECT_EQ(spaces.training, spaces.inference);
  EXPECT_EQ(spaces.reserve, 4U * 5 * 16 * 32 * 128 + 256);
}

}  // namespace
}  // namespace phantora::cudnn
