// Change: a record as it is now, or its removal. The only form in which state leaves the core.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "model/meta.h"

namespace lockstep {

// Readers that only hand changes on need not know what is in a record.
#define KIND(type, name, word, table, count, seen) struct type;
#include "model/kinds.def"

using Record =
    std::variant<Ref<Cluster>, Ref<User>, Ref<Account>, Ref<Partition>, Ref<Node>, Ref<JoinToken>, Ref<Job>, Ref<Step>,
                 Ref<Task>, Ref<Object>, Ref<Association>, Ref<Qos>, Ref<Usage>, Ref<Licence>, Ref<Reservation>,
                 Ref<Policy>, Ref<Topology>, Ref<Packing>, Ref<NodeClass>, Ref<HealthCheck>>;

struct Change {
  Seq seq = 0;
  Record record;  // for a removal: the last version
  bool removed = false;
};

const Meta& meta_of(const Record& record);
Kind kind_of(const Record& record);

// A fact worth telling, for history, watches and people. Not needed to rebuild state.
struct Event {
  Instant at;
  Kind kind = Kind::kJob;
  Uid about;
  JobId job;         // 0 if not about a job
  std::string what;  // "Started", "NodeLost", "Requeued" …
  std::string message;
};

}  // namespace lockstep
