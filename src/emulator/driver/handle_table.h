// Handles that cannot crash the driver.
//
// A handle is a number dressed as a pointer: kind, generation and index. It is never dereferenced,
// and no real pointer looks like one (bits 48 to 55 hold the kind, which is not zero), so that a
// foreign, freed or twice freed handle is told from a live one by a table lookup:
//
//     63      56 55    48 47      28 27      4 3  0
//     |   0     |  kind  | generation | index  | 0 |
//
// Objects are shared: a lookup keeps its object alive while another thread destroys the handle.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

namespace cugrt::emulator::api {

template <class Object, class Handle, uint8_t kKind> class HandleTable {
public:
  using Pointer = std::shared_ptr<Object>;

  /// Gives the object its handle (Object::handle). CUDA's handles are typed pointers. Throws
  /// std::bad_alloc; then nothing has changed.
  Handle insert(Pointer object) {
    std::unique_lock lock(mutex_);
    uint32_t index;
    if (free_.empty()) {
      if (entries_.size() >= kMaxEntries)
        throw std::bad_alloc();
      index = uint32_t(entries_.size());
      free_.reserve(
          std::max(entries_.size() + 1, entries_.capacity())); // so that erase never allocates
      entries_.emplace_back();
    } else {
      index = free_.back();
      free_.pop_back();
    }
    Entry &entry = entries_[index];
    entry.object = std::move(object);
    ++live_;
    Handle handle = encode(entry.generation, index);
    entry.object->handle = handle;
    return handle;
  }

  /// The same; then calls `enter`, which enters the object elsewhere. When that throws, the handle
  /// is dead again.
  template <class Enter> Handle insert(Pointer object, Enter &&enter) {
    Handle handle = insert(std::move(object));
    try {
      enter();
    } catch (...) {
      erase(handle);
      throw;
    }
    return handle;
  }

  /// nullptr for anything that is not a live handle of this table.
  Pointer find(Handle handle) const {
    std::shared_lock lock(mutex_);
    const Entry *entry = find_entry(handle);
    return entry ? entry->object : nullptr;
  }

  /// The object, whose handle is dead from now on; nullptr when it was not alive.
  Pointer erase(Handle handle) {
    std::unique_lock lock(mutex_);
    auto *entry = const_cast<Entry *>(find_entry(handle));
    if (!entry)
      return nullptr;
    Pointer object = std::move(entry->object);
    entry->object = nullptr;
    entry->generation = (entry->generation + 1) & kGenerationMask;
    free_.push_back(uint32_t(entry - entries_.data()));
    --live_;
    return object;
  }

  /// Calls `visit` with every object, under the table's lock.
  template <class Visit> void for_each(Visit &&visit) const {
    std::shared_lock lock(mutex_);
    for (const Entry &entry : entries_)
      if (entry.object)
        visit(entry.object);
  }

  std::vector<Pointer> all() const {
    std::shared_lock lock(mutex_);
    std::vector<Pointer> objects;
    for (const Entry &entry : entries_)
      if (entry.object)
        objects.push_back(entry.object);
    return objects;
  }

  size_t size() const {
    std::shared_lock lock(mutex_);
    return live_;
  }

  /// True for whatever was once a handle of this kind, live or not.

private:
  static constexpr size_t kMaxEntries = size_t(1) << 24;
  static constexpr uint32_t kGenerationMask = 0xFFFFF;
  struct Entry {
    Pointer object;
    uint32_t generation = 1;
  };

  static uint64_t bits(Handle handle) { return reinterpret_cast<uint64_t>(handle); }
  static Handle encode(uint32_t generation, uint32_t index) {
    return reinterpret_cast<Handle>(uint64_t(kKind) << 48 | uint64_t(generation) << 28 |
                                    uint64_t(index) << 4);
  }
  const Entry *find_entry(Handle handle) const {
    uint64_t value = bits(handle);
    uint64_t index = (value >> 4) & (kMaxEntries - 1);
    if (value >> 48 != kKind || (value & 15) || index >= entries_.size())
      return nullptr;
    const Entry &entry = entries_[index];
    return entry.object && entry.generation == ((value >> 28) & kGenerationMask) ? &entry : nullptr;
  }

  mutable std::shared_mutex mutex_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> free_;
  size_t live_ = 0;
};

} // namespace cugrt::emulator::api
