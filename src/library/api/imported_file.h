// Modules from files of other formats: the library that reads one is opened when the first such
// file is met, so that this one knows nothing of formats but how their files begin.
#pragma once

#include "cugrt/cugrt.h"
#include "device/api/handles.h"
#include "ir/text/built_module.h"

#include <string_view>

namespace cugrt::runtime::api {

struct ImportedFile {
  WeightSet weights;                        // views of the file's pages, which they keep mapped
  std::vector<std::string> inputs, results; // the file's names of main's inputs and results
};

/// Whether a file that begins so is for import_file; no text is.
bool begins_as_importable(std::string_view begin);

struct ImportedModule {
  cugrt_built_module built;
  ImportedFile file;
};
Result<ImportedModule> import_file(const char *path, const cugrt_import_options &options);

/// A handle of the module, which is checked.
Result<std::unique_ptr<cugrt_module>> adopt_module(const cugrt_built_module &built,
                                                   std::string name);

} // namespace cugrt::runtime::api
