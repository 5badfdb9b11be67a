// ptx::Module to Code: the one pass that gives meaning to opcodes.
//
// Whatever the executor cannot do is found here, at load, with the opcode and its line.
#pragma once

#include "base/status.h"
#include "emulator/exec/units/wmma.h"
#include "emulator/exec/warps/warp.h"
#include "emulator/ptx/module.h"

#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

namespace cugrt::emulator {

/// Places of the module's variables, before its functions are decoded.
struct Placement {
  std::vector<uint64_t> address;      // of each .global and .const variable; 0: not defined
  uint32_t function_shared_bytes = 0; // shared variables that .func functions use; at offset 0
  std::unordered_map<uint32_t, uint32_t> function_shared; // module variable to offset
  /// Variables that a .func function declares itself, keyed by function and variable.
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> own_shared;
};

/// Needs of a function beside its code.
struct KernelNeeds {
  uint32_t static_shared_bytes = 0;
  uint32_t registers = 0;
  bool uses_heap = false; // calls malloc or free
};

/// A module's decoded functions. codes[i] belongs to module.functions[i]; declarations, and
/// functions with unsupported parts, stay empty.
struct Decoded {
  std::vector<std::unique_ptr<FunctionCode>> codes;
  std::vector<Status> missing; // of each function: the first thing in it that is not executed
  std::vector<KernelNeeds> needs;
  std::vector<std::vector<uint32_t>> callees; // of each function
  std::vector<std::unique_ptr<CallSite>> call_sites;
  std::vector<std::unique_ptr<SwitchTargets>> switches;
  std::vector<std::unique_ptr<MatrixSite>> matrices;
  std::vector<std::unique_ptr<TileAccess>> tile_accesses;
  std::vector<std::unique_ptr<TileProduct>> tile_products;
  uint32_t cache_count = 1; // remembered ranges: one a memory operation; 0 is shared by the rest
  bool calls_indirectly = false;
  bool allocates = false; // by alloca
  bool optimize = true;   // run the passes over decoded code
};

/// Errors: parse_error for malformed text. out.missing lists legal opcodes that are not executed.
Status decode_module(const ptx::Module &module, const Placement &placement, Decoded &out);

} // namespace cugrt::emulator
