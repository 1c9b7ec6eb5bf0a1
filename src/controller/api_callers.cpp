// The API's callers: records of local users are kept fresh, and root of a node is kept to that node.
#include "base/text.h"
#include "controller/api.h"
#include "views/job_names.h"

namespace lockstep {

// Who waits or runs without a word gets the groups of today all the same.
void Api::sweep_accounts() {
  world_.loop.after(kAccountSweep, [this] {
    std::vector<std::uint32_t> uids;
    for (const UserId id : world_.view.users_with_work())
      if (const User* user = world_.view.tables().user(id); user && user->realm == "local")
        uids.push_back(user->uid);
    accounts_.refresh(uids);
    sweep_accounts();
  });
}

bool Api::needs_freshening(const Visit& visit, const Who& who) const {
  if (who.kind == Who::Kind::kNewUser)
    return true;
  return !visit.account_asked && who.known && who.known->realm == "local" && accounts_.is_due(who.known->uid);
}

void Api::freshen(Visit visit, const Routes::Found& found, Who who) {
  constexpr Duration kPatience = millis(250), kPatienceForNew = seconds(5);
  const bool is_new = who.kind == Who::Kind::kNewUser;
  const User user = is_new ? std::move(who.user) : *who.known;
  if (is_new && visit.account_asked)
    return visit.refuse({Errc::kUnavailable, format("uid {} cannot be recorded now: try again", user.uid), {}});
  visit.account_asked = true;
  auto go_on = [this, visit = std::move(visit), found](const Result<void>& done) mutable {
    if (!done.ok())
      return visit.refuse(done.error());
    const Payer payer = visit.payer;
    world_.turns.add(payer, [this, visit = std::move(visit), found]() mutable { dispatch(std::move(visit), found); });
  };
  if (user.realm == "local")
    return accounts_.ask(user.uid, user.gid, is_new ? kPatienceForNew : kPatience, std::move(go_on));
  world_.core.submit({{UserId{}, true}, PutUser{user}}, {}, [go_on = std::move(go_on)](Result<Answer> answer) mutable {
    go_on(answer.ok() ? Result<void>{} : Result<void>(answer.error()));
  });
}

Result<void> Api::check_reach(const Visit& visit, const Route& route, NodeId only_on) const {
  if (!only_on)
    return {};
  switch (route.reach) {
    case Reach::kNothing:
    case Reach::kShown:
    case Reach::kEach: return {};
    case Reach::kNewJob:
      return denied(
          "root of a compute node starts no jobs from there: use the controller's machine, or let an administrator "
          "allow it with `lockstep node update NODE --trust-administrators`");
    case Reach::kJob:
    case Reach::kStep: break;
  }
  const Job* job = job_there(visit, route);
  if (job && !world_.view.holds(job->id, only_on))
    return denied(
        format("job {} is not on this node: root of a compute node reaches only what is there", visit.names[0]));
  return {};
}

}  // namespace lockstep
