// Memory of sessions; see arena.h.
#include "device/context/arena.h"

#include "base/checked_math.h"
#include "device/context/abi_types.h"

#include <algorithm>

namespace cugrt::runtime {

// Devices map this many bytes at a time; a reservation of less gains nothing.
constexpr uint64_t kSmallArenaBytes = uint64_t(2) << 20;

Result<MemoryBlock> MemoryBlock::allocate(const driver::Context &context,
                                          const cugrt_allocator *allocator, uint64_t bytes,
                                          BudgetCharge charge) {
  MemoryBlock block;
  CUGRT_TRY(charge.raise_to(bytes));
  block.charge_ = std::move(charge);
  if (!allocator) {
    CUGRT_ASSIGN(block.buffer_, driver::DeviceBuffer::allocate(context, bytes));
    return block;
  }
  if (bytes == 0)
    return block;
  uint64_t address = 0;
  CUGRT_TRY(call_back("the caller's allocator",
                      [&] { address = allocator->allocate(allocator->user, bytes); }));
  if (address == 0)
    return Status::error(Code::out_of_device_memory, "the caller's allocator has no memory of " +
                                                         std::to_string(bytes) + " bytes");
  block.allocator_ = allocator;
  block.address_ = address;
  block.bytes_ = bytes;
  if (address % plan::kArenaAlignment != 0)
    return Status::error(Code::invalid_argument, "the caller's allocator returned address " +
                                                     std::to_string(address) +
                                                     ", which is not a multiple of " +
                                                     std::to_string(plan::kArenaAlignment));
  return block;
}

MemoryBlock::MemoryBlock(MemoryBlock &&other) noexcept
    : charge_(std::move(other.charge_)), buffer_(std::move(other.buffer_)),
      allocator_(std::exchange(other.allocator_, nullptr)),
      address_(std::exchange(other.address_, 0)), bytes_(std::exchange(other.bytes_, 0)) {}

MemoryBlock &MemoryBlock::operator=(MemoryBlock &&other) noexcept {
  if (this != &other) {
    release();
    buffer_ = std::move(other.buffer_);
    charge_ = std::move(other.charge_);
    allocator_ = std::exchange(other.allocator_, nullptr);
    address_ = std::exchange(other.address_, 0);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void MemoryBlock::release() noexcept {
  if (allocator_)
    allocator_->free(allocator_->user, address_, bytes_);
  allocator_ = nullptr;
}

Result<ArenaMemory> ArenaMemory::make(const driver::Context &context,
                                      const cugrt_allocator *allocator, uint64_t bytes,
                                      std::shared_ptr<MemoryBudget> budget) {
  ArenaMemory arena = shared(0, std::move(budget));
  arena.bytes_ = bytes;
  if (allocator || arena.is_small()) {
    CUGRT_ASSIGN(arena.block_,
                 MemoryBlock::allocate(context, allocator, bytes, arena.new_charge()));
    return arena;
  }
  CUGRT_TRY(arena.reserve(context, kSmallArenaBytes));
  if (arena.range_.address() && arena.range_.granularity_bytes() >= bytes) {
    arena.range_ = {}; // one page
    CUGRT_ASSIGN(arena.block_, MemoryBlock::allocate(context, nullptr, bytes, arena.new_charge()));
  }
  return arena;
}

ArenaMemory ArenaMemory::shared(uint64_t reserved_bytes, std::shared_ptr<MemoryBudget> budget) {
  ArenaMemory arena;
  arena.reserved_bytes_ = reserved_bytes;
  arena.budget_ = std::move(budget);
  arena.charge_ = arena.new_charge();
  return arena;
}

bool ArenaMemory::is_small() const { return bytes_ <= kSmallArenaBytes; }

Status ArenaMemory::commit(uint64_t bytes) {
  if (!range_.address() || bytes <= range_.committed_bytes())
    return {};
  if (budget_)
    CUGRT_TRY(charge_.raise_to(range_.committed_for(bytes)));
  Status status = range_.commit(bytes);
  charge_.lower_to(range_.committed_bytes());
  return status;
}

/// Reserves all addresses, or half as many as often as there are none, but at least `least`;
/// reserves none if the device has none.
Status ArenaMemory::reserve(const driver::Context &context, uint64_t least) {
  CUGRT_ASSIGN(bool available, driver::VirtualRange::available(context));
  for (uint64_t bytes = std::max(bytes_, reserved_bytes_); available && bytes >= least; bytes /= 2)
    if (auto range = driver::VirtualRange::reserve(context, bytes); range.ok()) {
      range_ = std::move(*range);
      return {};
    }
  return {}; // memory may still be had
}

Status ArenaMemory::move(const driver::Context &context, uint64_t bytes) {
  const uint64_t twice = std::min(bytes_, std::max(bytes, 2 * capacity_bytes()));
  range_ = {};
  charge_.lower_to(0);
  block_ = {};
  if (!is_small()) {
    CUGRT_TRY(reserve(context, bytes));
    if (range_.address())
      return {};
  }
  auto block = MemoryBlock::allocate(context, nullptr, twice, new_charge());
  if (!block.ok() && block.status().code() == Code::out_of_device_memory)
    block = MemoryBlock::allocate(context, nullptr, bytes, new_charge());
  CUGRT_ASSIGN(block_, std::move(block));
  return {};
}

uint64_t ArenaMemory::committed_bytes() const {
  return range_.address() ? range_.committed_bytes() : block_.size_bytes();
}

bool ArenaNeeds::cover(const RunBinding &run) {
  bool covered = !highest_.empty() || !bytes_.empty();
  if (!boxes_) {
    boxes_ = plan::boxes_of(run.plan.exprs, run.function);
    seen_.assign(boxes_->count(), boxes_->count() == 1);
  }
  if (boxes_->count() > 1)
    if (auto box = boxes_->find(run.symbols); box && !seen_[*box]) {
      seen_[*box] = true;
      covered = false;
    }
  highest_.resize(run.symbols.size(), INT64_MIN);
  for (size_t i = 0; i < highest_.size(); ++i) {
    if (run.symbols[i] <= highest_[i])
      continue;
    // Covers a little more than the run needs, so that a slow climb is not measured at every step.
    int64_t upper = run.function.symbols[i].bounds.upper;
    int64_t more = highest_[i] > 0 ? checked_add(highest_[i], highest_[i] / 4).value_or(upper) : 0;
    highest_[i] = std::max(run.symbols[i], std::min(more, upper));
    covered = false;
  }
  if (!covered)
    measure(run);
  return !covered;
}

void ArenaNeeds::measure(const RunBinding &run) {
  bytes_.assign(run.plan.arenas.size(), 0);
  for (size_t box = 0; box < boxes_->count(); ++box)
    if (seen_[box])
      measure_within(run, (*boxes_)[box]);
}

void ArenaNeeds::measure_within(const RunBinding &run, const ir::Domain &domain) {
  const plan::Plan &plan = run.plan;
  std::vector<ir::Interval> bounds(domain.box.begin(), domain.box.end());
  for (size_t i = 0; i < highest_.size(); ++i)
    if (run.function.symbols[i].source != ir::SymbolSource::device)
      bounds[i].upper = std::clamp(highest_[i], bounds[i].lower, bounds[i].upper);
  auto upper = [&](ExprId expr) {
    return expr.valid() ? plan.exprs.range(expr, {bounds, domain.limits}).upper : 0;
  };
  for (const plan::Buffer &buffer : run.function.buffers) {
    if (buffer.base != plan::BufferBase::arena)
      continue;
    int64_t whole = plan.arenas[buffer.index].bytes;
    int64_t end = whole;
    if (buffer.bytes.valid()) {
      int64_t bytes = upper(buffer.bytes);
      if (bytes <= 0)
        continue; // wherever it lies
      end = std::clamp<int64_t>(checked_add(upper(buffer.offset_bytes), bytes).value_or(whole), 0,
                                whole);
    }
    bytes_[buffer.index] = std::max(bytes_[buffer.index], static_cast<uint64_t>(end));
  }
}

} // namespace cugrt::runtime
