// Units for different instruction sets in one program: each runs its own code, and reads what the others have saved. In
// plain main(): compiled for the baseline.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "unit.hpp"

namespace {

int failures = 0;

void expect(bool condition, const std::string& what) {
  if (condition) return;
  std::printf("failed: %s\n", what.c_str());
  ++failures;
}

/// Equal but for rounding: other instructions, other orders of summation.
bool close(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  float largest = 0, difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return false;
    largest = std::fmax(largest, std::abs(a[i]));
    difference = std::fmax(difference, std::abs(a[i] - b[i]));
  }
  return largest > 0 && difference <= 2e-5f * largest;
}

}  // namespace

int main() {
  std::vector<const Unit*> units{&baseline}, all{&baseline};
#ifdef HAVE_avx2
  all.push_back(&avx2);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) units.push_back(&avx2);
#endif
#ifdef HAVE_avx512
  all.push_back(&avx512);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("fma")) units.push_back(&avx512);
#endif
  std::set<const void*> places;
  std::size_t functions = 0;
  for (const Unit* unit : all)
    for (const void* place : unit->functions()) places.insert(place), ++functions;
  expect(places.size() == functions, "every unit has functions of its own");

  const std::vector<float> logits = baseline.logits(1, false), gradient = baseline.gradient();
  for (const Unit* unit : units) {
    const std::string name = unit->name, path = "abi_" + name + ".safetensors";
    expect(unit->logits(1, true) == unit->logits(2, false),
           "the same bits, packed or not, whatever the threads: " + name);
    expect(close(unit->logits(1, false), logits), "logits: " + name);
    expect(close(unit->gradient(), gradient), "gradient: " + name);
    unit->save(path);
    for (const Unit* other : units)
      expect(other->logits_of(path) == other->logits(1, false), other->name + (" reads what was saved by " + name));
    std::remove(path.c_str());
  }
  std::printf("%zu units, %d failures\n", units.size(), failures);
  return failures != 0;
}
