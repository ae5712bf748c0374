// What every unit can do. Nothing of ours crosses between units: each has types and functions of its own.
#pragma once

#include <string>
#include <vector>

struct Unit {
  const char* name;
  std::vector<const void*> (
      *functions)();  // where the linker has put some of this unit's, one of each layer of the library
  std::vector<float> (*logits)(int threads, bool packed);    // of the unit's own model
  std::vector<float> (*gradient)();                          // of its weights, one after the other
  void (*save)(const std::string& path);                     // the model
  std::vector<float> (*logits_of)(const std::string& path);  // of the model that another saved
};

extern const Unit baseline, avx2, avx512;
