// The lowering of one function: state shared by decoder.cpp (blocks and cells) and the sources that
// lower one family of instructions each. Not for use outside decode/.
#pragma once

#include "emulator/decode/decoder.h"
#include "emulator/decode/layout.h"
#include "emulator/decode/passes/passes.h"
#include "emulator/exec/opcodes/opcode.h"
#include "emulator/exec/warps/control.h"

#include <map>
#include <span>

namespace cugrt::emulator {

class Lowering {
public:
  Lowering(const ptx::Module &module, const Placement &placement, Decoded &out, uint32_t function);
  Status run();

private:
  using Operand = ptx::Operand;
  using Kind = ptx::Operand::Kind;
  using Type = ptx::Type;
  using Space = ptx::Space;

  struct Address {
    uint32_t cell = 0;
    bool wide = true;
    int64_t offset = 0;
    Space space = Space::none; // with `is_place`: a .param variable of this function
    bool is_place = false;
    uint32_t place = 0; // variable
  };
  /// A destination, and the operations that must follow if the register is wider than the value.
  struct Destination {
    uint32_t cell = 0;
    uint32_t widen_to = kNoCell;
    bool is_signed = false;
  };

  // decoder.cpp: the registers.
  uint32_t allocate(uint32_t bytes);
  uint32_t temporary(uint32_t bits) { return allocate(bits / 8 * kLanes); }
  uint32_t register_cell(uint32_t index);
  uint32_t register_bits(uint32_t index) const;
  uint32_t constant_cell(uint64_t bits, bool wide);
  uint32_t special_cell(Special special);
  Status place_variables();
  Status lower_block(const BasicBlock &block, uint32_t next_in_layout);
  void emit_jump(uint32_t block);
  void run_passes();
  Status resolve_branches();

  // operands.cpp.
  /// ld, st and cvt take registers that are wider than their type. Operands of the same type in all
  /// forms of an instruction (counts, positions, masks) take only integers and bits.
  enum class Width { same, any_above, integer };
  Status check_register(const Operand &operand, Type type, Width width) const;
  Status check_literal(const Operand &operand, Type type, Width width) const;
  Status check_address_value(const Operand &operand, Type type) const;
  Result<uint32_t> source(const Operand &operand, Type type, Width width = Width::same);
  Result<uint32_t> special_source(const Operand &operand, Type type, Width width);
  Result<uint32_t> variable_source(const Operand &operand, uint32_t bits);
  Result<uint32_t> shared_offset(const Operand &operand);
  Result<Destination> destination(const Operand &operand, Type type, Width width = Width::same);
  /// `_` may stand for a result that is not stored.
  Result<Destination> destination_or_sink(const Operand &operand, Type type,
                                          Width width = Width::same);
  struct Pair {
    Operand first, second; // d|p: the second is a sink where there is none
  };
  Pair pair(const Operand &operand) const;
  void finish(const Destination &destination);
  Result<uint32_t> predicate_destination(const Operand &operand);
  Result<Address> address(const Operand &operand, Space space);
  Result<std::vector<const Operand *>> elements(const Operand &operand, size_t max);
  Status check_agreement(const std::vector<const Operand *> &parts) const;
  Result<uint32_t> integer_constant(const Operand &operand);

  // lower.cpp: dispatch by mnemonic.
  Status lower(const ptx::Instruction &instruction);
  Status lower_nothing(Opcode &opcode);
  Status lower_fence(Opcode &opcode);
  Status lower_bare(Opcode &opcode);
  Status lower_end(Opcode &opcode);
  Status lower_bra(Opcode &opcode);
  Status lower_brx(Opcode &opcode);
  Status lower_call(Opcode &opcode);
  Result<Argument> argument(const Operand &operand);

  // lower_arithmetic.cpp.
  Status lower_arithmetic(Opcode &opcode);
  Status lower_carry(Opcode &opcode);
  Status lower_mov(Opcode &opcode);
  Result<uint32_t> real_element(const Operand &part, const std::vector<const Operand *> &parts,
                                bool is_half);
  Status lower_pack(const Operand &d, const Operand &a, Type type);
  Status lower_unpack(const Operand &d, const Operand &a, Type type);
  Status lower_cvt(Opcode &opcode);
  Status lower_cvt_fp8(Opcode &opcode);

  // lower_compare.cpp.
  Status combine(std::string_view boolean, uint32_t d, uint32_t compared, bool negated,
                 const Operand &predicate);
  Status lower_lop3(Opcode &opcode);
  Status lower_setp(Opcode &opcode);
  Status lower_set(Opcode &opcode);

