// Ops on the host that only choose elements (private to the importer).
#pragma once

#include "import/onnx/call.h"

namespace cugrt::onnx::host {

std::optional<Ints> broadcast(const Ints &a, const Ints &b);
/// For each element of a tensor of `to`, that of the tensor of `from` which stretches to it.
std::vector<size_t> stretched(const Ints &from, const Ints &to);

bool moves(std::string_view op);
/// The node's results; none where they are not to be had on the host.
std::optional<std::vector<Host>> moved(Call &call, const std::vector<const Host *> &in);

} // namespace cugrt::onnx::host
