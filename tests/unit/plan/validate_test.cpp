// The validator finds what is wrong with a plan that was right: each case damages one thing.
#include "compiler/planner/lower/planner.h"
#include "plan/bytes/serialize.h"
#include "plan/symbols/bucket_boxes.h"

#include "plan/validate/validate.h"
#include "support/must.h"
#include "support/plan_module.h"

#include <functional>

using namespace cugrt;
using namespace cugrt::plan;
using cugrt::test::must;
using cugrt::test::refused;
using ir::FunctionBuilder;
using ir::ValueId;
using test::PlanModule;

/// main calls leaf between launches; a is live across the call.
static Plan sound() {
  PlanModule m;
  FunctionBuilder leaf(m.module, "leaf");
  leaf.function().is_private = true;
  ValueId u = leaf.param("u", m.floats(64)), v = leaf.param("v", m.floats(64), ir::Access::out);
  ValueId t = m.planned(leaf, "t", 64);
  m.launch(leaf, "io", {u, t});
  m.launch(leaf, "io", {t, v});
  m.finish(leaf);
  FunctionBuilder b(m.module, "main");
  b.symbol({.name = "n", .bounds = {1, 8}});
  ValueId x = b.param("x", m.floats({m.module.exprs.symbol({0}), m.constant(8)}));
  ValueId y = b.param("y", m.floats(64), ir::Access::out);
  ValueId a = m.planned(b, "a", 64), c = m.planned(b, "c", 64), d = m.planned(b, "d", 64);
  m.launch(b, "io", {x, a});
  m.launch(b, "io", {a, c});
  m.call(b, 0, {c, d});
  m.launch(b, "iio", {a, d, y});
  m.finish(b);
  auto plan = must(make_plan(m.module, {}));
  REQUIRE(validate(plan).ok());
  return plan;
}

