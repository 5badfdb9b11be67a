// Work on the device as CUPTI reports it: kernels, copies and fills, with their nodes
// of graphs. The first use opens CUPTI; for an emulated driver it is the driver's
// own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tool {

/// A node of a graph that ran once.
struct Activity {
  uint64_t node_id =
      0; // as tools call it; of the graph's node from CUPTI 13.4 on, else the instance's
  uint32_t launch = 0;              // the same of all that one launch of a graph ran
  std::string kernel;               // empty: a copy or a fill
  int64_t begin_ns = 0, end_ns = 0; // of the device's clock, as CUPTI gives it
};

/// One at a time in a process. Not thread-safe.
class Cupti {
public:
  /// Tells of what graphs do that are built from now on. Null where there is none that is known, or
  /// CUGRT_CUPTI is off: `reason` says so in a few words.
  static std::unique_ptr<Cupti> open(bool emulated, std::string &reason);
  ~Cupti();
  Cupti(const Cupti &) = delete;

  /// "CUPTI 13.4".
  const std::string &name() const { return name_; }
  /// Nodes of graphs that have ended since the last call, in the order of their begins. UserError
  /// where CUPTI fails or has lost some.
  std::vector<Activity> take();

private:
  explicit Cupti(const struct CuptiLibrary &library, uint32_t version);
  void require(int result, const char *call) const;

  const struct CuptiLibrary &library_;
  std::string name_;
};

} // namespace tool
