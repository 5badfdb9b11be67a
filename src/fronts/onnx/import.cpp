// A file to a verified module: one try for all values of the symbols, and one for the shapes given.
#include "fronts/onnx/import.h"

#include "base/first_bytes.h"
#include "base/path.h"
#include "fronts/onnx/importer.h"
#include "ir/text/text.h"

namespace cugrt::onnx {

static Status verified(const ir::Module &module) {
  Diagnostics diagnostics;
  ir::verify(module, diagnostics);
  if (diagnostics.empty())
    return {};
  return Status::error(Code::verify_error, diagnostics.list().front().message);
}

/// Whether the model may be taken in another way.
static bool is_limit(const Result<Imported> &imported) {
  return !imported.ok() && (imported.status().code() == Code::unsupported ||
                            imported.status().code() == Code::verify_error);
}

static Result<Imported> import_model(const Model &model, ExternalFiles &files,
                                     const Options &options) {
  Learnt learnt;
  // Each turn raises an input's mode, of which there are three, fixes a dimension, or makes the
  // host wait for a node. A model that cannot be imported with integers of a run is tried with the
  // given ones, and in the end the host waits for each size that the device computes.
  for (;;) {
    auto imported = Importer(model, files, options, learnt).run();
    if (imported.ok())
      if (Status status = verified(imported->module); !status.ok())
        imported = std::move(status);
    if (imported.ok())
      return imported;
    if (imported.status().code() != Code::busy &&
        !(is_limit(imported) && (learnt.bind() || learnt.read())))
      return imported;
  }
}

Result<Imported> import_bytes(std::string_view bytes, const std::string &folder,
                              const Options &options) {
  CUGRT_ASSIGN(const Model model, read_model(bytes));
  ExternalFiles files(folder);
  auto imported = import_model(model, files, options);
  if (!is_limit(imported) || options.given.empty() || options.fix_given)
    return imported;
  Options fixed = options;
  fixed.fix_given = true;
  auto again = import_model(model, files, fixed);
  if (!again.ok())
    return imported;
  again->note = imported.status().message();
  return again;
}

Result<std::vector<std::string>> input_names(const std::string &path) {
  CUGRT_ASSIGN(const MappedFile file, MappedFile::open(path));
  CUGRT_ASSIGN(const Model model, read_model(file.bytes()));
  std::set<std::string_view> initialized;
  for (const TensorView &tensor : model.graph.initializers)
    initialized.insert(tensor.name);
  std::vector<std::string> names;
  for (const ValueInfo &info : model.graph.inputs)
    if (!initialized.count(info.name))
      names.emplace_back(info.name);
  return names;
}

Result<Imported> import_file(const std::string &path, const Options &options) {
  CUGRT_ASSIGN(MappedFile mapped, MappedFile::open(path));
  const auto file = std::make_shared<const MappedFile>(std::move(mapped));
  if (const std::string_view what = told_by_first_bytes(file->bytes());
      !what.empty() && !what.starts_with("an ONNX"))
    return Status::error(Code::parse_error,
                         "'" + path + "' is no ONNX model; it is " + std::string(what));
  auto imported = import_bytes(file->bytes(), folder_of(path), options);
  if (!imported.ok())
    return imported.take_status().in("'" + path + "'");
  imported->files.push_back(file);
  return imported;
}

} // namespace cugrt::onnx
