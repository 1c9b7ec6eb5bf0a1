// Accounts, associations, QOS, past use, licences, reservations, the policy.
#include "wire/accounting_fields.h"
#include "wire/codec.h"

namespace lockstep {

namespace wire {

template struct StructCodec<NamedCount>;
template struct StructCodec<Tres>;
template struct StructCodec<TresLimit>;
template struct StructCodec<TresWeight>;
template struct StructCodec<Limits>;
template struct StructCodec<Quota>;
template struct StructCodec<Account>;
template struct StructCodec<Association>;
template struct StructCodec<Qos>;
template struct StructCodec<Usage>;
template struct StructCodec<Licence>;
template struct StructCodec<Reservation>;
template struct StructCodec<Policy>;

}  // namespace wire

Result<Account> decode_account(std::string_view text) {
  return wire::decode_value<Account>(text, wire::Origin::kStranger);
}
Result<Association> decode_association(std::string_view text) {
  return wire::decode_value<Association>(text, wire::Origin::kStranger);
}
Result<Qos> decode_qos(std::string_view text) { return wire::decode_value<Qos>(text, wire::Origin::kStranger); }
Result<Licence> decode_licence(std::string_view text) {
  return wire::decode_value<Licence>(text, wire::Origin::kStranger);
}
Result<Reservation> decode_reservation(std::string_view text) {
  return wire::decode_value<Reservation>(text, wire::Origin::kStranger);
}
Result<Policy> decode_policy(std::string_view text) {
  return wire::decode_value<Policy>(text, wire::Origin::kStranger);
}

}  // namespace lockstep
