// Plans as JSON and CBOR, over nlohmann::json. Fields are listed in plan/archive.h.
//
// Reading trusts nothing. Before the library sees the bytes, nesting and lengths are bounded (its
// CBOR reader recurses, and believes lengths); every field is checked for presence, type and range;
// the expressions are built anew in their pool; and validate() has the last word.
#include "plan/serialize.h"

#include "plan/archive.h"
#include "plan/bytes_scan.h"
#include "plan/planner.h"

#include <nlohmann/json.hpp>

#include <array>

namespace cugrt::plan {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxPlanBytes = size_t(1) << 30;
constexpr std::string_view kFormat = "cugrt plan";

std::string to_hex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (unsigned char c : bytes) {
    text += kDigits[c >> 4];
    text += kDigits[c & 15];
  }
  return text;
}

std::optional<std::string> from_hex(std::string_view text) {
  auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  if (text.size() % 2 != 0)
    return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 2);
  for (size_t i = 0; i < text.size(); i += 2) {
    int high = digit(text[i]), low = digit(text[i + 1]);
    if (high < 0 || low < 0)
      return std::nullopt;
    bytes += char(high * 16 + low);
  }
  return bytes;
}

// --- Writing -------------------------------------------------------------------------------------

class Writer {
public:
  Writer(Json &object, bool binary) : object_(object), binary_(binary) { object_ = Json::object(); }

  template <class T> void operator()(const char *name, const T &value) {
    object_[name] = json(value);
  }
  void bytes(const char *name, const std::string &value) {
    if (binary_)
      object_[name] = Json::binary(std::vector<uint8_t>(value.begin(), value.end()));
    else
      object_[name] = to_hex(value);
  }

  template <class T> Json json(const T &value) const {
    if constexpr (std::is_same_v<T, ir::DType>)
      return std::string(ir::info(value).name);
    else if constexpr (std::is_enum_v<T>)
      return std::string(enumerator_names<T>()[size_t(value)]);
    else if constexpr (std::is_same_v<T, ExprId> || std::is_same_v<T, SymbolId>)
      return json(value.index);
    else if constexpr (std::is_same_v<T, uint32_t>)
      return value == kNone ? Json() : Json(value);
    else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>)
      return value;
    else
      return row(value);
  }
  Json json(const std::vector<bool> &list) const {
    Json array = Json::array();
    for (bool element : list)
      array.push_back(element);
    return array;
  }
  template <class T> Json json(const std::vector<T> &list) const {
    Json array = Json::array();
    for (const T &element : list)
      array.push_back(json(element));
    return array;
  }
  template <class T, size_t N> Json json(const std::array<T, N> &list) const {
    Json array = Json::array();
    for (const T &element : list)
      array.push_back(json(element));
    return array;
  }

private:
  template <class T> Json row(const T &value) const {
    Json object;
    Writer writer(object, binary_);
    fields(writer, value);
    return object;
  }
  Json &object_;
  bool binary_;
};

Json write(const Plan &plan, bool binary) {
  Json object;
  Writer writer(object, binary);
  writer("format", std::string(kFormat));
  writer("version", kPlanVersion);
  Json exprs = Json::array();
  for (uint32_t i = 0; i < plan.exprs.size(); ++i)
    exprs.push_back(writer.json(plan.exprs[ExprId{i}]));
  object["exprs"] = std::move(exprs);
  fields(writer, plan);
  return object;
}

// --- Reading -------------------------------------------------------------------------------------

/// Reads one row's fields. The first problem is kept in `error`, shared by all readers of a plan.
class Reader {
public:
  Reader(const Json &object, const std::vector<ExprId> &exprs, std::string &error, std::string path)
      : object_(object), exprs_(exprs), error_(error), path_(std::move(path)) {
    if (!object_.is_object())
      fail("is no object");
  }

