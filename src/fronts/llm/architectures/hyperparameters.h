// What architectures read from a file's keys alike.
#pragma once

#include "fronts/llm/architectures/decoder.h"

namespace cugrt::llm {

/// Keys that most architectures have, under their own name; the ones in `more` are known besides.
/// Numbers are checked against what a model can be.
Result<Decoder> read_hyperparameters(const gguf::File &file, std::string_view architecture,
                                     std::span<const std::string_view> more);

} // namespace cugrt::llm
