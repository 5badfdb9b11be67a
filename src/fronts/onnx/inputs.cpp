// Inputs of the model: their dimensions as symbols, bound inputs, and names in options; see
// importer.h.
#include "base/type/element.h"
#include "fronts/onnx/importer.h"
#include "ir/module/names.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace cugrt::onnx {

namespace {

/// What a symbol may be where nobody says: of the first dimension, of others, of host integers.
/// Inputs of a model: as many parameters as a module's text may have.
constexpr size_t kMostInputs = 4096;
constexpr int64_t kMostBatch = 16, kMostInteger = 65536;

/// "i32: from -2147483648 to 2147483647"
std::string range_text(DType dtype) {
  const unsigned bits = 8 * ir::info(dtype).bytes_per_block;
  std::string text(ir::info(dtype).name);
  switch (ir::info(dtype).kind) {
  case ir::DTypeKind::boolean:
    return text + ": true or false";
  case ir::DTypeKind::signed_integer:
    return text + ": from " + std::to_string(INT64_MIN >> (64 - bits)) + " to " +
           std::to_string(INT64_MAX >> (64 - bits));
  case ir::DTypeKind::unsigned_integer:
    return text + ": from 0 to " + std::to_string(UINT64_MAX >> (64 - bits));
  case ir::DTypeKind::floating:
  case ir::DTypeKind::block:
    break;
  }
  return text;
}

enum class Parsed { value, no_number, does_not_fit };

/// Appends an element of that dtype.
Parsed append_parsed(std::string_view text, DType dtype, std::string &bytes) {
  if (text == "true" || text == "false")
    text = text == "true" ? "1" : "0";
  const char *end = text.data() + text.size();
  auto parse = [&](auto &number) {
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    return stop != end || error == std::errc::invalid_argument ? Parsed::no_number
           : error == std::errc::result_out_of_range           ? Parsed::does_not_fit
                                                               : Parsed::value;
  };
  double real = 0;
  const Parsed as_real = parse(real);
  if (as_real != Parsed::value || is_real(dtype))
    return as_real != Parsed::value               ? as_real
           : ir::append_float(dtype, real, bytes) ? Parsed::value
                                                  : Parsed::does_not_fit;
  // A whole number may be written as 16e3; a number that is no double is still exact.
  int64_t number = 0;
  uint64_t large = 0;
  if (parse(number) != Parsed::value) {
    if (dtype == DType::u64 && parse(large) == Parsed::value)
      number = static_cast<int64_t>(large);
    else if (std::fabs(real) < 0x1p63 && real == std::trunc(real) &&
             parse(number) == Parsed::no_number)
      number = static_cast<int64_t>(real);
    else
      return Parsed::does_not_fit;
  }
  if ((number < 0 && !large && ir::info(dtype).kind != ir::DTypeKind::signed_integer) ||
      (dtype == DType::boolean && number > 1))
    return Parsed::does_not_fit;
  const size_t begin = bytes.size();
  ir::append_integer(dtype, number, bytes);
  return ir::integer_at(dtype, bytes.data() + begin) == number ? Parsed::value
                                                               : Parsed::does_not_fit;
}

Result<HostTensor> parse_value(const std::string &name, const std::string &text, DType dtype,
                               size_t rank) {
  std::string bytes;
  int64_t count = 0;
  const char *at = text.data(), *end = at + text.size();
  while (at <= end) {
    const char *comma = std::find(at, end, ',');
    const std::string one(at, comma);
    switch (append_parsed(one, dtype, bytes)) {
    case Parsed::value:
      break;
    case Parsed::no_number:
      return Status::error(Code::invalid_argument,
                           "--bind " + name + "=" + text + ": numbers with commas are wanted");
    case Parsed::does_not_fit:
      return Status::error(Code::out_of_range, "--bind " + name + ": " + one +
                                                   " does not fit its type, " + range_text(dtype));
    }
    ++count;
    at = comma + 1;
  }
  HostTensor out{dtype, rank ? std::vector<int64_t>{count} : std::vector<int64_t>(), {}, {}};
  if (rank > 1 || (!rank && count != 1))
    return Status::error(Code::invalid_argument, "--bind " + name + ": the input has another rank");
  out.owned = std::make_shared<const std::string>(std::move(bytes));
  out.bytes = *out.owned;
  return out;
}

/// "?", "-1" and their like name nothing: dimensions that have them may differ.
std::string name_of(const ValueInfo &info, size_t i) {
  const std::string_view own = i < info.dims.size() ? info.dims[i].name : std::string_view();
  const bool named = std::any_of(own.begin(), own.end(),
                                 [](unsigned char letter) { return std::isalpha(letter); });
  return named ? std::string(own) : std::string(info.name) + "[" + std::to_string(i) + "]";
}

} // namespace

std::optional<int64_t> Importer::number_of(const ValueInfo &info, size_t i) const {
  if (i < info.dims.size() && info.dims[i].known)
    return info.dims[i].value;
  const auto renamed = options_.dims.find(name_of(info, i));
  if (renamed == options_.dims.end())
    return std::nullopt;
  int64_t number = 0;
  const std::string &text = renamed->second;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size() && number >= 0;
  return whole ? std::optional(number) : std::nullopt;
}