TEST_CASE("the validator refuses a plan with one thing damaged, and names it") {
  struct Damage {
    const char *what, *message;
    std::function<void(Plan &, Function &)> apply;
  };
  const std::vector<Damage> damages = {
      {"an edge is missing", "no path", [](Plan &, Function &f) { f.regions[0].edges.clear(); }},
      {"an edge leads backwards", "backwards",
       [](Plan &, Function &f) {
         f.regions[0].edges[0] = {1, 0};
       }},
      {"a tensor has nine dimensions", "more than 8 dimensions",
       [](Plan &p, Function &f) { f.buffers[0].dims.resize(9, p.exprs.constant(1)); }},
      {"a parameter has nine dimensions", "more than 8 dimensions",
       [](Plan &p, Function &f) { f.params[0].dims.resize(9, p.exprs.constant(1)); }},
      {"live tensors share bytes", "share bytes",
       [](Plan &, Function &f) {
         for (Buffer &buffer : f.buffers)
           if (buffer.name == "c")
             for (const Buffer &other : f.buffers)
               if (other.name == "a")
                 buffer.offset_bytes = other.offset_bytes;
       }},
      {"a callee lies in its caller's bytes", "overwrites",
       [](Plan &p, Function &) {
         for (Buffer &buffer : p.functions[0].buffers)
           if (buffer.base == BufferBase::arena)
             buffer.offset_bytes = p.exprs.constant(0);
       }},
      {"the arena is too small", "outside of arena",
       [](Plan &p, Function &) { p.arenas[0].bytes = p.arenas[0].lower_bound_bytes = 256; }},
      {"a buffer has fewer bytes than its dimensions", "fewer bytes than its dimensions",
       [](Plan &p, Function &f) { f.buffers[0].bytes = p.exprs.constant(4); }},
      {"a buffer lies behind its slot", "may end beyond",
       [](Plan &p, Function &f) {
         for (Buffer &buffer : f.buffers)
           if (buffer.base == BufferBase::slot)
             buffer.offset_bytes = p.exprs.constant(64);
       }},
      {"a buffer lies before its slot", "may begin before",
       [](Plan &p, Function &f) {
         for (Buffer &buffer : f.buffers)
           if (buffer.base == BufferBase::slot)
             buffer.offset_bytes = p.exprs.constant(-4);
       }},
      {"a slot has more bytes than its parameter", "fewer bytes than its slot",
       [](Plan &p, Function &f) {
         for (Slot &slot : f.slots)
           if (slot.kind == SlotKind::param)
             slot.bytes = p.exprs.constant(1 << 20);
       }},
      {"a slot is missing in the region", "slot is missing",
       [](Plan &, Function &f) { f.regions[0].slots.clear(); }},
      {"a key symbol is missing", "missing in its key",
       [](Plan &p, Function &f) { f.launches[0].grid[0] = p.exprs.symbol({0}); }},
      {"a bucket is larger than its symbol's bounds", "do not hold its buckets",
       [](Plan &, Function &f) {
         f.symbols.push_back({"b", ir::SymbolSource::bucket, {4, 8}});
         f.buckets.push_back({ir::SymbolId{1}, ir::SymbolId{0}, {4, 16}});
       }},
      {"buckets descend", "do not ascend",
       [](Plan &, Function &f) {
         f.symbols.push_back({"b", ir::SymbolSource::bucket, {1, 16}});
         f.buckets.push_back({ir::SymbolId{1}, ir::SymbolId{0}, {16, 4}});
       }},
      {"a bucket's symbol has no sizes", "bucket of nothing",
       [](Plan &, Function &f) {
         f.symbols.push_back({"b", ir::SymbolSource::bucket, {1, 8}});
       }},
      {"a symbol with a bucket sizes a launch and is in no key", "missing in its key",
       [](Plan &p, Function &f) {
         f.symbols.push_back({"b", ir::SymbolSource::bucket, {4, 8}});
         f.buckets.push_back({ir::SymbolId{1}, ir::SymbolId{0}, {4, 8}});
         f.launches[0].grid[0] = p.exprs.symbol({0});
       }},
      {"a step is run twice", "run twice",
       [](Plan &, Function &f) { f.blocks[0].items.push_back(f.blocks[0].items[0]); }},
      {"a step is never run", "exactly once",
       [](Plan &, Function &f) { f.blocks[0].items.pop_back(); }},
      {"an access is understated", "without its access",
       [](Plan &, Function &f) { f.accesses[1].access = Access::in; }},
      {"a read-only slot is written", "read-only",
       [](Plan &, Function &f) { f.accesses[0].access = Access::inout; }},
      {"an index is out of range", "does not exist",
       [](Plan &, Function &f) { f.arguments[0].index = 1000; }},
      {"a symbol is not the function's", "not the function's",
       [](Plan &p, Function &f) { f.launches[0].grid[0] = p.exprs.symbol({7}); }},
      {"functions call one another", "ring",
       [](Plan &p, Function &f) {
         for (const Item &item : f.blocks[0].items)
           if (item.kind == ItemKind::call)
             p.functions[0].blocks[0].items.push_back(item);
         for (Item &item : p.functions[0].blocks[0].items)
           if (item.kind == ItemKind::call) {
             item.index = 0;
             item.operands = {{OperandRef::Kind::buffer, 0}, {OperandRef::Kind::buffer, 0}};
           }
       }},
  };
  for (const Damage &damage : damages) {
    INFO(damage.what);
    Plan plan = sound();
    damage.apply(plan, plan.functions[1]);
    Status status = validate(plan);
    REQUIRE_FALSE(status.ok());
    INFO(status.message());
    CHECK(status.message().find(damage.message) != std::string::npos);
  }
}

/// d lies in a's bytes between a's last read and the launch that writes it anew.
static Plan with_gap() {
  PlanModule m;
  FunctionBuilder b(m.module, "main");
  b.symbol({.name = "n", .bounds = {1, 8}});
  ValueId x = b.param("x", m.floats({m.module.exprs.symbol({0}), m.constant(8)}));
  ValueId y = b.param("y", m.floats(64), ir::Access::out);
  ValueId s = b.alloc_storage("s", "global", m.constant(512));
  ValueId a = b.alloc_tensor("a", s, m.constant(0), m.floats(64)),
          c = b.alloc_tensor("c", s, m.constant(256), m.floats(64)),
          d = b.alloc_tensor("d", s, m.constant(0), m.floats(64));
  m.launch(b, "io", {x, a});
  m.launch(b, "io", {a, c});
  m.launch(b, "io", {c, d});
  m.launch(b, "iio", {c, d, y});
  m.launch(b, "io", {c, a});
  m.launch(b, "iio", {a, c, y});
  m.finish(b);
  return must(make_plan(m.module, PlannerOptions()));
}

