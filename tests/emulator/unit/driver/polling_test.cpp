// Blocks that wait for others of their grid, which only a cooperative launch has at once.
#include "emulator/unit/driver/session.h"

namespace {

// A thread a block. cells[0] gives tickets; cells[1 + i] is what block, or ticket, i has written.
// `ahead`: each waits for the next block, the last for nobody. `behind`: each waits for the ticket
// before its own, which a block has that has begun. `lock`: each takes the lock in cells[1] while
// it adds to cells[2], and reads until it is free. `asks`: as ahead, by atomic operations.
/// A kernel whose blocks wait at `wait` for their turn in %d3, unless `first` leaves %p1 set.
std::string turn_kernel(const char *name, const char *first, const char *wait, const char *write) {
  return std::string(".visible .entry ") + name + R"((.param .u64 cells)
{
  .reg .pred %p<3>;
  .reg .b32 %r<6>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [cells];
)" + first +
         R"(  @%p1 bra WRITE;
WAIT:
  )" + wait +
         R"(
  setp.eq.u32 %p2, %r3, 0;
  @%p2 bra WAIT;
WRITE:
  )" + write +
         R"(
  ret;
}
)";
}

constexpr char kByPlace[] = R"(  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %nctaid.x;
  mul.wide.u32 %d2, %r1, 4;
  add.u64 %d3, %d1, %d2;
  sub.u32 %r2, %r2, 1;
  setp.eq.u32 %p1, %r1, %r2;
)";
constexpr char kByTicket[] = R"(  atom.add.u32 %r1, [%d1], 1;
  mul.wide.u32 %d2, %r1, 4;
  add.u64 %d3, %d1, %d2;
  setp.eq.u32 %p1, %r1, 0;
)";

const std::string kPollingPtx =
    PTX_HEAD "\n" +
    turn_kernel("ahead", kByPlace, "ld.acquire.gpu.u32 %r3, [%d3+8];",
                "st.release.gpu.u32 [%d3+4], 1;") +
    turn_kernel("behind", kByTicket, "ld.acquire.gpu.u32 %r3, [%d3];",
                "st.release.gpu.u32 [%d3+4], 1;") +
    R"(.visible .entry lock(.param .u64 cells)
{
  .reg .pred %p<3>;
  .reg .b32 %r<6>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [cells];
WAIT:
  ld.volatile.u32 %r1, [%d1+4];
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra WAIT;
  atom.acquire.gpu.cas.b32 %r2, [%d1+4], 0, 1;
  setp.ne.u32 %p2, %r2, 0;
  @%p2 bra WAIT;
  ld.u32 %r3, [%d1+8];
  add.u32 %r3, %r3, 1;
  st.u32 [%d1+8], %r3;
  atom.release.gpu.exch.b32 %r2, [%d1+4], 0;
  ret;
}
)" +
    turn_kernel("asks", kByPlace, "atom.or.b32 %r3, [%d3+8], 0;", "atom.exch.b32 %r4, [%d3+4], 1;");

constexpr uint32_t kBlocks = 5;

std::string found_in(const char *name, const std::string &order, bool cooperative) {
  Session session{"CUGRT_EMU_CHECK=polling", "CUGRT_EMU_ORDER=" + order};
  CUmodule module = MADE(cuModuleLoadData, kPollingPtx.c_str());
  CUdeviceptr cells = upload(std::vector<uint32_t>(kBlocks + 2));
  void *params[] = {&cells};
  if (cooperative)
    OK(CU(cuLaunchCooperativeKernel)(kernel(module, name), kBlocks, 1, 1, 1, 1, 1, 0, nullptr,
                                     params));
  else
    OK(CU(cuLaunchKernel)(kernel(module, name), kBlocks, 1, 1, 1, 1, 1, 0, nullptr, params,
                          nullptr));
  OK(CU(cuCtxSynchronize)());
  const auto left = download<uint32_t>(cells, kBlocks + 1);
  if (std::string(name) == "lock")
    CHECK(left[2] == kBlocks);
  else
    CHECK(std::vector<uint32_t>(left.begin() + 1, left.end()) == std::vector<uint32_t>(kBlocks, 1));
  return findings();
}