Result<E> Importer::dimension(const ValueInfo &info, size_t i, const HostTensor *given) {
  const Dimension dim = i < info.dims.size() ? info.dims[i] : Dimension();
  if (const std::optional<int64_t> number = number_of(info, i))
    return constant(*number);
  if (options_.fix_given && given && i < given->dims.size())
    return constant(given->dims[i]);
  const std::string name = name_of(info, i);
  if (auto only = learnt_.dims.find(name); only != learnt_.dims.end()) {
    if (dimensions_.try_emplace(name, constant(only->second)).second)
      result_.symbols.emplace_back(name, std::to_string(only->second));
    return constant(only->second);
  }
  auto [known, added] = dimensions_.try_emplace(name);
  if (!added)
    return known->second;
  std::string wanted = name.back() == ']' && dim.name != name
                           ? "x" + std::to_string(result_.symbols.size())
                           : std::string(dim.name);
  if (auto renamed = options_.dims.find(name); renamed != options_.dims.end()) {
    const std::string &text = renamed->second;
    for (size_t s = 0; s < builder_.function().symbols.size(); ++s)
      if (builder_.function().symbols[s].name == text)
        return known->second = exprs().symbol({static_cast<uint32_t>(s)});
    wanted = text;
  }
  ir::Symbol symbol;
  symbol.name = wanted;
  const ir::SymbolId id = builder_.symbol(std::move(symbol));
  ir::Symbol &made = builder_.function().symbols[id.index];
  made.bounds = {1, i ? kMostDimension : kMostBatch};
  if (given && i < given->dims.size())
    made.bounds = {std::min<int64_t>(1, given->dims[i]), std::max<int64_t>(1, given->dims[i])};
  if (auto bounds = options_.bounds.find(made.name); bounds != options_.bounds.end())
    made.bounds = bounds->second;
  result_.symbols.emplace_back(name, made.name);
  symbol_inputs_.resize(id.index + 1);
  return known->second = exprs().symbol(id);
}

Status Importer::bound_input(const ValueInfo &info, Entry &entry) {
  const std::string name(info.name);
  const auto text = options_.bind.find(name);
  const auto given = options_.given.find(name);
  if (text != options_.bind.end()) {
    CUGRT_ASSIGN(entry.constant,
                 parse_value(name, text->second, *dtype_of(info.data_type), info.dims.size()));
  } else if (given != options_.given.end()) {
    entry.constant = given->second;
  } else {
    return Status::error(Code::unsupported,
                         "input '" + name +
                             "' decides what the module is and must be a constant: "
                             "bind it to its value, --bind " +
                             name + "=VALUE");
  }
  result_.inputs.push_back({name, "", InputKind::tensor});
  return {};
}

/// A symbol that an input gives, from 0 on.
E Importer::host_symbol(const std::string &input, std::string wanted, DType dtype, int64_t most,
                        std::optional<int64_t> given) {
  ir::Symbol symbol;
  symbol.name = std::move(wanted);
  symbol.bounds = {0, dtype == DType::boolean ? 1 : std::max(most, given.value_or(0))};
  const ir::SymbolId id = builder_.symbol(std::move(symbol));
  ir::Symbol &made = builder_.function().symbols[id.index];
  if (auto bounds = options_.bounds.find(made.name); bounds != options_.bounds.end())
    made.bounds = bounds->second;
  symbol_inputs_.resize(id.index);
  symbol_inputs_.push_back({input, given});
  return exprs().symbol(id);
}

/// One integer is a parameter int<n>; a list is shape<[n_0, n_1, ..]>, whose elements are mostly
/// dimensions, and at most the given ones.
Status Importer::host_input(const std::string &name, DType dtype, const Dims &dims,
                            const HostTensor *given, Entry &entry) {
  const std::vector<int64_t> values = given ? integers_of(*given) : std::vector<int64_t>();
  Host host{dtype, {}, {}, {}};
  int64_t count = 1;
  for (E d : dims) {
    host.dims.push_back(known(d).value_or(0));
    count *= host.dims.back();
  }
  if (given && static_cast<int64_t>(values.size()) != count)
    return Status::error(Code::invalid_argument, "input '" + name + "' has " +
                                                     std::to_string(count) + " elements, " +
                                                     std::to_string(values.size()) + " are given");
  V param;
  if (count == 1) {
    const auto value = given ? std::optional(values[0]) : std::nullopt;
    host.ints.push_back(host_symbol(name, name, dtype, kMostInteger, value));
    param = builder_.param(name,
                           result_.module.types.scalar(ir::ScalarKind::integer, host.ints.front()));
  } else {
    for (size_t i = 0; i < size_t(count); ++i) {
      const auto value = given ? std::optional(values[i]) : std::nullopt;
      host.ints.push_back(host_symbol(name, name + "_" + std::to_string(i), dtype,
                                      given ? 1 : kMostDimension, value));
    }
    param = builder_.param(name, result_.module.types.shape(host.ints));
  }
  result_.inputs.push_back({name, builder_.function().value(param).name,
                            count == 1 ? InputKind::integer : InputKind::shape});
  entry.host = std::move(host);
  return {};
}