TEST_CASE("the validator refuses a checked symbol that a kernel cannot read, and names it") {
  PlanModule m;
  ir::Kernel kernel = m.module.kernels[m.kernel("bi")];
  kernel.name = "at";
  kernel.params[1].kind = ir::KernelParamKind::checked_symbol;
  kernel.params[1].dtype = ir::DType::i32;
  kernel.params[1].any_dtype = false;
  m.module.kernels.push_back(kernel);
  FunctionBuilder b(m.module, "main");
  b.symbol({.name = "p", .source = ir::SymbolSource::device, .bounds = {0, 7}});
  b.symbol({.name = "n", .bounds = {1, 8}});
  ir::ExprPool &exprs = m.module.exprs;
  ValueId cache = b.param("cache", m.floats({exprs.symbol({1})}), ir::Access::inout);
  ValueId pos = b.param("pos", m.module.types.tensor(ir::DType::i32, {m.constant(2)}));
  ir::Binding read{};
  read.kind = ir::BindingKind::read_symbol;
  const ir::Operand from[] = {ir::Operand::of(pos)};
  const ir::ExprId symbol[] = {exprs.symbol({0}), m.constant(1)};
  b.bind(read, from, symbol, {}, {}, {});
  const ir::Operand operands[] = {ir::Operand::of(cache), ir::Operand::of(symbol[0])};
  b.launch(uint32_t(m.module.kernels.size() - 1), operands);
  m.finish(b);
  auto sound = must(make_plan(m.module, {}));
  REQUIRE(validate(sound).ok());
  const Argument argument = sound.functions[0].arguments[1];
  CHECK(argument.kind == ArgumentKind::checked_symbol);
  CHECK(argument.bits == 0);
  CHECK(sound.functions[0].buffers[argument.index].name == "pos.p");

  struct Damage {
    const char *what, *message;
    std::function<void(Plan &, Function &, Argument &)> apply;
  };
  const std::vector<Damage> damages = {
      {"no such symbol", "device symbol does not exist",
       [](Plan &, Function &, Argument &a) { a.bits = 2; }},
      {"a symbol beyond 32 bits", "device symbol does not exist",
       [](Plan &, Function &, Argument &a) { a.bits = uint64_t(1) << 32; }},
      {"a symbol of the host", "does not live in device memory",
       [](Plan &, Function &, Argument &a) { a.bits = 1; }},
      {"no such buffer", "buffer does not exist",
       [](Plan &, Function &, Argument &a) { a.index = 1000; }},
      {"another dtype than the buffer's", "dtype that its buffer",
       [](Plan &p, Function &, Argument &a) {
         a.dtype = p.kernels[0].params[1].dtype = ir::DType::i64;
       }},
      {"a dtype that is no index", "dtype that its buffer",
       [](Plan &p, Function &f, Argument &a) {
         f.buffers[a.index].dtype = a.dtype = p.kernels[0].params[1].dtype = ir::DType::f32;
       }},
      {"a kernel of another dtype", "another symbol than its kernel reads",
       [](Plan &p, Function &, Argument &) { p.kernels[0].params[1].dtype = ir::DType::i64; }},
      {"a kernel that takes a pointer", "a value for a pointer",
       [](Plan &p, Function &, Argument &) {
         p.kernels[0].params[1].kind = ir::KernelParamKind::device_symbol;
       }},
      {"a kernel that takes a scalar", "another symbol than its kernel reads",
       [](Plan &p, Function &, Argument &) {
         p.kernels[0].params[1].kind = ir::KernelParamKind::scalar;
       }},
      {"a pointer for a checked symbol", "another symbol than its kernel reads",
       [](Plan &, Function &, Argument &a) { a.kind = ArgumentKind::bits; }},
      {"bounds that the dtype does not have", "its bounds do not have",
       [](Plan &, Function &f, Argument &) { f.symbols[0].bounds.upper = int64_t(1) << 31; }},
      {"contradictory bounds", "contradictory bounds",
       [](Plan &, Function &f, Argument &) { f.symbols[0].bounds.upper = -1; }},
      {"all of a tensor", "not one element",
       [](Plan &p, Function &f, Argument &a) { f.buffers[a.index].bytes = p.exprs.constant(8); }},
      {"an element behind the tensor", "may end beyond",
       [](Plan &p, Function &f, Argument &a) {
         f.buffers[a.index].offset_bytes = p.exprs.constant(8);
       }},
      {"no access", "without its access",
       [](Plan &, Function &f, Argument &a) {
         for (BufferAccess &access : f.accesses)
           if (access.buffer == a.index)
             access.buffer = f.arguments[0].index;
       }},
  };
  for (const Damage &damage : damages) {
    INFO(damage.what);
    Plan plan = sound;
    damage.apply(plan, plan.functions[0], plan.functions[0].arguments[1]);
    Status status = validate(plan);
    REQUIRE(!status.ok());
    INFO(status.message());
    CHECK(status.message().find(damage.message) != std::string::npos);
  }
  auto read_back = must(from_bytes(to_bytes(sound)));
  CHECK(read_back.functions == sound.functions);
}

