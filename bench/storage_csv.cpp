// Instances in files of MiniMalloc's CSV format, see storage_instances.h.
//
//   id,lower,upper,size,alignment,gaps          columns in any order; the first four must be there
//   b1,0,9,4096,256,3-5 6-8                     alive in [0, 9) but for [3, 5) and [6, 8)
//
// Older files say buffer or buffer_id for id, start or begin for lower, and end for upper, which
// then is the last step alive, in gaps too.
#include "bench/storage_instances.h"

#include "base/checked_math.h"
#include "base/file.h"
#include "base/whole_number.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>

namespace cugrt::bench {
namespace {

constexpr uint64_t kFileLimit = uint64_t(1) << 30;

enum Column : size_t {
  kId,
  kLower,
  kUpper,
  kSize,
  kAlignment,
  kHint,
  kGaps,
  kOffset,
  kColumnCount
};
constexpr size_t kRequiredColumns = kSize + 1, kAbsent = SIZE_MAX;

struct ColumnName {
  std::string_view name;
  Column column;
};
constexpr ColumnName kColumnNames[] = {
    {"id", kId},     {"lower", kLower},         {"upper", kUpper}, {"size", kSize},
    {"hint", kHint}, {"alignment", kAlignment}, {"gaps", kGaps},   {"offset", kOffset},
    {"buffer", kId}, {"buffer_id", kId},        {"begin", kLower}, {"start", kLower},
    {"end", kUpper},
};

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> list;
  for (size_t begin = 0;;) {
    size_t end = text.find(separator, begin);
    list.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos)
      return list;
    begin = end + 1;
  }
}

Status error(const std::string &message) { return Status::error(Code::parse_error, message); }

/// `begin SEPARATOR end`.
std::optional<std::pair<int64_t, int64_t>> pair(std::string_view text, char separator) {
  const std::vector<std::string_view> parts = split(text, separator);
  if (parts.size() != 2)
    return std::nullopt;
  auto begin = whole_number<int64_t>(parts[0]), end = whole_number<int64_t>(parts[1]);
  return begin && end ? std::optional(std::pair(*begin, *end)) : std::nullopt;
}

struct Header {
  std::array<size_t, kColumnCount> at; // positions of the columns
  size_t count = 0;
  int64_t past_end = 0; // what is added to an end to make it the first step that is not alive

  static Result<Header> read(std::string_view line) {
    Header header;
    header.at.fill(kAbsent);
    for (std::string_view name : split(line, ',')) {
      auto known = std::find_if(std::begin(kColumnNames), std::end(kColumnNames),
                                [&](const ColumnName &column) { return column.name == name; });
      if (known == std::end(kColumnNames))
        return error("the first line names the unknown column '" + std::string(name) +
                     "'; known: id, lower, upper, size, alignment, hint, gaps, offset");
      if (std::exchange(header.at[known->column], header.count++) != kAbsent)
        return error("the first line names the column " +
                     std::string(kColumnNames[known->column].name) + " twice");
      if (name == "end")
        header.past_end = 1;
    }
    for (size_t column = 0; column < kRequiredColumns; ++column)
      if (header.at[column] == kAbsent)
        return error("the first line must name the columns id, lower, upper and size");
    return header;
  }
};

using Gap = StorageInstance::Buffer::Gap;

/// A buffer with its times as written, which need not fit into a PackingItem.
struct Line {
  StorageInstance::Buffer buffer;
  int64_t size = 0, alignment = 1;
  std::optional<int64_t> offset;
};

class LineReader {
public:
  explicit LineReader(const Header &header) : header_(header) {}

  Result<Line> read(std::string_view text) {
    fields_ = split(text, ',');
    if (fields_.size() != header_.count)
      return error("a buffer has as many fields as the first line names columns");
    Line line;
    auto lower = whole_number<int64_t>(field(kLower)), upper = whole_number<int64_t>(field(kUpper)),
         size = whole_number<int64_t>(field(kSize));
    if (upper)
      upper = checked_add(*upper, header_.past_end);
    if (!lower || !upper || !size)
      return error("lower, upper and size must be integers");
    if (*lower >= *upper || *size < 0)
      return error("a buffer needs lower < upper and a size that is not negative");
    line.buffer = {std::string(field(kId)), *lower, *upper, {}, {}};
    line.size = *size;
    if (!ids_.insert(line.buffer.id).second)
      return error("the id " + line.buffer.id + " occurs twice");
    CUGRT_TRY(alignment(line));
    CUGRT_TRY(places(line));
    for (std::string_view gap : split(field(kGaps), ' '))
      if (!gap.empty())
        CUGRT_TRY(add_gap(gap, line));
    std::vector<Gap> &gaps = line.buffer.gaps;
    std::sort(gaps.begin(), gaps.end(),
              [](const Gap &a, const Gap &b) { return a.lower < b.lower; });
    for (size_t i = 1; i < gaps.size(); ++i)
      if (gaps[i].lower < gaps[i - 1].upper)
        return error("the buffer's gaps overlap");
    return line;
  }

private:
  /// Empty where there is no such column.
  std::string_view field(Column column) const {
    return header_.at[column] == kAbsent ? std::string_view() : fields_[header_.at[column]];
  }

  Status alignment(Line &line) const {
    if (field(kAlignment).empty())
      return {};
    auto value = whole_number<int64_t>(field(kAlignment));
    if (!value || *value <= 0)
      return error("an alignment must be a positive integer");
    if ((*value & (*value - 1)) != 0)
      return Status::error(Code::unsupported, "an alignment must be a power of two");
    line.alignment = *value;
    return {};
  }

