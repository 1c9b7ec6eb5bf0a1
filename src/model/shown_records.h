// The records that an object of one job shows.
#pragma once

#include "model/records.h"
#include "model/tables.h"

namespace lockstep {

// As of one moment. Held by Ref where it is needed later.
struct ShownRecords {
  Ref<Job> job;    // null: it shows none yet, or it is forgotten
  Ref<Task> task;  // null: it has not started
  Ref<Node> node;  // where its task is, or was last, or where others make room for it
  friend bool operator==(const ShownRecords&, const ShownRecords&) = default;  // the same versions
};
ShownRecords shown_records(const Tables& tables, const Object& object);

}  // namespace lockstep
