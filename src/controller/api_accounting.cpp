// The API's questions and requests about who may use what: accounts, associations, QOS, licences, reservations, the
// policy. A record is read, changed and put back whole; ?if_seq=N refuses when somebody else was faster.
#include "base/text.h"
#include "controller/api.h"
#include "wire/codec.h"

namespace lockstep {

namespace {

template <class Map>
std::string records_of(Kind kind, const Map& map) {
  std::vector<Record> records;
  for (const auto& [key, record] : map) records.emplace_back(record);
  return encode_records(kind, records);
}

}  // namespace

Seq Api::expected_seq(const Visit& visit) { return parse_uint(visit.query("if_seq")).value_or(0); }

void Api::list_accounts(Visit visit) { visit.answer(records_of(Kind::kAccount, world_.view.tables().accounts)); }
void Api::put_account(Visit visit) {
  auto body = decode_account(visit.http().body);
  if (!body.ok())
    return visit.refuse(body.error());
  body->meta.name = visit.names[0];
  const Seq seq = expected_seq(visit);
  command(std::move(visit), PutAccount{std::move(*body), seq});
}
void Api::remove_account(Visit visit) {
  RemoveAccount body{visit.names[0]};
  command(std::move(visit), std::move(body));
}

void Api::list_associations(Visit visit) {
  visit.answer(records_of(Kind::kAssociation, world_.view.tables().associations));
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

void Api::list_qos(Visit visit) { visit.answer(records_of(Kind::kQos, world_.view.tables().qos)); }
void Api::put_qos(Visit visit) {
  auto body = decode_qos(visit.http().body);
  if (!body.ok())
    return visit.refuse(body.error());
  body->meta.name = visit.names[0];
  const Seq seq = expected_seq(visit);
  command(std::move(visit), PutQos{std::move(*body), seq});
}
void Api::remove_qos(Visit visit) {
  RemoveQos body{visit.names[0]};
  command(std::move(visit), std::move(body));
}

void Api::list_licences(Visit visit) { visit.answer(records_of(Kind::kLicence, world_.view.tables().licences)); }
void Api::put_licence(Visit visit) {
  auto body = decode_licence(visit.http().body);
  if (!body.ok())
    return visit.refuse(body.error());
  body->meta.name = visit.names[0];
  command(std::move(visit), PutLicence{std::move(*body)});
}
void Api::remove_licence(Visit visit) {
  RemoveLicence body{visit.names[0]};
  command(std::move(visit), std::move(body));
}

void Api::list_reservations(Visit visit) {
  visit.answer(records_of(Kind::kReservation, world_.view.tables().reservations));
}
void Api::put_reservation(Visit visit) {
  auto body = decode_reservation(visit.http().body);
  if (!body.ok())
    return visit.refuse(body.error());
  body->meta.name = visit.names[0];
  const Seq seq = expected_seq(visit);
  command(std::move(visit), PutReservation{std::move(*body), seq});
}
void Api::remove_reservation(Visit visit) {
  RemoveReservation body{visit.names[0]};
  command(std::move(visit), std::move(body));
}

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
