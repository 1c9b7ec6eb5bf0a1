// ObjectHistory: the last changes of objects with the versions before and after, resource by resource. Watches read
// from it what they have not told yet, and a list that goes on over several pages shows what was there when it began.
#pragma once

#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/shown_records.h"
#include "routes/front_end.h"

namespace lockstep::kube {

class ObjectHistory final : public FrontReader {
 public:
  struct Most {
    std::size_t changes = 20'000;    // kept of each resource
    std::size_t bytes = 256u << 20;  // of all bodies that only the history still holds, roughly
  };
  explicit ObjectHistory(Most most) : most_(most) {}
  ObjectHistory() : ObjectHistory(Most()) {}

  struct Entry {
    Seq seq = 0;
    Ref<Object> before, after;  // null: it was made, it was removed
    // What both showed when they were written, of objects that show work: records have moved on since. The latest
    // version shows what the tables say.
    ShownRecords before_shows, after_shows;
  };

  void begin(const Tables& tables) override;
  void change(const Tables& before, const Change& change) override;

  // The changes of the resource after that one, oldest first. Nothing: they are not all at hand any more.
  struct Since {
    const std::deque<Entry>* entries = nullptr;
    std::size_t from = 0;
  };
  std::optional<Since> since(std::string_view type, Seq after) const;

  // The resource's objects as they were at that change, in the order of their names, from behind `after` on, in one
  // namespace ("" = in all); at most `most` of those that `wanted` keeps. Nothing: too long ago.
  struct Page {
    std::vector<Ref<Object>> objects;
    std::optional<ObjectKey> last;  // there are more behind this one
    std::size_t left = 0;           // how many, where they are counted
  };
  using Wanted = std::function<bool(const Object&)>;
  std::optional<Page> page(const Tables& tables, std::string_view type, std::string_view ns, Seq at,
                           const ObjectKey* after, std::size_t most, const Wanted& wanted, bool count_left) const;

 private:
  struct Kept {
    std::deque<Entry> entries;
    Seq from = 0;  // every change after this one is kept
  };
  void forget_oldest(Kept& kept);
  void count(const Object& object, std::ptrdiff_t more);
  std::size_t count_at(const Tables& tables, std::string_view type, std::string_view ns,
                       const std::map<ObjectKey, Ref<Object>>& then) const;

  Most most_;
  Seq began_ = 0;
  std::map<Uid, ShownRecords> shows_;  // of the latest versions, where they show work
  std::map<std::string, Kept, std::less<>> by_type_;
  // How many of each type there are now, in each namespace and ("") in all; so a page need not walk to the end.
  std::map<std::string, std::map<std::string, std::size_t, std::less<>>, std::less<>> counts_;
  std::size_t bytes_ = 0;
};

}  // namespace lockstep::kube
