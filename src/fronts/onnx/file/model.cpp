// Messages of an ONNX file; field numbers are those of onnx.proto.
#include "fronts/onnx/file/model.h"

#include "fronts/onnx/file/wire.h"

#include <charconv>
#include <concepts>
#include <cstring>

namespace cugrt::onnx {

namespace {

/// Reads a message field by field: rows give the target of each field number.
class Reader {
public:
  Status take(const Field &field, TensorView &out);
  Status model(std::string_view message, Model &out);

private:
  template <class To> struct Row {
    uint32_t number;
    To to;
  };
  template <class To> static Row<To> at(uint32_t number, To &&to) {
    return {number, std::forward<To>(to)};
  }
  template <class... Rows> Status read(std::string_view message, const Rows &...rows) {
    FieldReader reader(message);
    while (!reader.done()) {
      CUGRT_ASSIGN(const Field field, reader.next());
      Status status;
      static_cast<void>(
          ((field.number == rows.number && (status = take(field, rows.to), true)) || ...));
      CUGRT_TRY(std::move(status));
    }
    return {};
  }
  Status count() {
    if (++things_ > kMaxThings)
      return Status::error(Code::parse_error,
                           "the model has more than " + std::to_string(kMaxThings) + " parts");
    return {};
  }
  Status take(const Field &field, std::string_view &out) {
    if (!field.is_bytes)
      return Status::error(Code::parse_error, "no ONNX model: a name is a number");
    out = field.bytes;
    return count();
  }
  template <std::integral Number> Status take(const Field &field, Number &out) {
    out = static_cast<Number>(field.number_value);
    return {};
  }
  template <std::invocable<const Field &> Call> Status take(const Field &field, const Call &call) {
    return call(field);
  }
  template <class Part> Status take(const Field &field, std::vector<Part> &out) {
    return take(field, out.emplace_back());
  }
  template <class Part> Status take(const Field &field, std::shared_ptr<Part> &out) {
    out = std::make_shared<Part>();
    return take(field, *out);
  }
  Status take(const Field &field, std::vector<int64_t> &out) { return integers(field, out); }
  Status take(const Field &field, std::vector<float> &out) { return floats(field, out); }
  Status take(const Field &field, Graph &out);
  Status take(const Field &field, Node &out);
  Status take(const Field &field, AttributeView &out);
  Status take(const Field &field, ValueInfo &out);
  Status take(const Field &field, LocalFunction &out);
  Status integers(const Field &field, std::vector<int64_t> &out);
  Status floats(const Field &field, std::vector<float> &out);
  Status external(std::string_view message, TensorView &out);
  Status tensor_type(std::string_view message, ValueInfo &out);
  Status opset(std::string_view message, int64_t &version);

  size_t things_ = 0;
  unsigned depth_ = 0; // of graphs in one another
};

Status Reader::integers(const Field &field, std::vector<int64_t> &out) {
  if (!field.is_bytes) {
    out.push_back(static_cast<int64_t>(field.number_value));
    return count();
  }
  // Packed: varints after one another are read as the values of a message's fields are.
  std::string_view rest = field.bytes;
  while (!rest.empty()) {
    uint64_t value = 0;
    unsigned shift = 0;
    for (;; shift += 7) {
      if (rest.empty() || shift > 63)
        return Status::error(Code::parse_error, "no ONNX model: a list of numbers is cut off");
      const auto byte = static_cast<unsigned char>(rest.front());
      rest.remove_prefix(1);
      value |= uint64_t(byte & 127) << shift;
      if (byte < 128)
        break;
    }
    out.push_back(static_cast<int64_t>(value));
    CUGRT_TRY(count());
  }
  return {};
}

Status Reader::floats(const Field &field, std::vector<float> &out) {
  auto add = [&](uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    out.push_back(value);
    return count();
  };
  if (!field.is_bytes)
    return add(static_cast<uint32_t>(field.number_value));
  if (field.bytes.size() % 4)
    return Status::error(Code::parse_error, "no ONNX model: a list of floats is cut off");
  for (size_t at = 0; at < field.bytes.size(); at += 4) {
    uint32_t bits;
    std::memcpy(&bits, field.bytes.data() + at, 4);
    CUGRT_TRY(add(bits));
  }
  return {};
}

Status Reader::external(std::string_view message, TensorView &out) {
  std::string_view key, value;
  CUGRT_TRY(read(message, at(1, key), at(2, value)));
  auto number = [&](uint64_t &to) -> Status {
    auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), to);
    if (error != std::errc() || end != value.data() + value.size())
      return Status::error(Code::parse_error, "external data of '" + std::string(out.name) +
                                                  "': " + std::string(key) + " is no number");
    return {};
  };
  if (key == "location")
    out.location = value;
  else if (key == "offset")
    return number(out.offset);
  else if (key == "length") {
    out.has_length = true;
    return number(out.length);
  }
  return {};
}

Status Reader::take(const Field &field, TensorView &out) {
  out.message = field.bytes;
  CUGRT_TRY(count());
  const auto raw = [&](const Field &f) {
    out.has_raw = true;
    return take(f, out.raw);
  };
  const auto place = [&](const Field &f) { return f.is_bytes ? external(f.bytes, out) : Status(); };
  const auto is_external = [&](const Field &f) {
    out.is_external = f.number_value == 1;
    return Status();
  };
  return read(field.bytes, at(1, out.dims), at(2, out.data_type), at(8, out.name), at(9, raw),
              at(13, place), at(14, is_external));
}

