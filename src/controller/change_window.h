// ChangeWindow: the last changes, kind by kind, for everybody who watches. A change is encoded once for each way in
// which it may be seen, however many watch; those of a busy kind push none of another out.
#pragma once

#include <array>
#include <bitset>
#include <deque>
#include <optional>
#include <string>
#include <variant>

#include "model/change.h"
#include "views/visibility.h"

namespace lockstep {

inline constexpr std::size_t kKindCount = std::variant_size_v<Record>;
using KindSet = std::bitset<kKindCount>;  // by Kind

class ChangeWindow {
 public:
  struct Most {
    std::size_t changes = 10'000;        // kept of each kind
    std::size_t text_bytes = 32u << 20;  // kept of what was encoded, all kinds together; the rest is encoded again
  };
  explicit ChangeWindow(Seq now) : ChangeWindow(now, Most()) {}
  ChangeWindow(Seq now, Most most) : most_(most) { from_.fill(now); }

  void add(const Change& change);

  struct Page {
    std::string lines;    // one change each, as the viewer may see it; what is hidden is left out
    Seq seen = 0;         // the last change that was looked at; `after` when there is none
    bool hidden = false;  // the last of them are not shown
  };
  // The changes of those kinds after that one, oldest first, until the lines take so many bytes. Nothing: they are not
  // all at hand any more.
  std::optional<Page> read(const Viewer& viewer, KindSet kinds, Seq after, std::size_t bytes);

  std::size_t encoded() const { return encoded_; }  // since the start: what tests of costs count
  std::size_t text_bytes() const { return text_bytes_; }
  std::size_t texts() const { return texts_.size(); }

 private:
  static constexpr std::size_t kTextsAtFirst = 4'096;
  struct Entry {
    Change change;
    std::array<std::string, 3> text;  // by Visibility; "" = nobody has asked yet
  };
  void append_text(Entry& entry, Visibility how, std::string& out);
  void forget_text(Entry& entry);
  void forget_oldest_texts();
  void forget_gone_texts();

  Most most_;
  std::array<std::deque<Entry>, kKindCount> kept_;
  std::array<Seq, kKindCount> from_{};             // every change of the kind after this one is kept
  std::deque<std::pair<std::size_t, Seq>> texts_;  // kind and change of what was encoded, the oldest first
  std::size_t texts_most_ = kTextsAtFirst;
  std::size_t text_bytes_ = 0, encoded_ = 0;
};

}  // namespace lockstep
