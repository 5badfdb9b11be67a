// Reading instances and making them up, see storage_instances.h.
#include "bench/storage_instances.h"

#include "support/file.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>

namespace cugrt::bench {
namespace {

constexpr uint64_t kFileLimit = uint64_t(1) << 30;

std::vector<std::string_view> fields(std::string_view line) {
  std::vector<std::string_view> list;
  for (size_t begin = 0;;) {
    size_t end = line.find(',', begin);
    list.push_back(line.substr(begin, end - begin));
    if (end == std::string_view::npos)
      return list;
    begin = end + 1;
  }
}

std::optional<int64_t> number(std::string_view text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value)
                                                                  : std::nullopt;
}

enum Column : size_t { kId, kLower, kUpper, kSize, kColumnCount };
constexpr std::string_view kColumnNames[] = {"id", "lower", "upper", "size"};

/// Positions of the four columns in the header; all of them, and no others.
Result<std::vector<size_t>> columns(std::string_view header) {
  std::vector<std::string_view> names = fields(header);
  std::vector<size_t> at;
  for (std::string_view name : kColumnNames) {
    if (std::count(names.begin(), names.end(), name) != 1)
      return Status::error(Code::parse_error, "the first line must name the column " +
                                                  std::string(name) + " once: id,lower,upper,size");
    at.push_back(size_t(std::find(names.begin(), names.end(), name) - names.begin()));
  }
  if (names.size() != kColumnCount)
    return Status::error(Code::unsupported, "only the columns id, lower, upper and size are known");
  return at;
}

struct Reader {
  StorageInstance instance;
  std::vector<size_t> at;
  std::set<std::string, std::less<>> ids;

  Status line(std::string_view text) {
    std::vector<std::string_view> values = fields(text);
    if (values.size() != kColumnCount)
      return Status::error(Code::parse_error, "a buffer has four fields: id,lower,upper,size");
    auto lower = number(values[at[kLower]]), upper = number(values[at[kUpper]]),
         size = number(values[at[kSize]]);
    if (!lower || !upper || !size)
      return Status::error(Code::parse_error, "lower, upper and size must be integers");
    if (*lower >= *upper || *size < 0)
      return Status::error(Code::parse_error,
                           "a buffer needs lower < upper and a size that is not negative");
    if (*lower < 0 || *upper > int64_t(UINT32_MAX))
      return Status::error(Code::out_of_range, "times must be from 0 to 2^32 - 1");
    std::string id(values[at[kId]]);
    if (!ids.insert(id).second)
      return Status::error(Code::parse_error, "the id " + id + " occurs twice");
    instance.buffers.push_back({std::move(id), *lower, *upper});
    instance.items.push_back({uint32_t(*lower), uint32_t(*upper), *size, 1});
    return {};
  }
};

/// A network as it is written down: one step after the other, tensors alive from the step that
/// makes them to the last that uses them.
class Net {
public:
  explicit Net(std::string name) { instance_.name = std::move(name); }

  /// A step that reads `inputs` and makes a tensor, with a workspace of its own if asked for.
  size_t step(int64_t bytes, std::initializer_list<size_t> inputs, int64_t workspace_bytes = 0) {
    for (size_t input : inputs)
      instance_.items[input].end = std::max(instance_.items[input].end, now_ + 1);
    if (workspace_bytes > 0)
      instance_.items.push_back({now_, now_ + 1, workspace_bytes, 1});
    instance_.items.push_back({now_, now_ + 1, bytes, 1});
    ++now_;
    return instance_.items.size() - 1;
  }

  StorageInstance finish() {
    for (size_t i = 0; i < instance_.items.size(); ++i)
      instance_.buffers.push_back(
          {std::to_string(i), instance_.items[i].begin, instance_.items[i].end});
    return std::move(instance_);
  }

private:
  StorageInstance instance_;
  uint32_t now_ = 0;
};

} // namespace

