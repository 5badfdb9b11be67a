// What may change in an instance; update.cpp.
#pragma once

#include "emulator/driver/driver.h"
#include "emulator/graph/graph.h"

namespace cugrt::emulator::api {

/// Whether the parameters of one node may be replaced by others, by the rules that setters and
/// whole updates share.
CUgraphExecUpdateResult check_change(Driver &driver, const GraphExec &exec, const Work &from,
                                     const Work &to);
/// Updates `exec`, which is `whole`'s body or that of one of its child graph nodes: all or nothing.
CUresult update_graph(Driver &driver, const GraphExec &whole, ExecGraph &exec, const Graph &graph,
                      CUgraphExecUpdateResultInfo *info);

} // namespace cugrt::emulator::api
