// Which nodes of a region's graph reach which, for the transitive reduction of its edges. Nodes are
// closed in an order that edges respect; a row says what reaches one node.
//
// LaneReach: nodes are laid on lanes such that each is reached by the one before it on its lane;
// then "the last position on each lane" says it all. A chain takes one lane. There are 32: where
// they do not suffice, a node takes over the lane that was used least recently. What stood on it
// before is then forgotten, which makes `reaches` false where it might be true: edges too many,
// never too few. Rows are kept as wide as lanes were in use when they were made, in blocks of rows
// of one width: most regions need a few lanes only.
//
// BitReach: a bit for each earlier node. Exact, quadratic in memory.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace cugrt::plan {

class LaneReach {
public:
  static constexpr uint32_t kLanes = 32;
  /// For each lane, the highest position that reaches the node, plus one.
  using Row = std::array<int32_t, kLanes>;

  /// Uses at most `lane_limit` lanes, if that is not 0.
  explicit LaneReach(uint32_t node_count, uint32_t lane_limit = 0)
      : nodes_(node_count), limit_(std::min(lane_limit, kLanes)) {
    blocks_.reserve((node_count + kBlockRows - 1) / kBlockRows);
  }

  Row empty_row() const { return Row{}; }

  bool reaches(uint32_t from, const Row &row) const {
    const Node &node = nodes_[from];
    return row[node.lane] > node.position && row[node.lane] <= epoch_end(node);
  }
  /// Everything that reaches `from`, and `from` itself, reaches the row's node.
  void join(Row &row, uint32_t from) const {
    const Block &block = blocks_[from / kBlockRows];
    const int32_t *kept = &block.rows[size_t(from % kBlockRows) * block.width];
    raise(row.data(), kept, block.width);
    const Node &node = nodes_[from];
    row[node.lane] = std::max(row[node.lane], node.position + 1);
  }
  void merge(Row &row, const Row &other) const { raise(row.data(), other.data(), kLanes); }
  /// Whether all that `other` holds is in `row`.
  bool covers(const Row &row, const Row &other) const {
    for (uint32_t lane = 0; lane < used_; ++lane)
      if (other[lane] && (row[lane] < other[lane] || !same_epoch(lane, other[lane], row[lane])))
        return false;
    return true;
  }

  /// The last node of a lane that the row's node does not extend, where it would need a lane more
  /// than the limit; else kNoNode.
  static constexpr uint32_t kNoNode = UINT32_MAX;
  uint32_t tail_to_wait_for(const Row &row) const {
    if (limit_ == 0 || used_ < limit_)
      return kNoNode;
    for (uint32_t lane = 0; lane < used_; ++lane)
      if (extends(row, lane))
        return kNoNode;
    return lanes_[oldest()].tail;
  }
  /// Lays a node on a lane; nodes are closed in the order of their numbers. False when another
  /// node's lane had to be taken over.
  bool close(uint32_t node, const Row &row) {
    keep_row(node, row);
    for (uint32_t lane = 0; lane < used_; ++lane)
      if (extends(row, lane))
        return put(node, lane), true;
    if (used_ < kLanes)
      return put(node, used_++), true;
    uint32_t lane = oldest();
    lanes_[lane].epochs.push_back(lanes_[lane].length);
    return put(node, lane), false;
  }

private:
  static constexpr uint32_t kBlockRows = 256;
  static constexpr uint32_t kUnit = 4; // widths are multiples; signed words, which vectors compare

  struct Node {
    uint32_t lane = 0;
    int32_t position = 0;
  };
  /// The rows of kBlockRows nodes; lanes from `width` on were not in use yet.
  struct Block {
    uint32_t width = 0;
    std::vector<int32_t> rows;
  };
  struct Lane {
    int32_t length = 0;
    uint32_t tail = 0;
    uint64_t used_at = 0;
    std::vector<int32_t> epochs; // positions at which the lane was taken over
  };

