// The importer at work (private to it): entries of names, and how ops are emitted.
//
//   graph ── nodes in order ── Call ── a handler of the op (ops/)
//                                 ├─ host(i)    elements that are known now: constants, expressions
//                                 └─ value(i)   the value on the device, made when first asked for
//
// The first error of a node ends its handler, which reads straight through. If a node needs an
// *input* that only the caller knows (a shape, an axis), the import starts anew with that input on
// the host.
#pragma once

#include "fronts/onnx/file/model.h"
#include "fronts/onnx/file/tensor.h"
#include "fronts/onnx/import.h"
#include "ir/module/builder.h"
#include "ops/known/known_ops.h"

#include <deque>
#include <set>
#include <stdexcept>
#include <unordered_map>

namespace cugrt::onnx {

using V = ir::ValueId;
using E = ir::ExprId;
/// A list of dimensions that a handler may index as if the model were sound: a missing one is
/// std::out_of_range, which Importer::node makes the node's error.
struct Dims : std::vector<E> {
  using std::vector<E>::vector;
  Dims(std::vector<E> list) : std::vector<E>(std::move(list)) {}
  E &operator[](size_t i) { return at(i); }
  const E &operator[](size_t i) const { return at(i); }
  E &back() { return at(size() - 1); }
  const E &back() const { return at(size() - 1); }
  /// The first `count` of them, and those from `begin` on.
  Dims first(size_t count) const { return Dims(begin(), place(count)); }
  Dims from(size_t begin) const { return Dims(place(begin), end()); }
  void insert_at(size_t i, E e) { insert(place(i), e); }

private:
  const_iterator place(size_t i) const {
    if (i > size())
      throw std::out_of_range("dimension");
    return begin() + ptrdiff_t(i);
  }
};
/// Most nesting of expressions that the importer makes: leaves some room below the IR's limit.
inline constexpr uint32_t kMostDepth = ir::ExprPool::kMaxDepth - 50;
using Op = ir::Op;
using DType = ir::DType;

using Host = ir::KnownTensor;
using Fractions = ir::KnownFractions;
using ir::is_real;

/// A value that is made at its upper bound: the device knows how many elements are there.
struct Counted {
  V count; // i64 [1]
  size_t axis = 0;
  const Node *node = nullptr; // of the model's graph, which decides it
};

/// Origin of constants, and of values made of nothing.
inline constexpr uint32_t kNoOrigin = UINT32_MAX;
/// Steps back from a value to inputs that decide it.
inline constexpr size_t kMostSources = 64;

struct Entry;
using EntryPtr = std::shared_ptr<Entry>;

/// Tensors in order: each by itself, or all of one shape along the first axis of `stacked`.
struct Sequence {
  std::vector<EntryPtr> parts{};
  V stacked{};
};

/// The value of a name in the file.
struct Entry : std::enable_shared_from_this<Entry> {
  std::string name{};
  std::optional<HostTensor> constant{}; // bytes
  std::optional<Host> host{};           // elements, of constants when asked for
  std::optional<Fractions> fractions{}; // never beside the two above
  V device{};
  std::optional<Sequence> sequence{}; // of tensors; never beside those above
  std::optional<Counted> counted{};   // of `device`
  std::vector<EntryPtr> joined{};     // few lists of integers that it is, none of them joined
  Narrow narrow = Narrow::none;       // its dtype in the file, where it is held as another
  bool is_input = false;              // of the model, whose value is not known here
  bool missing = false;               // the result of a node that cannot be imported
  uint32_t origin = kNoOrigin;        // what it follows from: Importer::origins_
};

/// A launch of one of the library's kernels that no op becomes: pointers to operands and results,
/// then sizes as i64.
struct KernelCall {
  static constexpr uint32_t kNone = UINT32_MAX;
  std::string source{}, entry{};
  std::vector<std::string> options{};
  std::vector<V> inputs{};
  std::vector<ir::TypeId> outputs{};
  std::vector<E> sizes{};
  /// The number of blocks along a dimension: size `grid[i]`, or 1, by `each[i]`, rounded up.
  uint32_t grid[3] = {kNone, kNone, kNone};
  int64_t each[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  /// Gives each element that the last size counts a thread.
  void over_elements() {
    grid[0] = static_cast<uint32_t>(sizes.size() - 1), each[0] = block[0] = 256;
  }
};

/// The f32 nearest to a number, as an option of a kernel says it: "5.000000000e-01f".
std::string float_text(double number);

/// The upper bound of a dimension of which nothing is said.
inline constexpr int64_t kMostDimension = 512;

/// How an input of the model is taken: as a tensor, as integers of the host that a run gives (one,
/// or a shape), or as a constant.
enum class InputMode { device, host, bound };

/// Facts that an import found and that start it anew.
struct Learnt {
  std::map<std::string, InputMode> inputs{};
  std::set<std::string> bindable{}; // of those on the host: what is given for them is known
  std::map<std::string, int64_t>
      dims{};                     // of the file's dimensions: the one number that each can be
  std::set<const Node *> waits{}; // nodes with results whose size the host must know
  std::set<const Graph *> both{}; // of an If: both branches are computed, one is chosen
  size_t nodes = 0;               // and inputs that were looked at, from the first start on
  bool needs_sizes = false;       // sizes stand in tensors that the device computes
  bool reads_sizes = false;       // the host waits for those

