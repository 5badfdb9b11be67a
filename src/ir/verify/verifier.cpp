// Verification of a module: kernels, constants, names, recursion; functions one after the other.
#include "ir/verify/verifier.h"

#include "ir/module/names.h"

#include <algorithm>
#include <unordered_set>

namespace cugrt::ir {

namespace {

// Limits of every device that CUDA knows (CUDA C++ Programming Guide, compute capabilities).
constexpr int64_t kMaxBlockThreads = 1024;
constexpr int64_t kMaxBlock[] = {1024, 1024, 64};
constexpr int64_t kMaxGrid[] = {INT32_MAX, 65535, 65535};
constexpr int64_t kMaxClusterBlocks = 16;

class ModuleVerifier {
public:
  ModuleVerifier(const Module &module, Diagnostics &diagnostics)
      : m_(module), diagnostics_(diagnostics) {}

  void verify() {
    for (const Kernel &k : m_.kernels)
      kernel(k);
    for (const Constant &c : m_.constants)
      constant(c);
    unique_names();
    size_t before = diagnostics_.count();
    recursion();
    if (diagnostics_.count() != before)
      return;
    Module pools;
    pools.exprs = m_.exprs;
    pools.types = m_.types;
    pools.literals = m_.literals;
    std::vector<uint8_t> good_types;
    for (const Function &f : m_.functions)
      FunctionVerifier(m_, pools, good_types, f, diagnostics_).verify();
  }

private:
  void fail(SourceLocation location, std::string message) {
    diagnostics_.error(location, std::move(message));
  }

  template <class List> void unique_names(const List &list, const char *what) {
    std::unordered_set<std::string_view> names;
    for (const auto &item : list)
      if (!is_sigil_name(item.name) || !names.insert(item.name).second)
        fail(item.location,
             std::string("the name of ") + what + " @" + item.name + " is not legal or not unique");
  }

  void unique_names() {
    unique_names(m_.kernels, "kernel");
    unique_names(m_.constants, "constant");
    unique_names(m_.functions, "function");
  }

  // --- Kernels ---

  void kernel(const Kernel &k) {
    std::string prefix = "kernel @" + k.name;
    if (k.code.empty() || k.entry.empty())
      fail(k.location, prefix + " needs code and the name of its entry");
    std::unordered_set<std::string_view> names;
    for (const KernelParam &p : k.params) {
      if (!is_bare_name(p.name) || !names.insert(p.name).second)
        fail(k.location,
             prefix + ": the name of parameter '" + p.name + "' is not legal or not unique");
      kernel_param(k, p, prefix);
    }
    if (k.variants.empty())
      fail(k.location, prefix + " has no launch");
    for (size_t i = 0; i < k.variants.size(); ++i) {
      // A cooperative variant gives way if its blocks are not resident at once.
      if (!k.variants[i].predicate.valid() && !k.variants[i].cooperative &&
          i + 1 != k.variants.size())
        fail(k.location, prefix + ": launches after the one without 'when' are never reached");
      variant(k, k.variants[i], prefix);
    }
  }

  /// Checks that a tensor may be written over others: elements of one size, all of which are known.
  void over(const Kernel &k, const KernelParam &p, const std::string &prefix) {
    if (!p.over.empty() && (p.kind != KernelParamKind::tensor || p.access != Access::out))
      return fail(k.location, prefix + ": only an out parameter can be written over another, '" +
                                  p.name + "' is none");
    for (size_t i = 0; i < p.over.size(); ++i) {
      if (p.over[i] >= k.params.size())
        return fail(k.location, prefix + ": '" + p.name + "' is over a parameter out of range");
      const KernelParam &read = k.params[p.over[i]];
      if (read.kind != KernelParamKind::tensor || read.access != Access::in)
        return fail(k.location, prefix + ": '" + p.name + "' is over '" + read.name +
                                    "', which is no in parameter");
      if (std::find(p.over.begin(), p.over.begin() + ptrdiff_t(i), p.over[i]) !=
          p.over.begin() + ptrdiff_t(i))
        return fail(k.location, prefix + ": '" + p.name + "' is over '" + read.name + "' twice");
      const DTypeInfo &a = info(p.dtype), &b = info(read.dtype);
      if (!p.any_dtype && !read.any_dtype &&
          (a.bytes_per_block != b.bytes_per_block || a.elements_per_block != b.elements_per_block))
        return fail(k.location, prefix + ": '" + p.name + "' is over '" + read.name +
                                    "', whose elements have another size");
    }
  }

  void kernel_param(const Kernel &k, const KernelParam &p, const std::string &prefix) {
    over(k, p, prefix);
    bool index = p.dtype == DType::i32 || p.dtype == DType::i64;
    const DTypeInfo &d = info(p.dtype);
    switch (p.kind) {
    case KernelParamKind::tensor:
      return;
    case KernelParamKind::scalar:
      if (d.elements_per_block != 1)
        fail(k.location,
             prefix + ": scalar '" + p.name + "' cannot have dtype " + std::string(d.name));
      return;
    case KernelParamKind::symbol:
      if (!index || p.symbol.index >= k.symbols.size())
        fail(k.location, prefix + ": symbol '" + p.name + "' is i32 or i64");
      else if (is_reserved(p.name) || k.symbols[p.symbol.index] != p.name)
        fail(k.location, prefix + ": symbol '" + p.name + "' has no legal name");
      return;
    case KernelParamKind::device_symbol:
    case KernelParamKind::checked_symbol:
      if (!index)
        fail(k.location, prefix + ": device symbol '" + p.name + "' is i32 or i64");
      return;
    }
  }

