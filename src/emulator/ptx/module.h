// A parsed PTX module: names resolved, meaning of opcodes not yet looked at.
//
// Every string_view points into Module::text or Module::joined. Lexical scopes are gone: each
// register, variable and label of a function has an index of its own in that function. Registers of
// a range declaration
// (.reg .b32 %r<100>) exist only where an instruction names them.
#pragma once

#include "emulator/ptx/types.h"

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cugrt::emulator::ptx {

/// Modules that see a symbol when several are linked (.common is weak).
enum class Linkage : uint8_t { local, external, visible, weak };

struct Register {
  std::string_view name;
  Type type = Type::none;
};

/// A place in an initialiser that holds the address of a variable (or of one, made generic) or of
/// a function: its index and one.
struct Relocation {
  uint64_t offset_bytes = 0;
  uint32_t index = 0; // into Module::variables or Module::functions
  bool is_function = false;
  int64_t addend = 0;
  uint32_t bytes = 8;
  uint64_t mask = ~uint64_t(0); // 0xFF00(name): that byte of the address alone
};

struct Variable {
  std::string_view name;
  Space space = Space::none;
  Type type = Type::none;
  uint64_t bytes = 0; // 0: .extern .shared x[]
  uint32_t align = 1;
  uint32_t line = 0;
  Linkage linkage = Linkage::local;
  bool managed = false;        // the host may read and write it at its address
  std::vector<std::byte> init; // the rest is zero
  std::vector<Relocation> relocations;
};

struct Operand {
  enum class Kind : uint8_t {
    none,
    sink,     // _
    reg,      // index: register of the function; index2: the one after '|', or -1
    special,  // name: "%tid.x"
    integer,  // value
    real,     // value: bits; is_float
    variable, // index: of Function::variables, or of Module::variables with is_module; value:
              // offset
    function, // index: of Module::functions
    label,    // index: of Function::labels
    vector,   // {a, b}: count operands from `first` in Function::elements
    list,     // (a, b): likewise
  };
  Kind kind = Kind::none;
  bool is_address = false; // in brackets; a register's offset is in `value`
  bool is_element = false; // a[3], an address without brackets
  bool is_negated = false; // !p
  bool is_module = false;
  bool is_float = false;
  int32_t index = -1, index2 = -1;
  uint32_t first = 0, count = 0;
  int64_t value = 0;
  std::string_view name;
};

struct Instruction {
  std::string_view opcode;            // "ld.global.f32"
  uint32_t line = 0;                  // of the PTX text
  uint32_t file = 0, source_line = 0; // from .loc; 0: none
  int32_t guard = -1;                 // predicate register
  bool guard_negated = false;
  bool has_coordinates = false;                  // in an address, behind a comma; they are not kept
  uint32_t first_operand = 0, operand_count = 0; // in Function::operands
};

struct Label {
  std::string_view name;
  uint32_t instruction = 0;     // before which it stands; may be one past the last
  std::vector<int32_t> targets; // of .branchtargets: labels
  bool is_prototype = false;    // of .callprototype
};

struct Parameter {
  uint32_t variable = 0; // of Function::variables, or of Function::registers with is_register
  bool is_register = false;
};

struct Function {
  std::string_view name;
  bool is_kernel = false;
  bool is_declaration = false;
  Linkage linkage = Linkage::local;
  uint32_t line = 0;
  std::vector<Parameter> returns, parameters;
  std::array<uint32_t, 3> max_threads{}, required_threads{}; // zeros: none stated
  std::array<uint32_t, 3> required_cluster{};                // blocks; likewise
  uint32_t max_cluster_rank = 0, max_registers = 0;          // 0: none stated
  uint32_t min_resident_blocks = 0;                          // of a multiprocessor; likewise
  bool explicit_cluster = false;
  std::vector<Register> registers;
  std::vector<Variable> variables; // .param, .local, .shared of this function
  std::vector<Label> labels;
  std::vector<Instruction> instructions;
  std::vector<Operand> operands, elements;
};

struct Module {
  std::string text;
  std::deque<std::string> joined; // opcodes written with blanks inside, names that linking made
  std::vector<std::unique_ptr<Module>> parts; // of a linked module: what its views point into
  int version = 0;                            // 90 for 9.0
  int target = 0;                             // 90 for sm_90
  char target_suffix = 0;                     // 'a' or 'f'
  uint32_t target_line = 0;
  uint32_t max_registers = 0;          // of a thread, that the link was made with; 0: not stated
  std::vector<std::string_view> files; // by .file's number
  std::vector<Variable> variables;
  std::vector<Function> functions;

  const Function *find_function(std::string_view name) const;
};

} // namespace cugrt::emulator::ptx
