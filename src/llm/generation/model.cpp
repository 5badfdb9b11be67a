// Opening of models; see model.h.
#include "llm/generation/model.h"

namespace cugrt::llm {

Result<std::shared_ptr<const Model>> Model::open(const std::string &path) {
  CUGRT_ASSIGN(gguf::File file, gguf::File::open(path));
  auto model = std::make_shared<Model>(Model{std::move(file), {}, nullptr});
  CUGRT_ASSIGN(model->architecture, model->file.string("general.architecture"));
  CUGRT_ASSIGN(model->tokenizer, Tokenizer::load(model->file));
  return std::shared_ptr<const Model>(std::move(model));
}

} // namespace cugrt::llm