TEST_CASE("another tensor may lie in a gap, but only where the rewriting is whole and sure") {
  Plan plan = with_gap();
  REQUIRE(validate(plan).ok());
  CHECK(plan.arenas[0].bytes == 512);
  CHECK(plan.arenas[0].lower_bound_bytes == 512);
  Function &f = plan.functions[0];
  // What reaches the last read of d must come before a is written again, and so on: all are edges.
  for (size_t e = 0; e < f.regions[0].edges.size(); ++e) {
    Plan damaged = plan;
    auto &edges = damaged.functions[0].regions[0].edges;
    edges.erase(edges.begin() + ptrdiff_t(e));
    damaged.functions[0].regions[0].programmatic.clear();
    CHECK_FALSE(validate(damaged).ok());
  }
  auto access_of = [](Function &function, const std::string &tensor, uint32_t step) {
    const Range range = function.steps[step].accesses;
    for (uint32_t a = range.begin; a < range.end(); ++a)
      if (function.buffers[function.accesses[a].buffer].name == tensor)
        return a;
    return kNone;
  };
  {
    Plan damaged = plan; // only a part of a is written anew
    Function &g = damaged.functions[0];
    const uint32_t rewriting = access_of(g, "a", 4);
    REQUIRE(rewriting != kNone);
    Buffer part = g.buffers[g.accesses[rewriting].buffer];
    part.bytes = damaged.exprs.constant(128);
    part.dims = {damaged.exprs.constant(32)};
    const uint32_t argument = g.steps[4].arguments.begin + 1;
    REQUIRE(g.arguments[argument].index == g.accesses[rewriting].buffer);
    g.accesses[rewriting].buffer = g.arguments[argument].index = uint32_t(g.buffers.size());
    g.buffers.push_back(part);
    Status status = validate(damaged);
    REQUIRE_FALSE(status.ok());
    CHECK(status.message().find("live together") != std::string::npos);
  }
  {
    Plan damaged = plan; // a is read where it is written anew
    damaged.kernels[damaged.functions[0].steps[4].kernel].params[1].access = ir::Access::inout;
    for (uint32_t step = 0; step < damaged.functions[0].steps.size(); ++step)
      if (damaged.functions[0].steps[step].kernel == damaged.functions[0].steps[4].kernel)
        damaged.functions[0].accesses[damaged.functions[0].steps[step].accesses.begin + 1].access =
            ir::Access::inout;
    CHECK_FALSE(validate(damaged).ok());
  }
  auto branch = [](Plan &damaged, std::initializer_list<uint32_t> steps) {
    const ir::ExprId n = damaged.exprs.symbol({0});
    for (uint32_t step : steps)
      damaged.functions[0].steps[step].when =
          damaged.exprs.make(ir::ExprKind::lt, damaged.exprs.constant(4), n);
    damaged.functions[0].regions[0].key = {ir::SymbolId{0}};
  };
  {
    Plan damaged = plan; // a is written anew where n > 4, and read in any case
    branch(damaged, {4});
    Status status = validate(damaged);
    REQUIRE_FALSE(status.ok());
    CHECK(status.message().find("live together") != std::string::npos);
  }
  {
    Plan same = plan; // read where n > 4 as well
    branch(same, {4, 5});
    Status status = validate(same);
    INFO(status.message());
    CHECK(status.ok());
  }
}

// Of 64 rows of 256 KiB, nb are a's and the others b's: in bucket 1 b lies at 0, in bucket 63 a.
static constexpr int64_t kRowBytes = 256 << 10;

struct TableModule {
  PlanModule m;
  ir::ExprId nb, first;
  ir::ExprId rows(int64_t low, int64_t high) { // by bucket
    return m.module.exprs.make(ir::ExprKind::select, first, m.constant(low * kRowBytes),
                               m.constant(high * kRowBytes));
  }

