// Registers, blocks and branches of one function; the loop over a module's functions.
#include "emulator/decode/decoder.h"

#include "emulator/decode/lower/lowering.h"

#include <algorithm>

namespace cugrt::emulator {

constexpr uint32_t kMaxRegisterBytes = 256u << 20;
constexpr uint32_t kMaxLocalBytes = 512u << 10; // of one thread: the limit of the architecture
constexpr uint32_t kMaxSharedBytes = 16u << 20;
constexpr uint64_t kMaxSwitchTargets = 1u << 20;

Lowering::Lowering(const ptx::Module &module, const Placement &placement, Decoded &out,
                   uint32_t function)
    : module_(module), placement_(placement), out_(out), function_(module.functions[function]),
      handlers_(handlers()), index_(function), code_(*out.codes[function]),
      needs_(out.needs[function]), cells_(function_.registers.size(), kNoCell),
      offsets_(function_.variables.size()), places_(function_.variables.size(), kNoCell) {}

std::string Lowering::where() const {
  return "ptx line " + std::to_string(instruction_ ? instruction_->line : function_.line);
}
Status Lowering::error(const std::string &message) const {
  std::string opcode = instruction_ ? std::string(instruction_->opcode) + ": " : "";
  return Status::error(Code::parse_error, opcode + message).at(where());
}
Status Lowering::unsupported(const std::string &what) const {
  return Status::error(Code::unsupported, "the emulated device does not execute " + what)
      .at(where());
}
Status Lowering::refuse() const { return unsupported(std::string(instruction_->opcode)); }

Result<OpId> Lowering::known_op(const Opcode &opcode) const {
  if (const std::optional<OpId> id = find_op(opcode.name()))
    return *id;
  return refuse();
}

Status Lowering::expect_operands(size_t low, size_t high) const {
  if (operand_count() >= low && operand_count() <= high)
    return {};
  return error("has " + std::to_string(operand_count()) + " operands instead of " +
               std::to_string(low));
}

uint32_t Lowering::allocate(uint32_t bytes) {
  uint32_t cell = code_.register_bytes;
  code_.register_bytes += (bytes + 63) & ~63u;
  return cell;
}

uint32_t Lowering::register_bits(uint32_t index) const {
  if (function_.registers[index].type == Type::b128)
    return 128;
  return lane_bits(function_.registers[index].type);
}

uint32_t Lowering::register_cell(uint32_t index) {
  if (cells_[index] == kNoCell)
    cells_[index] = temporary(register_bits(index));
  return cells_[index];
}

uint32_t Lowering::constant_cell(uint64_t bits, bool wide) {
  if (!wide)
    bits = uint32_t(bits);
  auto [it, inserted] = constants_.try_emplace({bits, wide}, 0);
  if (inserted) {
    it->second = temporary(wide ? 64 : 32);
    code_.constants.push_back({it->second, wide, bits});
  }
  return it->second;
}

uint32_t Lowering::special_cell(Special special) {
  auto [it, inserted] = specials_.try_emplace(special, 0);
  if (inserted) {
    it->second = temporary(32);
    code_.specials.push_back({it->second, special});
  }
  return it->second;
}

/// Places the function's own .local and .shared variables, and its .param ones.
Status Lowering::place_variables() {
  uint64_t parameter_offset = 0;
  for (size_t i = 0; i < function_.variables.size(); ++i) {
    const ptx::Variable &variable = function_.variables[i];
    if (variable.bytes > kMaxRegisterBytes / kLanes / 4)
      return error("variable '" + std::string(variable.name) + "' is too large");
    uint32_t bytes = uint32_t(variable.bytes), mask = variable.align - 1;
    if (variable.space == Space::local) {
      offsets_[i] = (code_.local_bytes + mask) & ~mask;
      code_.local_bytes = offsets_[i] + bytes;
      if (code_.local_bytes > kMaxLocalBytes)
        return error("more than 512 KiB of local memory a thread");
    } else if (variable.space == Space::shared) {
      if (!function_.is_kernel) { // at one place in every kernel
        offsets_[i] = placement_.own_shared.at({index_, uint32_t(i)});
        continue;
      }
      offsets_[i] = (needs_.static_shared_bytes + mask) & ~mask;
      needs_.static_shared_bytes = offsets_[i] + bytes;
      if (needs_.static_shared_bytes > kMaxSharedBytes)
        return error("more than 16 MiB of shared memory");
    } else if (function_.is_kernel && i < function_.parameters.size()) {
      parameter_offset = (parameter_offset + mask) & ~uint64_t(mask);
      offsets_[i] = uint32_t(parameter_offset);
      parameter_offset += bytes;
    } else {
      places_[i] = allocate(bytes * kLanes);
    }
    if (code_.register_bytes > kMaxRegisterBytes)
      return error("more registers and parameters than the emulator holds");
  }
  auto place = [&](const ptx::Parameter &parameter) {
    if (parameter.is_register)
      return ParamPlace{register_cell(parameter.variable), register_bits(parameter.variable) / 8};
    return ParamPlace{places_[parameter.variable],
                      uint32_t(function_.variables[parameter.variable].bytes)};
  };
  if (!function_.is_kernel) {
    for (const ptx::Parameter &parameter : function_.parameters)
      code_.parameters.push_back(place(parameter));
    for (const ptx::Parameter &parameter : function_.returns)
      code_.returns.push_back(place(parameter));
  }
  return {};
}

Status Lowering::run() {
  code_.name = function_.name;
  code_.is_kernel = function_.is_kernel;
  if (function_.is_kernel)
    needs_.static_shared_bytes = placement_.function_shared_bytes;
  CUGRT_TRY(place_variables());
  uint64_t targets = 0;
  for (const ptx::Label &label : function_.labels)
    targets += label.targets.size();
  uint64_t switches = 1;
  for (const ptx::Instruction &instruction : function_.instructions)
    switches += instruction.opcode.substr(0, 3) == "brx";
  if (targets * switches > kMaxSwitchTargets)
    return unsupported("so many targets of brx.idx in one function");
  blocks_ = split_blocks(function_);
  std::vector<uint32_t> order = lay_out(blocks_);
  // Blocks begin where labels stand.
  std::vector<uint32_t> block_at(function_.instructions.size() + 1);
  for (uint32_t b = 0; b < blocks_.size(); ++b)
    block_at[blocks_[b].first] = b;
  for (const ptx::Label &label : function_.labels)
    block_of_label_.push_back(block_at[label.instruction]);
  first_op_.assign(blocks_.size(), kNoCell);
  for (size_t i = 0; i < order.size(); ++i) {
    first_op_[order[i]] = uint32_t(code_.ops.size());
    uint32_t next = i + 1 < order.size() ? order[i + 1] : kNoCell;
    CUGRT_TRY(lower_block(blocks_[order[i]], next));
    if (code_.register_bytes > kMaxRegisterBytes)
      return error("more registers than the emulator holds");
  }
  needs_.registers = uint32_t(
      std::count_if(cells_.begin(), cells_.end(), [](uint32_t cell) { return cell != kNoCell; }));
  if (out_.optimize)
    run_passes();
  return resolve_branches();
}

void Lowering::run_passes() {
  std::unordered_set<uint32_t> read_only;
  for (const ConstantCell &constant : code_.constants)
    read_only.insert(constant.cell);
  for (const SpecialCell &special : code_.specials)
    read_only.insert(special.cell);
  for (const auto *places : {&code_.parameters, &code_.returns})
    for (const ParamPlace &place : *places)
      pinned_.insert(place.cell);
  for (const Op &op : code_.ops) {
    if (OpId(op.id) != OpId::call)
      continue;
    const auto &site = *static_cast<const CallSite *>(op.extra);
    for (const auto *list : {&site.arguments, &site.results})
      for (const Argument &argument : *list)
        pinned_.insert(argument.cell);
  }
  Draft draft{code_, first_op_, fixups_, pinned_, read_only, {}};
  emulator::optimize(draft);
}

Status Lowering::lower_block(const BasicBlock &block, uint32_t next_in_layout) {
  for (uint32_t i = block.first; i < block.end; ++i) {
    instruction_ = &function_.instructions[i];
    size_t first = code_.ops.size();
    CUGRT_TRY(lower(*instruction_));
    if (instruction_->guard >= 0 && !is_branch(*instruction_))
      apply_guard(first);
    for (size_t op = code_.locations.size(); op < code_.ops.size(); ++op)
      code_.locations.push_back(
          {instruction_->line, instruction_->file, instruction_->source_line, op == first});
  }
  OpLocation here =
      code_.locations.empty() ? OpLocation{function_.line, 0, 0} : code_.locations.back();
  here.instructions = 0; // what follows is no instruction of the text
  if (block.successors.empty() && block.first == block.end)
    emit(OpId::ret);
  else if (block.falls_through && block.successors.back() != next_in_layout)
    emit_jump(block.successors.back());
  code_.locations.resize(code_.ops.size(), here);
  return {};
}

void Lowering::emit_jump(uint32_t block) {
  fixups_.push_back({uint32_t(code_.ops.size()), block});
  emit(OpId::bra);
}

/// Targets are known once every block has its place: backward jumps get the handler that counts.
Status Lowering::resolve_branches() {
  const Op *ops = code_.ops.data();
  for (const BranchFixup &fixup : fixups_) {
    Op &op = code_.ops[fixup.op];
    op.target = ops + first_op_[fixup.block];
    if (op.target <= &op && OpId(op.id) == OpId::bra) {
      op.id = uint16_t(OpId::bra_back);
      op.run = handlers_[size_t(OpId::bra_back)];
    }
  }
  for (const SwitchFixup &fixup : switch_fixups_)
    for (uint32_t block : fixup.blocks)
      fixup.table->targets.push_back(ops + first_op_[block]);
  return {};
}

Op &Lowering::emit(OpId id) {
  Op &op = code_.ops.emplace_back();
  op.id = uint16_t(id);
  op.run = handlers_[size_t(id)];
  return op;
}

Op &Lowering::emit(OpId id, uint32_t d, uint32_t a, uint32_t b, uint32_t c, uint32_t e) {
  Op &op = emit(id);
  op.d = d;
  op.a = a;
  op.b = b;
  op.c = c;
  op.e = e;
  return op;
}

/// Puts the operations from `first` on under the instruction's guard.
void Lowering::apply_guard(size_t first) {
  uint32_t guard = register_cell(uint32_t(instruction_->guard));
  size_t count = code_.ops.size() - first;
  if (count > 1) { // an earlier one may write the guard itself
    uint32_t copy = temporary(32);
    Op move;
    move.id = uint16_t(OpId::mov_32);
    move.run = handlers_[size_t(OpId::mov_32)];
    move.d = copy;
    move.a = guard;
    code_.ops.insert(code_.ops.begin() + ptrdiff_t(first), move);
    ++first;
    guard = copy;
  }
  for (size_t i = first; i < code_.ops.size(); ++i) {
    Op &op = code_.ops[i];
    op.inner = op.run.masked;
    op.run = handlers_[size_t(OpId::guard)];
    op.guard = guard;
    if (instruction_->guard_negated)
      op.flags |= kFlagGuardNegated;
  }
}

Status decode_module(const ptx::Module &module, const Placement &placement, Decoded &out) {
  size_t count = module.functions.size();
  out.codes.resize(count);
  out.needs.resize(count);
  out.callees.resize(count);
  out.missing.resize(count);
  for (auto &code : out.codes)
    code = std::make_unique<FunctionCode>();
  for (uint32_t i = 0; i < count; ++i) {
    if (module.functions[i].is_declaration)
      continue;
    Status status = Lowering(module, placement, out, i).run();
    if (!status.ok() && status.code() != Code::unsupported)
      return status;
    if (!status.ok())
      *out.codes[i] = FunctionCode();
    out.missing[i] = std::move(status);
  }
  if (out.allocates) // a kernel may call what does
    for (auto &code : out.codes)
      code->allocates = true;
  return {};
}

} // namespace cugrt::emulator