Status Reader::tensor_type(std::string_view message, ValueInfo &out) {
  out.is_tensor = true;
  const auto dimension = [&](const Field &dim) -> Status {
    if (!dim.is_bytes)
      return {};
    Dimension one;
    CUGRT_TRY(count());
    const auto value = [&](const Field &f) {
      one.known = static_cast<int64_t>(f.number_value) >= 0;
      return take(f, one.value);
    };
    CUGRT_TRY(read(dim.bytes, at(1, value), at(2, one.name)));
    out.dims.push_back(one);
    return {};
  };
  return read(message, at(1, out.data_type), at(2, [&](const Field &f) {
                out.has_shape |= f.is_bytes;
                return read(f.bytes, at(1, dimension));
              }));
}

Status Reader::take(const Field &field, ValueInfo &out) {
  CUGRT_TRY(count());
  const auto tensor = [&](const Field &f) {
    return f.is_bytes ? tensor_type(f.bytes, out) : Status();
  };
  return read(field.bytes, at(1, out.name),
              at(2, [&](const Field &f) { return read(f.bytes, at(1, tensor)); }));
}

Status Reader::take(const Field &field, AttributeView &out) {
  CUGRT_TRY(count());
  const auto number = [&](const Field &f) {
    const auto bits = static_cast<uint32_t>(f.number_value);
    std::memcpy(&out.number, &bits, 4);
    return Status();
  };
  return read(field.bytes, at(1, out.name), at(2, number), at(3, out.integer), at(4, out.text),
              at(5, out.tensor), at(6, out.graph), at(7, out.numbers), at(8, out.integers),
              at(9, out.texts), at(20, out.type), at(21, out.reference));
}

Status Reader::take(const Field &field, Node &out) {
  CUGRT_TRY(count());
  CUGRT_TRY(read(field.bytes, at(1, out.inputs), at(2, out.outputs), at(3, out.name), at(4, out.op),
                 at(5, out.attributes), at(7, out.domain)));
  if (out.domain == "ai.onnx")
    out.domain = {};
  return {};
}

Status Reader::take(const Field &field, Graph &out) {
  if (depth_ > kMaxDepth)
    return Status::error(Code::parse_error,
                         "subgraphs are nested more than " + std::to_string(kMaxDepth) + " deep");
  ++depth_;
  CUGRT_TRY(read(field.bytes, at(1, out.nodes), at(2, out.name), at(5, out.initializers),
                 at(11, out.inputs), at(12, out.outputs), at(15, [](const Field &) {
                   return Status::error(Code::unsupported,
                                        "sparse initial values; store them as dense tensors");
                 })));
  --depth_;
  return {};
}

Status Reader::opset(std::string_view message, int64_t &version) {
  std::string_view domain;
  int64_t number = 0;
  CUGRT_TRY(read(message, at(1, domain), at(2, number)));
  if (domain.empty() || domain == "ai.onnx")
    version = number;
  return {};
}

Status Reader::take(const Field &field, LocalFunction &out) {
  CUGRT_TRY(count());
  ++depth_;
  CUGRT_TRY(read(field.bytes, at(1, out.name), at(4, out.inputs), at(5, out.outputs),
                 at(6, out.attributes), at(7, out.nodes),
                 at(9, [&](const Field &f) { return opset(f.bytes, out.opset); }),
                 at(10, out.domain), at(11, out.defaults)));
  --depth_;
  if (out.domain == "ai.onnx")
    out.domain = {};
  return {};
}

Status Reader::model(std::string_view message, Model &out) {
  bool has_graph = false;
  const auto graph = [&](const Field &f) {
    has_graph = true;
    return take(f, out.graph);
  };
  const auto version = [&](const Field &f) { return opset(f.bytes, out.opset); };
  CUGRT_TRY(
      read(message, at(1, out.ir_version), at(7, graph), at(8, version), at(25, out.functions)));
  if (!has_graph)
    return Status::error(Code::parse_error, "no ONNX model: it has no graph");
  return {};
}

} // namespace

Result<Model> read_model(std::string_view bytes) {
  Model model;
  Reader reader;
  CUGRT_TRY(reader.model(bytes, model));
  if (model.ir_version < kOldestIr)
    return Status::error(Code::unsupported,
                         "IR version " + std::to_string(model.ir_version) +
                             "; 3 and later ones are read (onnx.version_converter converts)");
  if (model.opset < kOldestOpset)
    return Status::error(Code::unsupported, "opset " + std::to_string(model.opset) +
                                                "; 7 and later ones are read "
                                                "(onnx.version_converter converts)");
  CUGRT_TRY(sort_nodes(model));
  CUGRT_TRY(check_names(model));
  return model;
}

Result<TensorView> read_tensor(std::string_view bytes) {
  TensorView tensor;
  CUGRT_TRY(Reader().take({.is_bytes = true, .bytes = bytes}, tensor));
  return tensor;
}

} // namespace cugrt::onnx