  template <class T> void operator()(const char *name, T &value) {
    ++fields_;
    if (!error_.empty())
      return;
    auto it = object_.find(name);
    if (it == object_.end())
      return fail(std::string("has no field ") + name);
    read(*it, value, name);
  }
  void bytes(const char *name, std::string &value) {
    ++fields_;
    if (!error_.empty())
      return;
    auto it = object_.find(name);
    if (it != object_.end() && it->is_binary()) {
      value.assign(it->get_binary().begin(), it->get_binary().end());
    } else if (it != object_.end() && it->is_string()) {
      auto decoded = from_hex(it->get_ref<const std::string &>());
      decoded ? void(value = std::move(*decoded)) : fail(std::string(name) + " is no hexadecimal");
    } else {
      fail(std::string("has no bytes in field ") + name);
    }
  }
  void finish() {
    if (error_.empty() && object_.size() != fields_)
      fail("has fields that this version does not know");
  }
  void count_fields(size_t n) { fields_ += n; }

private:
  void fail(const std::string &what) {
    if (error_.empty())
      error_ = path_ + " " + what;
  }
  void wrong(const char *name) { fail(std::string("has a wrong value in field ") + name); }

  template <class T> void read_integer(const Json &json, T &value, const char *name) {
    if (json.is_number_unsigned()) {
      uint64_t n = json.get<uint64_t>();
      return n <= uint64_t(std::numeric_limits<T>::max()) ? void(value = T(n)) : wrong(name);
    }
    if (!json.is_number_integer())
      return wrong(name);
    int64_t n = json.get<int64_t>();
    if constexpr (std::is_signed_v<T>)
      value = n;
    else if (n >= 0 && uint64_t(n) <= std::numeric_limits<T>::max())
      value = T(n);
    else
      wrong(name);
  }

  template <class T> void read(const Json &json, T &value, const char *name) {
    if constexpr (std::is_same_v<T, ir::DType>) {
      auto dtype = json.is_string() ? ir::dtype_from_name(json.get_ref<const std::string &>())
                                    : std::nullopt;
      dtype ? void(value = *dtype) : wrong(name);
    } else if constexpr (std::is_enum_v<T>) {
      read_enumerator(json, value, name);
    } else if constexpr (std::is_same_v<T, ExprId>) {
      read(json, value.index, name);
      value = expr(value.index, name);
    } else if constexpr (std::is_same_v<T, SymbolId>) {
      read(json, value.index, name);
    } else if constexpr (std::is_same_v<T, bool>) {
      json.is_boolean() ? void(value = json.get<bool>()) : wrong(name);
    } else if constexpr (std::is_same_v<T, std::string>) {
      json.is_string() ? void(value = json.get<std::string>()) : wrong(name);
    } else if constexpr (std::is_same_v<T, uint32_t>) {
      json.is_null() ? void(value = kNone) : read_integer(json, value, name);
    } else if constexpr (std::is_integral_v<T>) {
      read_integer(json, value, name);
    } else {
      Reader reader(json, exprs_, error_, path_ + "." + name);
      fields(reader, value);
      reader.finish();
      renumber(value, name);
    }
  }
  template <class T> void read(const Json &json, std::vector<T> &list, const char *name) {
    if (!json.is_array())
      return wrong(name);
    list.clear();
    for (const Json &element : json) {
      if (!error_.empty())
        return;
      T value{};
      read(element, value, name);
      list.push_back(std::move(value));
    }
  }
  template <class T, size_t N>
  void read(const Json &json, std::array<T, N> &list, const char *name) {
    if (!json.is_array() || json.size() != N)
      return wrong(name);
    for (size_t i = 0; i < N; ++i)
      read(json[i], list[i], name);
  }
  template <class E> void read_enumerator(const Json &json, E &value, const char *name) {
    if (!json.is_string())
      return wrong(name);
    std::span<const std::string_view> names = enumerator_names<E>();
    auto it = std::find(names.begin(), names.end(), json.get_ref<const std::string &>());
    it != names.end() ? void(value = E(it - names.begin())) : wrong(name);
  }

  /// Rows that hold an expression's number in a plain field.
  template <class T> void renumber(T &value, const char *name) {
    using OperandKind = OperandRef::Kind;
    if constexpr (std::is_same_v<T, Argument>) {
      if (value.kind == ArgumentKind::expr)
        value.index = expr(value.index, name).index;
    } else if constexpr (std::is_same_v<T, HostValue>) {
      if (value.kind == HostValueKind::expr)
        value.index = expr(value.index, name).index;
    } else if constexpr (std::is_same_v<T, OperandRef>) {
      if (value.kind == OperandKind::expr)
        value.index = expr(value.index, name).index;
    }
  }
  ExprId expr(uint32_t number, const char *name) {
    if (number == kNone)
      return {};
    if (number >= exprs_.size()) {
      wrong(name);
      return {};
    }
    return exprs_[number];
  }