  void expr(const Kernel &k, ExprId e, const std::string &prefix) {
    if (!e.valid())
      return;
    symbols_.clear();
    m_.exprs.collect_symbols(e, symbols_);
    for (SymbolId s : symbols_)
      if (s.index >= k.symbols.size())
        fail(k.location, prefix + ": a launch uses a symbol that is no symbol parameter");
  }

  /// A constant outside of [lower, upper] is an error; what depends on symbols is checked when it
  /// is run.
  void constant_in(const Kernel &k, ExprId e, int64_t lower, int64_t upper,
                   const std::string &what) {
    auto value = e.valid() ? m_.exprs.as_constant(e) : std::nullopt;
    if (value && (*value < lower || *value > upper))
      fail(k.location, "kernel @" + k.name + ": " + what + " is " + std::to_string(*value) +
                           ", legal are " + std::to_string(lower) + " to " + std::to_string(upper));
  }

  void variant(const Kernel &k, const KernelVariant &v, const std::string &prefix) {
    static constexpr const char *kAxes[] = {"x", "y", "z"};
    int64_t threads = 1, cluster_blocks = 1;
    for (size_t i = 0; i < 3; ++i) {
      if (!v.grid[i].valid() || !v.block[i].valid())
        return fail(k.location, prefix + " lacks a grid or block dimension");
      expr(k, v.grid[i], prefix);
      expr(k, v.block[i], prefix);
      constant_in(k, v.grid[i], 1, kMaxGrid[i], std::string("grid ") + kAxes[i]);
      constant_in(k, v.block[i], 1, kMaxBlock[i], std::string("block ") + kAxes[i]);
      int64_t size = m_.exprs.as_constant(v.block[i]).value_or(1);
      threads *= size >= 1 && size <= kMaxBlockThreads ? size : 1;
      cluster_blocks *= std::min<int64_t>(v.cluster[i], kMaxClusterBlocks + 1);
    }
    if (threads > kMaxBlockThreads)
      fail(k.location, prefix + ": a block of " + std::to_string(threads) + " threads; at most " +
                           std::to_string(kMaxBlockThreads) + " are legal");
    if (cluster_blocks > kMaxClusterBlocks)
      fail(k.location,
           prefix + ": a cluster has at most " + std::to_string(kMaxClusterBlocks) + " blocks");
    if (cluster_blocks == 0 && v.cluster != std::array<uint32_t, 3>{})
      fail(k.location, prefix + ": a cluster's dimensions are at least 1");
    for (ExprId e : {v.predicate, v.shared_bytes, v.workspace_bytes})
      expr(k, e, prefix);
    constant_in(k, v.shared_bytes, 0, INT32_MAX, "shared memory");
    constant_in(k, v.workspace_bytes, 0, INT64_MAX, "workspace");
  }

  // --- Constants ---

  void constant(const Constant &c) {
    const Type *t = c.type.index < m_.types.size() ? &m_.types[c.type] : nullptr;
    bool legal = t && t->kind == TypeKind::tensor && t->known_shape && t->strides.empty();
    for (size_t i = 0; legal && i < t->dims.size(); ++i)
      legal = m_.exprs.as_constant(t->dims[i]).value_or(-1) >= 0;
    if (!legal)
      return fail(c.location,
                  "constant @" + c.name + " is no contiguous tensor with constant dimensions");
    ExprPool scratch;
    Type copy = *t;
    for (ExprId &d : copy.dims)
      d = scratch.constant(*m_.exprs.as_constant(d));
    auto bytes = scratch.as_constant(tensor_bytes(scratch, copy));
    if (!bytes || static_cast<uint64_t>(*bytes) != c.bytes.size())
      fail(c.location, "constant @" + c.name + " has " + std::to_string(c.bytes.size()) +
                           " bytes, which is not what its type has");
  }

  // --- Recursion ---

  /// Calls of each function, in order; calls of functions that do not exist are reported later.
  std::vector<std::vector<std::pair<uint32_t, SourceLocation>>> calls() const {
    std::vector<std::vector<std::pair<uint32_t, SourceLocation>>> out(m_.functions.size());
    for (size_t i = 0; i < m_.functions.size(); ++i)
      for (const Block &block : m_.functions[i].blocks)
        for (const Binding &b : block.bindings)
          if (b.kind == BindingKind::call && b.callee < m_.functions.size())
            out[i].emplace_back(b.callee, b.location);
    return out;
  }

  /// Depth first with a stack of its own: chains of calls may be long.
  void recursion() {
    enum State : uint8_t { kNew, kOpen, kDone };
    auto graph = calls();
    std::vector<uint8_t> state(graph.size(), kNew);
    std::vector<std::pair<uint32_t, size_t>> stack; // function, next call to follow
    for (uint32_t root = 0; root < graph.size(); ++root) {
      if (state[root] != kNew)
        continue;
      stack.emplace_back(root, 0);
      state[root] = kOpen;
      while (!stack.empty()) {
        auto &[f, next] = stack.back();
        if (next == graph[f].size()) {
          state[f] = kDone;
          stack.pop_back();
          continue;
        }
        auto [callee, location] = graph[f][next++];
        if (state[callee] == kOpen)
          fail(location, "function @" + m_.functions[callee].name +
                             " is called from itself here; functions may not be recursive");
        if (state[callee] == kNew) {
          state[callee] = kOpen;
          stack.emplace_back(callee, 0);
        }
      }
    }
  }

  const Module &m_;
  Diagnostics &diagnostics_;
  std::vector<SymbolId> symbols_;
};

} // namespace

void verify(const Module &module, Diagnostics &diagnostics) {
  ModuleVerifier(module, diagnostics).verify();
}

} // namespace cugrt::ir