  /// Binds bindable inputs that are not bound yet; false: there are none.
  bool bind();
  /// Has the host read sizes, where that is new and would help.
  bool read() { return needs_sizes && !std::exchange(reads_sizes, true); }
};

class Call;
using Handler = void (*)(Call &);

class Importer {
public:
  Importer(const Model &model, ExternalFiles &files, const Options &options, Learnt &learnt)
      : model_(model), files_(files), options_(options), learnt_(learnt),
        builder_(result_.module, "main") {
    for (const LocalFunction &function : model.functions)
      functions_.try_emplace({function.domain, function.name}, &function);
  }

  /// Code::busy: the import is to be started again (more has been learnt).
  Result<Imported> run();

  // --- What handlers use; see call.h ---
  ir::ExprPool &exprs() { return result_.module.exprs; }
  E constant(int64_t value) { return exprs().constant(value); }
  ir::FunctionBuilder &builder() { return builder_; }
  const ir::Type &type(V v) { return result_.module.types[builder_.function().value(v).type]; }
  /// The dtype of a value, on the host or device; none if it could not be imported.
  std::optional<DType> entry_dtype(const Entry &entry);
  std::optional<int64_t> known(E e) { return exprs().as_constant(e); }
  ir::Interval range(E e);
  bool never_negative(E e);
  /// Raises the lower bound of the symbol of a dimension that depends on one, as an op implies.
  void require_at_least(E e, int64_t least);

  /// Results of an emitted op; invalid, and `error` set, if the op is not valid.
  std::vector<V> emit(Op op, const std::vector<V> &operands, std::vector<ir::Attribute> attributes);
  V shape(const Dims &dims);
  V match(V x, const Dims &dims);
  std::string operand_text(V x);
  /// The factors of a product, each by itself.
  void add_factors(E e, Dims &factors);
  V constant_tensor(const std::string &name, const HostTensor &tensor);
  V materialize(const Host &host);
  V materialize_fractions(const Fractions &fractions);
  V device(Entry &entry);
  std::vector<V> launch(const KernelCall &call);
  ir::TypeId tensor_type(DType dtype, const Dims &dims) {
    return result_.module.types.tensor(dtype, dims);
  }
  /// The i64 [1] is read by the host when it is there: a symbol `counted`, at most `most`; without
  /// one as --bounds says, or up to kMostDimension.
  E count_on_host(V count, std::optional<E> most);
  /// Likewise each of a few integers, if this import reads them; else notes that they are
  /// wanted.
  const Host *read_sizes(Entry &entry);
  /// Null if its elements are unknown; if needed, asks for inputs on the host: for a condition only
  /// single integers, which become symbols, never data.
  enum class Need { no, condition, value };
  const Host *host(Entry &entry, Need need);
  /// The elements of an expression's inputs are wanted as constants: raises their mode.
  void need_constant(E e);
  /// Bounds dimensions of several integer inputs: storage is sized by them.
  void require_at_most(const Dims &dims, int64_t most);
  /// An element of an input that is 0 would mean something else: it becomes a constant, or at least
  /// 1.
  void need_constant_or_positive(E e);
  /// The origin of a node's results.
  uint32_t origin_of(const Node &node);

