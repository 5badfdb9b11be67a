// cugrt._native: the C++ part of the package, over the C ABI alone.
#include "device.h"
#include "errors.h"
#include "model.h"

namespace nb = nanobind;

namespace cugrt::python {
void bind_llm(nb::module_ &module);
}

NB_MODULE(_native, module) {
  using namespace cugrt::python;
  nb::set_leak_warnings(false); // what is alive when the interpreter ends is freed with the process
  translate_errors();
  bind_device_array(module);
  bind_model(module);
  bind_sources(module);
  bind_llm(module);
  module.attr("version") = cugrt::api().version_string;
}
