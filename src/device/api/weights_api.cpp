// Weights of the C ABI.
#include "device/api/entries.h"
#include "device/api/guard.h"
#include "device/api/handles.h"
#include "device/program/symbol_binding.h"

namespace cugrt::runtime::api {

namespace {

Status weights_create(cugrt_weights **weights) {
  CUGRT_REQUIRE(weights);
  *weights = new cugrt_weights;
  return {};
}

Status weights_load(const char *path, cugrt_weights **weights) {
  CUGRT_REQUIRE(path, weights);
  CUGRT_ASSIGN(WeightSet set, load_safetensors(path));
  *weights = new cugrt_weights{std::move(set)};
  return {};
}

/// Reads a caller's tensor as a HostTensor without its bytes.
Result<HostTensor> described(const char *name, const cugrt_tensor &tensor) {
  auto bytes = tensor_bytes(tensor);
  if (!bytes.ok())
    return bytes.take_status().in(std::string("weight '") + name + "'");
  if (tensor.address == 0 && *bytes != 0)
    return Status::error(Code::invalid_argument,
                         std::string("weight '") + name + "': the address is null");
  HostTensor made;
  made.dtype = static_cast<ir::DType>(tensor.dtype);
  made.dims.assign(tensor.dims, tensor.dims + tensor.rank);
  made.size_bytes = *bytes;
  return made;
}

const char *host_bytes(const cugrt_tensor &tensor) {
  return tensor.address ? reinterpret_cast<const char *>(static_cast<uintptr_t>(tensor.address))
                        : "";
}

Status weights_add(cugrt_weights *weights, const char *name, const cugrt_tensor *tensor) {
  CUGRT_REQUIRE(weights, name, tensor);
  CUGRT_ASSIGN(HostTensor copy, described(name, *tensor));
  const auto own = std::make_shared<const std::string>(host_bytes(*tensor), copy.size_bytes);
  copy.storage = {own, own->data()};
  return weights->set.add(name, std::move(copy));
}

Status weights_add_shared(cugrt_weights *weights, const char *name, const cugrt_tensor *tensor,
                          void (*release)(void *user), void *user) {
  const std::shared_ptr<const char> bytes(tensor ? host_bytes(*tensor) : "",
                                          [release, user](const char *) {
                                            if (release)
                                              release(user);
                                          });
  CUGRT_REQUIRE(weights, name, tensor);
  CUGRT_ASSIGN(HostTensor shared, described(name, *tensor));
  shared.storage = bytes;
  shared.is_shared = true;
  return weights->set.add(name, std::move(shared));
}

Status weights_save(const cugrt_weights *weights, const char *path) {
  CUGRT_REQUIRE(weights, path);
  return write_safetensors(path, weights->set.stored());
}

Status weights_replace(const cugrt_weights *base, const cugrt_weights *changes,
                       cugrt_weights **result) {
  CUGRT_REQUIRE(base, changes, result);
  CUGRT_ASSIGN(WeightSet set, base->set.replaced(changes->set));
  *result = new cugrt_weights{std::move(set)};
  return {};
}

size_t weights_count(const cugrt_weights *weights) { return weights ? weights->set.size() : 0; }

Status weights_at(const cugrt_weights *weights, size_t index, const char **name,
                  cugrt_tensor *tensor) {
  CUGRT_REQUIRE(weights);
  if (index >= weights->set.size())
    return Status::error(Code::out_of_range, "there are " + std::to_string(weights->set.size()) +
                                                 " weights, none with index " +
                                                 std::to_string(index));
  if (name)
    *name = weights->set.name(index).c_str();
  if (tensor)
    *tensor = weights->set.tensor(index).describe();
  return {};
}

void weights_free(cugrt_weights *weights) { delete weights; }

} // namespace

void add_weights_entries(cugrt_api &table) {
  set_entry<weights_create>(table.weights_create);
  set_entry<weights_load>(table.weights_load);
  set_entry<weights_add>(table.weights_add);
  set_entry<weights_add_shared>(table.weights_add_shared);
  table.weights_count = weights_count;
  set_entry<weights_at>(table.weights_at);
  set_entry<weights_save>(table.weights_save);
  set_entry<weights_replace>(table.weights_replace);
  table.weights_free = weights_free;
}

} // namespace cugrt::runtime::api
