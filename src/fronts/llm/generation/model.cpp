// Opening of models; see model.h.
#include "fronts/llm/generation/model.h"

namespace cugrt::llm {

static Digest identity_of(const gguf::File &file, const std::string &architecture) {
  constexpr size_t kFirstBytes = 4096;
  Digester digester;
  digester.field(architecture);
  for (const std::string_view key : file.keys())
    if (key.starts_with(architecture + "."))
      digester.field(key).field(file.find(key)->bytes);
  for (const gguf::Tensor &tensor : file.tensors()) {
    digester.field(tensor.name).field(uint64_t(tensor.type));
    for (const int64_t dim : tensor.dims)
      digester.field(uint64_t(dim));
    digester.field(tensor.bytes.substr(0, kFirstBytes));
  }
  return digester.finish();
}

Result<std::shared_ptr<const Model>> Model::open(const std::string &path) {
  CUGRT_ASSIGN(gguf::File file, gguf::File::open(path));
  auto model = std::make_shared<Model>(Model{std::move(file), {}, nullptr, {}});
  CUGRT_ASSIGN(model->architecture, model->file.choice("general.architecture"));
  model->identity = identity_of(model->file, model->architecture);
  CUGRT_ASSIGN(model->tokenizer, Tokenizer::load(model->file));
  return std::shared_ptr<const Model>(std::move(model));
}

} // namespace cugrt::llm
