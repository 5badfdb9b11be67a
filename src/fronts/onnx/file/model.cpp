// Messages of an ONNX file; field numbers are those of onnx.proto.
#include "fronts/onnx/file/model.h"

#include "fronts/onnx/file/wire.h"

#include <charconv>
#include <cstring>

namespace cugrt::onnx {

namespace {

class Reader {
public:
  Status model(std::string_view message, Model &out);
  Status tensor(std::string_view message, TensorView &out);

private:
  /// Calls `take` for every field.
  template <class Take> Status fields(std::string_view message, Take take) {
    FieldReader reader(message);
    while (!reader.done()) {
      CUGRT_ASSIGN(const Field field, reader.next());
      CUGRT_TRY(take(field));
    }
    return {};
  }
  Status count() {
    if (++things_ > kMaxThings)
      return Status::error(Code::parse_error,
                           "the model has more than " + std::to_string(kMaxThings) + " parts");
    return {};
  }
  Status text(const Field &field, std::string_view &out) {
    if (!field.is_bytes)
      return Status::error(Code::parse_error, "no ONNX model: a name is a number");
    out = field.bytes;
    return count();
  }
  Status integers(const Field &field, std::vector<int64_t> &out);
  Status floats(const Field &field, std::vector<float> &out);
  Status graph(std::string_view message, Graph &out, unsigned depth);
  Status node(std::string_view message, Node &out, unsigned depth);
  Status attribute(std::string_view message, AttributeView &out, unsigned depth);
  Status external(std::string_view message, TensorView &out);
  Status value_info(std::string_view message, ValueInfo &out);
  Status tensor_type(std::string_view message, ValueInfo &out);
  Status function(std::string_view message, LocalFunction &out);
  Status opset(std::string_view message, int64_t &version);

