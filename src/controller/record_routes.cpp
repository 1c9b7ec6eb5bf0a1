#include "controller/record_routes.h"

#include "base/text.h"
#include "controller/health_page.h"
#include "controller/job_page.h"
#include "controller/record_list.h"
#include "model/table_of.h"
#include "wire/api.h"
#include "wire/record_change.h"

namespace lockstep {

namespace {

constexpr std::string_view kIfSeq = "if_seq=number";
constexpr std::size_t kTopologyBody = 16 << 20;

using Names = std::vector<std::string>;

Seq expected_seq(const HttpRequest& request) {
  const auto it = request.query.find("if_seq");
  return it == request.query.end() ? 0 : parse_uint(it->second).value_or(0);
}

// "physics", "ann" and perhaps "debug", as they stand in a path.
std::string association_name_of(const Names& parts) {
  return association_name(parts.at(0), parts.at(1), parts.size() > 2 ? parts[2] : "");
}

void answer_done(const std::shared_ptr<FrontVisit>& visit, const Result<Answer>& done) {
  if (done.ok())
    visit->answer({200, "application/json", "{}", {}});
  else
    visit->refuse(done.error());
}

void commit_one(const std::shared_ptr<FrontVisit>& visit, CommandBody body) {
  visit->commit({std::move(body)}, [visit](const Result<Answer>& done) { answer_done(visit, done); });
}

// --- reading ---

template <class T>
PageReply list_of(const ReadContext& context, const PageRequest&) {
  std::vector<Record> records;
  const auto& table = context.tables.*kTableOf<T>;
  records.reserve(table.size());
  for (const auto& [key, record] : table) records.emplace_back(record);
  return record_list(kKindOf<T>, context.viewer(), std::move(records));
}

void answer_record(FrontVisit& visit, const std::optional<Record>& record, std::string_view missing) {
  const auto shown = record ? shown_to(visit.read()->viewer(), *record) : std::nullopt;
  if (!shown)
    return visit.refuse(not_found(std::string(missing)));
  visit.answer({200, "application/json", encode_record(*shown), {}});
}

// Of kinds that go by a name.
template <class T>
void read_named(const std::shared_ptr<FrontVisit>& visit) {
  const std::string& name = visit->names().at(0);
  const auto read = visit->read();
  const auto& table = read->tables.*kTableOf<T>;
  const auto it = table.find(name);
  answer_record(*visit, it == table.end() ? std::nullopt : std::optional<Record>(it->second),
                format("there is no {} {}", row_of(kKindOf<T>).word, name));
}

void read_association(const std::shared_ptr<FrontVisit>& visit) {
  const auto read = visit->read();
  const std::string name = association_name_of(visit->names());
  const auto it = read->tables.associations.find(name);
  answer_record(*visit, it == read->tables.associations.end() ? std::nullopt : std::optional<Record>(it->second),
                format("there is no association {}", name));
}

void read_node(const std::shared_ptr<FrontVisit>& visit) {
  const auto read = visit->read();
  const Node* node = read->tables.node(visit->names().at(0));
  answer_record(*visit, node ? std::optional<Record>(read->tables.nodes.at(node->id)) : std::nullopt,
                format("there is no node {}", visit->names()[0]));
}

void read_user(const std::shared_ptr<FrontVisit>& visit) {
  const auto read = visit->read();
  const User* user = read->tables.user_named(visit->names().at(0));
  answer_record(*visit, user ? std::optional<Record>(read->tables.users.at(user->id)) : std::nullopt,
                format("there is no user {}", visit->names()[0]));
}

void read_policy(const std::shared_ptr<FrontVisit>& visit) {
  answer_record(*visit, Record(std::make_shared<const Policy>(visit->read()->tables.policy())), "");
}

void read_topology(const std::shared_ptr<FrontVisit>& visit) {
  const Ref<Topology>& topology = visit->read()->tables.topology;
  answer_record(*visit, topology ? std::optional<Record>(topology) : std::nullopt,
                "the cluster has no topology: all nodes are equally near");
}

// --- one change ---

// The body as a record with the name in the path; ?if_seq=N says which version it replaces.
template <class Put, auto decode>
void put_record(const std::shared_ptr<FrontVisit>& visit) {
  decode_body(
      visit, [](const std::string& body) { return decode(body); },
      [visit](auto record) {
        if (!record.ok())
          return visit->refuse(record.error());
        if (!visit->names().empty())
          record->meta.name = visit->names()[0];
        Put put{std::move(*record)};
        put.if_seq = expected_seq(visit->request());
        commit_one(visit, std::move(put));
      });
}

void put_topology(const std::shared_ptr<FrontVisit>& visit) {
  decode_body(
      visit, [](const std::string& body) { return decode_topology(body); },
      [visit](Result<Topology> body) {
        if (!body.ok())
          return visit->refuse(body.error());
        if (body->leaves.empty())
          return visit->refuse(invalid("a topology without nodes; DELETE forgets it", "leaves"));
        commit_one(visit, PutTopology{std::move(*body), expected_seq(visit->request())});
      });
}

template <class Remove>
void remove_named(const std::shared_ptr<FrontVisit>& visit) {
  commit_one(visit, Remove{visit->names().at(0)});
}

void remove_association(const std::shared_ptr<FrontVisit>& visit) {
  commit_one(visit, RemoveAssociation{association_name_of(visit->names())});
}

// ?account=…&user=…: "" = all.
void reset_usage(const std::shared_ptr<FrontVisit>& visit) {
  const auto word = [&](std::string_view name) {
    const auto it = visit->request().query.find(name);
    return it == visit->request().query.end() ? std::string() : it->second;
  };
  commit_one(visit, ResetUsage{word("account"), word("user")});
}

void remove_topology(const std::shared_ptr<FrontVisit>& visit) { commit_one(visit, PutTopology{}); }

// --- several changes at once ---

template <class Put, class T>
void add_put(std::optional<T>& record, const RecordChange& change, std::optional<CommandBody>& out) {
  if (!record)
    return;
  if (!change.name.empty())
    record->meta.name = change.name;
  Put put{std::move(*record)};
  put.if_seq = change.is_new ? kIfNew : change.if_seq;
  out = std::move(put);
}

// "physics/ann/debug" or "physics/ann".
Result<CommandBody> remove_association_named(const std::string& name) {
  const Names parts = split(name, '/');
  if (parts.size() < 2 || parts.size() > 3)
    return invalid("an association is named ACCOUNT/USER or ACCOUNT/USER/PARTITION", "name");
  return CommandBody(RemoveAssociation{association_name_of(parts)});
}

template <class Remove>
Result<CommandBody> remove_by_name(const std::string& name) {
  return CommandBody(Remove{name});
}

struct Removal {
  Kind kind;
  Result<CommandBody> (*command)(const std::string& name);
};
constexpr Removal kRemovals[] = {
    {Kind::kPartition, remove_by_name<RemovePartition>},
    {Kind::kAccount, remove_by_name<RemoveAccount>},
    {Kind::kAssociation, remove_association_named},
    {Kind::kQos, remove_by_name<RemoveQos>},
    {Kind::kLicence, remove_by_name<RemoveLicence>},
    {Kind::kReservation, remove_by_name<RemoveReservation>},
    {Kind::kNodeClass, remove_by_name<RemoveNodeClass>},
    {Kind::kHealthCheck, remove_by_name<RemoveHealthCheck>},
    {Kind::kTopology, [](const std::string&) -> Result<CommandBody> { return CommandBody(PutTopology{}); }},
};

Result<CommandBody> removal(const RecordChange& change) {
  std::string words;
  for (const Removal& one : kRemovals) {
    if (row_of(one.kind).word == change.remove)
      return one.command(change.name);
    words += format("{}{}", words.empty() ? "" : ", ", row_of(one.kind).word);
  }
  return invalid(format("\"{}\" is nothing that is removed so; what is: {}", change.remove, words), "remove");
}

Result<CommandBody> command_of(RecordChange change) {
  if (!change.remove.empty())
    return removal(change);
  if (change.topology && change.topology->leaves.empty())
    return invalid("a topology without nodes; {\"remove\":\"topology\"} forgets it", "topology.leaves");
  std::optional<CommandBody> body;
  add_put<PutPartition>(change.partition, change, body);
  add_put<PutUser>(change.user, change, body);
  add_put<PutAccount>(change.account, change, body);
  add_put<PutAssociation>(change.association, change, body);
  add_put<PutQos>(change.qos, change, body);
  add_put<PutLicence>(change.licence, change, body);
  add_put<PutReservation>(change.reservation, change, body);
  add_put<PutPolicy>(change.policy, change, body);
  add_put<PutTopology>(change.topology, change, body);
  add_put<PutNodeClass>(change.node_class, change, body);
  add_put<PutHealthCheck>(change.health_check, change, body);
  CHECK(body, "a change puts a record or removes one: its decoder says so");
  return std::move(*body);
}

// What the core calls "also[3].limits" is "changes[4].limits".
Error in_words_of_the_caller(Error error) {
  std::size_t index = 0;
  std::string_view rest = error.field;
  if (rest.starts_with("also[")) {
    const auto end = rest.find(']');
    index = parse_uint(rest.substr(5, end - 5)).value_or(0) + 1;
    rest.remove_prefix(std::min(rest.size(), end + 1));
  } else if (rest.starts_with("body")) {
    rest.remove_prefix(4);
  } else {
    error.field = format("changes[0]{}{}", rest.empty() ? "" : ".", rest);  // a single one: the core names no place
    return error;
  }
  error.field = format("changes[{}]{}", index, rest);
  error.message = format("changes[{}]: {}; nothing was changed", index, error.message);
  return error;
}

void make_changes_read(const std::shared_ptr<FrontVisit>& visit, Result<RecordChanges> asked) {
  if (!asked.ok())
    return visit->refuse(asked.error());
  std::vector<CommandBody> bodies;
  for (std::size_t i = 0; i < asked->changes.size(); ++i) {
    auto body = command_of(std::move(asked->changes[i]));
    if (!body.ok()) {
      Error error = body.error();
      error.field = format("changes[{}].{}", i, error.field);
      return visit->refuse(error);
    }
    bodies.push_back(std::move(*body));
  }
  visit->commit(std::move(bodies), [visit](const Result<Answer>& done) {
    answer_done(visit, done.ok() ? done : Result<Answer>(in_words_of_the_caller(done.error())));
  });
}

void make_changes(const std::shared_ptr<FrontVisit>& visit) {
  decode_body(
      visit, [](const std::string& body) { return decode_record_changes(body); },
      [visit](Result<RecordChanges> asked) { make_changes_read(visit, std::move(asked)); });
}

// --- rows ---

template <class T>
FrontRoute list_row(std::string_view path, Reach reach = Reach::kNothing) {
  return page_row(path, PageKind::kTables, list_of<T>, {}, reach);
}
FrontRoute read_row(std::string_view path, FrontHandler handler) {
  return {{"GET", path, Right::kUser, Cost::kRead}, std::move(handler)};
}
FrontRoute put_row(std::string_view path, FrontHandler handler, std::size_t body_max = kRecordBody) {
  return {{"PUT", path, Right::kAdministrator, Cost::kChange, body_max, kIfSeq}, std::move(handler)};
}
FrontRoute remove_row(std::string_view path, FrontHandler handler) {
  return {{"DELETE", path, Right::kAdministrator, Cost::kChange}, std::move(handler)};
}

}  // namespace

std::vector<FrontRoute> record_routes() {
  return {
      list_row<Node>("/v1/nodes"),
      read_row("/v1/nodes/*", read_node),
      remove_row("/v1/nodes/*", remove_named<RemoveNode>),
      list_row<NodeClass>("/v1/node_classes"),
      read_row("/v1/node_classes/*", read_named<NodeClass>),
      put_row("/v1/node_classes/*", put_record<PutNodeClass, decode_node_class>),
      remove_row("/v1/node_classes/*", remove_named<RemoveNodeClass>),
      page_row("/v1/health", PageKind::kTables, health_page, "node"),
      list_row<HealthCheck>("/v1/health_checks"),
      read_row("/v1/health_checks/*", read_named<HealthCheck>),
      put_row("/v1/health_checks/*", put_record<PutHealthCheck, decode_health_check>),
      remove_row("/v1/health_checks/*", remove_named<RemoveHealthCheck>),
      list_row<Partition>("/v1/partitions"),
      read_row("/v1/partitions/*", read_named<Partition>),
      put_row("/v1/partitions/*", put_record<PutPartition, decode_partition>),
      remove_row("/v1/partitions/*", remove_named<RemovePartition>),
      list_row<User>("/v1/users"),
      read_row("/v1/users/*", read_user),
      put_row("/v1/users/*", put_record<PutUser, decode_user>),
      list_row<Account>("/v1/accounts"),
      read_row("/v1/accounts/*", read_named<Account>),
      put_row("/v1/accounts/*", put_record<PutAccount, decode_account>),
      remove_row("/v1/accounts/*", remove_named<RemoveAccount>),
      list_row<Association>("/v1/associations"),
      read_row("/v1/associations/*/*", read_association),
      read_row("/v1/associations/*/*/*", read_association),
      put_row("/v1/associations", put_record<PutAssociation, decode_association>),
      remove_row("/v1/associations/*/*", remove_association),
      remove_row("/v1/associations/*/*/*", remove_association),
      list_row<Qos>("/v1/qos"),
      read_row("/v1/qos/*", read_named<Qos>),
      put_row("/v1/qos/*", put_record<PutQos, decode_qos>),
      remove_row("/v1/qos/*", remove_named<RemoveQos>),
      list_row<Licence>("/v1/licences"),
      read_row("/v1/licences/*", read_named<Licence>),
      put_row("/v1/licences/*", put_record<PutLicence, decode_licence>),
      remove_row("/v1/licences/*", remove_named<RemoveLicence>),
      list_row<Reservation>("/v1/reservations"),
      read_row("/v1/reservations/*", read_named<Reservation>),
      put_row("/v1/reservations/*", put_record<PutReservation, decode_reservation>),
      remove_row("/v1/reservations/*", remove_named<RemoveReservation>),
      read_row("/v1/policy", read_policy),
      put_row("/v1/policy", put_record<PutPolicy, decode_policy>),
      read_row("/v1/topology", read_topology),
      put_row("/v1/topology", put_topology, kTopologyBody),
      remove_row("/v1/topology", remove_topology),
      {{"POST", "/v1/usage/reset", Right::kAdministrator, Cost::kChange, kNoBody, "account,user"},
       FrontHandler(reset_usage)},
      page_row("/v1/jobs", PageKind::kTables, jobs_page, "id,user,state,partition,name", Reach::kShown),
      list_row<Step>("/v1/steps", Reach::kShown),
      {{"POST", "/v1/changes", Right::kAdministrator, Cost::kChange, kRecordBody}, FrontHandler(make_changes)},
  };
}

}  // namespace lockstep
