// Two small containers for a million jobs: from a job's id to its slot, and slots in the order of their keys.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "model/ids.h"

namespace lockstep {

using SlotNo = std::uint32_t;
inline constexpr SlotNo kNoSlot = UINT32_MAX;  // the job has no slot

// Ids are handed out in order, so the live ones lie close together: a table of pages.
class SlotOfJob {
 public:
  SlotNo find(JobId id) const {
    const auto it = pages_.find(id.value / kPage);
    return it == pages_.end() ? kNoSlot : it->second->at[id.value % kPage];
  }
  void put(JobId id, SlotNo slot) {
    auto& page = pages_[id.value / kPage];
    if (!page)
      page = std::make_unique<Page>();
    SlotNo& at = page->at[id.value % kPage];
    page->used += at == kNoSlot;
    at = slot;
  }
  void erase(JobId id) {
    const auto it = pages_.find(id.value / kPage);
    if (it == pages_.end() || it->second->at[id.value % kPage] == kNoSlot)
      return;
    it->second->at[id.value % kPage] = kNoSlot;
    if (--it->second->used == 0)
      pages_.erase(it);
  }

 private:
  static constexpr std::uint64_t kPage = 256;
  struct Page {
    Page() { at.fill(kNoSlot); }
    std::array<SlotNo, kPage> at;
    std::uint32_t used = 0;
  };
  std::map<std::uint64_t, std::unique_ptr<Page>> pages_;
};

// Slots in ascending order of key_of(slot), which must not change while a slot is in. Chunks keep insertion cheap.
template <class KeyOf>
class SlotOrder {
 public:
  static constexpr std::ptrdiff_t kAhead = 16;

  explicit SlotOrder(KeyOf key_of) : key_of_(key_of) {}

  void insert(SlotNo slot) {
    const auto key = key_of_(slot);
    if (chunks_.empty()) {
      chunks_.push_back({slot});
      return;
    }
    std::size_t c = chunk_of(key);
    if (c == chunks_.size())
      --c;
    std::vector<SlotNo>& chunk = chunks_[c];
    chunk.insert(std::lower_bound(chunk.begin(), chunk.end(), key, before()), slot);
    if (chunk.size() < kChunkMax)
      return;
    // At the very end one more is likely to follow, so the full chunk stays as it is.
    const std::size_t keep = c + 1 == chunks_.size() ? kChunkMax - 16 : kChunkMax / 2;
    std::vector<SlotNo> rest(chunk.begin() + static_cast<std::ptrdiff_t>(keep), chunk.end());
    chunk.resize(keep);
    chunks_.insert(chunks_.begin() + static_cast<std::ptrdiff_t>(c) + 1, std::move(rest));
  }

  void erase(SlotNo slot) {
    const auto key = key_of_(slot);
    const std::size_t c = chunk_of(key);
    std::vector<SlotNo>& chunk = chunks_[c];
    const auto it = std::lower_bound(chunk.begin(), chunk.end(), key, before());
    chunk.erase(it);
    if (chunk.empty())
      chunks_.erase(chunks_.begin() + static_cast<std::ptrdiff_t>(c));
  }

  void clear() { chunks_.clear(); }
  bool empty() const { return chunks_.empty(); }
  SlotNo front() const { return chunks_.front().front(); }

  // f(slot) for every slot from the first whose key is greater than `after` (from the very first when `all`), in order,
  // until f returns false. ahead(next): the kAhead slots that will probably come next, so that what f needs of them can
  // be fetched from memory meanwhile; not called near the end of a chunk.
  template <class Key, class F>
  void each_after(const Key& after, bool all, F&& f) const {
    each_after(after, all, f, [](const SlotNo*) {});
  }
  template <class Key, class F, class Ahead>
  void each_after(const Key& after, bool all, F&& f, Ahead&& ahead) const {
    std::size_t c = all ? 0 : chunk_of(after);
    for (bool first = !all; c < chunks_.size(); ++c, first = false) {
      const std::vector<SlotNo>& chunk = chunks_[c];
      auto it = chunk.begin();
      if (first)
        while (it != chunk.end() && !(after < key_of_(*it))) ++it;
      for (; it != chunk.end(); ++it) {
        if (chunk.end() - it > kAhead)
          ahead(&it[1]);
        if (!f(*it))
          return;
      }
    }
  }

 private:
  static constexpr std::size_t kChunkMax = 512;
  auto before() const {
    return [this](SlotNo a, const auto& key) { return key_of_(a) < key; };
  }
  // The first chunk whose last key is not less than `key`.
  template <class Key>
  std::size_t chunk_of(const Key& key) const {
    const auto it = std::lower_bound(chunks_.begin(), chunks_.end(), key,
                                     [this](const auto& chunk, const Key& k) { return key_of_(chunk.back()) < k; });
    return static_cast<std::size_t>(it - chunks_.begin());
  }

  KeyOf key_of_;
  std::vector<std::vector<SlotNo>> chunks_;
};

}  // namespace lockstep