  size_t things_ = 0;
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
  CUGRT_TRY(fields(message, [&](const Field &f) -> Status {
    return f.number == 1 ? text(f, key) : f.number == 2 ? text(f, value) : Status();
  }));
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

Status Reader::tensor(std::string_view message, TensorView &out) {
  out.message = message;
  CUGRT_TRY(count());
  return fields(message, [&](const Field &f) -> Status {
    switch (f.number) {
    case 1:
      return integers(f, out.dims);
    case 2:
      out.data_type = static_cast<int32_t>(f.number_value);
      return {};
    case 8:
      return text(f, out.name);
    case 9:
      out.has_raw = true;
      return text(f, out.raw);
    case 13:
      return f.is_bytes ? external(f.bytes, out) : Status();
    case 14:
      out.is_external = f.number_value == 1;
      return {};
    default:
      return {};
    }
  });
}

Status Reader::tensor_type(std::string_view message, ValueInfo &out) {
  out.is_tensor = true;
  return fields(message, [&](const Field &f) -> Status {
    if (f.number == 1)
      out.data_type = static_cast<int32_t>(f.number_value);
    if (f.number != 2 || !f.is_bytes)
      return {};
    out.has_shape = true;
    return fields(f.bytes, [&](const Field &dim) -> Status {
      if (dim.number != 1 || !dim.is_bytes)
        return {};
      Dimension one;
      CUGRT_TRY(count());
      CUGRT_TRY(fields(dim.bytes, [&](const Field &part) -> Status {
        if (part.number == 1) {
          one.value = static_cast<int64_t>(part.number_value);
          one.known = one.value >= 0;
        }
        return part.number == 2 ? text(part, one.name) : Status();
      }));
      out.dims.push_back(one);
      return {};
    });
  });
}

Status Reader::value_info(std::string_view message, ValueInfo &out) {
  CUGRT_TRY(count());
  return fields(message, [&](const Field &f) -> Status {
    if (f.number == 1)
      return text(f, out.name);
    if (f.number != 2 || !f.is_bytes)
      return {};
    return fields(f.bytes, [&](const Field &kind) -> Status {
      return kind.number == 1 && kind.is_bytes ? tensor_type(kind.bytes, out) : Status();
    });
  });
}

Status Reader::attribute(std::string_view message, AttributeView &out, unsigned depth) {
  CUGRT_TRY(count());
  return fields(message, [&](const Field &f) -> Status {
    switch (f.number) {
    case 1:
      return text(f, out.name);
    case 2: {
      const auto bits = static_cast<uint32_t>(f.number_value);
      std::memcpy(&out.number, &bits, 4);
      return {};
    }
    case 3:
      out.integer = static_cast<int64_t>(f.number_value);
      return {};
    case 4:
      return text(f, out.text);
    case 5:
      out.tensor = std::make_shared<TensorView>();
      return tensor(f.bytes, *out.tensor);
    case 6:
      out.graph = std::make_shared<Graph>();
      return graph(f.bytes, *out.graph, depth + 1);
    case 7:
      return floats(f, out.numbers);
    case 8:
      return integers(f, out.integers);
    case 9:
      return text(f, out.texts.emplace_back());
    case 20:
      out.type = static_cast<int32_t>(f.number_value);
      return {};
    case 21:
      return text(f, out.reference);
    default:
      return {};
    }
  });
}

Status Reader::node(std::string_view message, Node &out, unsigned depth) {
  CUGRT_TRY(count());
  CUGRT_TRY(fields(message, [&](const Field &f) -> Status {
    switch (f.number) {
    case 1:
      return text(f, out.inputs.emplace_back());
    case 2:
      return text(f, out.outputs.emplace_back());
    case 3:
      return text(f, out.name);
    case 4:
      return text(f, out.op);
    case 5:
      return attribute(f.bytes, out.attributes.emplace_back(), depth);
    case 7:
      return text(f, out.domain);
    default:
      return {};
    }
  }));
  if (out.domain == "ai.onnx")
    out.domain = {};
  return {};
}

Status Reader::graph(std::string_view message, Graph &out, unsigned depth) {
  if (depth > kMaxDepth)
    return Status::error(Code::parse_error,
                         "subgraphs are nested more than " + std::to_string(kMaxDepth) + " deep");
  return fields(message, [&](const Field &f) -> Status {
    switch (f.number) {
    case 1:
      return node(f.bytes, out.nodes.emplace_back(), depth);
    case 2:
      return text(f, out.name);
    case 5:
      return tensor(f.bytes, out.initializers.emplace_back());
    case 11:
      return value_info(f.bytes, out.inputs.emplace_back());
    case 12:
      return value_info(f.bytes, out.outputs.emplace_back());
    case 15:
      return Status::error(Code::unsupported, "sparse initial values; store them as dense tensors");
    default:
      return {};
    }
  });
}

Status Reader::opset(std::string_view message, int64_t &version) {
  std::string_view domain;
  int64_t number = 0;
  CUGRT_TRY(fields(message, [&](const Field &f) -> Status {
    if (f.number == 2)
      number = static_cast<int64_t>(f.number_value);
    return f.number == 1 ? text(f, domain) : Status();
  }));
  if (domain.empty() || domain == "ai.onnx")
    version = number;
  return {};
}

Status Reader::function(std::string_view message, LocalFunction &out) {
  CUGRT_TRY(count());
  CUGRT_TRY(fields(message, [&](const Field &f) -> Status {
    switch (f.number) {
    case 1:
      return text(f, out.name);
    case 4:
      return text(f, out.inputs.emplace_back());
    case 5:
      return text(f, out.outputs.emplace_back());
    case 6:
      return text(f, out.attributes.emplace_back());
    case 7:
      return node(f.bytes, out.nodes.emplace_back(), 1);
    case 9:
      return opset(f.bytes, out.opset);
    case 10:
      return text(f, out.domain);
    case 11:
      return attribute(f.bytes, out.defaults.emplace_back(), 1);
    default:
      return {};
    }
  }));
  if (out.domain == "ai.onnx")
    out.domain = {};
  return {};
}

Status Reader::model(std::string_view message, Model &out) {
  bool has_graph = false;
  CUGRT_TRY(fields(message, [&](const Field &f) -> Status {
    switch (f.number) {
    case 1:
      out.ir_version = static_cast<int64_t>(f.number_value);
      return {};
    case 7:
      has_graph = true;
      return graph(f.bytes, out.graph, 0);
    case 8:
      return opset(f.bytes, out.opset);
    case 25:
      return function(f.bytes, out.functions.emplace_back());
    default:
      return {};
    }
  }));
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
  CUGRT_TRY(Reader().tensor(bytes, tensor));
  return tensor;
}

} // namespace cugrt::onnx
