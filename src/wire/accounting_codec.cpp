// Accounts, associations, QOS, past use, licences, reservations, the policy.
#include "model/accounting_fields.h"
#include "wire/codec.h"
#include "wire/fields.h"

namespace lockstep {

namespace wire {

template struct StructCodec<NamedCount>;
template struct StructCodec<Tres>;
template struct StructCodec<TresLimit>;
template struct StructCodec<TresWeight>;
template struct StructCodec<Limits>;
template struct StructCodec<Quota>;

}  // namespace wire

Result<Account> decode_account(std::string_view text) {
  return wire::decode_value<Account>(text, wire::Origin::kCaller);
}
Result<Association> decode_association(std::string_view text) {
  return wire::decode_value<Association>(text, wire::Origin::kCaller);
}
Result<Qos> decode_qos(std::string_view text) { return wire::decode_value<Qos>(text, wire::Origin::kCaller); }
Result<Licence> decode_licence(std::string_view text) {
  return wire::decode_value<Licence>(text, wire::Origin::kCaller);
}
Result<Reservation> decode_reservation(std::string_view text) {
  return wire::decode_value<Reservation>(text, wire::Origin::kCaller);
}
Result<Policy> decode_policy(std::string_view text) { return wire::decode_value<Policy>(text, wire::Origin::kCaller); }

}  // namespace lockstep
