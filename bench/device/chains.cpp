// Chains of kernel nodes in one graph, by the kind of their edges, with and without rings of words
// that are fetched ahead, and with cooperative nodes among them.
#include "bench/device/device_bench.h"
#include "bench/device/device_sources.h"

namespace cugrt::bench {
namespace {

constexpr uint32_t kRingPiece = 16;                     // bytes
constexpr uint32_t kAfterWait = 1, kRingBehindWait = 2; // flags of link_programmatic
constexpr uint32_t kCooperativeEvery = 4;

/// What a chain is made of.
struct Chain {
  bool programmatic = false; // edges between nodes that are not cooperative
  uint32_t flags = 0;        // of link_programmatic
  bool ring = false;
  bool cooperative = false;                 // every fourth node
  bool programmatic_at_cooperative = false; // into them and out of them
};

/// Bytes of a block, of which two fit a multiprocessor: 100 KiB where it has that.
Result<uint32_t> ring_bytes(const DeviceBench &bench) {
  constexpr uint32_t kMost = 100 << 10, kReserved = 1 << 10, kStep = kThreads * kRingPiece;
  CUGRT_ASSIGN(const int shared,
               bench.context().attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR));
  return std::min(kMost, uint32_t(shared) / 2 - kReserved) / kStep * kStep;
}

/// The graph of a chain and what its nodes use.
struct ChainGraph {
  driver::Graph graph;
  driver::GraphExec instance;
  SharedBuffer cells, state; // two rows of a word a block; counter and flag
  uint32_t nodes = 0, grid = 0, ring = 0;
};

class ChainMaker {
public:
  ChainMaker(DeviceBench &bench, const Chain &chain) : bench_(bench), chain_(chain) {}

  Result<std::shared_ptr<ChainGraph>> make() {
    made_->nodes = bench_.size(200u, 8u);
    made_->grid = bench_.blocks();
    if (chain_.ring) {
      CUGRT_ASSIGN(made_->ring, ring_bytes(bench_));
    }
    if (chain_.programmatic || chain_.programmatic_at_cooperative)
      CUGRT_TRY(bench_.require(90, "programmatic edges"));
    CUGRT_ASSIGN(words_, bench_.words());
    CUGRT_ASSIGN(made_->cells, bench_.zeros(8ull * made_->grid));
    CUGRT_ASSIGN(made_->state, bench_.zeros(8));
    CUGRT_ASSIGN(link_,
                 bench_.kernel(kChainSource, chain_.programmatic ? "link_programmatic" : "link"));
    CUGRT_TRY(link_.allow_dynamic_shared(made_->ring));
    if (chain_.cooperative) {
      CUGRT_ASSIGN(meeting_, bench_.kernel(kChainSource, "link_cooperative"));
    }
    CUGRT_ASSIGN(made_->graph, driver::Graph::create(bench_.context()));
    driver::GraphNode last = nullptr;
    bool was_cooperative = false;
    for (uint32_t i = 0; i < made_->nodes; ++i) {
      const bool is_cooperative =
          chain_.cooperative && i % kCooperativeEvery == kCooperativeEvery - 1;
      const bool early = is_cooperative || was_cooperative ? chain_.programmatic_at_cooperative
                                                           : chain_.programmatic;
      CUGRT_ASSIGN(last, add(i, is_cooperative, early, last));
      was_cooperative = is_cooperative;
    }
    CUGRT_ASSIGN(made_->instance, driver::GraphExec::instantiate(made_->graph.ref(), "chain"));
    CUGRT_TRY(made_->instance.upload(bench_.stream()));
    return made_;
  }

private:
  Result<driver::GraphNode> add(uint32_t node, bool is_cooperative, bool early,
                                driver::GraphNode last) {
    const uint64_t row = 4ull * made_->grid, cells = made_->cells->address();
    const uint64_t x = cells + node % 2 * row, y = cells + (node + 1) % 2 * row;
    const uint64_t count = made_->state->address(), bad = count + 4;
    const uint64_t pieces = bench_.word_count() / 4;
    Packed plain(x, y, words_->address(), pieces, node, made_->ring / kThreads / kRingPiece, bad,
                 chain_.flags);
    Packed meeting(x, y, count, bad, uint32_t(chain_.programmatic_at_cooperative));
    const CUlaunchAttribute attribute = cooperative_launch();
    driver::LaunchParams params;
    params.function = (is_cooperative ? meeting_ : link_).get();
    params.grid.x = made_->grid;
    params.block.x = kThreads;
    params.dynamic_shared_bytes = is_cooperative ? 0 : made_->ring;
    params.arguments = is_cooperative ? meeting.pointers.data() : plain.pointers.data();
    if (is_cooperative)
      params.attributes = {&attribute, 1};
    const driver::GraphRef graph = made_->graph.ref();
    const driver::Dependencies after =
        last && !early ? driver::Dependencies(&last, 1) : driver::Dependencies();
    CUGRT_ASSIGN(const driver::GraphNode added, graph.add_kernel(params, after, "link"));
    if (last && early)
      CUGRT_TRY(graph.add_programmatic_edges({&last, 1}, added));
    return added;
  }

