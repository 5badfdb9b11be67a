// The kernels that read and write a decoder's state, as text of the module that it is built into.
#pragma once

namespace cugrt::llm {

/// A module of declarations: what begins and ends a step.
extern const char *const kStateKernels;
/// Further ones, of steps that verify drafts.
extern const char *const kDraftKernels;

} // namespace cugrt::llm
