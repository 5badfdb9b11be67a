// cuLink*: several PTX inputs become one image, which cuModuleLoadData and cuLibraryLoadData take.
// There is no cubin here: the image holds the texts (decode/link.h), checked as a module's are.
#include "emulator/decode/link.h"
#include "emulator/driver/code/jit_options.h"
#include "emulator/driver/code/module.h"
#include "emulator/ptx/parser.h"

namespace cugrt::emulator::api {

/// `body` gets the driver and the live state, with the lock held. The log gets its answer.
template <class Body> static CUresult link_call(CUlinkState handle, Body &&body) {
  return locked_call([&](Driver &driver) -> CUresult {
    Ref<LinkState> state = driver.links.find(handle);
    return state ? body(driver, *state) : CUDA_ERROR_INVALID_HANDLE;
  });
}
#define LINK_CALL(...)                                                                             \
  GUARDED(link_call(handle, body), (Driver & driver, LinkState & state), __VA_ARGS__)

static CUresult refuse(Driver &driver, LinkState &state, std::string why, CUresult result) {
  state.log += why + "\n";
  write_logs(state.options, state.log);
  driver.report(Check::refused, why);
  return result;
}

// "This method accepts only compiler options".
static CUresult check_input_options(unsigned count, CUjit_option *options, void **values) {
  JitOptions ignored;
  CUGRT_EMU_TRY(read_options(count, options, values, &ignored));
  for (unsigned i = 0; i < count; ++i)
    for (CUjit_option refused :
         {CU_JIT_WALL_TIME, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
          CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_TARGET_FROM_CUCONTEXT,
          CU_JIT_TARGET})
      if (options[i] == refused)
        return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

static CUresult add(Driver &driver, LinkState &state, CUjitInputType type, std::string_view data,
                    std::string name) {
  if (state.completed || type < 0 || type >= CU_JIT_NUM_INPUT_TYPES ||
      state.texts.size() >= kMaxLinkedTexts)
    return CUDA_ERROR_INVALID_VALUE;
  if (type == CU_JIT_INPUT_LIBRARY && is_device_runtime(data))
    data = device_runtime_ptx();
  else if (type != CU_JIT_INPUT_PTX)
    return refuse(driver, state,
                  name + " is compiled code, which the emulated device cannot run: link PTX",
                  CUDA_ERROR_NO_BINARY_FOR_GPU);
  data = data.substr(0, data.find('\0'));
  auto module = ptx::parse(data);
  if (!module.ok())
    return refuse(driver, state, module.take_status().in(name).to_string(), CUDA_ERROR_INVALID_PTX);
  state.names.reserve(state.names.size() + 1); // so that both lists grow, or neither
  state.texts.emplace_back(data);
  state.names.push_back(std::move(name));
  return CUDA_SUCCESS;
}

static CUresult complete(Driver &driver, LinkState &state) {
  if (state.texts.empty())
    return refuse(driver, state, "a link without inputs", CUDA_ERROR_INVALID_IMAGE);
  std::vector<std::unique_ptr<ptx::Module>> parts;
  for (const std::string &text : state.texts) {
    auto part = ptx::parse(text);
    if (!part.ok())
      return refuse(driver, state, part.status().to_string(), CUDA_ERROR_INVALID_PTX);
    parts.push_back(std::move(part).value());
  }
  // No document says how undefined and doubly defined names are answered.
  if (auto linked = link(std::move(parts), state.names); !linked.ok())
    return refuse(driver, state, linked.status().to_string(), CUDA_ERROR_UNKNOWN);
  std::string image = linked_image(state.texts, state.options.max_registers);
  std::unique_ptr<Program> program;
  if (CUresult result = parse_program(driver, image, {}, &program); result != CUDA_SUCCESS)
    return refuse(driver, state, driver.message(), result);
  state.image = std::move(image);
  state.completed = true;
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuLinkCreate_v2, count, options, values, out) {
  CUGRT_EMU_FIND(Context, context, current_context, driver);
  if (!out)
    return CUDA_ERROR_INVALID_VALUE;
  auto state = std::make_shared<LinkState>();
  CUGRT_EMU_TRY(read_options(count, options, values, &state->options));
  write_logs(state->options, {});
  *out = driver.links.insert(state);
  return CUDA_SUCCESS;
}

LINK_CALL(cuLinkAddData_v2, handle, type, data, bytes, name, count, options, values) {
  if (!data || !bytes)
    return CUDA_ERROR_INVALID_VALUE;
  CUGRT_EMU_TRY(check_input_options(count, options, values));
  return add(driver, state, type, {static_cast<const char *>(data), bytes},
             name ? name : "input " + std::to_string(state.texts.size() + 1));
}

LINK_CALL(cuLinkAddFile_v2, handle, type, path, count, options, values) {
  if (!path)
    return CUDA_ERROR_INVALID_VALUE;
  CUGRT_EMU_TRY(check_input_options(count, options, values));
  std::string image;
  CUGRT_EMU_TRY(read_image(path, &image));
  return add(driver, state, type, image, path);
}

LINK_CALL(cuLinkComplete, handle, image, bytes) {
  if (!image)
    return CUDA_ERROR_INVALID_VALUE;
  if (!state.completed)
    CUGRT_EMU_TRY(complete(driver, state));
  *image = state.image.data(); // lives as long as the state
  if (bytes)
    *bytes = state.image.size();
  return CUDA_SUCCESS;
}

CALL(cuLinkDestroy, handle) {
  return driver.links.erase(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

} // namespace cugrt::emulator::api
