// Plans a module of text, which needs neither a device nor NVRTC.
#include <cugrt/cugrt.hpp>

#include <cstdio>

int main() {
  const cugrt::Module module = cugrt::Module::parse(
      "cugrt 1\nfunc @main(%x: tensor<[8], f32>) -> (tensor<[8], f32>) {\n  %y = relu(%x)\n"
      "  return %y\n}\n",
      "hello.cugrt", ".");
  std::fputs(module.plan_report().c_str(), stdout);
}
