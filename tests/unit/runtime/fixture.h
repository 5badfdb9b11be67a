// Plans made by hand and a device on the fake driver: what the runtime's unit tests run.
#pragma once

#include "support/must.h"

#include "device/program/symbol_binding.h"
#include "device/session/session.h"
#include "library/compile/compile.h"
#include "support/fake_driver.h"

namespace cugrt::test {

inline cugrt_value tensor(uint64_t address, std::initializer_list<int64_t> dims,
                          cugrt_dtype dtype = CUGRT_F32) {
  cugrt_value value{};
  value.kind = CUGRT_VALUE_TENSOR;
  value.as.tensor.address = address;
  value.as.tensor.dtype = dtype;
  value.as.tensor.rank = static_cast<uint32_t>(dims.size());
  std::copy(dims.begin(), dims.end(), value.as.tensor.dims);
  return value;
}

inline cugrt_value integer(int64_t number) {
  cugrt_value value{};
  value.kind = CUGRT_VALUE_INT;
  value.as.integer = number;
  return value;
}

inline cugrt_value floating(double number) {
  cugrt_value value{};
  value.kind = CUGRT_VALUE_FLOAT;
  value.as.floating = number;
  return value;
}

/// Builds plans over one function @main whose symbol n, with bounds [0, upper], is number 0.
///
///   chain(k): y = x + k * a, by k launches of "add" (in, out, count: symbol i64, a: scalar f32)
///   over tensors [n, 4]; x and the float %a are parameters, y is the result, the tensors between
///   lie in the arena, one after the other.
class PlanMaker {
public:
  explicit PlanMaker(int64_t upper = 64) {
    plan.functions.emplace_back();
    function().name = "main";
    function().blocks.emplace_back();
    n = ir::SymbolId{0};
    function().symbols.push_back({"n", ir::SymbolSource::parameter, {0, upper}});
    width = plan.exprs.constant(4);
    count = plan.exprs.mul(plan.exprs.symbol(n), width);
    bytes = plan.exprs.mul(count, plan.exprs.constant(4));
    upper_bytes = upper * 16;
    plan.arenas.push_back({"global", 0, 0, 0});
    plan.codes.push_back({ir::CodeKind::source_text, "add", "", {}});
    using ir::KernelParamKind;
    plan.kernels.push_back({"add",
                            0,
                            {{KernelParamKind::tensor, ir::Access::in, ir::DType::f32},
                             {KernelParamKind::tensor, ir::Access::out, ir::DType::f32},
                             {KernelParamKind::symbol, ir::Access::in, ir::DType::i64},
                             {KernelParamKind::scalar, ir::Access::in, ir::DType::f32}},
                            {"add_entry"},
                            {{0, 0, 0}},
                            {false},
                            {false}});
  }

  plan::Function &function() { return plan.functions[0]; }

  uint32_t tensor_param(const std::string &name, ir::Access access = ir::Access::in) {
    auto slot = static_cast<uint32_t>(function().slots.size());
    auto index = static_cast<uint32_t>(function().params.size());
    plan::Param param;
    param.name = name;
    param.kind = plan::ParamKind::tensor;
    param.dims = {plan.exprs.symbol(n), width};
    param.access = access;
    param.alignment_bytes = 4;
    param.slot = slot;
    function().params.push_back(param);
    function().slots.push_back({plan::SlotKind::param, index, access, bytes, 4});
    return buffer(name, plan::BufferBase::slot, slot);
  }

  uint32_t float_param(const std::string &name) {
    plan::Param param;
    param.name = name;
    param.kind = plan::ParamKind::scalar;
    param.scalar = ir::ScalarKind::floating;
    param.host_value = static_cast<uint32_t>(function().host_values.size());
    auto index = static_cast<uint32_t>(function().params.size());
    function().params.push_back(param);
    function().host_values.push_back(
        {plan::HostValueKind::param, ir::ScalarKind::floating, index, 0});
    return param.host_value;
  }

  uint32_t result() {
    auto slot = static_cast<uint32_t>(function().slots.size());
    auto index = static_cast<uint32_t>(function().results.size());
    function().slots.push_back({plan::SlotKind::result, index, ir::Access::out, bytes, 16});
    uint32_t number = buffer("result", plan::BufferBase::slot, slot);
    function().results.push_back({number, plan::kNone});
    return number;
  }

  uint32_t arena_tensor() {
    uint32_t number = buffer("t", plan::BufferBase::arena, 0);
    function().buffers[number].offset_bytes = plan.exprs.constant(plan.arenas[0].bytes);
    plan.arenas[0].bytes += (upper_bytes + 255) / 256 * 256;
    return number;
  }

  uint32_t buffer(const std::string &name, plan::BufferBase base, uint32_t index) {
    plan::Buffer buffer;
    buffer.name = name;
    buffer.base = base;
    buffer.index = index;
    buffer.bytes = bytes;
    buffer.dims = {plan.exprs.symbol(n), width};
    function().buffers.push_back(buffer);
    return static_cast<uint32_t>(function().buffers.size() - 1);
  }

