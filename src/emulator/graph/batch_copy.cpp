// Batches of copies; see batch_copy.h. The rules are those of cuMemcpyBatchAsync of cuda.h.
#include "emulator/graph/batch_copy.h"

#include "emulator/driver/memory/copy.h"
#include "emulator/exec/draws.h"
#include "emulator/graph/node_params.h"

#include <algorithm>
#include <cstring>

namespace cugrt::emulator::api {

static CopyWork copy_of(const BatchCopyWork &work, size_t i) {
  return {linear_copy(work.destinations[i], work.sources[i], work.sizes[i]), work.context,
          work.green, nullptr};
}

// "the first entry in attrsIdxs must always be 0. Also, each entry must be greater than the
// previous entry and the last entry should be less than count. Furthermore, numAttrs must be lesser
// than or equal to count."
static CUresult check_attributes(Driver &driver, const BatchCopyParams &params) {
  if (!params.attribute_count || params.attribute_count > params.count || !params.attributes ||
      !params.attribute_starts || params.attribute_starts[0])
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < params.attribute_count; ++i) {
    const CUmemcpyAttributes &attributes = params.attributes[i];
    if ((i && params.attribute_starts[i] <= params.attribute_starts[i - 1]) ||
        params.attribute_starts[i] >= params.count ||
        (attributes.flags & ~unsigned(CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE)))
      return CUDA_ERROR_INVALID_VALUE;
    switch (int(attributes.srcAccessOrder)) {
    case CU_MEMCPY_SRC_ACCESS_ORDER_STREAM:
    case CU_MEMCPY_SRC_ACCESS_ORDER_ANY:
      break;
    case CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL: // of which call, nothing says
      return driver.refuse("sources of a graph's copies that are read during the call are");
    default:
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

CUresult batch_copy_to_work(Driver &driver, const CUgraphNodeParams &generic, Work *out) {
  BatchCopyParams params;
  std::memcpy(&params, generic.reserved1, sizeof params);
  if (!params.count || !params.destinations || !params.sources || !params.sizes)
    return CUDA_ERROR_INVALID_VALUE;
  CUGRT_EMU_TRY(check_attributes(driver, params));
  BatchCopyWork work;
  CUGRT_EMU_TRY(context_of(driver, params.context, &work.context, &work.green));
  work.destinations.assign(params.destinations, params.destinations + params.count);
  work.sources.assign(params.sources, params.sources + params.count);
  work.sizes.assign(params.sizes, params.sizes + params.count);
  work.attributes.assign(params.attributes, params.attributes + params.attribute_count);
  work.attribute_starts.assign(params.attribute_starts,
                               params.attribute_starts + params.attribute_count);
  for (size_t i = 0; i < params.count; ++i)
    if (work.sizes[i])
      CUGRT_EMU_TRY(check_copy(driver, copy_of(work, i).copy));
  *out = std::move(work);
  return CUDA_SUCCESS;
}

void describe_batch_copy(BatchCopyWork &work, CUgraphNodeParams *out) {
  const BatchCopyParams params{work.sizes.size(),      work.destinations.data(),
                               work.sources.data(),    work.sizes.data(),
                               work.attributes.data(), work.attribute_starts.data(),
                               work.attributes.size(), context_handle(work)};
  std::memcpy(out->reserved1, &params, sizeof params);
}

bool same_but_operands(const BatchCopyWork &from, const BatchCopyWork &to) {
  auto same = [](const CUmemcpyAttributes &a, const CUmemcpyAttributes &b) {
    auto same_place = [](const CUmemLocation &x, const CUmemLocation &y) {
      return x.type == y.type && x.id == y.id;
    };
    return a.srcAccessOrder == b.srcAccessOrder && a.flags == b.flags &&
           same_place(a.srcLocHint, b.srcLocHint) && same_place(a.dstLocHint, b.dstLocHint);
  };
  return from.sizes.size() == to.sizes.size() && from.attribute_starts == to.attribute_starts &&
         std::equal(from.attributes.begin(), from.attributes.end(), to.attributes.begin(),
                    to.attributes.end(), same) &&
         from.context == to.context && from.green == to.green;
}

CUresult run_batch_copy(Driver &driver, const BatchCopyWork &work) {
  std::optional<Permutation> order;
  if (driver.scheduler->draws_order())
    order.emplace(work.sizes.size(), driver.scheduler->draw());
  for (size_t i = 0; i < work.sizes.size(); ++i)
    if (size_t at = order ? (*order)[i] : i; work.sizes[at])
      CUGRT_EMU_TRY(run_copy(driver, copy_of(work, at)));
  return CUDA_SUCCESS;
}

void batch_copy_accesses(const BatchCopyWork &work, AccessSet &out) {
  for (size_t i = 0; i < work.sizes.size(); ++i)
    if (work.sizes[i])
      copy_accesses(copy_of(work, i), out);
}

} // namespace cugrt::emulator::api
