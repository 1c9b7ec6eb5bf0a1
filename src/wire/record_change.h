// POST /v1/changes: several records put or removed together, all of them or none.
//
//   {"changes":[{"account":{},"name":"physics"},
//               {"association":{"account":"physics","user":"ann"}},
//               {"qos":{"priority":10},"name":"normal","if_seq":41},
//               {"remove":"licence","name":"matlab"}]}
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/command.h"

namespace lockstep {

// One record to put, whole; or one to remove. Exactly one of them is given.
struct RecordChange {
  std::optional<Partition> partition;
  std::optional<User> user;
  std::optional<Account> account;
  std::optional<Association> association;
  std::optional<Qos> qos;
  std::optional<Licence> licence;
  std::optional<Reservation> reservation;
  std::optional<Policy> policy;
  std::optional<Topology> topology;
  std::optional<NodeClass> node_class;
  std::optional<HealthCheck> health_check;
  std::string remove;  // the word of a kind (model/kinds.def)
  // Of the record, where it does not say it itself (meta.name); of an association that is removed "account/user" or
  // "account/user/partition".
  std::string name;
  Seq if_seq = 0;       // refuses another version than this one; 0 = any
  bool is_new = false;  // refuses a record that is there already
};

struct RecordChanges {
  std::vector<RecordChange> changes;  // 1 to kTogetherMax
};
std::string encode(const RecordChanges& ask);
Result<RecordChanges> decode_record_changes(std::string_view text);

}  // namespace lockstep
