// The C++20 program of the same kind, over the header-only API; given a file, it prints that
// module.
#include <cugrt/cugrt.hpp>

#include <cstdio>

int main(int count, char **arguments) {
  try {
    if (count > 1)
      return std::printf("%s\n", cugrt::Module::load(arguments[1]).print().c_str()) < 0;
    cugrt::Module::parse("no module", "text", ".");
  } catch (const cugrt::Error &error) {
    std::printf("%s\n", error.what());
    return 0;
  }
  return 3;
}
