// The text behind the products of a kernel (products.h), of each part from its tile to memory; and
// the text of the rows that a phase reads.
#pragma once

#include "compiler/fused/kernel_parameters.h"
#include "compiler/fused/products.h"
#include "ops/linear/stream_form.h"

namespace cugrt::codegen {

class ProductEpilogue : protected KernelParameters {
public:
  ProductEpilogue(KernelTable &table, ir::FunctionBuilder &builder, const ProductKernel &kernel)
      : KernelParameters(wide_type(kernel.dtype)), table_(table), builder_(builder),
        kernel_(kernel) {}

protected:
  using KernelParameters::size;
  std::string size(const std::string &name, int64_t value) {
    return size(name, builder_.module().exprs.constant(value));
  }
  ir::Type type_of(ir::ValueId value) const { return builder_.type_of(value); }
  std::string element_of_value(ir::ValueId value) const {
    return std::string(element_type(type_of(value).dtype));
  }

  /// The text that sets the Rows of kernels/language/persistent.cuh.
  std::string rows_of_phase();
  Status write_epilogue(const ProductPart &part, const std::string &p);
  /// A call of each_element or each_pair.
  static std::string over(const std::string &what, const std::string &p,
                          const std::string &parameters, const std::string &lines);

  KernelTable &table_;
  ir::FunctionBuilder &builder_;
  const ProductKernel &kernel_;
  // Texts of device functions; of the part behind the wait; and of reads before a part's products,
  // which threads keep.
  std::string functions_, body_, early_;
  struct Kept {
    std::string type, name, count;
  };
  std::vector<Kept> kept_;
  std::string kept_text(const std::string &indent) const {
    std::string text;
    for (const Kept &one : kept_)
      text += indent + one.type + " " + one.name + "[" + one.count + "];\n";
    return text;
  }
  ElementParameters uses_;
  bool reads_late_ = false; // what stands beside a part's products is read behind them

  /// A part of heads, in the place of a product's.
  Status write_heads(const ProductPart &part, const std::string &p);
  static std::string truth(bool holds) { return holds ? "true" : "false"; }
  static bool turns_sixteens(const HeadTurn &turn) {
    return turn.width % kStreamColumns == 0 && turn.turned % kStreamColumns == 0;
  }
  /// InPairs of kernels/linear/products.cuh; `more`: arguments behind the first two.
  static std::string pairs_text(const HeadTurn &turn, const std::string &name,
                                const std::string &more);

  std::string declared_;    // ahead of the wait and behind it
  int64_t own_columns_ = 0; // of a tile, where it has not COLUMNS

private:
  /// How many of a tile's elements, or pairs, a thread has.
  std::string own(const std::string &what) const {
    return own_columns_ == 0 ? what : what + "Of<" + std::to_string(own_columns_) + ">";
  }
  /// The text that stores `value` in a cache as cache_write.cu does; reads its row's place early.
  std::string append(const CacheAppend &to, const std::string &p, bool in_pairs);
  /// Values that the part's ops read at each element of its result and nowhere else: they are read
  /// before the products, unless reads_late_.
  std::vector<uint32_t> read_beside(const ProductPart &part);
  /// The expression of the value that is stored at j.
  Status write_elements(const ProductPart &part, const std::string &p, std::string &value);
  Status write_turn(const HeadTurn &turn, const std::string &p, const std::string &store);
};

} // namespace cugrt::codegen
