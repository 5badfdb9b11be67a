// Parts of the entries of include/cugrt/llm.h: their handles, and how structs and errors cross the
// C ABI.
#pragma once

#include "fronts/llm/generation/call.h"
#include "fronts/llm/generation/generator.h"

#include <cugrt/llm.h>

#include <cstring>
#include <new>

struct cugrt_llm_model {
  std::shared_ptr<const cugrt::llm::Model> model;
};
struct cugrt_llm_tokens {
  std::vector<int32_t> ids;
  std::optional<std::string> text = std::nullopt; // of a conversation
};
struct cugrt_llm_prompt {
  std::shared_ptr<const cugrt::llm::PromptCache> cache;
};
struct cugrt_llm_adapter {
  std::shared_ptr<const cugrt::llm::LoraAdapter> adapter;
  std::string targets;
};
struct cugrt_llm_session {
  std::unique_ptr<cugrt::llm::Generator> generator;
};

namespace cugrt::llm {

inline cugrt_status *to_c(const Status &status) {
  if (status.ok())
    return nullptr;
  std::string text = status.location().empty() ? "" : status.location() + ": ";
  text += status.message();
  if (!status.cuda_error().empty())
    text += " (" + status.cuda_error() + ")";
  return api().status_create(static_cast<cugrt_code>(status.code()), text.c_str());
}

template <auto body> struct Guarded;
template <class... Arguments, Status (*body)(Arguments...)> struct Guarded<body> {
  static cugrt_status *call(Arguments... arguments) {
    try {
      return to_c(body(arguments...));
    } catch (const std::bad_alloc &) {
      return api().status_create(CUGRT_OUT_OF_HOST_MEMORY, "the host is out of memory");
    } catch (const std::exception &error) {
      return api().status_create(CUGRT_INTERNAL, error.what());
    }
  }
};
/// The entry of the table that does what `body` does; nothing is thrown beyond it.
template <auto body> constexpr auto entry = Guarded<body>::call;

inline Status require(bool is_given, const char *what) {
  return is_given ? Status()
                  : Status::error(Code::invalid_argument, std::string(what) + " is missing");
}

/// The caller's struct as this library knows it; what an older caller's lacks is 0.
template <class T> Result<T> take_struct(const T *given, const char *what) {
  auto taken = detail::sized<T>();
  if (!given)
    return taken;
  if (given->struct_size < sizeof(size_t))
    return Status::error(Code::invalid_argument, std::string(what) + ": struct_size is not set");
  std::memcpy(&taken, given, std::min(given->struct_size, sizeof taken));
  taken.struct_size = sizeof taken;
  return taken;
}

/// Fills as much of the caller's struct as it has room for.
template <class T> Status give_struct(T made, T *wanted, const char *what) {
  if (!wanted || wanted->struct_size < sizeof(size_t))
    return Status::error(Code::invalid_argument, std::string(what) + ": struct_size is not set");
  made.struct_size = wanted->struct_size;
  std::memcpy(wanted, &made, std::min(wanted->struct_size, sizeof made));
  return {};
}

} // namespace cugrt::llm