  const Json &object_;
  const std::vector<ExprId> &exprs_;
  std::string &error_;
  std::string path_;
  size_t fields_ = 0;
};

Status malformed(const std::string &what) {
  return Status::error(cugrt::Code::parse_error, "plan is malformed: " + what);
}

/// Rebuilds the pool; `numbers` gives each written expression its number there.
Status read_exprs(const Json &list, ir::ExprPool &pool, std::vector<ExprId> &numbers) {
  if (!list.is_array())
    return malformed("it has no list of expressions");
  for (const Json &element : list) {
    std::string error;
    ir::ExprNode node{};
    Reader reader(element, numbers, error, "expression " + std::to_string(numbers.size()));
    fields(reader, node); // operands must have been read before: their numbers are looked up
    reader.finish();
    if (!error.empty())
      return malformed(error);
    bool leaf = node.kind == ir::ExprKind::constant || node.kind == ir::ExprKind::symbol;
    bool select = node.kind == ir::ExprKind::select;
    if (leaf == node.a.valid() || leaf == node.b.valid() || select != node.c.valid())
      return malformed("an expression has the wrong number of operands");
    if (node.kind == ir::ExprKind::symbol && (node.value < 0 || node.value >= kNone))
      return malformed("an expression has a symbol that cannot be");
    ExprId id = node.kind == ir::ExprKind::constant ? pool.constant(node.value)
                : node.kind == ir::ExprKind::symbol ? pool.symbol({uint32_t(node.value)})
                                                    : pool.make(node.kind, node.a, node.b, node.c);
    if (pool.depth(id) > ir::ExprPool::kMaxDepth)
      return malformed("an expression is nested too deeply");
    numbers.push_back(id);
  }
  return {};
}

Result<Plan> read_plan(const Json &json) {
  if (!json.is_object() || !json.contains("format") || json["format"] != kFormat)
    return malformed("it does not begin as a plan of cugrt");
  auto version = json.find("version");
  if (version == json.end() || !version->is_number_unsigned())
    return malformed("it has no version");
  if (*version != kPlanVersion)
    return Status::error(cugrt::Code::unsupported, "plan has version " + version->dump() +
                                                       ", this library reads " +
                                                       std::to_string(kPlanVersion) +
                                                       "; make the plan again from its module");
  auto exprs = json.find("exprs");
  if (exprs == json.end())
    return malformed("it has no list of expressions");
  Plan plan;
  std::vector<ExprId> numbers;
  CUGRT_TRY(read_exprs(*exprs, plan.exprs, numbers));
  std::string error;
  Reader reader(json, numbers, error, "plan");
  reader.count_fields(3); // format, version, exprs
  fields(reader, plan);
  reader.finish();
  if (!error.empty())
    return malformed(error);
  CUGRT_TRY(validate(plan));
  return plan;
}

} // namespace

std::string to_json(const Plan &plan) {
  return write(plan, false).dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_cbor(const Plan &plan) {
  std::string bytes;
  Json::to_cbor(write(plan, true), bytes);
  return bytes;
}

Result<Plan> from_bytes(std::string_view bytes) {
  if (bytes.size() > kMaxPlanBytes)
    return malformed("it is larger than " + std::to_string(kMaxPlanBytes) + " bytes");
  bool text = !bytes.empty() && (bytes[0] == '{' || bytes[0] == ' ' || bytes[0] == '\n' ||
                                 bytes[0] == '\r' || bytes[0] == '\t');
  if (!(text ? scan_json(bytes) : scan_cbor(bytes)))
    return malformed(text ? "its JSON is nested too deeply" : "it is neither JSON nor plain CBOR");
  try {
    Json json = text ? Json::parse(bytes, nullptr, false)
                     : Json::from_cbor(bytes.begin(), bytes.end(), true, false);
    if (json.is_discarded())
      return malformed(text ? "its JSON has an error of syntax" : "its CBOR has an error");
    return read_plan(json);
  } catch (const Json::exception &error) { // the library throws in a few places even so
    return malformed(error.what());
  }
}

} // namespace cugrt::plan