  /// `fixed_count`: a step that depends on no symbol.
  void step(uint32_t from, uint32_t to, uint32_t host_value, int64_t fixed_count = 0) {
    ir::ExprId count = fixed_count ? plan.exprs.constant(fixed_count) : this->count;
    auto at = [](const auto &list) { return static_cast<uint32_t>(list.size()); };
    plan::Step step;
    step.name = "add" + std::to_string(function().steps.size());
    step.kernel = 0;
    step.arguments = {at(function().arguments), 4};
    function().arguments.push_back({plan::ArgumentKind::buffer, ir::DType::i64, from, 0});
    function().arguments.push_back({plan::ArgumentKind::buffer, ir::DType::i64, to, 0});
    function().arguments.push_back({plan::ArgumentKind::expr, ir::DType::i64, count.index, 0});
    function().arguments.push_back({plan::ArgumentKind::host_value, ir::DType::f32, host_value, 0});
    step.launches = {at(function().launches), 1};
    plan::LaunchRule rule;
    ir::ExprId one = plan.exprs.constant(1), block = plan.exprs.constant(32);
    rule.grid = {plan.exprs.ceildiv(count, block), one, one};
    rule.block = {block, one, one};
    function().launches.push_back(rule);
    step.accesses = {at(function().accesses), 2};
    function().accesses.push_back({to, ir::Access::out});
    function().accesses.push_back({from, ir::Access::in});
    function().steps.push_back(step);
  }

  /// All steps so far as one region, in a chain.
  void region() {
    plan::Region region;
    region.name = "main.0";
    auto count_of = static_cast<uint32_t>(function().steps.size());
    region.steps = {0, count_of};
    for (uint32_t i = 1; i < count_of; ++i)
      region.edges.push_back({i - 1, i});
    region.key = {n};
    for (uint32_t i = 0; i < function().slots.size(); ++i)
      region.slots.push_back(i);
    region.host_values = {0};
    function().regions.push_back(region);
    plan::Item item;
    item.kind = plan::ItemKind::region;
    function().blocks[0].items.push_back(item);
  }

  static plan::Plan chain(int steps, int64_t upper = 64) {
    PlanMaker maker(upper);
    uint32_t last = maker.tensor_param("x"), a = maker.float_param("a");
    uint32_t y = maker.result();
    for (int i = 0; i < steps; ++i) {
      uint32_t to = i + 1 == steps ? y : maker.arena_tensor();
      maker.step(last, to, a);
      last = to;
    }
    maker.region();
    return std::move(maker.plan);
  }

  plan::Plan plan;
  ir::SymbolId n;
  ir::ExprId width, count, bytes;
  int64_t upper_bytes;
};

/// A device on the fake driver, which executes "add_entry".
class TestDevice {
public:
  explicit TestDevice(FakeDriver::Options options = {}) : fake(options) {
    // %d3: the thread's number; %d4: how many there are.
    const std::string thread = "mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x;\n"
                               "mad.lo.u32 %r3, %r0, %r1, %r2; cvt.u64.u32 %d3, %r3;\n"
                               "mov.u32 %r4, %nctaid.x; mul.wide.u32 %d4, %r4, %r1;\n";
    fake.define_kernel("add_entry", {8, 8, 8, 4}, thread + R"(
      ld.param.u64 %d0, [p0]; ld.param.u64 %d1, [p1]; ld.param.u64 %d2, [p2];
      setp.ge.s64 %p0, %d3, %d2;
      @%p0 ret;
      shl.b64 %d3, %d3, 2; add.u64 %d0, %d0, %d3; add.u64 %d1, %d1, %d3;
      ld.param.f32 %f0, [p3]; ld.global.f32 %f1, [%d0]; add.f32 %f1, %f1, %f0;
      st.global.f32 [%d1], %f1;
    )");
    fake.define_kernel("transfer_copy", {8, 8, 8}, thread + R"(
      ld.param.u64 %d0, [p0]; ld.param.u64 %d1, [p1]; ld.param.u64 %d2, [p2];
    NEXT:
      setp.ge.u64 %p0, %d3, %d2;
      @%p0 ret;
      add.u64 %d5, %d1, %d3; ld.global.u8 %r5, [%d5];
      add.u64 %d6, %d0, %d3; st.global.u8 [%d6], %r5;
      add.u64 %d3, %d3, %d4;
      bra NEXT;
    )");
    fake.define_kernel("transfer_fill", {8, 8, 4}, "trap;\n"); // no plan has one of a changing size
  }

  std::shared_ptr<runtime::Device> open(const std::string &cache_folder = "off") {
    runtime::DeviceOptions options;
    options.cache_folder = cache_folder;
    return must(runtime::Device::open(must(driver::make_driver(fake.api())), options));
  }

  /// Code comes as an override, so that nothing is compiled.
  static Result<std::shared_ptr<const runtime::Executable>> compile(runtime::Device &device,
                                                                    plan::Plan plan) {
    runtime::CompileOptions options;
    options.overrides["add"] = {CUGRT_CODE_CUBIN, "cubin"};
    return runtime::compile_executable(device, std::move(plan), "test.cugrt", "", options);
  }

  FakeDriver fake;
};

} // namespace cugrt::test