  // --- Limits of what follows from a file, whatever its size ---
  /// Elements that become known on the host, or are written as constants. Without room for more
  /// nothing folds, and beyond kMostMade the model is refused.
  bool has_room() const { return elements_ <= kMostKnown; }
  void take_elements(size_t count);
  /// Counts names and attributes that are written out anew each time, of bodies and functions.
  void take_parts(size_t count);

  // --- Values with a dimension that the device counts; see counted_values.cpp ---
  /// Whether a node's results may stay at their upper bound, as far as is known.
  bool may_stay_counted(const Node &node) const;
  void set_counted(std::string_view name, const Counted &counted);

  /// Whether an If has results of different shapes, of which the host chooses; `first` is its first
  /// branch. Finding that starts the import anew.
  bool takes_both(const Graph &first) const { return learnt_.both.count(&first) != 0; }
  void take_both(const Graph &first) {
    learnt_.both.insert(&first);
    restart_ = true;
    fail(Code::busy, "branches have results of different shapes");
  }

  /// A tensor's elements; to read them in each turn counts as names and attributes do.
  Result<HostTensor> load(const TensorView &tensor);
  /// A constant of the model; that of a body or a function is one in all turns and calls. Null on
  /// error.
  EntryPtr constant_entry(const TensorView &tensor, std::string_view name);
  EntryPtr find(std::string_view name);
  EntryPtr find_if_defined(std::string_view name) const;
  /// The node of the model's graph that alone reads a value of that graph, which is no result.
  const Node *only_reader(std::string_view name);
  /// A constant of the model that is defined so far; else null.
  EntryPtr constant_of(std::string_view name);
  /// Nodes that the nodes before them have done the work of.
  std::set<const Node *> folded;
  /// Bodies of loops that collect in place of some sequences, by the places of these. They stay as
  /// long as facts that refer to them by address.
  std::map<std::pair<const Graph *, std::vector<size_t>>, Graph> collecting;
  void define(std::string_view name, EntryPtr entry);
  /// The results of a subgraph with these inputs.
  std::vector<EntryPtr> inlined(const Graph &graph, const std::vector<EntryPtr> &inputs);

  // Nested blocks of `if` and `while`, and their captures.
  void begin_block(const std::vector<ir::TypeId> &types, std::vector<V> &params);
  std::vector<V> end_block(const std::vector<V> &results, uint32_t *block);
  V append(ir::BindingKind kind, std::vector<ir::Operand> operands, const std::vector<E> &exprs,
           const std::vector<ir::TypeId> &types, ir::Range blocks = {}, uint32_t carried = 0);
  void capture(V v);

  struct Failed {}; // what ends a node that cannot be imported: `error_` says why
  [[noreturn]] void fail(Code code, std::string message);
  /// Ends the import: the model asks for more than any does.
  [[noreturn]] void refuse(std::string message);

