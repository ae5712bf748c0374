// The numbers of examples/translate, against names written by hand.
#include "../../examples/translate/numbers.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace translate {
namespace {

struct Names {
  int number;
  const char *english, *korean;
};

constexpr Names written_by_hand[] = {
    {0, "zero", "영"},
    {1, "one", "일"},
    {9, "nine", "구"},
    {10, "ten", "십"},
    {11, "eleven", "십일"},
    {12, "twelve", "십이"},
    {19, "nineteen", "십구"},
    {20, "twenty", "이십"},
    {21, "twenty-one", "이십일"},
    {40, "forty", "사십"},
    {99, "ninety-nine", "구십구"},
    {100, "one hundred", "백"},
    {101, "one hundred one", "백일"},
    {110, "one hundred ten", "백십"},
    {111, "one hundred eleven", "백십일"},
    {123, "one hundred twenty-three", "백이십삼"},
    {200, "two hundred", "이백"},
    {615, "six hundred fifteen", "육백십오"},
    {1000, "one thousand", "천"},
    {1001, "one thousand one", "천일"},
    {1111, "one thousand one hundred eleven", "천백십일"},
    {2010, "two thousand ten", "이천십"},
    {9999, "nine thousand nine hundred ninety-nine", "구천구백구십구"},
    {10000, "ten thousand", "만"},
    {10001, "ten thousand one", "만일"},
    {11000, "eleven thousand", "만천"},
    {11110, "eleven thousand one hundred ten", "만천백십"},
    {20000, "twenty thousand", "이만"},
    {48015, "forty-eight thousand fifteen", "사만팔천십오"},
    {100000, "one hundred thousand", "십만"},
    {100001, "one hundred thousand one", "십만일"},
    {110000, "one hundred ten thousand", "십일만"},
    {111111, "one hundred eleven thousand one hundred eleven", "십일만천백십일"},
    {123456, "one hundred twenty-three thousand four hundred fifty-six", "십이만삼천사백오십육"},
    {210000, "two hundred ten thousand", "이십일만"},
    {700070, "seven hundred thousand seventy", "칠십만칠십"},
    {999999, "nine hundred ninety-nine thousand nine hundred ninety-nine", "구십구만구천구백구십구"},
};

TEST(Numbers, HaveTheirNames) {
  for (const Names& names : written_by_hand) {
    EXPECT_EQ(english_name(names.number), names.english) << names.number;
    EXPECT_EQ(korean_name(names.number), names.korean) << names.number;
  }
}

TEST(Numbers, NoTwoShareAName) {
  std::set<std::string> english, korean;
  for (int number = 0; number < number_limit; number += number < 20'000 ? 1 : 97) {
    EXPECT_TRUE(english.insert(english_name(number)).second) << number;
    EXPECT_TRUE(korean.insert(korean_name(number)).second) << number;
  }
}

TEST(Numbers, ATenthIsHeldOut) {
  int count = 0;
  for (int number = 0; number < number_limit; ++number) count += held_out(number);
  EXPECT_NEAR(count, number_limit / 10, 1000);
  for (int number = 0; number < 100; ++number) EXPECT_FALSE(held_out(number)) << number;
}

TEST(Numbers, DrawsAreOnTheirSideAndOfEveryLength) {
  eigenformer::RandomSequence random(1);
  std::set<std::size_t> lengths;
  for (int i = 0; i < 10'000; ++i) {
    const int training = draw_training_number(random), test = draw_test_number(random);
    ASSERT_TRUE(training >= 0 && training < number_limit && !held_out(training)) << training;
    ASSERT_TRUE(test >= 0 && test < number_limit && held_out(test)) << test;
    lengths.insert(std::to_string(training).size());
  }
  EXPECT_EQ(lengths.size(), 6u);
}

}  // namespace
}  // namespace translate
