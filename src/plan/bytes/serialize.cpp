// Plans as bytes. Fields are listed in archive.h, the form in document.h.
//
// Reading trusts nothing. Nesting and lengths are bounded before anything is parsed; every field is
// checked for presence, type and range; the expressions are built anew in their pool; and
// validate() has the last word.
#include "plan/bytes/serialize.h"

#include "plan/bytes/archive.h"
#include "plan/bytes/document.h"
#include "plan/validate/validate.h"

#include <algorithm>
#include <array>
#include <limits>

namespace cugrt::plan {
namespace {

using Kind = Node::Kind;

constexpr size_t kMaxPlanBytes = size_t(1) << 30;
constexpr std::string_view kFormat = "cugrt plan";

// --- Writing -------------------------------------------------------------------------------------

/// Counts the fields of a row.
struct FieldCounter {
  size_t count = 0;
  template <class T> void operator()(const char *, const T &) { ++count; }
  void bytes(const char *, const std::string &) { ++count; }
  template <class T> void unless_empty(const char *, const T &list) { count += !list.empty(); }
};

class Writer {
public:
  explicit Writer(DocumentWriter &out) : out_(out) {}

  template <class T> void operator()(const char *name, const T &value) {
    out_.key(name);
    write(value);
  }
  void bytes(const char *name, const std::string &value) {
    out_.key(name);
    out_.bytes(value);
  }
  template <class T> void unless_empty(const char *name, const T &list) {
    if (!list.empty())
      (*this)(name, list);
  }

  template <class T> void write(const T &value) {
    if constexpr (std::is_same_v<T, ir::DType>)
      out_.text(ir::info(value).name);
    else if constexpr (std::is_enum_v<T>)
      out_.text(enumerator_names<T>()[size_t(value)]);
    else if constexpr (std::is_same_v<T, ExprId> || std::is_same_v<T, SymbolId>)
      write(value.index);
    else if constexpr (std::is_same_v<T, uint32_t>)
      value == kNone ? out_.null() : out_.integer(false, value);
    else if constexpr (std::is_same_v<T, bool>)
      out_.boolean(value);
    else if constexpr (std::is_integral_v<T>)
      out_.integer(value < T(0), uint64_t(value));
    else if constexpr (std::is_same_v<T, std::string>)
      out_.text(value);
    else
      row(value);
  }
  void write(const std::vector<bool> &list) {
    out_.begin(Kind::list, list.size());
    for (bool element : list)
      out_.boolean(element);
  }
  template <class T> void write(const std::vector<T> &list) {
    out_.begin(Kind::list, list.size());
    for (const T &element : list)
      write(element);
  }
  template <class T, size_t N> void write(const std::array<T, N> &list) {
    out_.begin(Kind::list, N);
    for (const T &element : list)
      write(element);
  }

private:
  template <class T> void row(const T &value) {
    FieldCounter counter;
    fields(counter, value);
    out_.begin(Kind::object, counter.count);
    fields(*this, value);
  }
  DocumentWriter &out_;
};

constexpr size_t kHeaderFields = 3; // format, version, exprs

void write(const Plan &plan, DocumentWriter &out) {
  FieldCounter counter;
  fields(counter, plan);
  out.begin(Kind::object, counter.count + kHeaderFields);
  Writer writer(out);
  writer("format", std::string(kFormat));
  writer("version", kPlanVersion);
  out.key("exprs");
  out.begin(Kind::list, plan.exprs.size());
  for (uint32_t i = 0; i < plan.exprs.size(); ++i)
    writer.write(plan.exprs[ExprId{i}]);
  fields(writer, plan);
}

// --- Reading -------------------------------------------------------------------------------------

/// Reads one row's fields. The first problem is kept in `error`, shared by all readers of a plan.
class Reader {
public:
  Reader(const Node &object, const std::vector<ExprId> &exprs, std::string &error, std::string path)
      : object_(object), exprs_(exprs), error_(error), path_(std::move(path)) {
    if (object_.kind != Kind::object)
      fail("is no object");
  }

  /// Fields stand in the order in which they are written; other orders are found, only slower.
  const Node *find(std::string_view name) {
    const std::vector<Node> &items = object_.items;
    for (size_t i = 0; i < items.size(); ++i) {
      const Node &item = items[(next_ + i) % items.size()];
      if (item.key == name) {
        next_ = (next_ + i + 1) % items.size();
        ++fields_;
        return &item;
      }
    }
    return nullptr;
  }

  template <class T> void operator()(const char *name, T &value) {
    if (!error_.empty())
      return;
    if (const Node *node = find(name))
      read(*node, value, name);
    else
      fail(std::string("has no field ") + name);
  }
  void bytes(const char *name, std::string &value) {
    const Node *node = error_.empty() ? find(name) : nullptr;
    if (node && node->kind == Kind::bytes) {
      value = node->text;
    } else {
      fail(std::string("has no bytes in field ") + name);
    }
  }
  template <class T> void unless_empty(const char *name, T &list) {
    const Node *node = error_.empty() ? find(name) : nullptr;
    if (!node)
      return;
    read(*node, list, name);
    if (list.empty())
      wrong(name);
  }
  void finish() {
    if (error_.empty() && object_.items.size() != fields_)
      fail("has fields that this version does not know");
  }

private:
  void fail(const std::string &what) {
    if (error_.empty())
      error_ = path_ + " " + what;
  }
  void wrong(const char *name) { fail(std::string("has a wrong value in field ") + name); }

