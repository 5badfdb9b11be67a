// Structs behind the handles of the C ABI. Internal to src/device/api/.
#pragma once

#include "device/context/abi_types.h"
#include "device/context/device.h"
#include "device/pack/pack.h"
#include "device/session/session.h"

#include <vector>

namespace cugrt::ir {
struct Module; // the library for devices has none
}
namespace cugrt::runtime::api {
struct ImportedFile;
}

struct cugrt_runtime {
  std::shared_ptr<cugrt::runtime::Device> device;
};

struct cugrt_buffer {
  std::shared_ptr<cugrt::runtime::Device> device; // outlives the memory
  cugrt::runtime::BudgetCharge charge;            // of a group's buffer; likewise
  cugrt::driver::DeviceBuffer device_memory;
  cugrt::driver::PinnedBuffer pinned_memory;
  uint64_t address = 0, bytes = 0;
};

struct cugrt_stream {
  std::shared_ptr<cugrt::runtime::Device> device;
  cugrt::driver::Stream stream;
};

struct cugrt_event {
  std::shared_ptr<cugrt::runtime::Device> device;
  cugrt::driver::Event event;
};

struct cugrt_module {
  std::shared_ptr<const cugrt::ir::Module> module;
  std::string name, base_folder;
  std::shared_ptr<const std::string> text; // that it was parsed from, for messages
  std::shared_ptr<const cugrt::runtime::api::ImportedFile> imported{}; // null: it came as text
  std::map<uint32_t, std::string> names{}; // by line: what its file calls it
};

struct cugrt_weights {
  cugrt::runtime::WeightSet set;
};

struct cugrt_pack {
  cugrt::runtime::Pack pack;
  std::string base_folder; // of a weights file
};

struct cugrt_function {
  const cugrt::runtime::Executable *executable;
  uint32_t index;
  size_t param_count; // without computed weights, which are the last
  /// Strings that infos point to: names of dimensions, of parameters and then of results.
  std::vector<std::vector<std::string>> dim_names;
  std::vector<std::string> result_names;

  const cugrt::plan::Function &plan() const { return executable->plan().functions[index]; }
};

/// An executable's handle and its sessions share this, so that function handles live as long as any
/// of them.
struct cugrt_executable_data {
  std::shared_ptr<const cugrt::runtime::Executable> executable;
  std::vector<cugrt_function> functions;
  std::vector<uint32_t> visible; // those that are not private
};

struct cugrt_executable {
  std::shared_ptr<const cugrt_executable_data> data;
};

namespace cugrt::runtime::api {
/// The data that a handle refers to; defined in executable_api.cpp.
std::shared_ptr<const cugrt_executable_data>
make_executable_data(std::shared_ptr<const Executable> executable);
} // namespace cugrt::runtime::api

struct cugrt_session {
  std::shared_ptr<const cugrt_executable_data> data;
  const cugrt::runtime::Executable *executable = nullptr;
  std::unique_ptr<cugrt::runtime::Session> session;
};

struct cugrt_group {
  std::shared_ptr<cugrt::runtime::Group> group;
};
