// What is trained on and what is tested with: the names of numbers, or the lines of a file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "eigenformer/core/error.hpp"
#include "numbers.hpp"
#include "text.hpp"

namespace translate {

struct Corpus {
  Batches::Draw draw{};       ///< a pair to train on
  std::vector<Pair> tests{};  ///< none of which is ever drawn
  std::string text{};         ///< has every character that training uses
  Index longest_target = 0;   ///< that is drawn, in characters
};

inline constexpr std::size_t test_count = 500;

/// Numbers, divided by held_out().
inline Corpus number_corpus() {
  const auto names = [](int number) { return Pair{english_name(number), korean_name(number)}; };
  Corpus corpus{.draw = [=](eigenformer::RandomSequence& random) { return names(draw_training_number(random)); },
                .longest_target = static_cast<Index>(characters(korean_name(number_limit - 1)).size())};
  for (int number = 0; number < 20'000; ++number)  // every word is among them
    if (!held_out(number)) corpus.text += english_name(number) + korean_name(number);
  std::set<int> tested;
  for (eigenformer::RandomSequence random(0); tested.size() < test_count;)
    if (const int number = draw_test_number(random); tested.insert(number).second)
      corpus.tests.push_back(names(number));
  return corpus;
}

/// The pairs of a file with lines of a source, a tab and a target. The tests are all pairs with the tenth of the
/// sources, or as many as make 500, whose hashes are the lowest: no tested source is trained on, nor does the order of
/// lines matter.
inline Corpus file_corpus(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  eigenformer::ensure(file.is_open(), "translate", "cannot open ", path);
  std::vector<Pair> pairs;
  std::string line;
  for (Index number = 1; std::getline(file, line); ++number) {
    if (line.ends_with('\r')) line.pop_back();
    const auto wrong = [&](const auto&... what) { eigenformer::fail("translate", path, ":", number, ": ", what...); };
    const std::size_t tab = line.find('\t');
    if (tab == std::string::npos) wrong("no tab between source and target");
    if (line.find('\t', tab + 1) != std::string::npos) wrong("more than one tab");
    if (tab == 0) wrong("the source is empty");
    if (tab + 1 == line.size()) wrong("the target is empty");
    for (const Character& character : characters(line))
      if (!character.valid) wrong("byte ", character.bytes.data() - line.data() + 1, " is not UTF-8");
    pairs.push_back({line.substr(0, tab), line.substr(tab + 1)});
  }
  eigenformer::ensure(!file.bad(), "translate", "cannot read ", path);
  eigenformer::ensure(!pairs.empty(), "translate", path, " has no lines");

  const auto hash = [](const std::string& text) {  // FNV-1a, 64 bits
    std::uint64_t value = 0xcbf29ce484222325;
    for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return value;
  };
  std::set<std::uint64_t> hashes;
  for (const Pair& pair : pairs) hashes.insert(hash(pair.source));
  const std::size_t tested = (std::min)(hashes.size() / 10, test_count);
  const std::uint64_t limit = *std::next(hashes.begin(), static_cast<std::ptrdiff_t>(tested));

  Corpus corpus;
  const auto training = std::make_shared<std::vector<Pair>>();
  for (Pair& pair : pairs) {
    if (hash(pair.source) < limit) {
      corpus.tests.push_back(std::move(pair));
      continue;
    }
    corpus.text += pair.source + pair.target;
    corpus.longest_target = (std::max)(corpus.longest_target, static_cast<Index>(characters(pair.target).size()));
    training->push_back(std::move(pair));
  }
  corpus.draw = [training](eigenformer::RandomSequence& random) {
    return (*training)[static_cast<std::size_t>(random.below(static_cast<Index>(training->size())))];
  };
  return corpus;
}

}  // namespace translate
