// Messages to bytes and back; see worker_protocol.h.
#include "jit/worker_protocol.h"

#include "base/little_endian.h"

#include <cstring>

namespace cugrt::jit {

namespace {

constexpr uint32_t kMaxOptions = 4096;

class Writer {
public:
  explicit Writer(MessageKind kind) { text_ += static_cast<char>(kind); }
  Writer &number(uint32_t value) {
    little_endian::put(text_, value);
    return *this;
  }
  Writer &string(std::string_view value) {
    number(static_cast<uint32_t>(value.size()));
    text_ += value;
    return *this;
  }
  std::string take() { return std::move(text_); }

private:
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
  uint32_t number() {
    if (!ok_ || rest_.size() < 4) {
      ok_ = false;
      return 0;
    }
    const auto value = little_endian::get<uint32_t>(rest_, 0);
    rest_.remove_prefix(4);
    return value;
  }
  std::string string() {
    uint32_t size = number();
    if (!ok_ || rest_.size() < size) {
      ok_ = false;
      return {};
    }
    std::string value(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return value;
  }
  void require(bool condition) { ok_ = ok_ && condition; }
  bool ok() const { return ok_; }
  bool complete() const { return ok_ && rest_.empty(); }

private:
  std::string_view rest_;
  bool ok_;
};

Status malformed() {
  return Status::error(Code::parse_error, "a message of the compiling process cannot be read");
}

} // namespace

std::string encode(const OpenMessage &message) {
  return Writer(MessageKind::open)
      .number(message.protocol)
      .string(message.location.library)
      .string(message.location.include_folder)
      .string(message.location.found_by)
      .take();
}

std::string encode(const CompileMessage &message) {
  const CompileRequest &request = message.request;
  Writer writer(MessageKind::compile);
  writer.string(request.name).string(request.source).string(request.file);
  writer.number(static_cast<uint32_t>(request.first_line));
  writer.number(static_cast<uint32_t>(request.options.size()));
  for (const std::string &option : request.options)
    writer.string(option);
  writer.number(static_cast<uint32_t>(request.kind)).number(request.with_ptx);
  writer.string(request.architecture);
  return writer.string(message.target).take();
}

std::string encode(const CompilerIdentity &opened) {
  std::string_view headers(reinterpret_cast<const char *>(opened.headers.data()),
                           opened.headers.size());
  return Writer(MessageKind::opened)
      .number(static_cast<uint32_t>(opened.major))
      .number(static_cast<uint32_t>(opened.minor))
      .string(headers)
      .take();
}

std::string encode(const CompileResult &compiled) {
  return Writer(MessageKind::compiled)
      .string(compiled.bytes)
      .string(compiled.ptx)
      .string(compiled.log)
      .take();
}

std::string encode(const Status &failed) {
  return Writer(MessageKind::failed)
      .number(static_cast<uint32_t>(failed.code()))
      .string(failed.message())
      .string(failed.location())
      .take();
}

std::optional<MessageKind> kind_of(std::string_view message) {
  if (message.empty() || message[0] < static_cast<char>(MessageKind::open) ||
      message[0] > static_cast<char>(MessageKind::failed))
    return std::nullopt;
  return static_cast<MessageKind>(message[0]);
}

Result<OpenMessage> decode_open(std::string_view message) {
  Reader reader(message, MessageKind::open);
  OpenMessage open;
  open.protocol = reader.number();
  open.location.library = reader.string();
  open.location.include_folder = reader.string();
  open.location.found_by = reader.string();
  return reader.complete() ? Result<OpenMessage>(std::move(open)) : malformed();
}

Result<CompileMessage> decode_compile(std::string_view message) {
  Reader reader(message, MessageKind::compile);
  CompileMessage compile;
  CompileRequest &request = compile.request;
  request.name = reader.string();
  request.source = reader.string();
  request.file = reader.string();
  request.first_line = static_cast<int>(reader.number());
  uint32_t options = reader.number();
  reader.require(options <= kMaxOptions);
  for (uint32_t i = 0; i < options && reader.ok(); ++i)
    request.options.push_back(reader.string());
  uint32_t kind = reader.number();
  reader.require(kind <= static_cast<uint32_t>(OutputKind::cubin));
  request.kind = kind ? OutputKind::cubin : OutputKind::ptx;
  uint32_t with_ptx = reader.number();
  reader.require(with_ptx <= 1);
  request.with_ptx = with_ptx != 0;
  request.architecture = reader.string();
  compile.target = reader.string();
  return reader.complete() ? Result<CompileMessage>(std::move(compile)) : malformed();
}

Result<CompilerIdentity> decode_opened(std::string_view message) {
  Reader reader(message, MessageKind::opened);
  CompilerIdentity opened;
  uint32_t major = reader.number(), minor = reader.number();
  reader.require(major > 0 && major < 1000 && minor < 1000);
  opened.major = static_cast<int>(major);
  opened.minor = static_cast<int>(minor);
  std::string headers = reader.string();
  if (!reader.complete() || headers.size() != opened.headers.size())
    return malformed();
  std::memcpy(opened.headers.data(), headers.data(), headers.size());
  return opened;
}

Result<CompileResult> decode_compiled(std::string_view message) {
  Reader reader(message, MessageKind::compiled);
  CompileResult compiled;
  compiled.bytes = reader.string();
  compiled.ptx = reader.string();
  compiled.log = reader.string();
  return reader.complete() ? Result<CompileResult>(std::move(compiled)) : malformed();
}

Status decode_failed(std::string_view message) {
  Reader reader(message, MessageKind::failed);
  uint32_t code = reader.number();
  std::string text = reader.string(), location = reader.string();
  reader.require(code > 0 && code <= static_cast<uint32_t>(Code::internal));
  return reader.complete()
             ? Status::error(static_cast<Code>(code), std::move(text)).at(std::move(location))
             : malformed();
}

} // namespace cugrt::jit
