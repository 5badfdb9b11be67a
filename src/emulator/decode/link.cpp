// Linking of parsed modules; see link.h. The modules' symbols are put one behind the other, then
// every reference is moved to the definition that its name has.
#include "emulator/decode/link.h"

#include "emulator/exec/warps/control.h"
#include "emulator/ptx/parser.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

namespace cugrt::emulator {

namespace {

using ptx::Linkage;

/// Place of a name's definition in the linked module.
struct Definition {
  uint32_t index = 0;
  bool is_function = false;
  bool is_weak = false;
  uint32_t part = 0;
};

class Linker {
public:
  Linker(std::vector<std::unique_ptr<ptx::Module>> parts, std::span<const std::string> names)
      : out_(std::make_unique<ptx::Module>()), names_(names) {
    out_->parts = std::move(parts);
  }

  Result<std::unique_ptr<ptx::Module>> run() {
    for (uint32_t part = 0; part < out_->parts.size(); ++part)
      append(part);
    CUGRT_TRY(collect_definitions());
    for (uint32_t part = 0; part < out_->parts.size(); ++part)
      CUGRT_TRY(resolve(part));
    return std::move(out_);
  }

private:
  struct Range {
    uint32_t begin = 0, end = 0;
  };
  using Names = std::unordered_map<std::string_view, Definition>;

  void append(uint32_t part);
  Status collect_definitions();
  Status define(uint32_t part, std::string_view name, Linkage linkage, Definition definition);
  void rename(std::string_view &name, uint32_t part);
  void drop(const Definition &definition);
  Status resolve(uint32_t part);
  Status resolve(uint32_t part, ptx::Operand &operand);
  Result<uint32_t> resolve(uint32_t part, std::string_view name, uint32_t index, bool is_function);
  std::string input(uint32_t part) const {
    return part < names_.size() && !names_[part].empty() ? names_[part]
                                                         : "input " + std::to_string(part + 1);
  }

