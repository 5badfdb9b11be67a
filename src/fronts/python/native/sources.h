// From what Python names to a model: text, pack or ONNX, told apart by content, with weights.
#pragma once

#include "model.h"

namespace cugrt::python {

/// "text", "pack", "onnx" or "gguf" by the first bytes; throws cugrt::Error for what is none of
/// them. `name` stands for the content in the message.
const char *kind_of(std::string_view content, const std::string &name);

/// Constructs in place. `source` is what cugrt/_model.py puts together: see open_model there.
void open_model(Model *self, nb::dict source);

/// Adds those of a dict of arrays; a path of a safetensors file takes the place of all; none: as
/// they are.
void add_weights(Weights &weights, nb::object given, Device &device);

void bind_sources(nb::module_ &module);

} // namespace cugrt::python
