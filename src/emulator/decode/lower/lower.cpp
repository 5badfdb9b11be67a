// Which lowering takes which mnemonic; control flow and calls.
#include "emulator/decode/forms.h"
#include "emulator/decode/lower/lowering.h"
#include "emulator/decode/requirements.h"

namespace cugrt::emulator {

Status Lowering::lower(const ptx::Instruction &instruction) {
  struct Row {
    std::string_view mnemonic;
    Status (Lowering::*lower)(Opcode &);
  };
  static constexpr Row kRows[] = {
      {"mov", &Lowering::lower_mov},
      {"ld", &Lowering::lower_ld},
      {"ldu", &Lowering::lower_ld},
      {"st", &Lowering::lower_st},
      {"setp", &Lowering::lower_setp},
      {"set", &Lowering::lower_set},
      {"cvt", &Lowering::lower_cvt},
      {"cvta", &Lowering::lower_cvta},
      {"isspacep", &Lowering::lower_isspacep},
      {"mapa", &Lowering::lower_mapa},
      {"getctarank", &Lowering::lower_getctarank},
      {"mbarrier", &Lowering::lower_mbarrier},
      {"alloca", &Lowering::lower_stack},
      {"stacksave", &Lowering::lower_stack},
      {"stackrestore", &Lowering::lower_stack},
      {"atom", &Lowering::lower_atom},
      {"red", &Lowering::lower_atom},
      {"cp", &Lowering::lower_cp},
      {"bar", &Lowering::lower_bar},
      {"barrier", &Lowering::lower_bar},
      {"shfl", &Lowering::lower_shfl},
      {"vote", &Lowering::lower_vote},
      {"match", &Lowering::lower_match},
      {"redux", &Lowering::lower_redux},
      {"mma", &Lowering::lower_mma},
      {"ldmatrix", &Lowering::lower_matrix_access},
      {"stmatrix", &Lowering::lower_matrix_access},
      {"movmatrix", &Lowering::lower_movmatrix},
      {"lop3", &Lowering::lower_lop3},
      {"wmma", &Lowering::lower_wmma},
      {"activemask", &Lowering::lower_activemask},
      {"elect", &Lowering::lower_elect},
      {"bra", &Lowering::lower_bra},
      {"brx", &Lowering::lower_brx},
      {"call", &Lowering::lower_call},
      {"ret", &Lowering::lower_end},
      {"exit", &Lowering::lower_end},
      {"trap", &Lowering::lower_end},
      {"brkpt", &Lowering::lower_end},
      {"membar", &Lowering::lower_fence},
      {"fence", &Lowering::lower_fence},
      {"prefetch", &Lowering::lower_nothing},
      {"prefetchu", &Lowering::lower_nothing},
      {"nanosleep", &Lowering::lower_nothing},
      {"griddepcontrol", &Lowering::lower_bare},
      {"pmevent", &Lowering::lower_nothing},
      {"applypriority", &Lowering::lower_nothing},
      {"discard", &Lowering::lower_nothing},
  };
  Opcode opcode;
  if (!opcode.split(instruction.opcode))
    return refuse();
  if (std::string lacks = lacking(opcode, operand_count(), module_.target, module_.version);
      !lacks.empty())
    return error(lacks);
  if (instruction.has_coordinates)
    return unsupported(std::string(instruction.opcode) + " with coordinates");
  const Opcode whole = opcode; // lowering takes it apart
  auto lower = &Lowering::lower_arithmetic;
  for (const Row &row : kRows)
    if (row.mnemonic == opcode.mnemonic())
      lower = row.lower;
  Status status = (this->*lower)(opcode);
  const bool may_be_elsewhere = status.code() != Code::unsupported || has_more_forms(whole);
  if ((!status.ok() && may_be_elsewhere) || is_well_formed(whole))
    return status;
  return error("no form of " + std::string(whole.mnemonic()) +
               " has these modifiers and no others");
}

/// Hints, and operations that end before anything could wait for them.
Status Lowering::lower_nothing(Opcode &opcode) {
  const std::string_view name = opcode.mnemonic();
  const bool has_size = name == "applypriority" || name == "discard";
  CUGRT_TRY(expect_operands(has_size ? 2 : 1, has_size ? 2 : 1));
  if (name == "nanosleep") {
    CUGRT_TRY(source(operand(0), Type::u32, Width::integer).take_status());
  } else if (name == "pmevent") {
    const int64_t least = opcode.has("mask") ? 1 : 0, most = opcode.has("mask") ? 0xffff : 15;
    if (operand(0).kind != Kind::integer || operand(0).is_address || operand(0).value < least ||
        operand(0).value > most)
      return error("expected the number of an event, or the mask of some");
  } else {
    const Space space = opcode.has("global")  ? Space::global
                        : opcode.has("local") ? Space::local
                                              : Space::none;
    CUGRT_ASSIGN(Address where, address(operand(0), space));
    if (name == "prefetchu" && where.space != Space::none && where.space != Space::global)
      return error("an address that is not generic");
    if (has_size && (operand(1).kind != Kind::integer || operand(1).value != 128))
      return error("expected a size of 128");
  }
  emit(OpId::nop);
  return {};
}

Status Lowering::lower_fence(Opcode &opcode) {
  if (opcode.has("tensormap::generic"))
    return refuse();
  CUGRT_TRY(expect_operands(0, 0));
  emit(OpId::fence);
  return {};
}

/// Opcodes without operands: griddepcontrol.wait, exit and more.
Status Lowering::lower_bare(Opcode &opcode) {
  CUGRT_ASSIGN(const OpId id, known_op(opcode));
  CUGRT_TRY(expect_operands(0, 0));
  emit(id);
  return {};
}

Status Lowering::lower_end(Opcode &opcode) {
  opcode.take("uni");
  return lower_bare(opcode);
}

Status Lowering::lower_bra(Opcode &) {
  CUGRT_TRY(expect_operands(1, 1));
  const Operand &target = operand(0);
  if (target.kind != Kind::label || function_.labels[size_t(target.index)].is_prototype ||
      !function_.labels[size_t(target.index)].targets.empty())
    return error("expected a label");
  uint32_t guard = kNoCell;
  if (instruction_->guard >= 0)
    guard = register_cell(uint32_t(instruction_->guard));
  fixups_.push_back({uint32_t(code_.ops.size()), block_of_label_[size_t(target.index)]});
  Op &op = emit(guard == kNoCell ? OpId::bra : OpId::bra_if);
  op.guard = guard;
  op.flags |= instruction_->guard_negated ? kFlagGuardNegated : 0;
  return {};
}

/// brx.idx index, table. Guarded tables do not occur: the guard would have to be a branch around
/// it.
Status Lowering::lower_brx(Opcode &opcode) {
  if (!opcode.has("idx") || instruction_->guard >= 0)
    return refuse();
  CUGRT_TRY(expect_operands(2, 2));
  const Operand &list = operand(1);
  if (list.kind != Kind::label || function_.labels[size_t(list.index)].targets.empty())
    return error("expected a label of .branchtargets");
  CUGRT_ASSIGN(uint32_t index, source(operand(0), Type::u32));
  auto table = std::make_unique<SwitchTargets>();
  SwitchFixup fixup{table.get(), {}};
  for (int32_t target : function_.labels[size_t(list.index)].targets)
    fixup.blocks.push_back(block_of_label_[size_t(target)]);
  switch_fixups_.push_back(std::move(fixup));
  emit(OpId::brx, 0, index).extra = table.get();
  out_.switches.push_back(std::move(table));
  return {};
}

Result<Argument> Lowering::argument(const Operand &operand) {
  if (operand.kind == Kind::variable && !operand.is_module && operand.value == 0 &&
      places_[size_t(operand.index)] != kNoCell)
    return Argument{places_[size_t(operand.index)],
                    uint32_t(function_.variables[size_t(operand.index)].bytes), false};
  if (operand.kind == Kind::reg && function_.registers[size_t(operand.index)].type != Type::pred) {
    uint32_t index = uint32_t(operand.index);
    if (function_.registers[index].type == Type::b128)
      return unsupported("a call with an argument of 128 bits");
    return Argument{register_cell(index), register_bits(index) / 8, true};
  }
  return unsupported("a call with an argument that is neither .param nor register");
}

/// call{.uni} {(results),} callee {, (arguments) {, prototype}}
Status Lowering::lower_call(Opcode &) {
  CUGRT_TRY(expect_operands(1, 4));
  auto site = std::make_unique<CallSite>();
  size_t next = 0;
  if (operand(0).kind == Kind::list) {
    for (uint32_t i = 0; i < operand(0).count; ++i) {
      CUGRT_ASSIGN(Argument result, argument(function_.elements[operand(0).first + i]));
      site->results.push_back(result);
    }
    ++next;
  }
  if (next >= operand_count())
    return error("a call without a callee");
  const Operand &callee = operand(next++);
  if (next < operand_count() && operand(next).kind == Kind::list) {
    for (uint32_t i = 0; i < operand(next).count; ++i) {
      CUGRT_ASSIGN(Argument value, argument(function_.elements[operand(next).first + i]));
      site->arguments.push_back(value);
    }
  }
  uint32_t target = 0;
  if (callee.kind == Kind::function) {
    std::string_view name = module_.functions[size_t(callee.index)].name;
    uint32_t index = uint32_t(callee.index);
    const ptx::Function &function = module_.functions[index];
    if (function.is_kernel)
      return unsupported("a call of a kernel");
    if (function.is_declaration) {
      site->builtin = uint32_t(find_builtin(name));
      if (!site->builtin)
        return unsupported("the external function " + std::string(name.substr(0, 200)));
      needs_.uses_heap |= uses_heap(Builtin(site->builtin));
    } else {
      // A linker joins names: a result that another input's definition does not give stays open.
      if (!module_.parts.empty() && function.returns.size() < site->results.size())
        site->results.resize(function.returns.size());
      if (function.parameters.size() != site->arguments.size() ||
          function.returns.size() < site->results.size())
        return error("the arguments of the call are not those of '" + std::string(name) + "'");
      site->callee = out_.codes[index].get();
      out_.callees[index_].push_back(index);
    }
  } else if (callee.kind == Kind::reg) {
    CUGRT_ASSIGN(target, source(callee, Type::u64));
    out_.calls_indirectly = true;
  } else {
    return error("expected a function or a register to call");
  }
  emit(OpId::call, 0, target).extra = site.get();
  out_.call_sites.push_back(std::move(site));
  return {};
}

} // namespace cugrt::emulator
