// Packs of the C ABI.
#include "device/api/entries.h"
#include "device/api/guard.h"
#include "device/api/handles.h"
#include "device/pack/pack_open.h"

#include <filesystem>

namespace cugrt::runtime::api {

static Status make_pack(SharedBytes bytes, std::string name, std::string base_folder,
                        cugrt_pack **pack) {
  CUGRT_ASSIGN(Pack read, read_pack(std::move(bytes), std::move(name)));
  *pack = new cugrt_pack{std::move(read), std::move(base_folder)};
  return {};
}

static Status pack_load(const char *path, cugrt_pack **pack) {
  CUGRT_REQUIRE(path, pack);
  CUGRT_ASSIGN(MappedFile file, MappedFile::open(path));
  return make_pack(std::move(file), path, std::filesystem::path(path).parent_path().string(), pack);
}

static Status pack_parse(const void *bytes, size_t size, const char *name, const char *base_folder,
                         cugrt_pack **pack) {
  CUGRT_REQUIRE(bytes || !size, pack);
  if (size > kMaxPackBytes)
    return Status::error(Code::invalid_argument, "the pack is larger than 1 TiB");
  return make_pack(std::make_shared<const std::string>(static_cast<const char *>(bytes), size),
                   name ? name : "in memory", base_folder ? base_folder : "", pack);
}

static void pack_free(cugrt_pack *pack) { delete pack; }

static Status pack_weights(const cugrt_pack *pack, cugrt_weights **weights) {
  CUGRT_REQUIRE(pack, weights);
  CUGRT_ASSIGN(std::optional<WeightSet> set, runtime::pack_weights(pack->pack, pack->base_folder));
  *weights = set ? new cugrt_weights{std::move(*set)} : nullptr;
  return {};
}

static Status executable_from_pack(cugrt_runtime *runtime, const cugrt_pack *pack,
                                   cugrt_executable **executable) {
  CUGRT_REQUIRE(runtime, pack, executable);
  CUGRT_ASSIGN(std::shared_ptr<const Executable> made, open_pack(*runtime->device, pack->pack));
  *executable = new cugrt_executable{make_executable_data(std::move(made))};
  return {};
}

void add_pack_entries(cugrt_api &table) {
  set_entry<pack_load>(table.pack_load);
  set_entry<pack_parse>(table.pack_parse);
  table.pack_free = pack_free;
  set_entry<pack_weights>(table.pack_weights);
  set_entry<executable_from_pack>(table.executable_from_pack);
}

} // namespace cugrt::runtime::api
