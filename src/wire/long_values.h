// LongValues: values that are too long to be written again with every change of their record. A list or text of a
// job's specification, a step's specification or places, an allocation: one that takes kLongValue bytes or more is
// stored once, as a blob named by its SHA-256, and entries and snapshots hold {"@":"<id>"} in its place. So a change of
// state costs the same, however long a job's arguments are and however many nodes it holds.
//
// A value is known by where it lies in memory: records share it, and nobody changes what is shared. A blob may go once
// no record holds its value and neither the snapshot nor an entry that is still there names it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/result.h"

namespace lockstep {

inline constexpr std::size_t kLongValue = 8 << 10;  // in bytes, as it is written

class LongValues {
 public:
  using Hash = std::function<std::string(std::string_view)>;
  using Read = std::function<Result<std::string>(const std::string& id)>;

  // Without a hash values stay in their records; what lies apart already can be read all the same.
  LongValues(Hash hash, Read read, std::size_t at_least = kLongValue);

  // --- whoever writes the log ---
  // Id and text of values that were written and are stored nowhere yet.
  const std::vector<std::pair<std::string, std::string>>& fresh() const { return fresh_; }
  // What was written or read since the last call is stored, and entries up to `index` name it.
  void settle(std::uint64_t index);
  // It was not stored.
  void withdraw();
  // To write with on another thread: what is stored now; nothing more is put apart.
  std::unique_ptr<LongValues> frozen() const;
  // A snapshot that was written with a frozen one is in place: it counts as an entry behind `index`, which it covers.
  void settle_snapshot(const LongValues& frozen, std::uint64_t index);
  // Forgets what no record holds, by its address, and no entry behind `trimmed` names.
  void sweep(const std::unordered_set<const void*>& held, std::uint64_t trimmed);
  bool has(const std::string& id) const { return known_.contains(id); }
  bool empty() const { return known_.empty(); }

  // --- codecs (wire/json.h) ---
  using Holder = std::shared_ptr<const void>;  // keeps a value where it is
  using Type = const void*;                    // of a value: the address of something that stands for it
  std::string_view id_of(const void* value);   // "": it is not stored
  // Takes in a value that was just written as `text`; its id, or "": it stays where it is.
  std::string_view take(const void* value, Type type, const std::function<Holder()>& hold, std::string_view text);
  Holder find(const std::string& id, Type type);  // null: read it
  void found(const std::string& id, Type type, const void* value, Holder holder);
  Result<std::string> text(const std::string& id) const;

 private:
  struct Known {
    std::uint64_t named = 0;         // by entries up to here
    std::map<Type, Holder> holders;  // as what it was read or written last
    bool stored = false;
  };
  struct Place {
    Holder holder;
    std::string id;
  };

  Hash hash_;
  Read read_;
  std::size_t at_least_;
  std::unordered_map<std::string, Known> known_;
  std::unordered_map<const void*, Place> places_;
  std::unordered_set<std::string> touched_;
  std::vector<std::pair<std::string, std::string>> fresh_;
};

}  // namespace lockstep