  /// A hint may help a search and binds nobody; an offset is where the buffer has to lie.
  Status places(Line &line) const {
    if (!field(kHint).empty()) {
      auto hint = whole_number<int64_t>(field(kHint));
      if (!hint)
        return error("a hint must be an integer; -1 is none");
      if (*hint >= 0)
        line.buffer.hint = *hint;
    }
    if (field(kOffset).empty())
      return {};
    line.offset = whole_number<int64_t>(field(kOffset));
    if (!line.offset || *line.offset < 0)
      return error("an offset must be an integer that is not negative");
    if (*line.offset % line.alignment != 0)
      return error("the offset is not a multiple of the alignment");
    return {};
  }

  /// `begin-end`; the format's `begin-end@low:high`, where bytes [low, high) of the buffer stay in
  /// use, is not packed.
  Status add_gap(std::string_view text, Line &line) const {
    if (text.find('@') != std::string_view::npos)
      return Status::error(Code::unsupported, "the gap " + std::string(text) +
                                                  " leaves a part of the buffer in use, which is "
                                                  "not packed");
    auto steps = pair(text, '-');
    if (!steps)
      return error("a gap is written BEGIN-END, not " + std::string(text));
    auto end = checked_add(steps->second, header_.past_end);
    if (!end || steps->first >= *end || steps->first < line.buffer.lower ||
        *end > line.buffer.upper)
      return error("the gap " + std::string(text) + " is empty or not within the buffer's life");
    line.buffer.gaps.push_back({steps->first, *end});
    return {};
  }

  const Header &header_;
  std::vector<std::string_view> fields_;
  std::set<std::string, std::less<>> ids_;
};

/// Items, with times as they are where they fit, else by their rank: packing depends on what is
/// alive together alone.
StorageInstance make_instance(std::vector<Line> lines) {
  std::vector<int64_t> times;
  for (const Line &line : lines) {
    times.insert(times.end(), {line.buffer.lower, line.buffer.upper});
    for (const Gap &gap : line.buffer.gaps)
      times.insert(times.end(), {gap.lower, gap.upper});
  }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  const bool fit = times.front() >= 0 && times.back() <= int64_t(UINT32_MAX);
  auto step = [&](int64_t time) {
    return fit ? uint32_t(time)
               : uint32_t(std::lower_bound(times.begin(), times.end(), time) - times.begin());
  };
  StorageInstance instance;
  for (Line &line : lines) {
    const auto number = uint32_t(instance.items.size());
    instance.items.push_back(
        {step(line.buffer.lower), step(line.buffer.upper), line.size, line.alignment});
    for (const Gap &gap : line.buffer.gaps)
      instance.gaps.push_back({number, step(gap.lower), step(gap.upper)});
    if (line.offset)
      instance.fixed.push_back({number, *line.offset});
    instance.buffers.push_back(std::move(line.buffer));
  }
  return instance;
}

} // namespace

Result<StorageInstance> read_instance(const std::string &path) {
  CUGRT_ASSIGN(const std::string text, read_file(path, kFileLimit));
  Header header;
  LineReader reader(header);
  std::vector<Line> lines;
  std::string_view rest = text;
  for (size_t line_number = 1; !rest.empty(); ++line_number) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.ends_with('\r'))
      line.remove_suffix(1);
    const std::string place = path + ":" + std::to_string(line_number);
    if (line_number == 1) {
      auto names = Header::read(line);
      if (!names.ok())
        return names.take_status().at(place);
      header = *names;
    } else if (!line.empty()) {
      auto buffer = reader.read(line);
      if (!buffer.ok())
        return buffer.take_status().at(place);
      lines.push_back(std::move(*buffer));
    }
  }
  if (lines.empty())
    return error("there are no buffers in the file").at(path);
  StorageInstance instance = make_instance(std::move(lines));
  instance.name = std::filesystem::path(path).stem().string();
  return instance;
}

std::string offsets_csv(const StorageInstance &instance, const plan::Packing &packing) {
  const bool aligned =
      std::any_of(instance.items.begin(), instance.items.end(),
                  [](const plan::PackingItem &item) { return item.alignment != 1; });
  const bool hinted =
      std::any_of(instance.buffers.begin(), instance.buffers.end(),
                  [](const StorageInstance::Buffer &buffer) { return buffer.hint.has_value(); });
  std::string text = "id,lower,upper,size";
  text += std::string(aligned ? ",alignment" : "") + (hinted ? ",hint" : "") +
          (instance.gaps.empty() ? "" : ",gaps") + ",offset\n";
  for (size_t i = 0; i < instance.buffers.size(); ++i) {
    const StorageInstance::Buffer &buffer = instance.buffers[i];
    text += buffer.id + ',' + std::to_string(buffer.lower) + ',' + std::to_string(buffer.upper) +
            ',' + std::to_string(instance.items[i].bytes);
    if (aligned)
      text += ',' + std::to_string(instance.items[i].alignment);
    if (hinted)
      text += ',' + std::to_string(buffer.hint.value_or(-1));
    if (!instance.gaps.empty())
      text += ',';
    for (const Gap &gap : buffer.gaps)
      text += (&gap != buffer.gaps.data() ? " " : "") + std::to_string(gap.lower) + '-' +
              std::to_string(gap.upper);
    text += ',' + std::to_string(packing.offsets[i]) + '\n';
  }
  return text;
}

} // namespace cugrt::bench
