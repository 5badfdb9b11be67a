// The C++20 program of the same kind, over the header-only API.
#include <cugrt/cugrt.hpp>

#include <cstdio>

int main() {
  try {
    cugrt::Module::parse("no module", "text", ".");
  } catch (const cugrt::Error &error) {
    std::printf("%s\n", error.what());
    return 0;
  }
  return 3;
}
