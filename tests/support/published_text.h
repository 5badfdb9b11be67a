// The published analysis as text, for tests to compare with.
//
//   @main
//     %s1: merged 0
//     %s3: stays, %s3 holds a result: the next run would overwrite it
//     allocation before binding 0
//     region 0 @main_cuda_graph_capture: alloc_tensor %a2; launch @k(%a1, %a2); kill %a1
//       in (%a1, %s2) out (%a2) symbols (m)
//   merged in @cuda_graph_alloc: global 32, global 32
#pragma once

#include "ir/text/text.h"
#include "support/published_flaws.h"

#include <string>

namespace cugrt::test {

class PublishedText {
public:
  PublishedText(const ir::Module &module, const plan::PublishedAnalysis &analysis)
      : module_(module), analysis_(analysis) {}

  std::string all() {
    for (uint32_t f = 0; f < module_.functions.size(); ++f)
      function(f);
    if (!analysis_.merged.empty()) {
      text_ += "merged in @" + analysis_.allocation_name + ":";
      for (const plan::MergedStorage &merged : analysis_.merged)
        text_ += (&merged == analysis_.merged.data() ? " " : ", ") +
                 module_.types.scope_name(merged.scope) + " " + std::to_string(merged.bytes);
      text_ += "\n";
    }
    return std::move(text_);
  }

private:
  void function(uint32_t f) {
    const ir::Function &function = module_.functions[f];
    const plan::PublishedFunction &published = analysis_.functions[f];
    list_.clear();
    collect(function, 0);
    text_ += "@" + function.name + "\n";
    for (const plan::PublishedStorage &s : published.storages) {
      text_ += "  %" + function.value(s.value).name + ": ";
      if (!s.lifted())
        text_ +=
            "stays, " +
            published_reason(module_, function, *list_[s.binding], published.bindings[s.binding]) +
            "\n";
      else
        text_ += s.merged == UINT32_MAX ? "unused\n" : "merged " + std::to_string(s.merged) + "\n";
    }
    if (published.allocates)
      text_ += "  allocation before " +
               ir::print_binding(module_, function, *list_[published.allocation]) + "\n";
    for (const plan::PublishedRegion &r : published.regions)
      region(function, r);
    if (const auto undefined = find_undefined(function, published); !undefined.empty())
      text_ += "  undefined (" + names(function, undefined) + ")\n";
  }

  void region(const ir::Function &function, const plan::PublishedRegion &r) {
    text_ += "  region " + std::to_string(r.capture_index) + " @" +
             analysis_.lifted[r.lifted].name + "\n";
    for (uint32_t number : r.bindings)
      text_ += "    " + ir::print_binding(module_, function, *list_[number]) + "\n";
    text_ += "    in (" + names(function, r.inputs) + ") out (" + names(function, r.outputs) + ")";
    if (!r.symbols.empty()) {
      text_ += " symbols (";
      for (const ir::SymbolId &s : r.symbols)
        text_ += (&s == r.symbols.data() ? "" : ", ") + function.symbols[s.index].name;
      text_ += ")";
    }
    text_ += "\n";
  }

  std::string names(const ir::Function &function, const std::vector<ir::ValueId> &values) {
    std::string text;
    for (ir::ValueId v : values)
      text += (text.empty() ? "%" : ", %") + function.value(v).name;
    return text;
  }

  void collect(const ir::Function &function, uint32_t block) {
    for (const ir::Binding &b : function.blocks[block].bindings) {
      list_.push_back(&b);
      for (uint32_t nested = b.blocks.begin; nested < b.blocks.end(); ++nested)
        collect(function, nested);
    }
  }

  const ir::Module &module_;
  const plan::PublishedAnalysis &analysis_;
  std::vector<const ir::Binding *> list_;
  std::string text_;
};

} // namespace cugrt::test