  int64_t opset() const { return opset_; }
  ExternalFiles &files() { return files_; }
  const Model &model() const { return model_; }
  const Options &options() const { return options_; }
  unsigned depth = 0;  // of local functions
  unsigned nested = 0; // of local functions and subgraphs in one another
  size_t turns = 0;    // nodes so far, those of what is written out counted each time
  std::string hint;    // names values after the node's results

private:
  void graph_body(const Graph &graph);
  void push_scope() { scopes_.emplace_back(); }
  void pop_scope() { scopes_.pop_back(); }
  Status inputs();
  Status input(const ValueInfo &info);
  Result<E> dimension(const ValueInfo &info, size_t i, const HostTensor *given);
  /// The number of the input's dimension in the file, by --dim or the file's own.
  std::optional<int64_t> number_of(const ValueInfo &info, size_t i) const;
  Status frames(const ValueInfo &info, const Frames &wanted, const HostTensor *given);
  Status known_dims() const;
  Status known_bounds();
  Status all();
  Status results();
  Status result(std::string_view name, std::set<uint32_t> &returned);
  Status every_value(std::set<uint32_t> &returned);
  ir::TypeId declared_type(ir::TypeId id);
  void count_readers(const Graph &graph);
  bool node_with_counted(const Node &node, Handler handler);
  [[noreturn]] void wait_for(const Counted &counted);
  V dense(V x, const Counted &counted);
  void count_results();
  void node(const Node &node);
  /// Whether its results are there, by the op's handler; not where an input is missing.
  bool results_of(const Node &node);
  void handle(const Node &node, Handler handler);
  /// Fails if inputs or attributes of a node are unread.
  void require_all_read(const Call &call);
  void report(const Node &node, const Status &status);
  Status bound_input(const ValueInfo &info, Entry &entry);
  E host_symbol(const std::string &input, std::string wanted, DType dtype, int64_t most,
                std::optional<int64_t> given);
  Status host_input(const std::string &name, DType dtype, const Dims &dims, const HostTensor *given,
                    Entry &entry);
  bool failed() const { return !error_.ok(); }
  Status take_error() { return std::exchange(error_, Status()); }
  void note_error(Code code, std::string message);
  void end_if_failed() const {
    if (failed())
      throw Failed();
  }
  /// Notes the error, which is that the input's mode is less.
  void raise(const std::string &input, InputMode mode);
  void settle(E a, E b);
  void raise_input(const Entry &entry, Need need);
  void raise_origin(uint32_t origin, Need need, size_t &left);
  void take_binding();
  V launch_integers(const std::vector<E> &values, size_t begin, size_t count);
  void call_function(const Node &node, const LocalFunction &function);

  static constexpr size_t kMostKnown = size_t(1) << 21, kMostMade = size_t(1) << 24;
  static constexpr size_t kMostParts = size_t(1) << 20;

  const Model &model_;
  ExternalFiles &files_;
  const Options &options_;
  Learnt &learnt_;
  size_t elements_ = 0, parts_ = 0;
  std::map<std::pair<std::string_view, std::string_view>, const LocalFunction *> functions_;
  /// An input of the model, or a node by what its inputs follow from, which was there before it.
  struct Origin {
    EntryPtr input;
    std::vector<uint32_t> sources;
  };
  std::vector<Origin> origins_;
  std::unordered_map<const TensorView *, EntryPtr> body_constants_; // of subgraphs and functions
  std::map<std::pair<uint32_t, std::string>, uint32_t> constants_;  // by type and bytes: the number
  Imported result_;
  ir::FunctionBuilder builder_;
  std::vector<std::unordered_map<std::string_view, EntryPtr>> scopes_;
  std::unordered_map<std::string, E> dimensions_; // by the name in the file
  struct Readers {
    size_t count = 0;
    const Node *node = nullptr; // of the model's graph; null where something else reads it, too
  };
  std::unordered_map<std::string_view, Readers> readers_; // of values, filled when first asked for
  struct HostInput {
    std::string name; // empty: none
    std::optional<int64_t> given;
  };
  const HostInput *host_input_of(E e);
  std::vector<HostInput> symbol_inputs_; // by symbol
  std::unordered_map<std::string, uint32_t> kernels_;
  std::unordered_map<std::string_view, size_t> makers_; // of values of the graph: the node
  std::vector<ir::Operand> result_operands_;
  std::vector<std::pair<uint32_t, Counted>> counted_results_;
  bool takes_counted_ = false; // who asks for a value knows that it is counted
  struct Block {
    std::vector<V> captures;
    std::vector<EntryPtr> made; // entries that got their device value in it
    std::set<uint32_t> captured;
    uint32_t number = 0;
  };
  std::vector<Block> blocks_;
  std::vector<size_t> level_; // by value: how many blocks it is in
  int64_t opset_ = 0;
  void note_node(const Node &node, size_t first);
  std::vector<std::string> node_of_value_; // the name of the node that made each value; or empty
  const Node *node_ = nullptr;             // whose handler is at work
  Status error_;
  std::deque<Entry> read_; // of blocks: what the host has read of values
  bool restart_ = false;   // nothing more is looked at
  Status refused_;
  struct Problem {
    std::string op, why, first;
    size_t count = 0;
  };
  std::vector<Problem> problems_;
  std::map<std::pair<std::string, std::string>, size_t> problem_index_; // by op and why
};

} // namespace cugrt::onnx