  DeviceBench &bench_;
  const Chain chain_;
  std::shared_ptr<ChainGraph> made_ = std::make_shared<ChainGraph>();
  const driver::DeviceBuffer *words_ = nullptr;
  driver::Kernel link_, meeting_;
};

Result<DeviceWork> chain_work(DeviceBench &bench, const Chain &chain) {
  CUGRT_ASSIGN(const std::shared_ptr<ChainGraph> made, ChainMaker(bench, chain).make());
  DeviceWork work;
  work.count = made->nodes;
  work.bytes = double(made->nodes) * made->grid * made->ring;
  work.enqueue = [&bench, made] { return made->instance.launch(bench.stream(), "chain"); };
  work.check = [&bench, made]() -> Result<std::string> {
    CUGRT_ASSIGN(const std::vector<uint32_t> cells, bench.read(*made->cells, 2 * made->grid));
    CUGRT_ASSIGN(const std::vector<uint32_t> state, bench.read(*made->state, 2));
    for (uint32_t block = 0; block < made->grid; ++block) {
      const uint32_t got = cells[made->nodes % 2 * made->grid + block];
      if (got != made->nodes)
        return "block " + std::to_string(block) + " counts " + std::to_string(got) +
               " nodes, not " + std::to_string(made->nodes);
    }
    return state[1] ? "a ring had other words, or a barrier was given up" : std::string();
  };
  return work;
}

template <Chain kChain> Result<DeviceWork> chain(DeviceBench &bench) {
  return chain_work(bench, kChain);
}

constexpr Chain kPlain{}, kProgrammatic{.programmatic = true},
    kProgrammaticLate{.programmatic = true, .flags = kAfterWait}, kPlainRing{.ring = true},
    kRing{.programmatic = true, .ring = true},
    kRingLate{.programmatic = true, .flags = kAfterWait, .ring = true},
    kRingBehind{.programmatic = true, .flags = kAfterWait | kRingBehindWait, .ring = true},
    kCooperative{.cooperative = true}, kBeside{.programmatic = true, .cooperative = true},
    kInto{.programmatic = true, .cooperative = true, .programmatic_at_cooperative = true};

/// Blocks that meet `steps` times in one cooperative launch.
Result<DeviceWork> barriers(DeviceBench &bench) {
  const uint32_t steps = bench.size(1000u, 5u), grid = bench.blocks();
  CUGRT_ASSIGN(const driver::Kernel kernel, bench.kernel(kChainSource, "barriers"));
  CUGRT_ASSIGN(const SharedBuffer met, bench.zeros(4ull * grid));
  CUGRT_ASSIGN(const SharedBuffer state, bench.zeros(8));
  DeviceWork work;
  work.count = steps;
  work.enqueue = [&bench, kernel, met, state, steps, grid] {
    const CUlaunchAttribute attribute = cooperative_launch();
    Packed arguments(met->address(), state->address(), state->address() + 4, steps);
    return bench.launch(kernel, grid, kThreads, arguments.pointers.data(), {&attribute, 1});
  };
  work.check = [&bench, met, steps, grid]() -> Result<std::string> {
    CUGRT_ASSIGN(const std::vector<uint32_t> got, bench.read(*met, grid));
    for (const uint32_t count : got)
      if (count != steps)
        return "a block met the others " + std::to_string(count) + " times, not " +
               std::to_string(steps);
    return std::string();
  };
  return work;
}

constexpr DeviceCase kChains[] = {
    {1, "chain_plain", chain<kPlain>},
    {1, "chain_programmatic", chain<kProgrammatic>},
    {1, "chain_programmatic_trigger_after_wait", chain<kProgrammaticLate>},
    {1, "chain_plain_ring", chain<kPlainRing>},
    {1, "chain_programmatic_ring", chain<kRing>},
    {1, "chain_programmatic_ring_trigger_after_wait", chain<kRingLate>},
    {1, "chain_programmatic_ring_behind_wait", chain<kRingBehind>},
    {1, "chain_cooperative", chain<kCooperative>},
    {1, "chain_cooperative_beside_programmatic", chain<kBeside>},
    {1, "grid_barrier", barriers},
    {1, "chain_cooperative_programmatic", chain<kInto>},
};

} // namespace

std::span<const DeviceCase> chain_cases() { return kChains; }

} // namespace cugrt::bench
