// Bits over the device's address range; see undefined_bytes.h.
#include "emulator/device/undefined_bytes.h"

#include <algorithm>
#include <mutex>
#include <sys/mman.h>

namespace cugrt::emulator {

constexpr uint64_t kWordBytes = 64; // of memory that a word of bits stands for

static uint64_t low_bits(uint64_t count) {
  return count >= 64 ? ~uint64_t(0) : (uint64_t(1) << count) - 1;
}

std::unique_ptr<UndefinedBytes> UndefinedBytes::create(uint64_t base, uint64_t bytes) {
  // One word more than needed, so that reading across two never leaves the mapping.
  uint64_t size = (bytes / kWordBytes + 2) * sizeof(Word);
  void *words = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (words == MAP_FAILED)
    return nullptr;
  std::unique_ptr<UndefinedBytes> result(new UndefinedBytes);
  result->base_ = base;
  result->mapped_bytes_ = size;
  result->words_ = static_cast<Word *>(words);
  return result;
}

UndefinedBytes::~UndefinedBytes() {
  if (words_)
    munmap(static_cast<void *>(words_), mapped_bytes_);
}

template <class Visit>
void UndefinedBytes::for_each_word(uint64_t address, uint64_t bytes, Visit visit) const {
  uint64_t begin = address - base_, end = begin + bytes;
  while (begin < end) {
    uint64_t first = begin % kWordBytes, count = std::min(kWordBytes - first, end - begin);
    if (!visit(words_[begin / kWordBytes], low_bits(count) << first, begin - first))
      return;
    begin += count;
  }
}

void UndefinedBytes::mark_undefined(uint64_t address, uint64_t bytes) {
  if (is_exempt(address))
    return;
  for_each_word(address, bytes, [](Word &word, uint64_t mask, uint64_t) {
    if (mask == ~uint64_t(0))
      word.store(mask, std::memory_order_relaxed);
    else
      word.fetch_or(mask, std::memory_order_relaxed);
    return true;
  });
}

void UndefinedBytes::mark_defined(uint64_t address, uint64_t bytes) {
  for_each_word(address, bytes, [](Word &word, uint64_t mask, uint64_t) {
    if (word.load(std::memory_order_relaxed) & mask)
      word.fetch_and(~mask, std::memory_order_relaxed);
    return true;
  });
}

uint64_t UndefinedBytes::undefined(uint64_t address, uint32_t bytes) const {
  uint64_t at = address - base_, shift = at % kWordBytes;
  const Word *word = words_ + at / kWordBytes;
  uint64_t bits = word[0].load(std::memory_order_relaxed) >> shift;
  if (shift + bytes > kWordBytes)
    bits |= word[1].load(std::memory_order_relaxed) << (kWordBytes - shift);
  return bits & low_bits(bytes);
}

std::optional<uint64_t> UndefinedBytes::first_undefined(uint64_t address, uint64_t bytes) const {
  std::optional<uint64_t> found;
  for_each_word(address, bytes, [&](Word &word, uint64_t mask, uint64_t begin) {
    if (uint64_t bits = word.load(std::memory_order_relaxed) & mask)
      found = base_ + begin + uint64_t(__builtin_ctzll(bits));
    return !found;
  });
  return found;
}

void UndefinedBytes::copy(uint64_t to, uint64_t from, uint64_t bytes) {
  if (is_exempt(to) || !first_undefined(from, bytes))
    return mark_defined(to, bytes);
  for (uint64_t done = 0; done < bytes;) {
    auto count = uint32_t(std::min(kWordBytes - (to + done - base_) % kWordBytes, bytes - done));
    uint64_t bits = undefined(from + done, count), shift = (to + done - base_) % kWordBytes;
    Word &word = words_[(to + done - base_) / kWordBytes];
    word.fetch_and(~(low_bits(count) << shift), std::memory_order_relaxed);
    word.fetch_or(bits << shift, std::memory_order_relaxed);
    done += count;
  }
}

bool UndefinedBytes::is_exempt(uint64_t address) const {
  std::shared_lock lock(mutex_);
  auto it = exempted_.upper_bound(address);
  if (it == exempted_.begin())
    return false;
  --it;
  return address - it->first < it->second;
}

void UndefinedBytes::exempt(uint64_t address, uint64_t bytes) {
  mark_defined(address, bytes);
  std::unique_lock lock(mutex_);
  exempted_[address] = bytes;
}

void UndefinedBytes::end_exemption(uint64_t address) {
  std::unique_lock lock(mutex_);
  exempted_.erase(address);
}

} // namespace cugrt::emulator
