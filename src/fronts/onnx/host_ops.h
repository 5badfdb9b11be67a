// Which ops fold, and those that only choose elements (private to the importer).
#pragma once

#include "fronts/onnx/call.h"

namespace cugrt::onnx::host {

/// Larger results are the device's work.
inline constexpr int64_t kMostElements = 4096;

/// Whether elements of the dtype are looked at: they have at least 8 bits each.
bool has_elements(DType dtype);

/// How an op folds.
enum class Fold { unary, binary, cast, where, constant_of_shape, range, reduce, move };
/// That of the node's op where each operand is known, small, and of a dtype that the op folds; none
/// otherwise: the op itself then takes or refuses the node. `in` gets the operands, null: absent.
std::optional<Fold> foldable(Call &call, std::vector<const Host *> &in);

std::optional<Ints> broadcast(const Ints &a, const Ints &b);
/// For each element of a tensor of `to`, that of the tensor of `from` which stretches to it.
std::vector<size_t> stretched(const Ints &from, const Ints &to);

bool moves(std::string_view op);
/// The node's results; none where they are not to be had on the host. Operands behind those that
/// are moved may be of any dtype.
std::optional<std::vector<Host>> moved(Call &call, const std::vector<const Host *> &in);

} // namespace cugrt::onnx::host
