// Linking of modules, in the C ABI: names become places, equal weights are found.
#include "device/api/entries.h"
#include "device/api/guard.h"
#include "device/api/handles.h"
#include "ir/module/link.h"
#include "ir/module/names.h"
#include "library/api/imported_file.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace cugrt::runtime::api {

namespace {

constexpr size_t kMostParts = 256;

class LinkCall {
public:
  LinkCall(std::span<const cugrt_link_part> parts, std::span<const cugrt_link_join> joins)
      : given_(parts), joins_(joins) {}

  Result<std::unique_ptr<cugrt_module>> run() {
    for (const cugrt_link_part &part : given_) {
      CUGRT_REQUIRE(part.name, part.module);
      parts_.push_back({part.name, part.module->module.get(), part.module->base_folder, {}});
    }
    for (ir::LinkPart &part : parts_)
      if (const ir::Function *main = part.module->find_function("main"))
        number_weights(part, *main);
    std::vector<ir::LinkJoin> joins;
    for (const cugrt_link_join &join : joins_) {
      CUGRT_REQUIRE(join.input, join.result);
      CUGRT_ASSIGN(const Place input, find_input(join.input));
      CUGRT_ASSIGN(const Place result, find_result(join.result));
      joins.push_back({input.part, input.index, result.part, result.index});
    }
    CUGRT_ASSIGN(ir::Linked linked, ir::link_modules(parts_, joins));
    return finish(std::move(linked));
  }

private:
  using Place = ir::Linked::Place;
  struct Tensor {
    const HostTensor *bytes;
    uint32_t number;
  };

  const WeightSet *weights_of(size_t part) const {
    if (given_[part].weights)
      return &given_[part].weights->set;
    const auto &imported = given_[part].module->imported;
    return imported ? &imported->weights : nullptr;
  }
  const HostTensor *weight(size_t part, const std::string &name) const {
    const WeightSet *weights = weights_of(part);
    return weights ? weights->find(name) : nullptr;
  }

  /// Equal numbers for equal dtype, shape and bytes.
  void number_weights(ir::LinkPart &part, const ir::Function &main) {
    const size_t index = static_cast<size_t>(&part - parts_.data());
    for (size_t i = 0; i < main.params.size(); ++i) {
      if (!main.is_weight(i))
        continue;
      const HostTensor *tensor = weight(index, main.value(main.params[i].value).name);
      part.weights.push_back(tensor ? number_of(*tensor) : UINT32_MAX);
    }
  }
  uint32_t number_of(const HostTensor &tensor) {
    std::vector<Tensor> &alike = tensors_[{tensor.dtype, tensor.dims}];
    for (const Tensor &other : alike)
      if (other.bytes->size_bytes == tensor.size_bytes &&
          (other.bytes->data() == tensor.data() ||
           std::memcmp(other.bytes->data(), tensor.data(), tensor.size_bytes) == 0))
        return other.number;
    alike.push_back({&tensor, count_});
    return count_++;
  }

  /// PART.NAME: the part's number, and the name.
  Result<std::pair<uint32_t, std::string_view>> split(std::string_view text) const {
    const size_t dot = text.find('.');
    const std::string_view name = text.substr(0, dot);
    for (uint32_t part = 0; part < parts_.size() && dot != std::string_view::npos; ++part)
      if (parts_[part].name == name)
        return std::pair(part, text.substr(dot + 1));
    return Status::error(Code::invalid_argument,
                         "'" + std::string(text) + "' is no PART.NAME: parts are " + list());
  }
  std::string list() const {
    const std::string names =
        ir::joined(parts_, [](const ir::LinkPart &part) { return "'" + part.name + "'"; });
    return names.empty() ? "none" : names;
  }
  Result<const ir::Function *> main_of(uint32_t part) const {
    if (const ir::Function *main = parts_[part].module->find_function("main"))
      return main;
    return Status::error(Code::invalid_argument,
                         "part '" + parts_[part].name + "' has no function @main");
  }
  /// The number of `name` in a list of the file's names; none: SIZE_MAX.
  size_t in_file(uint32_t part, std::string_view name,
                 std::vector<std::string> ImportedFile::*names) const {
    const auto &imported = given_[part].module->imported;
    if (!imported)
      return SIZE_MAX;
    const std::vector<std::string> &list = *imported.*names;
    const auto found = std::find(list.begin(), list.end(), name);
    return found == list.end() ? SIZE_MAX : static_cast<size_t>(found - list.begin());
  }

