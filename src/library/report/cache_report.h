// What is in the code cache, for people and as JSON.
#pragma once

#include "jit/code_cache.h"

#include <span>

namespace cugrt::runtime {

/// A line for each entry, in the order given, and one that counts them.
std::string cache_text(const jit::CacheReport &report,
                       std::span<const jit::CacheEntryInfo> entries);
std::string cache_json(const jit::CacheReport &report,
                       std::span<const jit::CacheEntryInfo> entries);

} // namespace cugrt::runtime
