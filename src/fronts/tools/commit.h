// The commit that the tool was built from: a file of its own, since each commit compiles it anew.
#pragma once

namespace tool {

/// Twelve digits, "-modified" behind them where the tree differed; "unknown" without git.
const char *commit();

} // namespace tool
