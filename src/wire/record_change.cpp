#include "wire/record_change.h"

#include "model/record_fields.h"
#include "wire/codec.h"
#include "wire/fields.h"

namespace lockstep {

inline std::optional<Fault> unacceptable(const RecordChange& change) {
  const int puts = change.partition.has_value() + change.user.has_value() + change.account.has_value() +
                   change.association.has_value() + change.qos.has_value() + change.licence.has_value() +
                   change.reservation.has_value() + change.policy.has_value() + change.topology.has_value() +
                   change.node_class.has_value() + change.health_check.has_value();
  if (puts + !change.remove.empty() != 1)
    return Fault{"", "must put one record or remove one"};
  if (!change.remove.empty() && change.if_seq != 0)
    return Fault{"if_seq", "is asked of a record that is put; what is removed is removed in any version"};
  if (change.is_new && (!change.remove.empty() || change.if_seq != 0))
    return Fault{"is_new", "is asked of a record that is put, without if_seq"};
  return std::nullopt;
}

inline std::optional<Fault> unacceptable(const RecordChanges& ask) {
  return ask.changes.empty() ? std::optional<Fault>({"changes", "must name at least one"}) : std::nullopt;
}

namespace wire {

template <class V>
constexpr void describe(V& v, const RecordChange*) {
  v("partition", &RecordChange::partition);
  v("user", &RecordChange::user);
  v("account", &RecordChange::account);
  v("association", &RecordChange::association);
  v("qos", &RecordChange::qos);
  v("licence", &RecordChange::licence);
  v("reservation", &RecordChange::reservation);
  v("policy", &RecordChange::policy);
  v("topology", &RecordChange::topology);
  v("node_class", &RecordChange::node_class);
  v("health_check", &RecordChange::health_check);
  v("remove", &RecordChange::remove, kName);
  v("name", &RecordChange::name, kPhrase);
  v("if_seq", &RecordChange::if_seq);
  v("is_new", &RecordChange::is_new);
}

template <class V>
constexpr void describe(V& v, const RecordChanges*) {
  v.always("changes", &RecordChanges::changes, Items{kTogetherMax});
}

}  // namespace wire

std::string encode(const RecordChanges& ask) { return wire::encode_value(ask); }
Result<RecordChanges> decode_record_changes(std::string_view text) {
  return wire::decode_value<RecordChanges>(text, wire::Origin::kCaller);
}

}  // namespace lockstep