Result<StorageInstance> read_instance(const std::string &path) {
  CUGRT_ASSIGN(std::string text, read_file(path, kFileLimit));
  Reader reader;
  reader.instance.name = std::filesystem::path(path).stem().string();
  std::string_view rest = text;
  for (size_t line_number = 1; !rest.empty(); ++line_number) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.ends_with('\r'))
      line.remove_suffix(1);
    std::string place = path + ":" + std::to_string(line_number);
    if (line_number == 1) {
      auto at = columns(line);
      if (!at.ok())
        return at.take_status().at(place);
      reader.at = std::move(at).value();
    } else if (!line.empty()) {
      if (Status status = reader.line(line); !status.ok())
        return std::move(status).at(place);
    }
  }
  if (reader.instance.items.empty())
    return Status::error(Code::parse_error, "there are no buffers in the file").at(path);
  return std::move(reader.instance);
}

std::string offsets_csv(const StorageInstance &instance, const plan::Packing &packing) {
  std::string text = "id,lower,upper,size,offset\n";
  for (size_t i = 0; i < instance.buffers.size(); ++i) {
    const auto &[id, lower, upper] = instance.buffers[i];
    text += id + ',' + std::to_string(lower) + ',' + std::to_string(upper) + ',' +
            std::to_string(instance.items[i].bytes) + ',' + std::to_string(packing.offsets[i]) +
            '\n';
  }
  return text;
}

StorageInstance resnet_instance(int blocks) {
  Net net("resnet_" + std::to_string(blocks));
  size_t input = net.step(kResnetActivation, {});
  for (int block = 0; block < blocks; ++block) {
    // Each stage halves height and width and doubles the channels: half the bytes.
    int64_t wide = kResnetActivation >> (block * 4 / blocks), narrow = wide / 4;
    size_t first = net.step(narrow, {input}, narrow / 2);
    size_t second = net.step(narrow, {first}, narrow * 2);
    size_t third = net.step(wide, {second}, narrow * 2);
    input = net.step(wide, {input, third});
  }
  return net.finish();
}

StorageInstance unet_instance(int depth) {
  Net net("unet_" + std::to_string(depth));
  int64_t bytes = int64_t(64) * 512 * 512 * 2;
  std::vector<size_t> skips;
  size_t last = net.step(bytes, {});
  for (int level = 0; level < depth; ++level, bytes /= 2) {
    size_t first = net.step(bytes, {last}, bytes / 8);
    skips.push_back(net.step(bytes, {first}, bytes / 8));
    last = net.step(bytes / 4, {skips.back()}); // pooling
  }
  last = net.step(bytes, {net.step(bytes, {last}, bytes / 8)}, bytes / 8);
  for (int level = depth - 1; level >= 0; --level) {
    bytes *= 2;
    size_t up = net.step(bytes, {last});
    size_t joined = net.step(2 * bytes, {up, skips[size_t(level)]});
    size_t first = net.step(bytes, {joined}, bytes / 8);
    last = net.step(bytes, {first}, bytes / 8);
  }
  return net.finish();
}

StorageInstance prefill_instance(int layers, int tokens) {
  Net net("prefill_" + std::to_string(layers) + "x" + std::to_string(tokens));
  constexpr int64_t kModel = 4096, kHidden = 14336, kKeyValue = 1024, kHeads = 32, kBytes = 2;
  int64_t row = tokens * kBytes;
  size_t residual = net.step(row * kModel, {});
  for (int layer = 0; layer < layers; ++layer) {
    size_t norm = net.step(row * kModel, {residual});
    size_t query = net.step(row * kModel, {norm}, 1 << 22);
    size_t key = net.step(row * kKeyValue, {norm}, 1 << 22);
    size_t value = net.step(row * kKeyValue, {norm}, 1 << 22);
    size_t scores = net.step(row * tokens * kHeads / 8, {query, key}); // eight tiles in turn
    size_t weights = net.step(row * tokens * kHeads / 8, {scores}, row * kHeads);
    size_t mixed = net.step(row * kModel, {weights, value});
    size_t projected = net.step(row * kModel, {mixed}, 1 << 22);
    residual = net.step(row * kModel, {residual, projected});
    norm = net.step(row * kModel, {residual});
    size_t gate = net.step(row * kHidden, {norm}, 1 << 22);
    size_t up = net.step(row * kHidden, {norm}, 1 << 22);
    size_t product = net.step(row * kHidden, {gate, up});
    size_t down = net.step(row * kModel, {product}, 1 << 22);
    residual = net.step(row * kModel, {residual, down});
  }
  return net.finish();
}

} // namespace cugrt::bench
