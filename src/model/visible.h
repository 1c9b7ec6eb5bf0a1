// A record, or a part of one, as somebody may see it. Only as_seen_by() (model/kinds.h) makes one, and the encoders of
// answers take nothing else: what is private of a record cannot be sent by mistake.
#pragma once

#include <utility>

#include "base/check.h"
#include "model/change.h"

namespace lockstep {

// Each sees what those before it see.
enum class Visibility : unsigned char {
  kEveryone,       // every user of the cluster
  kOwner,          // the user it belongs to
  kAdministrator,  // administrators of the cluster
  kNobody,         // it never leaves the controller
};

class VisibleRecord;
VisibleRecord as_seen_by(const Record& record, Visibility viewer);

template <class T>
class Visible {
 public:
  Visible() = default;  // nothing is there
  explicit operator bool() const { return ref_ != nullptr; }
  const T& operator*() const { return *ref_; }
  const T* operator->() const { return ref_.get(); }
  const Ref<T>& ref() const { return ref_; }

 private:
  friend class VisibleRecord;
  explicit Visible(Ref<T> ref) : ref_(std::move(ref)) {}
  Ref<T> ref_;
};

class VisibleRecord {
 public:
  const Record& record() const { return record_; }
  template <class T>
  Visible<T> as() const {
    const auto* ref = std::get_if<Ref<T>>(&record_);
    CHECK(ref, "the record is of another kind");
    return Visible<T>(*ref);
  }

 private:
  friend VisibleRecord as_seen_by(const Record& record, Visibility viewer);
  explicit VisibleRecord(Record record) : record_(std::move(record)) {}
  Record record_;
};

}  // namespace lockstep
