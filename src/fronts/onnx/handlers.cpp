// The table of ops.
#include "fronts/onnx/call.h"

namespace cugrt::onnx {

Handler find_handler(std::string_view domain, std::string_view op) {
  static const HandlerTable table = [] {
    HandlerTable all;
    add_elementwise(all);
    add_reductions(all);
    add_shapes(all);
    add_splits(all);
    add_padding(all);
    add_indexing(all);
    add_products(all);
    add_einsum(all);
    add_windows(all);
    add_norms(all);
    add_recurrent(all);
    add_resizing(all);
    add_control(all);
    add_attention(all);
    add_signals(all);
    add_states(all);
    add_counted(all);
    add_places(all);
    add_sequences(all);
    return all;
  }();
  static const HandlerTable microsoft = [] {
    HandlerTable all;
    add_microsoft(all);
    add_microsoft_attention(all);
    add_microsoft_integers(all);
    return all;
  }();
  if (!domain.empty() && domain != "com.microsoft")
    return nullptr;
  const HandlerTable &ops = domain.empty() ? table : microsoft;
  auto found = ops.find(op);
  return found == ops.end() ? nullptr : found->second;
}

} // namespace cugrt::onnx
