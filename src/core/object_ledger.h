// ObjectLedger: what the objects of front ends take, share by share (model/object_share.h).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/result.h"
#include "model/object_share.h"
#include "model/records.h"

namespace lockstep {

class ObjectLedger {
 public:
  void begin(ObjectShares shares);  // nothing is counted yet
  // One object comes, changes or goes; one of both may be null.
  void index(const Object* before, const Object* after);

  // Whether there is room for the object, in the place of its older version where there is one. What is there already
  // may grow by an eighth beyond its share, so that what it is told can be written; and what is being deleted, always.
  // kExhausted, kObjectShareField: says what is full and what to do.
  Result<void> check(const Object& object, const Object* before) const;
  // The oldest of the same share where that keeps the newest alone and is full; nothing: none has to go.
  std::optional<ObjectKey> oldest_beyond(const Object& newest) const;

  bool operator==(const ObjectLedger& other) const { return taken_ == other.taken_ && all_ == other.all_; }

 private:
  struct Taken {
    std::uint64_t objects = 0, bytes = 0;
    std::set<std::pair<Uid, std::string>> by_age = {};  // names; where the newest stay
    bool operator==(const Taken&) const = default;
  };
  // Namespace and type. No type: all of that namespace that have no share of their own.
  using Holder = std::pair<std::string, std::string>;

  Holder holder_of(const Object& object) const;
  const ObjectShare& share_of(const Holder& holder) const;
  void count(const Object& object, bool there);

  ObjectShares shares_;
  std::map<Holder, Taken> taken_;
  Taken all_;
};

}  // namespace lockstep