  std::unique_ptr<ptx::Module> out_;
  std::span<const std::string> names_;
  std::vector<Range> functions_, variables_; // of each part
  Names shared_;                             // what several parts see
  std::vector<Names> own_;                   // what one part keeps to itself, by its written name
};

void Linker::append(uint32_t part) {
  ptx::Module &module = *out_->parts[part];
  uint32_t first_file = uint32_t(out_->files.size());
  Range functions{uint32_t(out_->functions.size()), 0};
  Range variables{uint32_t(out_->variables.size()), 0};
  out_->version = std::max(out_->version, module.version);
  if (module.target > out_->target) {
    out_->target = module.target;
    out_->target_suffix = module.target_suffix;
    out_->target_line = module.target_line;
  }
  out_->files.insert(out_->files.end(), module.files.begin(), module.files.end());
  for (ptx::Variable &variable : module.variables) {
    for (ptx::Relocation &relocation : variable.relocations)
      relocation.index += relocation.is_function ? functions.begin : variables.begin;
    out_->variables.push_back(std::move(variable));
  }
  for (ptx::Function &function : module.functions) {
    for (ptx::Instruction &instruction : function.instructions)
      instruction.file += first_file;
    out_->functions.push_back(std::move(function));
  }
  functions.end = uint32_t(out_->functions.size());
  variables.end = uint32_t(out_->variables.size());
  functions_.push_back(functions);
  variables_.push_back(variables);
}

/// A weak definition that another one takes the place of is a declaration from then on.
void Linker::drop(const Definition &definition) {
  if (definition.is_function)
    out_->functions[definition.index].is_declaration = true;
  else
    out_->variables[definition.index].linkage = Linkage::external;
}

Status Linker::define(uint32_t part, std::string_view name, Linkage linkage,
                      Definition definition) {
  definition.part = part;
  definition.is_weak = linkage == Linkage::weak;
  if (linkage == Linkage::local) {
    own_[part].emplace(name, definition);
    return {};
  }
  auto [it, inserted] = shared_.emplace(name, definition);
  if (inserted)
    return {};
  Definition &other = it->second;
  if (!other.is_weak && !definition.is_weak)
    return Status::error(Code::verify_error, "multiple definition of '" + std::string(name) +
                                                 "' in " + input(part) + ", first defined in " +
                                                 input(other.part));
  if (definition.is_weak) {
    drop(definition);
  } else {
    drop(other);
    other = definition;
  }
  return {};
}

// A kernel is found by its name from outside, whatever its linkage.
Status Linker::collect_definitions() {
  own_.resize(out_->parts.size());
  for (uint32_t part = 0; part < out_->parts.size(); ++part) {
    for (uint32_t i = functions_[part].begin; i < functions_[part].end; ++i) {
      const ptx::Function &function = out_->functions[i];
      bool is_visible = function.is_kernel && function.linkage == Linkage::local;
      if (!function.is_declaration)
        CUGRT_TRY(define(part, function.name, is_visible ? Linkage::visible : function.linkage,
                         {i, true}));
    }
    for (uint32_t i = variables_[part].begin; i < variables_[part].end; ++i)
      if (const ptx::Variable &variable = out_->variables[i]; variable.linkage != Linkage::external)
        CUGRT_TRY(define(part, variable.name, variable.linkage, {i, false}));
  }
  return {};
}

/// Renames names that a part keeps to itself, so that none are equal: calls go by name.
void Linker::rename(std::string_view &name, uint32_t part) {
  out_->joined.push_back(std::string(name) + "$" + std::to_string(part + 1));
  name = out_->joined.back();
}

Result<uint32_t> Linker::resolve(uint32_t part, std::string_view name, uint32_t index,
                                 bool is_function) {
  auto it = own_[part].find(name);
  if (it == own_[part].end()) {
    it = shared_.find(name);
    if (it == shared_.end()) {
      if (is_function && find_builtin(name) != Builtin::none)
        return index;
      return Status::error(Code::not_found,
                           "undefined reference to '" + std::string(name) + "' in " + input(part));
    }
  }
  if (it->second.is_function != is_function)
    return Status::error(Code::verify_error, "'" + std::string(name) + "' is a function in one " +
                                                 "input and a variable in another, " + input(part));
  return it->second.index;
}

Status Linker::resolve(uint32_t part, ptx::Operand &operand) {
  using Kind = ptx::Operand::Kind;
  if (operand.kind == Kind::function) {
    uint32_t index = uint32_t(operand.index) + functions_[part].begin;
    CUGRT_ASSIGN(index, resolve(part, out_->functions[index].name, index, true));
    operand.index = int32_t(index);
  } else if (operand.kind == Kind::variable && operand.is_module) {
    uint32_t index = uint32_t(operand.index) + variables_[part].begin;
    const ptx::Variable &variable = out_->variables[index];
    bool dynamic = variable.space == ptx::Space::shared && variable.bytes == 0;
    if (!dynamic) {
      CUGRT_ASSIGN(index, resolve(part, variable.name, index, false));
    }
    operand.index = int32_t(index);
  }
  return {};
}

Status Linker::resolve(uint32_t part) {
  for (uint32_t i = functions_[part].begin; i < functions_[part].end; ++i) {
    ptx::Function &function = out_->functions[i];
    if (function.is_declaration)
      continue;
    for (auto *list : {&function.operands, &function.elements})
      for (ptx::Operand &operand : *list)
        CUGRT_TRY(resolve(part, operand));
  }
  for (uint32_t i = variables_[part].begin; i < variables_[part].end; ++i) {
    ptx::Variable &variable = out_->variables[i];
    if (variable.linkage == Linkage::external)
      continue;
    for (ptx::Relocation &relocation : variable.relocations) {
      uint32_t &target = relocation.index;
      std::string_view name =
          relocation.is_function ? out_->functions[target].name : out_->variables[target].name;
      CUGRT_ASSIGN(target, resolve(part, name, target, relocation.is_function));
    }
  }
  // This part's look-ups are done, and no other part looks these names up.
  for (auto &[name, definition] : own_[part]) {
    if (definition.is_function)
      rename(out_->functions[definition.index].name, part);
    else
      rename(out_->variables[definition.index].name, part);
  }
  return {};
}

} // namespace

Result<std::unique_ptr<ptx::Module>> link(std::vector<std::unique_ptr<ptx::Module>> parts,
                                          std::span<const std::string> names) {
  return Linker(std::move(parts), names).run();
}

constexpr size_t kWord = sizeof(uint64_t), kHeadWords = 4; // before the lengths

static void put(std::string &out, uint64_t value) {
  char bytes[kWord];
  std::memcpy(bytes, &value, kWord);
  out.append(bytes, kWord);
}

static uint64_t word(std::string_view image, size_t index) {
  uint64_t value = 0;
  if (image.size() / kWord > index)
    std::memcpy(&value, image.data() + index * kWord, kWord);
  return value;
}

std::string linked_image(std::span<const std::string> texts, uint32_t max_registers) {
  uint64_t bytes = (kHeadWords + texts.size()) * kWord;
  for (const std::string &text : texts)
    bytes += text.size();
  std::string image(kLinkedMagic);
  image.reserve(bytes);
  put(image, bytes);
  put(image, max_registers);
  put(image, texts.size());
  for (const std::string &text : texts)
    put(image, text.size());
  for (const std::string &text : texts)
    image += text;
  return image;
}

uint64_t linked_image_bytes(std::string_view head) {
  return head.substr(0, kLinkedMagic.size()) == kLinkedMagic ? word(head, 1) : 0;
}

Result<std::unique_ptr<ptx::Module>> parse_image(std::string_view image) {
  if (!linked_image_bytes(image))
    return ptx::parse(image);
  auto malformed = [] { return Status::error(Code::parse_error, "a damaged linked image"); };
  uint64_t count = word(image, 3);
  if (linked_image_bytes(image) > image.size() || count == 0 || count > kMaxLinkedTexts)
    return malformed();
  uint64_t at = (kHeadWords + count) * kWord;
  std::vector<std::unique_ptr<ptx::Module>> parts;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t length = word(image, kHeadWords + i);
    if (at > image.size() || length > image.size() - at)
      return malformed();
    CUGRT_ASSIGN(auto part, ptx::parse(image.substr(at, length)));
    parts.push_back(std::move(part));
    at += length;
  }
  CUGRT_ASSIGN(auto linked, link(std::move(parts)));
  linked->max_registers = uint32_t(word(image, 2));
  return linked;
}

} // namespace cugrt::emulator