  static void raise(int32_t *row, const int32_t *other, uint32_t width) {
    for (uint32_t lane = 0; lane < width; lane += kUnit)
      for (uint32_t i = lane; i < lane + kUnit; ++i)
        row[i] = std::max(row[i], other[i]);
  }
  bool extends(const Row &row, uint32_t lane) const { return row[lane] == lanes_[lane].length; }

  uint32_t oldest() const {
    uint32_t lane = 0;
    for (uint32_t l = 1; l < used_; ++l)
      if (lanes_[l].used_at < lanes_[lane].used_at)
        lane = l;
    return lane;
  }
  int32_t epoch_end(const Node &node) const {
    const std::vector<int32_t> &epochs = lanes_[node.lane].epochs;
    auto end = std::upper_bound(epochs.begin(), epochs.end(), node.position);
    return end == epochs.end() ? INT32_MAX : *end;
  }
  bool same_epoch(uint32_t lane, int32_t low, int32_t high) const {
    const std::vector<int32_t> &epochs = lanes_[lane].epochs;
    auto end = std::lower_bound(epochs.begin(), epochs.end(), low);
    return end == epochs.end() || high <= *end;
  }
  void keep_row(uint32_t node, const Row &row) {
    if (node % kBlockRows == 0)
      blocks_.emplace_back();
    Block &block = blocks_.back();
    if (block.width == 0 || block.width < used_)
      widen(block, std::bit_ceil(std::max(used_, kUnit)),
            std::min<uint32_t>(rows_in(node), kBlockRows));
    std::copy_n(row.begin(), block.width, &block.rows[size_t(node % kBlockRows) * block.width]);
  }
  /// How many nodes there are from the first one of the node's block on.
  uint32_t rows_in(uint32_t node) const {
    return uint32_t(nodes_.size()) - node / kBlockRows * kBlockRows;
  }
  static void widen(Block &block, uint32_t width, uint32_t count) {
    std::vector<int32_t> rows(size_t(count) * width);
    for (uint32_t i = 0; i < count && block.width; ++i)
      std::copy_n(&block.rows[size_t(i) * block.width], block.width, &rows[size_t(i) * width]);
    block = {width, std::move(rows)};
  }
  void put(uint32_t node, uint32_t lane) {
    nodes_[node].lane = lane;
    nodes_[node].position = lanes_[lane].length++;
    lanes_[lane].tail = node;
    lanes_[lane].used_at = ++clock_;
  }

  std::vector<Node> nodes_;
  std::vector<Block> blocks_;
  std::array<Lane, kLanes> lanes_;
  uint32_t used_ = 0;
  const uint32_t limit_;
  uint64_t clock_ = 0;
};

class BitReach {
public:
  using Row = std::vector<uint64_t>;

  explicit BitReach(uint32_t node_count, uint32_t = 0)
      : words_((node_count + 63) / 64), rows_(node_count) {}

  Row empty_row() const { return Row(words_, 0); }
  bool reaches(uint32_t from, const Row &row) const { return (row[from / 64] >> (from % 64)) & 1; }
  void join(Row &row, uint32_t from) const {
    merge(row, rows_[from]);
    row[from / 64] |= uint64_t(1) << (from % 64);
  }
  void merge(Row &row, const Row &other) const {
    for (size_t w = 0; w < words_; ++w)
      row[w] |= other[w];
  }
  bool covers(const Row &row, const Row &other) const {
    for (size_t w = 0; w < words_; ++w)
      if (other[w] & ~row[w])
        return false;
    return true;
  }
  static constexpr uint32_t kNoNode = UINT32_MAX;
  uint32_t tail_to_wait_for(const Row &) const { return kNoNode; }
  bool close(uint32_t node, const Row &row) {
    rows_[node] = row;
    return true;
  }

private:
  size_t words_;
  std::vector<Row> rows_;
};

} // namespace cugrt::plan
