// One launch of one of the library's kernels: its declaration and its arguments, written side by
// side.
//
// A kernel's parameters and a launch's arguments must agree in number, order and type, or memory is
// corrupted. So they are never written apart: each call below appends a parameter to the
// declaration and the argument to the launch.
//
// Sizes are always parameters, even those that are known when the module is compiled; the compiler
// also gets these as an assumption (the option ASSUME, see kernels/elementwise/unary.cu). The
// compiled function's signature is the same with and without, so that the number of specialised
// kernels can be bounded at any time.
#pragma once

#include "ir/module/builder.h"
#include "ir/module/module.h"
#include "ops/emit/kernel_table.h"

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cugrt::codegen {

/// Other ops in one of the library's kernels: what its launch needs besides. The places where ops
/// can stand are those of kernels/shared/fusion.cuh.
struct Fusion {
  std::string name;    // of the kernel
  std::string prelude; // what stands before the kernel's source, and defines the macros
  /// Parameters behind the kernel's own.
  std::vector<std::pair<std::string, ir::ValueId>> tensors;
  std::vector<std::pair<std::string, ir::ExprId>> sizes;
  /// Those of `tensors` that the result may be written over: the thread that stores an element has
  /// read theirs at its place before, and no other thread does.
  std::vector<size_t> in_place;
  std::vector<ir::ExprId> counts; // of elements that indices of theirs are below
  /// The type of the first operand, which is absent, if LOAD computes it.
  ir::TypeId loaded;
  /// The type of the kernel's own result, which STORE goes on from.
  ir::TypeId computed;
};

/// `value` as an integer dtype holds it: truncated and limited, a NaN as 0; u64 up to 2^63 - 1.
int64_t integer_within(ir::DType dtype, double value);
/// The bytes of an element of a plain dtype, low ones first.
int64_t element_bits(ir::DType dtype, double value);

/// A block whose registers hold a row (kernels/shared/row.cuh): its threads, and vectors of each.
struct RowForm {
  int64_t threads, vectors;
};
/// None if the length is unknown, is no multiple of a vector or is too long.
std::optional<RowForm> row_form(std::optional<int64_t> length, uint32_t element_bytes);

/// A device symbol within 0 and `upper`, read from the first element of `tensor` (i32 or i64, not
/// empty): appends the read, unless the block has it. A kernel that clamps it raises the session's
/// flag under its name.
ir::ExprId checked_element(KernelTable &table, ir::FunctionBuilder &builder, ir::ValueId tensor,
                           int64_t upper, std::string_view name, SourceLocation location);

/// The dtype that kernels of `dtype` add in: Acc of kernels/shared/floating.cuh.
inline ir::DType wide_type(ir::DType dtype) {
  return dtype == ir::DType::f64 ? ir::DType::f64 : ir::DType::f32;
}

class KernelLaunch {
public:
  /// `name` is the declaration's hint, `source` a file of kernels/, `entry` the compiled function.
  /// A fusion makes a generated kernel: it gives the name, and its prelude precedes the source.
  KernelLaunch(KernelTable &table, ir::FunctionBuilder &builder, std::string name,
               std::string_view source, std::string entry, const Fusion *fusion = nullptr);
  /// A kernel of generated text, whose name is its entry too.
  static KernelLaunch generated(KernelTable &table, ir::FunctionBuilder &builder, std::string name,
                                std::string text);

  void option(std::string text) { kernel_.options.push_back(std::move(text)); }
  void option_if(bool holds, std::string text) {
    if (holds)
      option(std::move(text));
  }
  /// Another function than the constructor's.
  void entry(std::string_view entry) { kernel_.entry = entry; }
  /// The option for the element type of floating-point kernels, DTYPE_F16 and the like.
  void floating_type(ir::DType dtype);
  /// The same of kernels over any numbers (kernels/shared/number.cuh), DTYPE_I32 and the like; bool
  /// counts.
  void number_type(ir::DType dtype);
  /// The option BYTES, for kernels that move elements of any type. Parameters then take any dtype.
  void element_bytes(uint32_t bytes);
  /// The option VECTOR, for kernels that take vectors (kernels/shared/vectors.cuh) of tensors whose
  /// widest elements have so many bytes; loop_variant then counts vectors. Stands before it.
  void vectors(uint32_t widest_bytes);
  /// How many elements a vector of these has.
  static uint32_t vector_size(uint32_t widest_bytes) { return 16 / widest_bytes; }
  /// The option INDEX=unsigned, when each of `counts` and of the fusion's, over the function's
  /// symbols, has an upper bound below 2^31; whether it was.
  bool index_type(std::span<const ir::ExprId> counts);
  bool index_type(std::initializer_list<ir::ExprId> counts) {
    return index_type(std::span(counts.begin(), counts.size()));
  }

  void input(std::string name, ir::ValueId value) {
    tensor(std::move(name), ir::Access::in, value);
  }
  void output(std::string name, ir::ValueId value) {
    tensor(std::move(name), ir::Access::out, value);
  }
  void inout(std::string name, ir::ValueId value) {
    tensor(std::move(name), ir::Access::inout, value);
  }
  /// The last output may be written over any input: every element is read by the thread that writes
  /// the one of the same index, before it does.
  void over_inputs();
  /// The same of one input, a parameter's number.
  void over_input(uint32_t param) { kernel_.params.back().over.push_back(param); }
  /// Adds an i64 parameter with the value of `argument`, an expression over the function's symbols.
  /// The result stands for it in launch rules. The compiler learns a constant value.
  ir::ExprId size(std::string name, ir::ExprId argument);
  /// The same, but the compiler never learns the value: counts that make no better code.
  ir::ExprId count(std::string name, ir::ExprId argument);
  /// A symbol that checked_element made.
  void checked_symbol(std::string name, ir::DType dtype, ir::ExprId symbol);
  /// A number passed by value, as f32 or f64.
  void scalar(std::string name, ir::DType dtype, double argument);

  /// A number passed by value to a kernel over `dtype` (Parameter of kernels/shared/number.cuh): as
  /// f32 or f64, or for integers as i64, limited to what `dtype` holds.
  void parameter(std::string name, ir::DType dtype, double argument);

  /// The next launch variant: blocks and threads along x, y and z, over size()'s and count()'s
  /// results; an invalid predicate holds always. `shared_bytes`: dynamic shared memory of a block.
  void variant(std::string entry, ir::ExprId predicate, ir::ExprId blocks,
               std::array<int64_t, 3> threads, int64_t shared_bytes = 0);
  /// The last variant's blocks wait for one another: it is launched cooperatively, where so many
  /// blocks are resident at once; elsewhere the next one is taken.
  void cooperative() { kernel_.variants.back().cooperative = true; }
  /// The rule of kernels with a loop over the grid: 256 threads a block, a block for each 256 of
  /// `count` elements, or of vectors of them, at most kMaxLoopBlocks.
  void loop_variant(ir::ExprId count);
  static constexpr int64_t kMaxLoopBlocks = 4096;
  /// The rule of kernels with a block a row (kernels/shared/row.cuh), for `rows` of `length`
  /// elements of `element_bytes`: where the length is known, a block whose registers hold the row;
  /// else a warp for short ones and 256 threads for the others.
  void row_variants(ir::ExprId rows, ir::ExprId length, std::optional<int64_t> known,
                    uint32_t element_bytes);

  /// Declares the kernel, unless it is, and appends the launch.
  void emit(SourceLocation location);

  ir::ExprPool &exprs() { return builder_.module().exprs; }
  ir::ExprId constant(int64_t value) { return exprs().constant(value); }

private:
  void tensor(std::string name, ir::Access access, ir::ValueId value);

  KernelTable &table_;
  ir::FunctionBuilder &builder_;
  const Fusion *fusion_;
  ir::Kernel kernel_;
  std::vector<ir::Operand> arguments_;
  std::string assumptions_; // "kernel_h==3&&kernel_w==3"
  bool any_dtype_ = false;
  uint32_t vector_ = 1; // elements
};

} // namespace cugrt::codegen
