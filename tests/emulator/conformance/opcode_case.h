// Cases of the PTX ISA: one kernel, its input, and what it must store.
//
// An Instruction is the usual case: text from up to four operands to a result, one element a
// thread, with a function that computes the result from the operands' bits. A Program is any kernel
// from a buffer of words to a buffer of words: memory, atomics, operations across lanes, matrices.
#pragma once

#include "number.h"

#include <deque>
#include <functional>
#include <string>
#include <vector>

namespace cugrt::conformance {

/// The section of the PTX ISA, and what it says that the case tests.
struct Citation {
  std::string section, rule;
};

inline std::string float_section(const char *name) {
  return std::string("Floating-Point Instructions: ") + name;
}

/// A matrix operand: {%r0, %r1, ...}.
inline std::string register_names(char letter, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i)
    text += (i ? ", %" : "%") + std::string(1, letter) + std::to_string(i);
  return text + "}";
}

/// What a module that holds the case is for.
struct Target {
  int compute = 75;
  const char *ptx = "8.1";
};

/// How results are compared. Without a format: bit for bit. With one: so many units of the last
/// place, and any NaN for a NaN, whose bits the ISA leaves open. `packed`: two of them in 32 bits.
struct Precision {
  const Format *format = nullptr;
  Bits ulps = 0;
  bool packed = false;
};

using Reference = std::function<Bits(Bits a, Bits b, Bits c, Bits e)>;

struct Instruction {
  std::string text;  // operands %Xd, %Xa, %Xb, %Xc, %Xe; X: h 16 bits, r 32 bits, l 64 bits
  std::string kinds; // X of the result, then of the operands in order
  Reference reference;
  Precision precision;
  Citation cite;
  Target target;
  /// Where a rule is no distance: whether `got` is right for the operands.
  std::function<bool(Bits a, Bits b, Bits got)> accepts;
};

struct Program {
  std::string name, body; // %in and %out hold the buffers' addresses, %i the thread's number
  uint32_t threads = 32;
  std::vector<uint32_t> input, expected;
  Citation cite;
  Target target;
  /// Whether a stored word is right, where being equal to the expected one is too much to ask.
  std::function<bool(size_t word, uint32_t got)> accepts;
  std::string outside; // declarations and functions before the kernel
  uint32_t blocks = 1;
  uint32_t cluster = 0; // blocks of each; 0: the launch states none
};

struct OpcodeCases {
  void instruction(std::string text, std::string kinds, Reference reference, Citation cite,
                   Precision precision = {}, Target target = {},
                   std::function<bool(Bits a, Bits b, Bits got)> accepts = {}) {
    instructions.push_back({std::move(text), std::move(kinds), std::move(reference), precision,
                            std::move(cite), target, std::move(accepts)});
  }
  /// A program whose other members are set on what this returns.
  Program &program(std::string name, std::string section, std::string rule) {
    Program &made = programs.emplace_back();
    made.name = std::move(name);
    made.cite = {std::move(section), std::move(rule)};
    return made;
  }

  std::vector<Instruction> instructions;
  std::deque<Program> programs; // which stay where they are when others are added
};

void add_integer_cases(OpcodeCases &cases);
void add_bit_cases(OpcodeCases &cases);
void add_float_cases(OpcodeCases &cases);
void add_approximate_cases(OpcodeCases &cases);
void add_half_cases(OpcodeCases &cases);
void add_compare_cases(OpcodeCases &cases);
void add_convert_cases(OpcodeCases &cases);
void add_memory_cases(OpcodeCases &cases);
void add_warp_cases(OpcodeCases &cases);
void add_control_cases(OpcodeCases &cases);
void add_cluster_cases(OpcodeCases &cases);
void add_barrier_cases(OpcodeCases &cases);
void add_bulk_copy_cases(OpcodeCases &cases);
void add_wide_cases(OpcodeCases &cases);
void add_matrix_cases(OpcodeCases &cases);
OpcodeCases all_opcode_cases();

/// "OPCODE %Xd, %Xa, %Xb;" with the registers of the kinds.
std::string spelled(const std::string &opcode, const std::string &kinds);
/// Whether the instruction sets %p: "OPCODE %p, %Xa, %Xb;" and the choice of 1 or 0 by it.
std::string spelled_predicate(const std::string &opcode, const std::string &kinds);

/// A kernel of that name, without the module's head.
std::string kernel_text(const Instruction &instruction, const std::string &name);
std::string kernel_text(const Program &program, const std::string &name);

/// Values for the operands, one vector each: 65,536 in order where the only operand has 16 bits,
/// otherwise `count` of them, edge cases first among random ones.
std::vector<std::vector<Bits>> operands_of(const Instruction &instruction, size_t count);
Bits truncated(char kind, Bits value);
/// The largest distance of two results of that precision in units of the last place: 0 is right
/// where the precision has no format.
Bits distance(const Precision &precision, Bits got, Bits want);
/// With one bit pattern for all NaNs, for comparisons of runs.
Bits without_nan_bits(const Precision &precision, Bits value);

} // namespace cugrt::conformance
