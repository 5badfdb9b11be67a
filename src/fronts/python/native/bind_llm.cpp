// Language models as Python sees them. cugrt/_llm.py builds on it, and lets one thread in at a
// time.
#include "device.h"
#include "errors.h"
#include "progress.h"

#include <cugrt/llm.hpp>

#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <map>

namespace cugrt::python {

namespace {

class LanguageModels {
public:
  LanguageModels(const std::string &path, std::shared_ptr<Device> device,
                 std::shared_ptr<SharedDevice> group, const LanguageSessionOptions &options)
      : device_(std::move(device)), group_(std::move(group)), model_(path),
        session_(model_, device_->runtime(), options) {}

  std::shared_ptr<Device> device_;      // outlives the session
  std::shared_ptr<SharedDevice> group_; // likewise; null: none
  LanguageModel model_;
  LanguageSession session_;
  std::map<std::string, LanguageAdapter> adapters_; // by their names
};

void open(LanguageModels *self, const std::string &path, const std::string &driver, int ordinal,
          const std::string &nvrtc, const std::string &dtype, const std::string &cache,
          int64_t context, int64_t places, const std::string &pack, nb::object function,
          std::shared_ptr<SharedDevice> group, const std::string &exclusive, int priority, int wait,
          uint32_t multiprocessors, bool drafts, int64_t lora_rank,
          const std::string &lora_targets) {
  LanguageSessionOptions options;
  options.dtype = static_cast<cugrt_dtype>(dtype_from_name(dtype));
  if (!cache.empty())
    options.cache = static_cast<cugrt_dtype>(dtype_from_name(cache));
  options.context = context;
  options.places = places;
  options.pack = pack.empty() ? nullptr : pack.c_str();
  options.group = group ? &group->group : nullptr;
  options.exclusive = exclusive.empty() ? nullptr : exclusive.c_str();
  options.priority = priority;
  options.wait = static_cast<cugrt_wait>(wait);
  options.draft = drafts ? CUGRT_LLM_DRAFT_NGRAM : CUGRT_LLM_DRAFT_NONE;
  options.lora_rank = lora_rank;
  options.lora_targets = lora_targets.c_str();
  Progress progress(function);
  progress.put_into(options);
  {
    nb::gil_scoped_release released;
    auto device =
        group ? Device::part(group->device, multiprocessors) : Device::open(driver, ordinal, nvrtc);
    new (self) LanguageModels(path, std::move(device), std::move(group), options);
  }
  try {
    progress.rethrow();
  } catch (...) {
    self->~LanguageModels();
    throw;
  }
}

/// (tokens, the token that ends an answer or -1, the template's text) of JSON; "" for absent
/// parts.
nb::tuple tokenize_chat(LanguageModels &self, const std::string &messages, const std::string &tools,
                        const std::string &documents, const std::string &variables,
                        bool add_generation_prompt) {
  int32_t end = -1;
  std::string text;
  const std::vector<int32_t> tokens = without_gil([&] {
    return self.model_.tokenize_chat({messages, tools, documents, variables, add_generation_prompt},
                                     &end, &text);
  });
  return nb::make_tuple(tokens, end, text);
}

uint64_t add(LanguageModels &self, const std::vector<int32_t> &prompt,
             const std::vector<int32_t> &ends, int64_t log_probabilities, uint64_t max_tokens,
             double temperature, int64_t top_k, double top_p, double min_p,
             double repetition_penalty, double frequency_penalty, uint64_t seed) {
  GenerateOptions options;
  options.prompt = prompt;
  options.ends = ends;
  options.log_probabilities = log_probabilities;
  options.max_tokens = max_tokens;
  options.temperature = temperature;
  options.top_k = top_k;
  options.top_p = top_p;
  options.min_p = min_p;
  options.repetition_penalty = repetition_penalty;
  options.frequency_penalty = frequency_penalty;
  options.seed = seed;
  return self.session_.add(options);
}

/// (sequence, token, text, why it ended or none, log-probability, (token, log-probability) of the
/// most likely ones) of each token.
nb::list step(LanguageModels &self) {
  const std::vector<LanguageEvent> events = without_gil([&] { return self.session_.step(); });
  static constexpr const char *kStops[] = {"end", "length", "context", "caller"};
  nb::list all;
  for (const LanguageEvent &event : events) {
    const bool ended = event.stop >= CUGRT_LLM_STOP_END && event.stop <= CUGRT_LLM_STOP_CALLER;
    nb::list likely;
    for (const cugrt_llm_likely &one : event.likely)
      likely.append(nb::make_tuple(one.token, one.log_probability));
    all.append(nb::make_tuple(event.sequence, event.token, event.text,
                              ended ? nb::object(nb::str(kStops[event.stop])) : nb::none(),
                              event.log_probability, likely));
  }
  return all;
}

/// "" sets none; a name must be one of a loaded adapter.
void set_adapter(LanguageModels &self, const std::string &name, double scale) {
  nb::gil_scoped_release released;
  if (name.empty())
    self.session_.unset_adapter();
  else
    self.session_.set_adapter(self.adapters_.at(name), scale);
}

/// Replaces an adapter of that name, which must not be set.
void load_adapter(LanguageModels &self, const std::string &path, const std::string &name) {
  nb::gil_scoped_release released;
  LanguageAdapter opened(self.model_, path);
  if (const auto before = self.adapters_.find(name); before != self.adapters_.end())
    self.session_.drop_adapter(before->second);
  self.adapters_.insert_or_assign(name, std::move(opened));
}

void delete_adapter(LanguageModels &self, const std::string &name) {
  nb::gil_scoped_release released;
  self.session_.drop_adapter(self.adapters_.at(name));
  self.adapters_.erase(name);
}

nb::dict memory_of(LanguageModels &self) {
  nb::dict all = described_memory(self.session_.memory());
  all["caches"] = self.session_.info().cache_bytes;
  return all;
}

nb::dict info(LanguageModels &self) {
  const cugrt_llm_model_info model = self.model_.info();
  const cugrt_llm_session_info session = self.session_.info();
  nb::dict all;
  all["architecture"] = model.architecture;
  all["layers"] = model.layers;
  all["vocabulary"] = model.vocabulary;
  all["trained_context"] = model.trained_context;
  all["device"] = self.device_->name();
  all["context"] = session.context;
  all["places"] = session.places;
  all["places_empty"] = session.places_empty;
  all["weight_bytes"] = session.weight_bytes;
  all["cache_bytes"] = session.cache_bytes;
  all["arena_bytes"] = session.arena_bytes;
  all["decode_nodes"] = session.decode_nodes;
  all["draft"] = session.draft == CUGRT_LLM_DRAFT_NGRAM ? "ngram" : "none";
  all["verifications"] = session.verifications;
  all["accepted"] = session.accepted;
  all["lora_rank"] = session.lora_rank;
  all["instances_built"] = session.instances_built;
  all["fields_patched"] = session.fields_patched;
  return all;
}

} // namespace

void bind_llm(nb::module_ &module) {
  nb::class_<LanguageModels>(module, "LanguageModel")
      .def("__init__", &open, nb::arg("path"), nb::arg("driver"), nb::arg("device"),
           nb::arg("nvrtc"), nb::arg("dtype"), nb::arg("cache"), nb::arg("context"),
           nb::arg("places"), nb::arg("pack"), nb::arg("progress").none(), nb::arg("group").none(),
           nb::arg("exclusive"), nb::arg("priority"), nb::arg("wait"), nb::arg("multiprocessors"),
           nb::arg("drafts"), nb::arg("lora_rank"), nb::arg("lora_targets"))
      .def(
          "tokenize",
          [](LanguageModels &self, const std::string &text) { return self.model_.tokenize(text); },
          WithoutGil())
      .def("tokenize_chat", &tokenize_chat)
      .def("token_bytes",
           [](LanguageModels &self, int32_t token) {
             const std::string bytes = self.model_.token_bytes(token);
             return nb::bytes(bytes.data(), bytes.size());
           })
      .def("add", &add, nb::arg("prompt"), nb::arg("ends"), nb::arg("log_probabilities"),
           nb::kw_only(), nb::arg("max_tokens") = GenerateOptions().max_tokens,
           nb::arg("temperature") = GenerateOptions().temperature,
           nb::arg("top_k") = GenerateOptions().top_k, nb::arg("top_p") = GenerateOptions().top_p,
           nb::arg("min_p") = GenerateOptions().min_p,
           nb::arg("repetition_penalty") = GenerateOptions().repetition_penalty,
           nb::arg("frequency_penalty") = GenerateOptions().frequency_penalty,
           nb::arg("seed") = GenerateOptions().seed)
      .def("cancel",
           [](LanguageModels &self, uint64_t sequence) { self.session_.cancel(sequence); })
      .def("step", &step)
      .def("clear", [](LanguageModels &self) { self.session_.clear(); })
      .def("load_adapter", &load_adapter)
      .def("set_adapter", &set_adapter)
      .def("delete_adapter", &delete_adapter)
      .def("memory", &memory_of)
      .def(
          "evict", [](LanguageModels &self) { self.session_.evict(); }, WithoutGil())
      .def(
          "is_resident", [](LanguageModels &self) { return self.session_.is_resident(); },
          WithoutGil())
      .def("info", &info);
  module.def("trained_context",
             [](const std::string &path) { return LanguageModel(path).info().trained_context; });
}

} // namespace cugrt::python