// A block reads what the block before wrote, one more is its own, and a flag tells the next one.
std::string chain_ptx(const std::string &wait, const std::string &write) {
  return PTX_HEAD R"(.visible .entry chain(.param .u64 cells)
{
  .reg .pred %p<3>;
  .reg .b32 %r<6>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [cells];
  mov.u32 %r1, %ctaid.x;
  mul.wide.u32 %d2, %r1, 8;
  add.u64 %d3, %d1, %d2;
  mov.u32 %r4, 0;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra WRITE;
WAIT:
)" + wait +
         R"(
  ld.u32 %r4, [%d3+56];
WRITE:
  add.u32 %r4, %r4, 1;
)" + write +
         R"(
  ret;
}
)";
}

std::string found_in_chain(const std::string &order, const std::string &wait,
                           const std::string &write, bool is_right) {
  constexpr uint32_t kFirst = 16; // values stand behind flags
  Session session{"CUGRT_EMU_CHECK=race", "CUGRT_EMU_ORDER=" + order};
  CUmodule module = MADE(cuModuleLoadData, chain_ptx(wait, write).c_str());
  CUdeviceptr cells = upload(std::vector<uint32_t>(2 * kFirst));
  void *params[] = {&cells};
  OK(CU(cuLaunchCooperativeKernel)(kernel(module, "chain"), kBlocks, 1, 1, 1, 1, 1, 0, nullptr,
                                   params));
  OK(CU(cuCtxSynchronize)());
  for (uint32_t i = 0; i < kBlocks && is_right; ++i)
    CHECK(download<uint32_t>(cells, 2 * kFirst)[kFirst + 2 * i] == i + 1);
  return findings();
}

} // namespace

TEST_CASE(
    "A block that waits for one that has not begun is told, unless the launch is cooperative") {
  for (const char *order : {"", "1", "2", "3"}) {
    INFO("order " << order);
    const std::string found = found_in("ahead", order, false);
    CHECK(found.find("polling: kernel ahead, block (") == 0);
    CHECK(found.find("which has not begun") != std::string::npos);
    CHECK(found.find('\n') == found.size() - 1);
    CHECK(found_in("ahead", order, true).empty());
  }
}

TEST_CASE("Who waits for blocks that have begun, or takes a lock, is not told") {
  for (const char *order : {"", "1", "2", "3"})
    for (const char *name : {"behind", "lock"}) {
      INFO(name << ", order " << order);
      CHECK(found_in(name, order, false).empty());
    }
  // An order may draw very many turns for one block before the next begins: not every seed is
  // short.
  for (const char *order : {"", "2"}) {
    INFO("order " << order);
    CHECK(found_in("asks", order, false).empty());
  }
}

TEST_CASE("Blocks that wait for the host are not told, whoever else begins meanwhile") {
  Session session{"CUGRT_EMU_CHECK=polling"};
  CUmodule module = MADE(cuModuleLoadData, kPollingPtx.c_str());
  void *pinned = MADE(cuMemHostAlloc, (kBlocks + 2) * 4, 0);
  auto *cells = static_cast<uint32_t *>(pinned);
  std::fill(cells, cells + kBlocks + 2, 0u);
  cells[1] = 1; // the lock is taken: by the host
  CUdeviceptr address = CUdeviceptr(uintptr_t(pinned));
  launch_kernel(kernel(module, "lock"), kBlocks, 1, nullptr, address);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  __atomic_store_n(cells + 1, 0u, __ATOMIC_SEQ_CST);
  OK(CU(cuCtxSynchronize)());
  CHECK(cells[2] == kBlocks);
  CHECK(findings().empty());
  OK(CU(cuMemFreeHost)(pinned));
}

TEST_CASE("Blocks of a cooperative grid that touch the same bytes without order are told") {
  const std::string wait = "ld.acquire.gpu.u32 %r3, [%d3+-8];\nsetp.eq.u32 %p2, %r3, 0;\n"
                           "@%p2 bra WAIT;";
  const std::string write = "st.u32 [%d3+64], %r4;\nst.release.gpu.u32 [%d3], 1;";
  for (const char *order : {"", "1", "2", "3"}) {
    INFO("order " << order);
    CHECK(found_in_chain(order, wait, write, true).empty());
    const std::string found = found_in_chain(order, "", write, false);
    CHECK(found.find("race: ") == 0);
    CHECK(found.find("of the same cooperative grid") != std::string::npos);
    CHECK(found.find('\n') == found.size() - 1);
    // All write one word, each behind the one before; each at once.
    const std::string one = "st.u32 [%d1+120], %r4;\n" + write;
    CHECK(found_in_chain(order, wait, one, true).empty());
    CHECK(found_in_chain(order, "mov.u32 %r3, 0;\nbra WRITE;", one, false).find("write") == 6);
  }
}