  /// c, of one row, lies over the begin of b in bucket 1, and of a in bucket 63.
  Plan plan() {
    FunctionBuilder b(m.module, "main");
    b.symbol({.name = "nb", .source = ir::SymbolSource::bucket, .bounds = {1, 63}, .bucket_of = 1});
    b.symbol({.name = "n", .bounds = {0, 63}, .buckets = {1, 63}});
    nb = m.module.exprs.symbol({0});
    first = m.module.exprs.make(ir::ExprKind::le, nb, m.constant(1));
    ir::ExprId n = m.module.exprs.symbol({1}), row = m.constant(kRowBytes / 4);
    ValueId x = b.param("x", m.floats({n}));
    ValueId y = b.param("y", m.floats(4), ir::Access::out),
            z = b.param("z", m.floats(4), ir::Access::out);
    ValueId s = b.alloc_storage("s", "global", m.constant(64 * kRowBytes));
    ValueId a = b.alloc_tensor("a", s, rows(63, 0), m.floats({nb, row}));
    ValueId d = b.alloc_tensor("b", s, rows(0, 63),
                               m.floats({m.module.exprs.sub(m.constant(64), nb), row}));
    ValueId c = b.alloc_tensor("c", s, m.constant(0), m.floats({row}));
    m.launch(b, "io", {x, a}); // 0
    m.launch(b, "io", {x, d}); // 1
    m.launch(b, "io", {a, y}); // 2
    m.launch(b, "io", {d, z}); // 3
    m.launch(b, "io", {x, c}); // 4
    m.finish(b);
    return must(make_plan(m.module, PlannerOptions()));
  }
};

TEST_CASE("with offsets by bucket, steps wait for what shares their bytes in any bucket") {
  Plan plan = TableModule().plan();
  REQUIRE(validate(plan).ok());
  // 4 writes where 3 has read in bucket 1 and 2 in bucket 63; a and b share nothing in either.
  CHECK(plan.functions[0].regions[0].edges == std::vector<Edge>{{0, 2}, {1, 3}, {2, 4}, {3, 4}});
  CHECK(plan.functions[0].regions[0].key == std::vector<SymbolId>{{0}});
  CHECK(plan.arenas[0].bytes == 64 * kRowBytes);
  CHECK(plan.arenas[0].lower_bound_bytes == 64 * kRowBytes); // a and b, in either bucket
  for (size_t e = 0; e < 4; ++e) {
    Plan damaged = plan;
    auto &edges = damaged.functions[0].regions[0].edges;
    edges.erase(edges.begin() + ptrdiff_t(e));
    CHECK_FALSE(validate(damaged).ok());
  }
}

TEST_CASE("a wrong table of offsets is found in the bucket in which it is wrong") {
  TableModule module;
  const Plan plan = module.plan();
  struct Damage {
    int64_t low, high; // of a, in rows
    const char *message;
  };
  // b has rows [0, 63) in bucket 1 and [63, 64) in bucket 63.
  for (auto [low, high, message] :
       {Damage{62, 0, "live together"}, Damage{63, 1, "live together"},
        Damage{0, 0, "live together"}, Damage{64, 0, "outside of arena"}, Damage{63, 0, nullptr}}) {
    Plan damaged = plan;
    damaged.functions[0].regions[0].edges = {{0, 1}, {1, 2}, {2, 3}, {3, 4}}; // no hazard is left
    ir::ExprPool &exprs = damaged.exprs;
    const ir::ExprId first = exprs.make(ir::ExprKind::le, exprs.symbol({0}), exprs.constant(1));
    for (Buffer &buffer : damaged.functions[0].buffers)
      if (buffer.name == "a")
        buffer.offset_bytes =
            exprs.make(ir::ExprKind::select, first, exprs.constant(low * kRowBytes),
                       exprs.constant(high * kRowBytes));
    Status status = validate(damaged);
    CHECK(status.ok() == !message);
    if (message && !status.ok())
      CHECK(status.message().find(message) != std::string::npos);
  }
}

