// Plain text: aligned columns, grouped digits, sizes in bytes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "eigenformer/core/scalar.hpp"

namespace example {

using eigenformer::Index;

/// 8,030,261,248
inline std::string grouped(Index number) {
  std::string digits = std::to_string(number);
  for (std::size_t place = digits.size(); place > 3;) digits.insert(place -= 3, ",");
  return digits;
}

inline std::string fixed(double number, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, number);
  return text;
}

inline std::string percent(double part, double whole) { return fixed(whole > 0 ? 100 * part / whole : 0, 1) + " %"; }

/// 4 MiB, 1.5 GiB
inline std::string bytes(double size) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; size >= 1024 && unit + 1 < std::size(units); ++unit) size /= 1024;
  return fixed(size, size == std::floor(size) ? 0 : 1) + " " + units[unit];
}

/// Rows of cells; the first `left` columns are aligned to the left, the others to the right.
class Table {
 public:
  explicit Table(std::size_t left = 1) : left_(left) {}

  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  void print() const {
    std::vector<std::size_t> widths;
    for (const auto& cells : rows_)
      for (std::size_t i = 0; i < cells.size(); ++i) {
        widths.resize((std::max)(widths.size(), i + 1));
        widths[i] = (std::max)(widths[i], width(cells[i]));
      }
    for (const auto& cells : rows_) {
      std::string line;
      for (std::size_t i = 0; i < cells.size(); ++i) {
        const std::string gap(widths[i] - width(cells[i]), ' ');
        line += "  " + (i < left_ ? cells[i] + gap : gap + cells[i]);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      std::printf("%s\n", line.c_str());
    }
  }

 private:
  /// In characters: the bytes of UTF-8 that do not continue one.
  static std::size_t width(const std::string& text) {
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
  }

  std::size_t left_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace example
