// Packings without search: greedy placement, a portfolio of it, and the policies of other planners
// for comparison. pack() is the entry point.
#pragma once

#include "plan/pack_items.h"

namespace cugrt::plan {

enum class Fit : uint8_t { first, best };

/// Order `order` of the portfolio's, from the steps in which each item is alive and the largest sum
/// of bytes that it is alive with. Order 0 is descending size (ties: longer life, then number).
std::vector<uint32_t> greedy_order(int order, std::span<const PackItem> items,
                                   std::span<const int64_t> lifetimes,
                                   std::span<const int64_t> loads);
inline constexpr int kGreedyOrders = 7;

/// Descending size (ties: longer life, then number) into the smallest gap that is large enough.
Packing pack_greedy(const CanonicalItems &items);
/// The best of seven orders, each with first and best fit; stops at `bound_bytes`. Beyond
/// `greedy_limit` items only pack_in_time(), or, where some have fixed places, pack_greedy().
Packing pack_portfolio(const CanonicalItems &items, int64_t bound_bytes, size_t greedy_limit);
/// In order of time from a best-fit free list; n log n. Shares nothing in gaps.
Packing pack_in_time(std::span<const PackItem> items);
/// Pairwise sharing as TVM's StaticPlanBlockMemory does it, for one dtype and scope: whole tokens,
/// in order of time. The smallest free token of at least the size and at most 16 times it; else the
/// largest free one of at least a sixteenth, which grows; else a new one.
Packing pack_slots(std::span<const PackItem> items);

} // namespace cugrt::plan
