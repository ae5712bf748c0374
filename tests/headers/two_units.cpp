// That this links is most of the test; and both units must see the same types.
#include <cstddef>
#include <vector>

std::vector<std::size_t> debug();
std::vector<std::size_t> release();

int main() { return debug() == release() ? 0 : 1; }