  Result<Place> find_input(std::string_view text) const {
    CUGRT_ASSIGN(const auto place, split(text));
    const auto [part, name] = place;
    CUGRT_ASSIGN(const ir::Function *main, main_of(part));
    for (uint32_t i = 0; i < main->params.size(); ++i)
      if (main->value(main->params[i].value).name == name)
        return Place{part, i};
    const size_t index = in_file(part, name, &ImportedFile::inputs);
    if (index < main->params.size())
      return Place{part, static_cast<uint32_t>(index)};
    std::string inputs;
    for (size_t i = 0; i < main->params.size() && !main->is_weight(i); ++i)
      inputs += (i ? ", '" : "'") + main->value(main->params[i].value).name + "'";
    return Status::error(Code::invalid_argument, "part '" + parts_[part].name + "' has no input '" +
                                                     std::string(name) + "': it has " +
                                                     (inputs.empty() ? "none" : inputs));
  }
  Result<Place> find_result(std::string_view text) const {
    CUGRT_ASSIGN(const auto place, split(text));
    const auto [part, name] = place;
    CUGRT_ASSIGN(const ir::Function *main, main_of(part));
    const size_t count = main->result_types.size();
    for (uint32_t i = 0; i < count; ++i)
      if (name == "result" + std::to_string(i))
        return Place{part, i};
    const size_t index = in_file(part, name, &ImportedFile::results);
    if (index < count)
      return Place{part, static_cast<uint32_t>(index)};
    return Status::error(Code::invalid_argument,
                         "part '" + parts_[part].name + "' has no result '" + std::string(name) +
                             "': it has " + std::to_string(count) + ", from 'result0' on");
  }

  std::string own_name(Place place) const {
    const ir::Function &main = *parts_[place.part].module->find_function("main");
    return main.value(main.params[place.index].value).name;
  }

  Result<std::unique_ptr<cugrt_module>> finish(ir::Linked linked) const {
    auto file = std::make_shared<ImportedFile>();
    for (const Place &place : linked.inputs)
      file->inputs.push_back(outer_name(place, own_name(place), &ImportedFile::inputs));
    for (const Place &place : linked.results)
      file->results.push_back(
          outer_name(place, "result" + std::to_string(place.index), &ImportedFile::results));
    for (const Place &place : linked.weights) {
      const std::string name = own_name(place);
      if (const HostTensor *tensor = weight(place.part, name))
        CUGRT_TRY(file->weights.add(parts_[place.part].name + "." + name, *tensor));
    }
    CUGRT_ASSIGN(const cugrt_built_module built, ir::make_built(std::move(linked.module)));
    CUGRT_ASSIGN(auto module, adopt_module(built, "linked module"));
    module->imported = std::move(file);
    return module;
  }
  std::string outer_name(Place place, std::string name,
                         std::vector<std::string> ImportedFile::*names) const {
    const auto &imported = given_[place.part].module->imported;
    if (imported && place.index < (*imported.*names).size())
      name = (*imported.*names)[place.index];
    return parts_[place.part].name + "." + name;
  }

  std::span<const cugrt_link_part> given_;
  std::span<const cugrt_link_join> joins_;
  std::vector<ir::LinkPart> parts_;
  std::map<std::pair<ir::DType, std::vector<int64_t>>, std::vector<Tensor>> tensors_;
  uint32_t count_ = 0;
};

Status module_link(const cugrt_link_part *parts, size_t part_count, const cugrt_link_join *joins,
                   size_t join_count, cugrt_module **module) {
  CUGRT_REQUIRE(parts && part_count, joins || !join_count, module);
  if (part_count > kMostParts)
    return Status::error(Code::invalid_argument, "at most " + std::to_string(kMostParts) +
                                                     " modules are linked, not " +
                                                     std::to_string(part_count));
  CUGRT_ASSIGN(auto linked, LinkCall({parts, part_count}, {joins, join_count}).run());
  *module = linked.release();
  return {};
}

} // namespace

void add_link_entries(cugrt_api &table) { set_entry<module_link>(table.module_link); }

} // namespace cugrt::runtime::api