TEST_CASE("boxes of buckets: labels, places and tables") {
  const std::vector<ir::Interval> bounds = {{4, 20}, {2, 8}, {0, 20}, {1, 8}};
  const std::vector<Bucket> buckets = {{SymbolId{0}, SymbolId{2}, {4, 16}},
                                       {SymbolId{1}, SymbolId{3}, {2, 4, 8}}};
  const BucketBoxes boxes(bounds, buckets);
  REQUIRE(boxes.count() == 9); // 4, 16 and beyond, with 2, 4 and 8
  const std::vector<std::string> names = {"nb", "mb", "n", "m"};
  CHECK(boxes.label(0, names) == "nb = 4, mb = 2");
  CHECK(boxes.label(5, names) == "nb = 16, mb = 8");
  CHECK(boxes.label(7, names) == "nb from 17 to 20, mb = 4");
  CHECK(boxes[4].box[2] == ir::Interval{5, 16});
  CHECK(boxes[4].box[3] == ir::Interval{3, 4});
  ir::ExprPool exprs;
  const std::vector<int64_t> by_box = {7, 7, 1, 0, 5, 9, 3, 3, 3};
  const ir::ExprId table = boxes.table(exprs, by_box);
  for (int64_t n = 0; n <= 20; ++n)
    for (int64_t m = 1; m <= 8; ++m) {
      const int64_t values[] = {ir::round_up_to_bucket(buckets[0].sizes, n),
                                ir::round_up_to_bucket(buckets[1].sizes, m), n, m};
      const size_t row = n <= 4 ? 0 : n <= 16 ? 1 : 2, column = m <= 2 ? 0 : m <= 4 ? 1 : 2;
      REQUIRE(boxes.find(values) == row * 3 + column);
      CHECK(*exprs.evaluate(table, values) == by_box[row * 3 + column]);
    }
  const int64_t outside[] = {21, 2, 21, 1};
  CHECK_FALSE(boxes.find(outside));
  // Too many: one box.
  std::vector<int64_t> sizes(70);
  for (size_t i = 0; i < sizes.size(); ++i)
    sizes[i] = int64_t(i) + 1;
  const std::vector<ir::Interval> wide = {{1, 70}, {0, 70}};
  const std::vector<Bucket> many = {{SymbolId{0}, SymbolId{1}, sizes}};
  CHECK(BucketBoxes(wide, many).count() == 1);
}

TEST_CASE("state lies apart from all other state, whenever it is used and in whatever function") {
  PlanModule m;
  const uint32_t scope = m.module.types.scope("state");
  auto state = [&](FunctionBuilder &b, const std::string &name) {
    const ValueId storage = b.alloc_storage("s_" + name, "state", m.constant(256));
    return b.alloc_tensor(name, storage, m.constant(0),
                          m.module.types.tensor(ir::DType::f32, {m.constant(64)}, scope));
  };
  for (const char *name : {"first", "second"}) { // s is written before t is read: lives do not meet
    FunctionBuilder b(m.module, name);
    ValueId x = b.param("x", m.floats(64)), y = b.param("y", m.floats(64), ir::Access::out);
    m.launch(b, "io", {x, state(b, "s")});
    m.launch(b, "io", {state(b, "t"), y});
    m.finish(b);
  }
  auto made = must(make_plan(m.module, {}));
  const Plan &plan = made;
  REQUIRE(validate(plan).ok());
  REQUIRE(plan.arenas.size() == 1);
  CHECK(plan.arenas[0].scope == "state");
  CHECK(plan.arenas[0].bytes == 4 * 256);
  std::vector<int64_t> offsets;
  for (const Function &f : plan.functions)
    for (const Buffer &buffer : f.buffers)
      if (buffer.base == BufferBase::arena)
        offsets.push_back(*plan.exprs.as_constant(buffer.offset_bytes));
  std::sort(offsets.begin(), offsets.end());
  CHECK(offsets == std::vector<int64_t>{0, 256, 512, 768});
  auto refused = [&](size_t function, const char *name, int64_t offset) {
    Plan damaged = plan;
    for (Buffer &buffer : damaged.functions[function].buffers)
      if (buffer.name == name)
        buffer.offset_bytes = damaged.exprs.constant(offset);
    damaged.functions[function].regions[0].edges = {{0, 1}};
    return validate(damaged).message();
  };
  auto at = [&](size_t function, const char *name) {
    for (const Buffer &buffer : plan.functions[function].buffers)
      if (buffer.name == name)
        return *plan.exprs.as_constant(buffer.offset_bytes);
    return int64_t(-1);
  };
  CHECK(refused(0, "s", at(0, "t")).find("live together") != std::string::npos);
  CHECK(refused(1, "s", at(0, "t")).find("its state shares bytes") != std::string::npos);
}
