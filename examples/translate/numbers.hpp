// Names of the numbers 0 … 999,999, in English and in Korean.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "eigenformer/core/random.hpp"

namespace translate {

inline constexpr int number_limit = 1'000'000;

/// 123,456 → "one hundred twenty-three thousand four hundred fifty-six": hyphens from twenty-one to ninety-nine, no
/// "and".
inline std::string english_name(int number) {
  constexpr std::array<std::string_view, 20> small{
      "zero", "one",    "two",    "three",    "four",     "five",    "six",     "seven",     "eight",    "nine",
      "ten",  "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
  constexpr std::array<std::string_view, 10> tens{"",      "",      "twenty",  "thirty", "forty",
                                                  "fifty", "sixty", "seventy", "eighty", "ninety"};
  const auto with_rest = [](std::string name, std::string_view joint, int rest) {
    return rest == 0 ? name : name.append(joint).append(english_name(rest));
  };
  if (number < 20) return std::string(small[static_cast<std::size_t>(number)]);
  if (number < 100) return with_rest(std::string(tens[static_cast<std::size_t>(number / 10)]), "-", number % 10);
  if (number < 1000) return with_rest(english_name(number / 100) + " hundred", " ", number % 100);
  return with_rest(english_name(number / 1000) + " thousand", " ", number % 1000);
}

/// 123,456 → "십이만삼천사백오십육": Sino-Korean without spaces, in groups of ten thousand. A one (일) is not spoken
/// before ten, hundred and thousand (십, 백, 천), nor before ten thousand (만) when it is the whole group: 11,110 →
/// "만천백십", but 110,000 → "십일만".
inline std::string korean_name(int number) {
  constexpr std::array<std::string_view, 10> digits{"영", "일", "이", "삼", "사", "오", "육", "칠", "팔", "구"};
  constexpr std::array<std::pair<int, std::string_view>, 4> units{
      {{10'000, "만"}, {1000, "천"}, {100, "백"}, {10, "십"}}};
  if (number == 0) return std::string(digits[0]);
  std::string name;
  for (const auto& [value, unit] : units) {
    const int count = number / value;
    if (count > 1) name += korean_name(count);
    if (count > 0) name += unit;
    number %= value;
  }
  if (number > 0) name += digits[static_cast<std::size_t>(number)];
  return name;
}

/// Whether a number is for tests alone: a tenth of those from 100 on, chosen by a hash of the number. Training skips
/// them; the names below 100 are the words that the others are made of.
inline bool held_out(int number) {
  return number >= 100 && eigenformer::philox({static_cast<std::uint32_t>(number), 0, 0, 0}, 0)[0] % 10 == 0;
}

/// A number of up to six digits, drawn from these: six half of the time, each smaller number of them a tenth.
inline int draw_number(eigenformer::RandomSequence& random, std::string_view digits) {
  int number = 0;
  for (auto length = 6 - (std::max)(random.below(10) - 4, eigenformer::Index{0}); length > 0; --length)
    number = 10 * number +
             digits[static_cast<std::size_t>(random.below(static_cast<eigenformer::Index>(digits.size())))] - '0';
  return number;
}

/// A number to train on. Zeros and ones are frequent, because they make the exceptions: digits that are not spoken,
/// teens.
inline int draw_training_number(eigenformer::RandomSequence& random) {
  for (;;)
    if (const int number = draw_number(random, "00011123456789"); !held_out(number)) return number;
}

/// A number that is held out; all digits are equally frequent.
inline int draw_test_number(eigenformer::RandomSequence& random) {
  for (;;)
    if (const int number = draw_number(random, "0123456789"); held_out(number)) return number;
}

}  // namespace translate
