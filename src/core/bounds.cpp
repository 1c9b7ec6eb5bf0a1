#include "core/bounds.h"

#include "base/text.h"
#include "model/bounded.h"
#include "model/kinds.h"
#include "model/within.h"

namespace lockstep {

namespace {

template <class T, class... List>
concept OneOf = (std::is_same_v<T, List> || ...);

template <class T>
concept OfJobs = OneOf<T, HoldJob, ReleaseJob, RequeueJob, SuspendJob, ResumeJob>;
// The controller, its planner and its clock make these; of what nodes report no text is kept but why a launch failed.
template <class T>
concept OurOwn = OneOf<T, NodeAway, NodeLost, GiveUpMember, NodeFenced, AgentReport, ApplyPlan, Tick, SetWallOffset,
                       StartEpoch, LearnAttempts, RunHealthCheck>;
// These name what is there already: a name that is too long finds nothing.
template <class T>
concept LooksUp = OneOf<T, RemoveAccount, RemoveAssociation, RemoveQos, RemoveLicence, RemoveReservation, ResetUsage,
                        RemovePartition, RemoveNodeClass, RemoveHealthCheck, RemoveObject, DisownJob, RedeemToken,
                        RenewCertificate, RemoveNode, MarkCheckpoint>;

Result<void> check_signal(std::int32_t signal) {
  if (const auto fault = bounded::kSignal.refuses(signal))
    return invalid(format("signal {}", fault->why), "signal");
  return {};
}

struct Bounds {
  Result<void> operator()(const SubmitJob& c) const {
    if (c.spec)
      TRY(within_bounds(*c.spec));
    if (c.first_step)
      TRY(within_bounds(*c.first_step));
    if (c.array)
      TRY(within_bounds(*c.array));
    if (c.objects.size() > kOwnersMax)
      return invalid(format("objects has {} entries; {} are allowed", c.objects.size(), kOwnersMax), "objects");
    for (const Object& object : c.objects) TRY(within_bounds(object));
    return {};
  }
  Result<void> operator()(const CancelJob& c) const {
    TRY(check_signal(c.signal));
    return within_bounds(c.target);
  }
  template <OfJobs T>
  Result<void> operator()(const T& c) const {
    return within_bounds(c.target);
  }
  Result<void> operator()(const UpdateJob& c) const { return within_bounds(c); }
  Result<void> operator()(const EndJob& c) const { return check_signal(c.exit.signal); }
  Result<void> operator()(const CreateStep& c) const { return c.spec ? within_bounds(*c.spec) : Result<void>(); }
  Result<void> operator()(const SignalStep& c) const { return check_signal(c.signal); }
  Result<void> operator()(const SetTaskCount& c) const {
    if (c.count > kTaskRecordsMax)
      return invalid(format("count must be between 0 and {}", kTaskRecordsMax), "count");
    return {};
  }
  Result<void> operator()(const PutUser& c) const { return within_bounds(c.user); }
  Result<void> operator()(const PutAccount& c) const { return within_bounds(c.account); }
  Result<void> operator()(const PutAssociation& c) const { return within_bounds(c.association); }
  Result<void> operator()(const PutQos& c) const { return within_bounds(c.qos); }
  Result<void> operator()(const PutLicence& c) const { return within_bounds(c.licence); }
  Result<void> operator()(const PutReservation& c) const { return within_bounds(c.reservation); }
  Result<void> operator()(const PutPolicy& c) const { return within_bounds(c.policy); }
  Result<void> operator()(const PutTopology& c) const { return within_bounds(c.topology); }
  Result<void> operator()(const PutPartition& c) const { return within_bounds(c.partition); }
  Result<void> operator()(const PutNodeClass& c) const { return within_bounds(c.node_class); }
  Result<void> operator()(const PutHealthCheck& c) const { return within_bounds(c.check); }
  Result<void> operator()(const PutObject& c) const { return within_bounds(c.object); }
  Result<void> operator()(const PutToken& c) const { return within_bounds(c.token); }
  Result<void> operator()(const UpdateNode& c) const { return within_bounds(c); }
  Result<void> operator()(const NodeHello& c) const { return within_bounds(c.facts); }
  template <LooksUp T>
  Result<void> operator()(const T&) const {
    return {};
  }
  template <OurOwn T>
  Result<void> operator()(const T&) const {
    return {};
  }
};

// A new record needs room among those of its kind. Jobs, steps and tasks have rules of their own.
struct Room {
  const Tables& tables;

  Result<void> operator()(const PutUser& c) const {
    return room_in<User>(tables.users, tables.user(c.user.realm, c.user.uid) != nullptr);
  }
  Result<void> operator()(const PutAccount& c) const { return named(tables.accounts, c.account); }
  Result<void> operator()(const PutAssociation& c) const {
    const Association& a = c.association;
    return room_in<Association>(tables.associations,
                                tables.associations.contains(association_name(a.account, a.user, a.partition)));
  }
  Result<void> operator()(const PutQos& c) const { return named(tables.qos, c.qos); }
  Result<void> operator()(const PutLicence& c) const { return named(tables.licences, c.licence); }
  Result<void> operator()(const PutReservation& c) const { return named(tables.reservations, c.reservation); }
  Result<void> operator()(const PutPartition& c) const { return named(tables.partitions, c.partition); }
  Result<void> operator()(const PutNodeClass& c) const { return named(tables.node_classes, c.node_class); }
  Result<void> operator()(const PutHealthCheck& c) const { return named(tables.health_checks, c.check); }
  Result<void> operator()(const PutToken& c) const { return named(tables.tokens, c.token); }
  Result<void> operator()(const PutObject& c) const {
    const Object& o = c.object;
    return room_in<Object>(tables.objects, tables.objects.contains({o.type, o.meta.ns, o.meta.name}));
  }
  Result<void> operator()(const SubmitJob& c) const { return room_in<Object>(tables.objects, c.objects.empty()); }
  Result<void> operator()(const NodeHello& c) const {
    return room_in<Node>(tables.nodes, tables.node(c.facts.meta.name) != nullptr);
  }
  template <class T>
  Result<void> operator()(const T&) const {
    return {};
  }

 private:
  template <class T, class Map>
  static Result<void> room_in(const Map& map, bool known) {
    const KindRow& row = row_of(kKindOf<T>);
    if (known || map.size() < row.count_max)
      return {};
    return Error{Errc::kExhausted,
                 format("{} records of kind {} are listed, the most there may be: remove some", map.size(), row.word),
                 {}};
  }
  template <class Map, class T>
  static Result<void> named(const Map& map, const T& record) {
    return room_in<T>(map, map.contains(record.meta.name));
  }
};

}  // namespace

Result<void> check_bounds(const Tables& tables, const CommandBody& body) {
  TRY(std::visit(Bounds{}, body));
  return std::visit(Room{tables}, body);
}

}  // namespace lockstep