Status Importer::input(const ValueInfo &info) {
  const std::string name(info.name);
  const std::optional<DType> dtype = dtype_of(info.data_type);
  if (!info.is_tensor)
    return Status::error(Code::unsupported, "input '" + name + "' is no tensor");
  if (!dtype)
    return Status::error(Code::unsupported, "input '" + name + "' has dtype " +
                                                dtype_name(info.data_type) +
                                                ", which no input has here");
  auto found = options_.given.find(name);
  const HostTensor *given = found == options_.given.end() ? nullptr : &found->second;
  const auto wanted = options_.frames.find(name);
  if (wanted != options_.frames.end()) {
    define(info.name, std::make_shared<Entry>());
    return frames(info, wanted->second, given);
  }
  if (given && given->dtype != *dtype)
    return Status::error(Code::invalid_argument,
                         "input '" + name + "' has dtype " + std::string(ir::info(*dtype).name) +
                             ", " + std::string(ir::info(given->dtype).name) + " is given");
  if (!info.has_shape && !given)
    return Status::error(Code::unsupported, "input '" + name + "' has no rank in the file");
  auto entry = std::make_shared<Entry>();
  entry->name = name;
  define(info.name, entry);
  InputMode &mode = learnt_.inputs[name];
  if (options_.bind.count(name))
    mode = InputMode::bound;
  if (mode == InputMode::bound)
    return bound_input(info, *entry);
  Dims dims;
  for (size_t i = 0; i < (info.has_shape ? info.dims.size() : given->dims.size()); ++i) {
    CUGRT_ASSIGN(E dim, dimension(info, i, given));
    dims.push_back(dim);
  }
  if (dims.size() > ir::kMaxRank)
    return Status::error(Code::unsupported, "input '" + name + "' has more than " +
                                                std::to_string(ir::kMaxRank) + " dimensions");
  if (mode == InputMode::host)
    return host_input(name, *dtype, dims, given, *entry);
  entry->is_input = true;
  entry->origin = static_cast<uint32_t>(origins_.size());
  origins_.push_back({entry, {}});
  entry->device = builder_.param(name, result_.module.types.tensor(*dtype, dims));
  result_.inputs.push_back(
      {name, builder_.function().value(entry->device).name, InputKind::tensor});
  return {};
}

Status Importer::inputs() {
  std::set<std::string_view> initialized;
  for (const TensorView &tensor : model_.graph.initializers)
    initialized.insert(tensor.name);
  if (model_.graph.inputs.size() > initialized.size() + kMostInputs)
    return Status::error(Code::unsupported,
                         "the model has more than " + std::to_string(kMostInputs) + " inputs");
  for (const ValueInfo &info : model_.graph.inputs)
    if (!initialized.count(info.name) || options_.given.count(std::string(info.name))) {
      if (Status status = input(info); !status.ok())
        return status;
      initialized.insert(info.name);
    }
  const auto has_input = [&](const std::string &name) {
    return std::ranges::find(result_.inputs, name, &Input::name) != result_.inputs.end();
  };
  for (const auto &[name, text] : options_.bind)
    if (!has_input(name))
      return Status::error(Code::not_found, "--bind: the model has no input '" + name + "'");
  for (const auto &[name, wanted] : options_.frames)
    if (!has_input(name))
      return Status::error(Code::not_found, "--preprocess: the model has no input '" + name + "'");
  return known_dims();
}

/// Checks that each --dim names a dimension of an input.
Status Importer::known_dims() const {
  std::set<std::string> names;
  std::string list;
  for (const ValueInfo &info : model_.graph.inputs)
    for (size_t i = 0; i < (info.has_shape ? info.dims.size() : ir::kMaxRank); ++i)
      if (const std::string name = name_of(info, i); names.insert(name).second)
        if (i < info.dims.size() && !info.dims[i].known)
          list += (list.empty() ? "'" : ", '") + name + "'";
  for (const auto &[name, text] : options_.dims)
    if (!names.count(name))
      return Status::error(Code::not_found,
                           "--dim: the model has no dimension '" + name + "'; " +
                               (list.empty() ? "all are numbers" : "it has " + list));
  return {};
}

/// Checks --bounds at the end: a host integer is a symbol only if it has become one.
Status Importer::known_bounds() {
  if (options_.fix_given || !learnt_.dims.empty())
    return {}; // symbols that are numbers now
  const std::vector<ir::Symbol> &symbols = builder_.function().symbols;
  const std::string list =
      ir::joined(symbols, [](const ir::Symbol &symbol) { return "'" + symbol.name + "'"; });
  for (const auto &[name, bounds] : options_.bounds)
    if (std::none_of(symbols.begin(), symbols.end(),
                     [&name = name](const ir::Symbol &one) { return one.name == name; }))
      return Status::error(Code::not_found,
                           "--bounds: the module has no symbol '" + name + "'; " +
                               (list.empty() ? "all dimensions are numbers" : "it has " + list));
  return {};
}

} // namespace cugrt::onnx
