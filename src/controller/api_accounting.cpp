// The API's questions and requests about who may use what: accounts, associations, QOS, licences, reservations, the
// policy. A record is read, changed and put back whole; ?if_seq=N refuses when somebody else was faster.
#include "base/text.h"
#include "controller/api.h"
#include "wire/codec.h"

namespace lockstep {

Seq Api::expected_seq(const Visit& visit) { return parse_uint(visit.query("if_seq")).value_or(0); }

void Api::list_accounts(Visit visit) { list_all(std::move(visit), Kind::kAccount, world_.view.tables().accounts); }
void Api::put_account(Visit visit) { put_record<PutAccount>(std::move(visit), decode_account); }
void Api::remove_account(Visit visit) { remove_record<RemoveAccount>(std::move(visit)); }

void Api::list_associations(Visit visit) {
  list_all(std::move(visit), Kind::kAssociation, world_.view.tables().associations);
}
void Api::put_association(Visit visit) {
  auto body = decode_association(visit.http().body);
  if (!body.ok())
    return visit.refuse(body.error());
  const Seq seq = expected_seq(visit);
  command(std::move(visit), PutAssociation{std::move(*body), seq});
}
void Api::remove_association(Visit visit) {
  RemoveAssociation body{
      association_name(visit.names[0], visit.names[1], visit.names.size() > 2 ? visit.names[2] : "")};
  command(std::move(visit), std::move(body));
}

void Api::list_qos(Visit visit) { list_all(std::move(visit), Kind::kQos, world_.view.tables().qos); }
void Api::put_qos(Visit visit) { put_record<PutQos>(std::move(visit), decode_qos); }
void Api::remove_qos(Visit visit) { remove_record<RemoveQos>(std::move(visit)); }

void Api::list_licences(Visit visit) { list_all(std::move(visit), Kind::kLicence, world_.view.tables().licences); }
void Api::put_licence(Visit visit) { put_record<PutLicence>(std::move(visit), decode_licence); }
void Api::remove_licence(Visit visit) { remove_record<RemoveLicence>(std::move(visit)); }

void Api::list_reservations(Visit visit) {
  list_all(std::move(visit), Kind::kReservation, world_.view.tables().reservations);
}
void Api::put_reservation(Visit visit) { put_record<PutReservation>(std::move(visit), decode_reservation); }
void Api::remove_reservation(Visit visit) { remove_record<RemoveReservation>(std::move(visit)); }

void Api::get_policy(Visit visit) {
  visit.answer(encode_record(std::make_shared<const Policy>(world_.view.tables().policy())));
}
void Api::put_policy(Visit visit) {
  auto body = decode_policy(visit.http().body);
  if (!body.ok())
    return visit.refuse(body.error());
  command(std::move(visit), PutPolicy{std::move(*body)});
}
// ?account=…&user=…: "" = all.
void Api::reset_usage(Visit visit) {
  ResetUsage body{std::string(visit.query("account")), std::string(visit.query("user"))};
  command(std::move(visit), std::move(body));
}

}  // namespace lockstep
