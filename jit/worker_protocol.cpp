// Messages to bytes and back; see worker_protocol.h.
#include "jit/worker_protocol.h"

#include "base/little_endian.h"

#include <cstring>
#include <type_traits>

namespace cugrt::jit {

namespace {

constexpr uint32_t kMaxOptions = 4096;

class Writer {
public:
  explicit Writer(MessageKind kind) { text_ += static_cast<char>(kind); }
  template <class... Fields> Writer &operator()(const Fields &...fields) {
    (put(fields), ...);
    return *this;
  }
  std::string take() { return std::move(text_); }

private:
  template <class Number>
  requires std::is_integral_v<Number> || std::is_enum_v<Number>
  void put(Number value) { little_endian::put(text_, static_cast<uint32_t>(value)); }
  void put(std::string_view value) {
    put(value.size());
    text_ += value;
  }
  void put(const std::vector<std::string> &list) {
    put(list.size());
    for (const std::string &text : list)
      put(text);
  }
  void put(const Digest &digest) {
    put(std::string_view(reinterpret_cast<const char *>(digest.data()), digest.size()));
  }

  std::string text_;
};

/// Fields in order; once one is missing, all that follow are empty and complete() is false.
class Reader {
public:
  Reader(std::string_view message, MessageKind kind)
      : rest_(message), ok_(kind_of(message) == kind) {
    if (ok_)
      rest_.remove_prefix(1);
  }
  template <class... Fields> void operator()(Fields &...fields) { (get(fields), ...); }
  void require(bool condition) { ok_ = ok_ && condition; }
  bool complete() const { return ok_ && rest_.empty(); }

private:
  uint32_t number(uint32_t most = UINT32_MAX) {
    require(rest_.size() >= 4);
    const auto value = ok_ ? little_endian::get<uint32_t>(rest_, 0) : 0;
    require(value <= most);
    rest_.remove_prefix(ok_ ? 4 : 0);
    return ok_ ? value : 0;
  }
  void get(uint32_t &value) { value = number(); }
  void get(int &value) { value = static_cast<int>(number()); }
  void get(bool &value) { value = number(1) != 0; }
  void get(OutputKind &value) {
    value = static_cast<OutputKind>(number(static_cast<uint32_t>(OutputKind::cubin)));
  }
  void get(std::string &value) {
    const uint32_t size = number();
    require(rest_.size() >= size);
    value = rest_.substr(0, ok_ ? size : 0);
    rest_.remove_prefix(value.size());
  }
  void get(std::vector<std::string> &list) {
    for (uint32_t left = number(kMaxOptions); left > 0 && ok_; --left)
      get(list.emplace_back());
  }
  void get(Digest &digest) {
    std::string bytes;
    get(bytes);
    require(bytes.size() == digest.size());
    if (ok_)
      std::memcpy(digest.data(), bytes.data(), digest.size());
  }

  std::string_view rest_;
  bool ok_;
};

/// The fields of each message, listed once for writing and for reading.
template <class Archive, class Message> void fields(Archive &archive, Message &m) {
  if constexpr (std::is_same_v<std::remove_const_t<Message>, OpenMessage>)
    archive(m.protocol, m.location.library, m.location.include_folder, m.location.found_by);
  else if constexpr (std::is_same_v<std::remove_const_t<Message>, CompileMessage>)
    archive(m.request.name, m.request.source, m.request.file, m.request.first_line,
            m.request.options, m.request.kind, m.request.with_ptx, m.request.architecture,
            m.target);
  else if constexpr (std::is_same_v<std::remove_const_t<Message>, CompilerIdentity>)
    archive(m.major, m.minor, m.headers);
  else
    archive(m.bytes, m.ptx, m.log);
}

template <class Message> std::string encoded(MessageKind kind, const Message &message) {
  Writer writer(kind);
  fields(writer, message);
  return writer.take();
}

Status malformed() {
  return Status::error(Code::parse_error, "a message of the compiling process cannot be read");
}

template <class Message> Result<Message> decoded(MessageKind kind, std::string_view message) {
  Reader reader(message, kind);
  Message out;
  fields(reader, out);
  return reader.complete() ? Result<Message>(std::move(out)) : malformed();
}

} // namespace

std::string encode(const OpenMessage &message) { return encoded(MessageKind::open, message); }
std::string encode(const CompileMessage &message) { return encoded(MessageKind::compile, message); }
std::string encode(const CompilerIdentity &opened) { return encoded(MessageKind::opened, opened); }
std::string encode(const CompileResult &compiled) {
  return encoded(MessageKind::compiled, compiled);
}
std::string encode(const Status &failed) {
  return Writer(MessageKind::failed)(failed.code(), failed.message(), failed.location()).take();
}

std::optional<MessageKind> kind_of(std::string_view message) {
  if (message.empty() || message[0] < static_cast<char>(MessageKind::open) ||
      message[0] > static_cast<char>(MessageKind::failed))
    return std::nullopt;
  return static_cast<MessageKind>(message[0]);
}

Result<OpenMessage> decode_open(std::string_view message) {
  return decoded<OpenMessage>(MessageKind::open, message);
}

Result<CompileMessage> decode_compile(std::string_view message) {
  return decoded<CompileMessage>(MessageKind::compile, message);
}

Result<CompilerIdentity> decode_opened(std::string_view message) {
  CUGRT_ASSIGN(CompilerIdentity opened, decoded<CompilerIdentity>(MessageKind::opened, message));
  const bool fits =
      opened.major > 0 && opened.major < 1000 && opened.minor >= 0 && opened.minor < 1000;
  return fits ? Result<CompilerIdentity>(opened) : malformed();
}

Result<CompileResult> decode_compiled(std::string_view message) {
  return decoded<CompileResult>(MessageKind::compiled, message);
}

Status decode_failed(std::string_view message) {
  Reader reader(message, MessageKind::failed);
  uint32_t code = 0;
  std::string text, location;
  reader(code, text, location);
  reader.require(code > 0 && code <= static_cast<uint32_t>(Code::internal));
  if (!reader.complete())
    return malformed();
  Status failed = Status::error(static_cast<Code>(code), std::move(text)).at(std::move(location));
  return encode(failed) == message ? std::move(failed) : malformed(); // statuses are legible
}

} // namespace cugrt::jit
