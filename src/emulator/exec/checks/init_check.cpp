// Memory, uses and calls of the check of uninitialised reads; see init_check.h.
#include "emulator/exec/checks/init_check.h"

#include "base/whole_number.h"
#include "emulator/exec/checks/access_rows.h"
#include "emulator/exec/memory.h"
#include "emulator/exec/units/cluster.h"

#include <algorithm>

namespace cugrt::emulator {

InitCheck::InitCheck(UndefinedBytes &memory, const Launch &launch, uint32_t warps)
    : memory_(memory), launch_(launch), local_bytes_(launch.local_stride * kLanes),
      shared_(launch.shared_bytes), local_(local_bytes_ * warps) {}

void InitCheck::begin_block() {
  std::fill(shared_.begin(), shared_.end(), kUndefined);
  std::fill(local_.begin(), local_.end(), kUndefined);
  origins_.assign(1, Origin{});
  calls_.clear();
  result_count_ = 0;
}

const OpLocation *InitCheck::location(const Warp &w, const Op *op) const {
  return &w.current->code->locations[size_t(op - w.current->code->ops.data())];
}

/// States of shared and local memory; null if the access is out of bounds, a fault of its own.
InitCheck::ByteState *InitCheck::states(const Warp &w, uint32_t lane, ptx::Space space,
                                        uint64_t address, uint32_t bytes) {
  bool is_shared = space == ptx::Space::shared;
  if (is_shared)
    if (const Block *owner = owner_of(w, address); owner && owner != w.block)
      return owner->init->states(*owner->warps[0], lane, space, address, bytes);
  uint64_t limit = is_shared ? shared_.size() : w.local_stride;
  if ((!is_shared && space != ptx::Space::local) || bytes > limit || address > limit - bytes)
    return nullptr;
  return is_shared ? &shared_[address]
                   : &local_[w.index * local_bytes_ + lane * w.local_stride + address];
}

InitCheck::Loaded InitCheck::loaded(const Warp &w, uint32_t lane, ptx::Space space,
                                    uint64_t address, uint32_t bytes) {
  Loaded result;
  if (space == ptx::Space::global) {
    if (w.memory->owns(address))
      result.undefined = uint32_t(memory_.undefined(address, bytes));
    return result;
  }
  if (const ByteState *state = states(w, lane, space, address, bytes))
    for (uint32_t i = 0; i < bytes; ++i) {
      result.undefined |= uint32_t(state[i] != kDefined) << i;
      result.computed |= state[i] == kComputed;
    }
  return result;
}

void InitCheck::stored(const Warp &w, uint32_t lane, ptx::Space space, uint64_t address,
                       uint32_t bytes, Loaded what) {
  if (space == ptx::Space::global) {
    if (!w.memory->owns(address))
      return;
    for (uint32_t i = 0; what.undefined && i < bytes; ++i)
      if (what.undefined >> i & 1)
        memory_.mark_undefined(address + i, 1);
      else
        memory_.mark_defined(address + i, 1);
    if (!what.undefined)
      memory_.mark_defined(address, bytes);
    return;
  }
  if (ByteState *state = states(w, lane, space, address, bytes))
    for (uint32_t i = 0; i < bytes; ++i)
      state[i] = !(what.undefined >> i & 1) ? kDefined : what.computed ? kComputed : kUndefined;
}

uint32_t InitCheck::new_origin(const Warp &w, const Op *op, ptx::Space space, uint64_t address) {
  if (origins_.size() >= kMaxOrigins)
    return 0;
  origins_.push_back({location(w, op), space, address});
  return uint32_t(origins_.size() - 1);
}

void InitCheck::use(Warp &w, const Op *op, uint32_t lane, uint32_t index, std::string_view what) {
  const OpLocation *at = location(w, op);
  std::string place = location_text(launch_, *at);
  std::string site = w.current->code->name + " " + place + " " + std::string(what);
  const Origin &origin = origins_[index];
  std::string text = std::string(what) + " bytes that nothing has written";
  if (origin.at) {
    text +=
        ": " + std::string(ptx::space_name(origin.space)) + " address " + hex_text(origin.address);
    if (origin.space == ptx::Space::global)
      if (auto range = w.memory->find(origin.address, 1))
        text += " (byte " + std::to_string(origin.address - range->begin) +
                " of an allocation of " + std::to_string(range->bytes) + ")";
    text += ", read at " + location_text(launch_, *origin.at);
  }
  text += "; in " + block_text(*w.block) + ", " + thread_text(*w.block, w.index, lane) + ", at " +
          place;
  (*launch_.config->report_uninitialized)(site, text);
}

void InitCheck::use_cell(Warp &w, const Op *op, uint32_t lanes, uint32_t cell,
                         std::string_view what) {
  const Taint *found = taint(w.current, cell);
  if (!found || !(found->lanes & lanes))
    return;
  auto lane = uint32_t(__builtin_ctz(found->lanes & lanes));
  use(w, op, lane, found->origin[lane], what);
  calls_.at(w.current).at(cell).lanes &= ~lanes;
}

void InitCheck::check_addresses(Warp &w, const Op *op, uint32_t lanes, uint32_t cell) {
  use_cell(w, op, lanes, cell, "an address is computed from");
}

void InitCheck::load(Warp &w, const Op *op, uint32_t lanes) {
  check_addresses(w, op, lanes, op->a);
  const AccessRow &row = access_row(op);
  uint64_t addresses[kLanes];
  effective_addresses(op, w, addresses);
  const uint32_t cells[] = {op->d, op->b, op->c, op->e};
  for (uint32_t n = 0; n < row.count; ++n)
    result(cells[n], lanes);
  for (uint32_t i : lanes_of(lanes)) {
    ptx::Space space = resolve(row.space, addresses[i]);
    Loaded what = loaded(w, i, space, addresses[i], row.bytes * row.count);
    if (!what.undefined)
      continue;
    uint32_t origin =
        new_origin(w, op, space, addresses[i] + uint32_t(__builtin_ctz(what.undefined)));
    for (uint32_t n = 0; n < row.count; ++n) {
      uint64_t bits = 0;
      for (uint32_t b = 0; b < row.bytes; ++b)
        if (what.undefined >> (n * row.bytes + b) & 1)
          bits |= uint64_t(0xff) << (8 * b);
      if (!bits)
        continue;
      if (row.is_signed && row.bytes < 4 && bits >> (8 * row.bytes - 1))
        bits |= ~uint64_t(0) << (8 * row.bytes) & 0xffffffff;
      results_[n].taint.add(i, bits, origin, what.computed);
    }
  }
}

void InitCheck::store(Warp &w, const Op *op, uint32_t lanes) {
  check_addresses(w, op, lanes, op->a);
  const AccessRow &row = access_row(op);
  uint64_t addresses[kLanes];
  effective_addresses(op, w, addresses);
  const uint32_t cells[] = {op->d, op->b, op->c, op->e};
  const Taint *values[4];
  for (uint32_t n = 0; n < row.count; ++n)
    values[n] = taint(w.current, cells[n]);
  for (uint32_t i : lanes_of(lanes)) {
    Loaded what;
    uint32_t origin = 0;
    for (uint32_t n = 0; n < row.count; ++n) {
      if (!values[n] || !(values[n]->lanes >> i & 1))
        continue;
      for (uint32_t b = 0; b < row.bytes; ++b)
        what.undefined |= uint32_t((values[n]->bits[i] >> (8 * b) & 0xff) != 0)
                          << (n * row.bytes + b);
      if (values[n]->computed >> i & 1) {
        what.computed = true;
        origin = values[n]->origin[i];
      }
    }
    ptx::Space space = resolve(row.space, addresses[i]);
    if (what.undefined && what.computed && space == ptx::Space::global) {
      use(w, op, i, origin, "a value that is stored to global memory is computed from");
      what = {};
    }
    stored(w, i, space, addresses[i], row.bytes * row.count, what);
  }
}

// An exchange moves bytes; all other atomics depend on the old ones.
void InitCheck::atomic(Warp &w, const Op *op, uint32_t lanes) {
  constexpr std::string_view kWhat = "an atomic operation uses";
  check_addresses(w, op, lanes, op->a);
  use_cell(w, op, lanes, op->b, kWhat);
  use_cell(w, op, lanes, op->c, kWhat);
  const AccessRow &row = access_row(op);
  const bool begins = OpId(op->id) == OpId::mbarrier_init;
  bool moves = OpId(op->id) == OpId::atom_exch_32 || OpId(op->id) == OpId::atom_exch_64;
  uint64_t addresses[kLanes];
  effective_addresses(op, w, addresses);
  result(op->d, lanes);
  for (uint32_t i : lanes_of(lanes)) {
    ptx::Space space = resolve(ptx::Space(op->space()), addresses[i]);
    Loaded what = loaded(w, i, space, addresses[i], row.bytes);
    stored(w, i, space, addresses[i], row.bytes, {});
    if (!what.undefined || begins)
      continue;
    uint32_t origin =
        new_origin(w, op, space, addresses[i] + uint32_t(__builtin_ctz(what.undefined)));
    if (!moves) {
      use(w, op, i, origin, kWhat);
      continue;
    }
    results_[0].taint.add(i, ~uint64_t(0), origin, false);
  }
}

// As exec/units/matrix.cpp loads: a lane gets two neighbouring elements of each matrix.
void InitCheck::matrix_load(Warp &w, const Op *op, uint32_t lanes) {
  const AccessRow &row = access_row(op);
  uint32_t named = uint32_t((uint64_t(1) << (8 * row.count)) - 1);
  check_addresses(w, op, lanes & named, op->a);
  uint64_t addresses[kLanes];
  effective_addresses(op, w, addresses);
  const uint32_t cells[] = {op->d, op->b, op->c, op->e};
  for (uint32_t m = 0; m < row.count; ++m) {
    Result &out = result(cells[m], lanes);
    for (uint32_t r = 0; r < 8; ++r) {
      uint64_t address = addresses[8 * m + r];
      ptx::Space space = resolve(ptx::Space(op->space()), address);
      Loaded what = loaded(w, 8 * m + r, space, address, 16);
      if (!what.undefined)
        continue;
      uint32_t origin = new_origin(w, op, space, address + uint32_t(__builtin_ctz(what.undefined)));
      for (uint32_t column = 0; column < 8; ++column) {
        if (!(what.undefined >> (2 * column) & 3))
          continue;
        uint32_t major = row.transposed ? column : r, minor = row.transposed ? r : column;
        uint32_t lane = 4 * major + minor / 2;
        if (lanes >> lane & 1)
          out.taint.add(lane, uint64_t(0xffff) << (16 * (minor & 1)), origin, what.computed);
      }
    }
  }
}

void InitCheck::matrix_store(Warp &w, const Op *op, uint32_t lanes) {
  const AccessRow &row = access_row(op);
  check_addresses(w, op, lanes & uint32_t((uint64_t(1) << (8 * row.count)) - 1), op->a);
  uint64_t addresses[kLanes];
  effective_addresses(op, w, addresses);
  const uint32_t cells[] = {op->d, op->b, op->c, op->e};
  for (uint32_t m = 0; m < row.count; ++m) {
    const Taint *values = taint(w.current, cells[m]);
    for (uint32_t r = 0; r < 8; ++r) {
      Loaded what;
      for (uint32_t column = 0; column < 8; ++column) {
        const uint32_t major = row.transposed ? column : r, minor = row.transposed ? r : column;
        const uint32_t lane = 4 * major + minor / 2;
        if (!values || !(values->lanes >> lane & 1) ||
            !(values->bits[lane] >> (16 * (minor & 1)) & 0xffff))
          continue;
        what.undefined |= 3u << (2 * column);
        what.computed |= values->computed >> lane & 1;
      }
      const uint32_t at = 8 * m + r;
      stored(w, at, resolve(ptx::Space(op->space()), addresses[at]), addresses[at], row.bytes,
             what);
    }
  }
}

void InitCheck::before(Warp &w, const Op *op) {
  result_count_ = 0;
  uint32_t lanes = w.mask;
  if (op->inner) {
    if (!calls_.empty())
      use_cell(w, op, lanes, op->guard, "a branch depends on");
    lanes = executing_lanes(op, w);
    if (!lanes)
      return;
  }
  switch (access_row(op).kind) {
  case AccessRow::Kind::load:
    return load(w, op, lanes);
  case AccessRow::Kind::store:
    return store(w, op, lanes);
  case AccessRow::Kind::atomic:
    return atomic(w, op, lanes);
  case AccessRow::Kind::matrix:
    return matrix_load(w, op, lanes);
  case AccessRow::Kind::matrix_store:
    return matrix_store(w, op, lanes);
  case AccessRow::Kind::async_copy:
    check_addresses(w, op, lanes, op->a);
    check_addresses(w, op, lanes, op->d);
    return use_cell(w, op, lanes, op->c, "the length of a copy depends on");
  case AccessRow::Kind::bulk_load:
    check_addresses(w, op, lanes, op->c);
    [[fallthrough]];
  case AccessRow::Kind::bulk_store:
    check_addresses(w, op, lanes, op->a);
    check_addresses(w, op, lanes, op->d);
    return use_cell(w, op, lanes, op->b, "the length of a copy depends on");
  case AccessRow::Kind::tile_load:
    return tile_load(w, op, lanes);
  case AccessRow::Kind::tile_store:
    return tile_store(w, op, lanes);
  case AccessRow::Kind::none:
    break;
  }
  if (!calls_.empty())
    in_registers(w, op, lanes);
}

void InitCheck::after(Warp &w) {
  if (!result_count_ || w.leave == Leave::waiting || w.leave == Leave::fault)
    return;
  auto call = calls_.find(w.current);
  for (uint32_t n = 0; n < result_count_; ++n) {
    const Result &result = results_[n];
    const Taint &from = result.taint;
    if (call == calls_.end()) {
      if (!from.lanes)
        continue;
      call = calls_.try_emplace(w.current).first;
    }
    auto it =
        from.lanes ? call->second.try_emplace(result.cell).first : call->second.find(result.cell);
    if (it == call->second.end())
      continue;
    Taint &to = it->second;
    to.lanes = (to.lanes & ~result.lanes) | from.lanes;
    to.computed = (to.computed & ~result.lanes) | from.computed;
    for (uint32_t lane : lanes_of(from.lanes)) {
      to.bits[lane] = from.bits[lane];
      to.origin[lane] = from.origin[lane];
    }
    if (!to.lanes)
      call->second.erase(it);
  }
  if (call != calls_.end() && call->second.empty())
    calls_.erase(call);
}

/// Registers and .param variables alike: all that begins within the cell.
void InitCheck::copy_cells(const CallFrame &from, uint32_t from_cell, const CallFrame &to,
                           uint32_t to_cell, uint32_t bytes, uint32_t lanes) {
  auto source = calls_.find(&from);
  if (source == calls_.end())
    return;
  for (uint32_t at = 0; at < bytes; ++at) {
    auto it = source->second.find(from_cell + at);
    if (it == source->second.end() || !(it->second.lanes & lanes))
      continue;
    const Taint copied = it->second; // the map of the other call frame may move it
    Taint &target = calls_[&to][to_cell + at];
    target.lanes = (target.lanes & ~lanes) | (copied.lanes & lanes);
    target.computed = (target.computed & ~lanes) | (copied.computed & copied.lanes & lanes);
    for (uint32_t lane : lanes_of(copied.lanes & lanes)) {
      target.bits[lane] = copied.bits[lane];
      target.origin[lane] = copied.origin[lane];
    }
    source = calls_.find(&from);
  }
}

void InitCheck::move_cell(const CallFrame &from, const CallFrame &to, uint32_t cell,
                          uint32_t lanes) {
  if (auto call = calls_.find(&to); call != calls_.end())
    if (auto it = call->second.find(cell); it != call->second.end())
      it->second.lanes &= ~lanes;
  copy_cells(from, cell, to, cell, 1, lanes);
}

void InitCheck::called(const CallFrame &callee, uint32_t lanes) {
  if (callee.lanes == lanes)
    calls_.erase(&callee); // of an earlier call frame at this address
  else if (auto call = calls_.find(&callee); call != calls_.end())
    for (auto &[cell, taint] : call->second) // of the lanes' earlier turn in it
      taint.lanes &= ~lanes;
  for (size_t i = 0; i < callee.site->arguments.size(); ++i) {
    const Argument &argument = callee.site->arguments[i];
    copy_cells(*callee.caller, argument.cell, callee, callee.code->parameters[i].cell,
               argument.bytes, lanes);
  }
}

void InitCheck::returned(const CallFrame &callee, uint32_t lanes) {
  for (size_t i = 0; i < callee.site->results.size(); ++i) {
    const Argument &to = callee.site->results[i];
    auto caller = calls_.find(callee.caller);
    for (uint32_t at = 0; caller != calls_.end() && at < to.bytes; ++at)
      if (auto it = caller->second.find(to.cell + at); it != caller->second.end())
        it->second.lanes &= ~lanes;
    copy_cells(callee, callee.code->returns[i].cell, *callee.caller, to.cell, to.bytes, lanes);
  }
}

void InitCheck::issue(const Warp &w, const PendingCopy &copy) {
  Loaded what;
  what.undefined = (1u << copy.bytes) - 1; // of 16 at most
  stored(w, copy.lane, ptx::Space::shared, uint64_t(copy.to - w.shared), copy.bytes, what);
}

void InitCheck::land(const Warp &w, const PendingCopy &copy) {
  auto offset = uint64_t(copy.to - w.shared);
  Loaded what;
  if (copy.read_bytes)
    what.undefined =
        loaded(w, copy.lane, ptx::Space::global,
               reinterpret_cast<uint64_t>(copy.from) - w.global_offset, copy.read_bytes)
            .undefined;
  stored(w, copy.lane, ptx::Space::shared, offset, copy.bytes, what);
}

void InitCheck::land(const BulkCopy &copy) {
  constexpr uint32_t kStep = 16; // of which sizes are multiples
  for (uint32_t at = 0; at < copy.bytes; at += kStep) {
    uint64_t from = copy.from_address + at, to = copy.to_address + at;
    const ptx::Space from_space = resolve(ptx::Space::none, from);
    const ptx::Space to_space = resolve(ptx::Space::none, to);
    const Loaded what = loaded(*copy.warp, copy.lane, from_space, from, kStep);
    stored(*copy.warp, copy.lane, to_space, to, kStep, what);
  }
}

} // namespace cugrt::emulator