  template <class T> void read_integer(const Node &node, T &value, const char *name) {
    if (node.kind != Kind::integer)
      return wrong(name);
    if (node.negative)
      return std::is_signed_v<T> ? void(value = T(node.number)) : wrong(name);
    if (node.number > uint64_t(std::numeric_limits<T>::max()))
      return wrong(name);
    value = T(node.number);
  }

  template <class T> void read(const Node &node, T &value, const char *name) {
    static_assert(!std::is_integral_v<T> || std::is_unsigned_v<T> || sizeof(T) == 8);
    if constexpr (std::is_same_v<T, ir::DType>) {
      auto dtype = node.kind == Kind::text ? ir::dtype_from_name(node.text) : std::nullopt;
      dtype ? void(value = *dtype) : wrong(name);
    } else if constexpr (std::is_enum_v<T>) {
      read_enumerator(node, value, name);
    } else if constexpr (std::is_same_v<T, ExprId>) {
      read(node, value.index, name);
      value = expr(value.index, name);
    } else if constexpr (std::is_same_v<T, SymbolId>) {
      read(node, value.index, name);
    } else if constexpr (std::is_same_v<T, bool>) {
      node.kind == Kind::boolean ? void(value = node.number != 0) : wrong(name);
    } else if constexpr (std::is_same_v<T, std::string>) {
      node.kind == Kind::text ? void(value = node.text) : wrong(name);
    } else if constexpr (std::is_same_v<T, uint32_t>) {
      node.kind == Kind::null ? void(value = kNone) : read_integer(node, value, name);
    } else if constexpr (std::is_integral_v<T>) {
      read_integer(node, value, name);
    } else {
      Reader reader(node, exprs_, error_, path_ + "." + name);
      fields(reader, value);
      reader.finish();
      renumber(value, name);
    }
  }
  template <class T> void read(const Node &node, std::vector<T> &list, const char *name) {
    if (node.kind != Kind::list)
      return wrong(name);
    list.clear();
    for (const Node &element : node.items) {
      if (!error_.empty())
        return;
      T value{};
      read(element, value, name);
      list.push_back(std::move(value));
    }
  }
  template <class T, size_t N>
  void read(const Node &node, std::array<T, N> &list, const char *name) {
    if (node.kind != Kind::list || node.items.size() != N)
      return wrong(name);
    for (size_t i = 0; i < N; ++i)
      read(node.items[i], list[i], name);
  }
  template <class E> void read_enumerator(const Node &node, E &value, const char *name) {
    if (node.kind != Kind::text)
      return wrong(name);
    std::span<const std::string_view> names = enumerator_names<E>();
    auto it = std::find(names.begin(), names.end(), node.text);
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

  const Node &object_;
  const std::vector<ExprId> &exprs_;
  std::string &error_;
  std::string path_;
  size_t fields_ = 0, next_ = 0;
};

Status malformed(const std::string &what) {
  return Status::error(cugrt::Code::parse_error, "plan is malformed: " + what);
}

/// Rebuilds the pool; `numbers` gives each written expression its number there.
Status read_exprs(const Node &list, ir::ExprPool &pool, std::vector<ExprId> &numbers) {
  if (list.kind != Kind::list)
    return malformed("it has no list of expressions");
  for (const Node &element : list.items) {
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

Result<Plan> read_plan(const Node &root) {
  Plan plan;
  std::vector<ExprId> numbers;
  std::string error;
  Reader reader(root, numbers, error, "plan");
  const Node *format = reader.find("format"), *version = reader.find("version");
  if (!format || format->kind != Kind::text || format->text != kFormat)
    return malformed("it does not begin as a plan of cugrt");
  if (!version || version->kind != Kind::integer || version->negative)
    return malformed("it has no version");
  if (version->number != kPlanVersion)
    return Status::error(cugrt::Code::unsupported,
                         "plan has version " + std::to_string(version->number) +
                             ", this library reads " + std::to_string(kPlanVersion) +
                             "; make the plan again from its module");
  const Node *exprs = reader.find("exprs");
  if (!exprs)
    return malformed("it has no list of expressions");
  CUGRT_TRY(read_exprs(*exprs, plan.exprs, numbers));
  fields(reader, plan);
  reader.finish();
  if (!error.empty())
    return malformed(error);
  CUGRT_TRY(validate(plan));
  return plan;
}

} // namespace

std::string to_bytes(const Plan &plan) {
  std::string bytes;
  DocumentWriter writer(bytes);
  write(plan, writer);
  return bytes;
}

Result<Plan> from_bytes(std::string_view bytes) {
  if (bytes.size() > kMaxPlanBytes)
    return malformed("it is larger than " + std::to_string(kMaxPlanBytes) + " bytes");
  CUGRT_ASSIGN(Node root, parse_document(bytes));
  return read_plan(root);
}

} // namespace cugrt::plan