  // lower_memory.cpp.
  Status lower_cvta(Opcode &opcode);
  Status lower_isspacep(Opcode &opcode);
  Status lower_mapa(Opcode &opcode);
  Status lower_getctarank(Opcode &opcode);
  void reach_cluster(Address &where);
  Status lower_ld(Opcode &opcode);
  Status lower_st(Opcode &opcode);
  Status lower_access(Opcode &opcode, bool is_store);
  Result<std::vector<Destination>> moved_cells(std::span<const Operand *const> values,
                                               bool is_store, Type type, uint32_t *cells);
  Status lower_param_access(const Address &address, bool is_store, Type type,
                            std::span<const Operand *const> values);
  Status lower_atom(Opcode &opcode);
  Status lower_cp(Opcode &opcode);

  // lower_barrier.cpp.
  Result<Address> barrier_address(Opcode &opcode, const Operand &operand);
  static void set_address(Op &op, const Address &where);
  Result<uint32_t> generic_address(const Operand &operand, Space space);
  Status lower_mbarrier(Opcode &opcode);
  Status lower_arrival(Opcode &opcode);
  Status lower_copy_arrival(Opcode &opcode);
  Status lower_bulk(Opcode &opcode);

  // lower_wide.cpp.
  Result<std::array<uint32_t, 2>> wide_cells(const Operand &operand);
  Status lower_wide_mov();
  Status lower_wide_atom(OpId id, const Address &where, size_t operands);
  Status lower_float_pair(Opcode &opcode);
  Status lower_stack(Opcode &opcode);

  // lower_matrix.cpp.
  Result<uint32_t> fragment(const Operand &operand, bool written, Type type,
                            std::array<uint32_t, 8> &cells);
  Status lower_mma(Opcode &opcode);
  Status lower_matrix_access(Opcode &opcode);
  Status lower_movmatrix(Opcode &opcode);

  // lower_wmma.cpp.
  Status tile(const Operand &operand, bool written, std::string_view type, Tile &out);
  Status lower_wmma(Opcode &opcode);
  Status lower_wmma_access(Opcode &opcode);
  Status lower_wmma_product(Opcode &opcode);

  // lower_warp.cpp.
  Status lower_bar(Opcode &opcode);
  Status lower_cluster_barrier(Opcode &opcode);
  Status check_barrier(const Operand &barrier, const Operand *threads) const;
  Status lower_shfl(Opcode &opcode);
  Status lower_vote(Opcode &opcode);
  Status lower_match(Opcode &opcode);
  Status lower_redux(Opcode &opcode);
  Status lower_activemask(Opcode &opcode);
  Status lower_elect(Opcode &opcode);

  // Emission.
  Op &emit(OpId id);
  Op &emit(OpId id, uint32_t d, uint32_t a, uint32_t b = 0, uint32_t c = 0, uint32_t e = 0);
  /// Emits an operation whose result is operand 0, a register of the type.
  Status emit_result(OpId id, Type type, std::array<uint32_t, 4> cells, Width width = Width::same,
                     uint16_t flags = 0);
  void apply_guard(size_t first);
  uint32_t next_cache() { return out_.cache_count++; }

  const Operand &operand(size_t i) const {
    return function_.operands[instruction_->first_operand + i];
  }
  size_t operand_count() const { return instruction_->operand_count; }
  Status expect_operands(size_t low, size_t high) const;
  Status refuse() const;                             // the opcode
  Result<OpId> known_op(const Opcode &opcode) const; // by the name that is left; or refuse()
  Status error(const std::string &message) const;    // malformed operands
  Status unsupported(const std::string &what) const; // legal, not available here
  std::string where() const;

  const ptx::Module &module_;
  const Placement &placement_;
  Decoded &out_;
  const ptx::Function &function_;
  const HandlerTable &handlers_;
  uint32_t index_;
  FunctionCode &code_;
  KernelNeeds &needs_;

  const ptx::Instruction *instruction_ = nullptr;
  std::vector<uint32_t> cells_;   // of registers
  std::vector<uint32_t> offsets_; // of .local and .shared variables of the function
  std::vector<uint32_t> places_;  // of .param variables: cell
  std::map<std::pair<uint64_t, bool>, uint32_t> constants_;
  std::map<Special, uint32_t> specials_;
  std::map<uint32_t, uint32_t> module_shared_; // variable to offset
  std::unordered_set<uint32_t> pinned_;        // cells that no operation names
  uint32_t condition_code_ = kNoCell;
  std::vector<BasicBlock> blocks_;
  std::vector<uint32_t> block_of_label_, first_op_; // by block
  std::vector<BranchFixup> fixups_;
  struct SwitchFixup {
    SwitchTargets *table;
    std::vector<uint32_t> blocks;
  };
  std::vector<SwitchFixup> switch_fixups_;
};

} // namespace cugrt::emulator
