#include "controller/node_desk.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "base/check.h"
#include "base/ip_range.h"
#include "base/mutant.h"
#include "base/text.h"
#include "controller/launch_lane.h"
#include "core/inner.h"
#include "core/nodes.h"
#include "model/job.h"
#include "rules/growth.h"

namespace lockstep {

namespace {

StopWhy why_it_ends(const Job& job) {
  if (job.ending == JobState::kCancelled && job.requeue_after)
    return StopWhy::kRequeued;
  switch (job.ending) {
    case JobState::kTimeout:
    case JobState::kDeadline: return StopWhy::kTimeLimit;
    case JobState::kPreempted: return StopWhy::kPreempted;
    case JobState::kNodeFail: return StopWhy::kNodeFail;
    case JobState::kFailed: return StopWhy::kFailed;
    case JobState::kCompleted:  // what it left behind
    case JobState::kCancelled: return StopWhy::kCancelled;
    default: return StopWhy::kNothing;
  }
}

constexpr Duration kRetry = millis(500);     // a command the engine could not take
constexpr Duration kHookEvery = seconds(1);  // a fence hook that had no proof yet
// A launch carries its whole environment: those of a wide job are composed as messages go out, not all at once.
constexpr std::size_t kPerformedAtOnce = 256;
constexpr std::size_t kComposedBytesAtOnce = 1 << 20;
constexpr std::int64_t kBootClockMost = std::int64_t{1} << 60;  // no machine runs that long: it is no clock

bool try_again(const Error& error) { return error.code == Errc::kUnavailable || error.code == Errc::kExhausted; }

}  // namespace

struct NodeDesk::Inner {
  struct Conn {
    std::string node_name;    // as the certificate proves it
    std::string certificate;  // its serial
    std::string address;      // from which it was dialled
    NodeId node;              // once welcomed
    std::string boot_id;
    std::vector<Holding> holdings;            // as last told
    Instant disagrees_since;                  // 0 = what it holds is what it should
    std::set<std::uint64_t> reports_in_hand;  // numbers waiting for their commit
    std::deque<std::uint64_t> waiting;   // tokens of reports the engine could not take, to be sent again in this order
    std::optional<Duration> boot_clock;  // what the agent's clock is behind ours, at most; unset before a renewal
    std::uint64_t order = 0;             // counts connections: of two of one node the later one is right
    bool hello_in_hand = false;
  };

  struct Work {  // an attempt with a member on the node
    AttemptNo attempt = 0;
    Duration fence_after = kForever;
    bool fence_in_hand = false;  // its end by the fence, or its being given up
  };
  struct NodeInfo {
    std::uint64_t link = 0;   // 0 = none
    Instant hello;            // Node::seen_at when `link` was welcomed
    Instant heard;            // last renewal, or the desk's start
    Duration deaf_before;     // what `deaf` was then
    Instant acked;            // when the last acknowledgement was sent, or the desk's start
    std::string boot_id;      // as recorded
    std::string certificate;  // as recorded
    NodeLink record = NodeLink::kUnknown;
    bool has_hook = false;
    bool loss_in_hand = false;
    bool fence_in_hand = false;
    std::string fenced_boot;  // this boot is proven gone
    Instant ask_hook = kNever;
    std::string asked_boot;  // what the hook was asked about
    TaskRoute route;         // to its tasks' addresses, as the others were told; no range = none
    std::map<JobId, Work> work;
    Instant due = kNever;  // its place in deadlines
  };

  enum class What : unsigned char { kHello, kReport, kLost, kFenced, kMemberFenced, kGivenUp, kForget };
  struct Pending {
    What what = What::kForget;
    Command command;
    std::uint64_t link = 0;
    std::uint64_t number = 0;
    NodeId node;
    JobId job;
  };

  NodeDeskSettings settings;
  Composer composer;
  Instant start;
  Instant beat;   // the last one, or the start
  Duration deaf;  // sum of our own pauses so far
  Instant awake;  // since when we hear without a pause
  bool primed = false;
  std::map<std::uint64_t, Conn> conns;
  std::map<NodeId, NodeInfo> nodes;
  std::map<JobId, Ref<Allocation>> placed;
  std::set<std::pair<Instant, NodeId>> deadlines;
  std::map<std::uint64_t, Pending> pending;       // by token
  std::multimap<Instant, std::uint64_t> retries;  // tokens to be sent again
  std::uint64_t next_token = 1;
  std::uint64_t connections = 0;
  std::map<std::uint64_t, std::vector<std::uint64_t>> reports_done;  // by link: go out as one acknowledgement
  std::deque<Action> to_perform;
  std::map<NodeId, std::size_t> to_perform_on;    // how many of them are for the node; none zero
  std::size_t performed = 0, composed_bytes = 0;  // since the messages were taken
  std::vector<Outgoing> out;
  std::vector<ToCommit> commands;
  std::vector<FenceRequest> fence_requests;

  Inner(NodeDeskSettings s, Composer c, Instant now)
      : settings(s), composer(std::move(c)), start(now), beat(now), awake(now) {}

  // --- what the records say ---

  void prime(const ClusterState& state) {
    if (primed)
      return;
    primed = true;
    for (const auto& [id, node] : state.tables().nodes) note_node(*node, false);
    for (const auto& [id, job] : state.tables().jobs) note_job(*job, false);
    for (auto& [id, info] : nodes) {
      if (info.record != NodeLink::kLost || !info.work.empty())
        info.ask_hook = start + kHookEvery;
      schedule(id, info);
    }
  }

  NodeInfo& info_of(NodeId id) {
    CHECK(id);
    const auto [it, fresh] = nodes.try_emplace(id);
    if (fresh) {
      heard(it->second, start);
      it->second.acked = start;
    }
    return it->second;
  }

  // A connection under a certificate that counts no more is cut at once, whatever its holder was about to say.
  void cut_revoked(const Node& node, bool removed) {
    std::vector<std::uint64_t> cut;
    for (const auto& [link, conn] : conns)
      if (conn.node_name == node.meta.name && !conn.certificate.empty() &&
          (removed || (!node.certificate.empty() && conn.certificate != node.certificate)))
        cut.push_back(link);
    for (const std::uint64_t link : cut) {
      const auto info = nodes.find(node.id);
      drop_link(link, info == nodes.end() ? nullptr : &info->second, "the certificate of this node counts no more");
    }
  }

  void note_node(const Node& node, bool removed) {
    NodeInfo* const before = nodes.contains(node.id) ? &nodes.at(node.id) : nullptr;
    if (removed || (before && before->certificate != node.certificate))
      cut_revoked(node, removed);
    if (removed) {
      if (const auto it = nodes.find(node.id); it != nodes.end()) {
        note_route(it->second, {});
        deadlines.erase({it->second.due, node.id});
        nodes.erase(it);
      }
      return;
    }
    NodeInfo& info = info_of(node.id);
    info.boot_id = node.boot_id;
    info.certificate = node.certificate;
    info.record = node.link;
    info.has_hook = node.has_fence_hook;
    note_route(info, {node.task_range, node.address});
    schedule(node.id, info);
  }

  void note_route(NodeInfo& info, TaskRoute now) {
    const auto via = parse_ip(now.via);
    if (now.range.empty() || !via || is_loopback(*via))  // no other machine finds it there
      now = {};
    if (now == info.route)
      return;
    TaskRoutes told;
    if (!info.route.range.empty() && info.route.range != now.range)
      told.routes.push_back({info.route.range, ""});
    if (!now.range.empty())
      told.routes.push_back(now);
    info.route = std::move(now);
    for (const auto& [link, conn] : conns)
      if (conn.node)
        send(link, told);
  }

  // All that there are, on a new connection.
  void tell_routes(std::uint64_t link) {
    TaskRoutes told{.all = true, .routes = {}};
    for (const auto& [id, info] : nodes)
      if (!info.route.range.empty())
        told.routes.push_back(info.route);
    if (!told.routes.empty())
      send(link, std::move(told));
  }

  // Grants of an attempt that hold nothing any more, since their nodes are lost to it.
  static std::set<NodeId> left_behind_by(const Allocation& allocation) {
    std::set<NodeId> left;
    for (const Grant& grant : allocation.grants)
      if (!occupies(grant))
        left.insert(grant.node);
    return left;
  }

  void work_ends(NodeId node, JobId job) {
    const auto at = nodes.find(node);
    if (at == nodes.end())
      return;
    at->second.work.erase(job);
    schedule(node, at->second);
  }
  void work_begins(NodeId node, JobId job, const Allocation& allocation) {
    NodeInfo& info = info_of(node);
    info.work.try_emplace(job, Work{allocation.attempt, allocation.fence_after, false});
    schedule(node, info);
  }

  void note_job(const Job& job, bool removed) {
    const Ref<Allocation> now_there = removed ? nullptr : job.allocation;
    const auto it = placed.find(job.id);
    const Ref<Allocation> before = it == placed.end() ? nullptr : it->second;
    if (before == now_there)
      return;  // where it runs has not changed
    const bool same_attempt = before && now_there && before->attempt == now_there->attempt;
    const std::set<NodeId> left_behind = same_attempt ? left_behind_by(*now_there) : std::set<NodeId>();
    if (before)
      for (const Grant& grant : before->grants)
        if (!same_attempt || left_behind.contains(grant.node))
          work_ends(grant.node, job.id);
    if (now_there)
      for (const Grant& grant : now_there->grants)
        if (!left_behind.contains(grant.node))
          work_begins(grant.node, job.id, *now_there);
    if (now_there)
      placed[job.id] = now_there;
    else
      placed.erase(job.id);
  }

  // --- time ---

  // Beats are missing: what nodes say may be waiting where we cannot hear it.
  bool deaf_now(Instant now) const { return now - beat > kBeatLate && !mutant(Mutant::kOwnSilence); }

  void heard(NodeInfo& info, Instant now) {
    info.heard = now;
    info.deaf_before = deaf;
  }
  Duration silence(const NodeInfo& info, Instant now) const {
    const Duration missing = deaf_now(now) ? now - beat : Duration{};
    return std::max(Duration{}, now - info.heard - (deaf - info.deaf_before) - missing);
  }

  // When the node will have been silent for that long. After a pause every agent has the time of a whole lease first.
  Instant silent_for(const NodeInfo& info, Duration time) const {
    return std::max(info.heard + (deaf - info.deaf_before) + time, awake + settings.lease_term);
  }
  Instant loss_at(const NodeInfo& info) const { return silent_for(info, settings.node_timeout); }
  Instant member_fence_at(const NodeInfo& info, const Work& work) const {
    if (work.fence_in_hand)
      return kNever;
    if (work.fence_after >= kForever)
      return silent_for(info, settings.give_up_after + settings.drift);
    return std::max(info.acked, start) + work.fence_after + settings.drift;
  }
  bool connected_now(const NodeInfo& info) const { return info.link != 0; }

  // not_before: what silence decides, and cannot decide now, is looked at again then.
  void schedule(NodeId id, NodeInfo& info, Instant not_before = {}) {
    Instant due = kNever;
    if (info.record != NodeLink::kLost && !info.loss_in_hand)
      due = std::min(due, std::max(loss_at(info), not_before));
    if (info.has_hook && !connected_now(info) && !info.fence_in_hand &&
        (info.fenced_boot.empty() || info.fenced_boot != info.boot_id))
      due = std::min(due, info.ask_hook);
    if (info.record == NodeLink::kLost)
      for (const auto& [job, work] : info.work)
        due =
            std::min(due, std::max(member_fence_at(info, work), work.fence_after < kForever ? Instant{} : not_before));
    if (due == info.due)
      return;
    deadlines.erase({info.due, id});
    info.due = due;
    if (due < kNever)
      deadlines.insert({due, id});
  }

  // --- commands ---

  std::uint64_t commit(Pending what) {
    const std::uint64_t token = next_token++;
    CHECK(!pending.contains(token));
    commands.push_back({what.command, token});
    pending.emplace(token, std::move(what));
    return token;
  }

  void commit_lost(NodeId id, NodeInfo& info) {
    if (info.loss_in_hand)
      return;
    info.loss_in_hand = true;
    commit({What::kLost, {{UserId{}, true}, NodeLost{id}}, 0, 0, id, {}});
  }

  void drop_link(std::uint64_t link, NodeInfo* info, std::string why) {
    if (!why.empty())
      send(link, Refused{std::move(why)});
    forget(link);
    if (info && info->link == link) {
      info->link = 0;
      info->ask_hook = {};  // as soon as its turn comes
    }
  }

  void forget(std::uint64_t link) {
    const auto it = conns.find(link);
    if (it == conns.end())
      return;
    for (const auto token : it->second.waiting) pending.erase(token);
    conns.erase(it);
  }

  // A machine that lost power leaves a connection behind, with words of its last boot still under way. Once the node
  // has spoken on a later connection they must not be heard any more: an old boot id looks like a reboot.
  bool outdated(std::uint64_t link, const Conn& conn) {
    std::vector<std::uint64_t> older;
    for (const auto& [other, c] : conns) {
      if (other == link || c.node_name != conn.node_name)
        continue;
      if (c.order > conn.order)
        return true;
      older.push_back(other);
    }
    for (const auto other : older)
      drop_link(other, conns.at(other).node ? &info_of(conns.at(other).node) : nullptr,
                "a newer connection of this node has taken over");
    return false;
  }

  void send(std::uint64_t link, ToAgent message) { out.push_back({link, std::move(message)}); }

  // --- messages ---

  // Why a connection may not say this hello; "" = it may. The core checks the certificate when the hello is applied;
  // by then this link would have taken over from the one that counts.
  std::string refusal_of(std::uint64_t link, const Conn& conn, const Hello& message, const ClusterState& state) {
    if (message.protocol_min > kProtocolMax || message.protocol_max < kProtocolMin)
      return format("this controller speaks link protocol {} to {}, the agent {} to {}: upgrade the older side",
                    kProtocolMin, kProtocolMax, message.protocol_min, message.protocol_max);
    if (message.facts.meta.name != conn.node_name)
      return format("the certificate is for node {}, the agent says it is {}", conn.node_name, message.facts.meta.name);
    if (message.facts.boot_id.empty())
      return "the agent names no boot id";
    if (conn.hello_in_hand)
      return {};
    if (const Node* known = state.tables().node(conn.node_name))
      if (const auto counts = check_certificate(*known, conn.certificate); !counts.ok())
        return counts.error().message;
    return outdated(link, conn) ? "a newer connection of this node has taken over" : "";
  }

  // Of one that was welcomed before, the node has no connection any more.
  void refuse(std::uint64_t link, const Conn& conn, std::string why) {
    const NodeId node = conn.node;
    const auto info = nodes.find(node);
    const bool was_welcomed = info != nodes.end() && info->second.link == link;
    drop_link(link, was_welcomed ? &info->second : nullptr, std::move(why));
    if (was_welcomed)
      went_away(node, info->second);
  }

  // Without a connection it gets no new work before its next hello.
  void went_away(NodeId node, NodeInfo& info) {
    CHECK(!connected_now(info));
    if (info.record == NodeLink::kUp)
      commit({What::kForget, {{UserId{}, true}, NodeAway{node, info.hello}}, 0, 0, node, {}});
    schedule(node, info);
  }

  void hello(std::uint64_t link, Conn& conn, Hello message, const ClusterState& state) {
    if (std::string why = refusal_of(link, conn, message, state); !why.empty())
      return refuse(link, conn, std::move(why));
    if (conn.hello_in_hand)
      return;
    conn.hello_in_hand = true;
    conn.boot_id = message.facts.boot_id;
    conn.holdings = std::move(message.holdings);
    NodeHello said{std::move(message.facts), conn.certificate, message.highest_job, {}, conn.address};
    for (const Holding& holding : conn.holdings)
      if (const Job* job = state.tables().job(holding.job);
          job && (job->attempt < holding.attempt || (job->attempt == holding.attempt && holding.next_step > 0)))
        said.attempts.push_back({holding.job, holding.attempt, holding.next_step});
    commit({What::kHello, {{UserId{}, true}, std::move(said)}, link, 0, {}, {}});
  }

  void hello_answered(std::uint64_t link, const Result<Answer>& answer, const ClusterState& state, Instant now) {
    const auto it = conns.find(link);
    if (it == conns.end())
      return;
    Conn& conn = it->second;
    conn.hello_in_hand = false;
    if (!answer.ok()) {
      drop_link(link, nullptr, answer.error().message);
      return;
    }
    NodeInfo& info = info_of(answer->node);
    if (info.link != 0 && info.link != link)
      drop_link(info.link, &info, "a newer connection of this node has taken over");
    CHECK(info.link == 0 || info.link == link);
    conn.node = answer->node;
    info.link = link;
    if (const auto record = state.tables().nodes.find(conn.node); record != state.tables().nodes.end())
      info.hello = record->second->seen_at;
    heard(info, now);
    info.acked = now;
    info.ask_hook = kNever;
    info.fenced_boot.clear();
    Welcome welcome;
    welcome.node = conn.node;
    welcome.renew_every = settings.lease_term / 3;
    if (state.tables().cluster)
      welcome.cluster = state.tables().cluster->name;
    send(link, std::move(welcome));
    tell_routes(link);
    conn.disagrees_since = {};
    // Nothing is under way on a new connection: say at once what is missing.
    if (!to_perform_on.contains(conn.node))
      for (const auto& action : reconcile(state, conn.node, conn.holdings)) will_perform(action);
    perform_some(state);
    schedule(conn.node, info);
  }

  void renew(std::uint64_t link, Conn& conn, Renew message, const ClusterState& state, Instant now) {
    if (!conn.node)
      return;
    NodeInfo& info = info_of(conn.node);
    if (info.record == NodeLink::kLost || info.record == NodeLink::kAway) {
      // That was decided while its hello was under way. Only a new hello brings it back, and no fence may move.
      const NodeId node = conn.node;
      drop_link(link, &info,
                info.record == NodeLink::kLost ? "declared lost: connect again"
                                               : "its connection was taken for broken: connect again");
      schedule(node, info);
      return;
    }
    heard(info, now);
    note_clock(conn, message.sent_boot_us, now);
    CHECK(now >= info.acked, "a fence would count from earlier than it did");
    info.acked = now;
    const Cluster* cluster = state.tables().cluster.get();
    send(link, RenewAck{message.sent_boot_us, cluster ? now.us + cluster->wall_offset.us : 0});
    conn.holdings = std::move(message.holdings);
    const bool has_turn_to_come = to_perform_on.contains(conn.node);
    const auto missing = has_turn_to_come ? std::vector<Action>() : reconcile(state, conn.node, conn.holdings);
    if (missing.empty()) {
      conn.disagrees_since = {};
    } else if (!conn.disagrees_since) {
      conn.disagrees_since = now;
    } else if (now - conn.disagrees_since >= settings.resend_after) {
      conn.disagrees_since = now;
      for (const auto& action : missing) will_perform(action);
      perform_some(state);
    }
    schedule(conn.node, info);
  }

  // The renewal that came the fastest tells most; clocks drift apart by less than this a renewal.
  static void note_clock(Conn& conn, std::int64_t sent_boot_us, Instant now) {
    if (sent_boot_us <= 0 || sent_boot_us > kBootClockMost)
      return;
    const Duration behind = now - Instant{sent_boot_us};
    conn.boot_clock = conn.boot_clock ? std::min(behind, *conn.boot_clock + millis(1)) : behind;
  }
  // How long ago it happened: by the agent's word, and by what its clock says, since words may have waited for us.
  static Duration age_of(const Conn& conn, const Report& message, Instant now) {
    if (!conn.boot_clock || message.made_boot_us <= 0 || message.made_boot_us > kBootClockMost)
      return message.ago;
    return std::max(message.ago, now - (Instant{message.made_boot_us} + *conn.boot_clock));
  }

  void report(std::uint64_t link, Conn& conn, Report message, Instant now) {
    if (!conn.node || !conn.reports_in_hand.insert(message.number).second)
      return;
    const Duration ago = age_of(conn, message, now);
    AgentReport report{conn.node, conn.boot_id, message.job, message.attempt, std::move(message.body), ago};
    Pending item{What::kReport, {{UserId{}, true}, std::move(report)}, link, message.number, conn.node, message.job};
    if (conn.waiting.empty()) {
      commit(std::move(item));
      return;
    }
    // Behind what came before it: a node's last words on an attempt must not overtake its result.
    conn.waiting.push_back(next_token);
    pending.emplace(next_token++, std::move(item));
  }

  // --- actions ---

  void launch_failed(const Action& action, const NodeInfo& info, std::string why) {
    AgentReport report{action.node, info.boot_id, action.job, action.attempt, LaunchFailed{std::move(why)}, {}};
    commit({What::kForget, {{UserId{}, true}, std::move(report)}, 0, 0, action.node, action.job});
  }

  void will_perform(const Action& action) {
    to_perform.push_back(action);
    ++to_perform_on[action.node];
  }

  // In their order, as much as may go out at once; the rest when that has gone.
  void perform_some(const ClusterState& state) {
    for (; !to_perform.empty() && performed < kPerformedAtOnce && composed_bytes < kComposedBytesAtOnce; ++performed) {
      const Action action = std::move(to_perform.front());
      to_perform.pop_front();
      const auto on = to_perform_on.find(action.node);
      CHECK(on != to_perform_on.end() && on->second > 0, "an action that was not counted");
      if (--on->second == 0)
        to_perform_on.erase(on);
      perform(state, action);
    }
  }

  // What an action is performed with.
  struct Target {
    const ClusterState& state;
    const Tables& tables;
    const Action& action;
    const NodeInfo& info;
    const Job* job;  // null, or not of this attempt any more: nothing is launched
  };

  void perform(const ClusterState& state, const Action& action) {
    const auto it = nodes.find(action.node);
    if (it == nodes.end() || it->second.link == 0)
      return;  // the next hello asks again
    const Job* job = state.tables().job(action.job);
    if (job && (!job->allocation || job->allocation->attempt != action.attempt))
      job = nullptr;
    const Target target{state, state.tables(), action, it->second, job};
    std::visit([&](const auto& body) { perform(target, body); }, action.body);
  }

  template <class T>
  void launch(const Target& t, Result<T> message) {
    if (composer.bytes_read)
      composed_bytes += composer.bytes_read();
    if (message.ok()) {
      auto environment = message->process.env_base.empty() ? nullptr : composer.environment(message->process.env_base);
      out.push_back({t.info.link, std::move(*message), std::move(environment)});
      composed_bytes += launch_bytes(out.back().message);
    } else {
      launch_failed(t.action, t.info, message.error().message);
    }
  }
  void perform(const Target& t, const StartAttempt&) {
    // Its turn may come after it was told to end.
    if (!t.job || t.job->state == JobState::kCompleting)
      return;
    if (const auto seats = t.state.inner().seats_of(*t.job).on(t.action.node); !seats.empty())
      launch(t, composer.attempt(t.tables, *t.job, seats.front().grant));
  }
  void perform(const Target& t, const StartPart& a) {
    if (const auto* step = std::get_if<StepPart>(&a.part))
      start_step(t, step->step);
    else if (const auto* task = std::get_if<TaskPart>(&a.part))
      start_task(t, *task);
  }
  void start_step(const Target& t, StepNo number) {
    const Step* step = t.tables.step(t.action.job, number);
    if (!t.job || !step || step->attempt != t.action.attempt || step->state == StepState::kEnded)
      return;
    if (step->attempt != t.job->attempt || !t.job->allocation)
      return;
    if (const auto place = t.state.inner().seats_of(*t.job).place_on(t.action.node, *step))
      launch(t, composer.step(t.tables, *t.job, *step, *place));
  }
  void start_task(const Target& t, const TaskPart& part) {
    const auto it = t.tables.tasks.find({t.action.job, part.group, part.index});
    if (!t.job || it == t.tables.tasks.end())
      return;
    const Task& task = *it->second;
    const std::vector<Grant>& grants = t.job->allocation->grants;
    // A later command of the same batch may have taken its node away, or found it another one.
    const bool placed_here = task.grant < grants.size() && grants[task.grant].node == t.action.node;
    if (placed_here && task.incarnation == part.incarnation && task.attempt == t.action.attempt)
      launch(t, composer.task(t.tables, *t.job, task));
  }
  void perform(const Target& t, const StopAttempt& a) {
    StopWork m{t.action.job, t.action.attempt};
    m.kill_wait = a.kill_wait;
    m.why = t.job ? why_it_ends(*t.job) : StopWhy::kNothing;
    send(t.info.link, std::move(m));
  }
  void perform(const Target& t, const StopPart& a) {
    const StopWhy why = std::holds_alternative<StepPart>(a.part) ? StopWhy::kCancelled : StopWhy::kNothing;
    send(t.info.link, StopWork{t.action.job, t.action.attempt, a.part, a.kill_wait, why});
  }
  void perform(const Target& t, const SignalAttempt& a) {
    SignalWork m{t.action.job, t.action.attempt, std::nullopt, a.reach, a.signal};
    if (t.job && a.stops_in > Duration{}) {
      m.why = t.job->eviction ? StopWhy::kPreempted : StopWhy::kTimeLimit;
      m.stops_in = a.stops_in;
    }
    send(t.info.link, std::move(m));
  }
  void perform(const Target& t, const PauseAttempt& a) {
    send(t.info.link, PauseWork{t.action.job, t.action.attempt, a.paused, a.number});
  }
  void perform(const Target& t, const SignalPart& a) {
    send(t.info.link, SignalWork{t.action.job, t.action.attempt, a.part, SignalReach::kEverything, a.signal});
  }

  // --- deadlines ---

  // Nobody proves that it has stopped, and it must not run twice: its end is called NODE_FAIL, what it holds stays
  // held.
  void end_unproven(NodeId id, const NodeInfo& info, JobId job, const Work& work) {
    if (work.fence_after >= kForever) {
      commit({What::kGivenUp, {{UserId{}, true}, GiveUpMember{id, job, work.attempt}}, 0, 0, id, job});
      return;
    }
    AgentReport report{id, info.boot_id, job, work.attempt, MemberStopped{true}, {}};
    commit({What::kMemberFenced, {{UserId{}, true}, std::move(report)}, 0, 0, id, job});
  }

  bool is_silent(const NodeInfo& info, Instant now) const {
    return info.record != NodeLink::kLost && !info.loss_in_hand && loss_at(info) <= now && !deaf_now(now);
  }
  bool asks_hook(const NodeInfo& info, Instant now) const {
    return info.has_hook && !connected_now(info) && !info.fence_in_hand && info.ask_hook <= now;
  }

  void lose(NodeId id, NodeInfo& info, Instant now) {
    // No acknowledgement may leave any more: the fence counts from the last one.
    if (info.link != 0)
      drop_link(info.link, &info, "declared lost: no renewal for too long; connect again");
    CHECK(!connected_now(info));
    commit_lost(id, info);
    info.ask_hook = now;
  }

  void ask_hook(NodeId id, NodeInfo& info, Instant now) {
    info.ask_hook = now + kHookEvery;
    info.asked_boot = info.boot_id;
    fence_requests.push_back({id, silence(info, now)});
  }

  void end_what_is_fenced(NodeId id, NodeInfo& info, const ClusterState& state, Instant now) {
    CHECK(info.record == NodeLink::kLost);
    for (auto& [job_id, work] : info.work)
      if (member_fence_at(info, work) <= now && !(work.fence_after >= kForever && deaf_now(now))) {
        work.fence_in_hand = true;
        const Job* job = state.tables().job(job_id);
        if (job && job->allocation && job->allocation->attempt == work.attempt)
          end_unproven(id, info, job_id, work);
      }
  }

  void due(NodeId id, const ClusterState& state, Instant now) {
    NodeInfo& info = nodes.at(id);
    if (is_silent(info, now))
      lose(id, info, now);
    if (asks_hook(info, now))
      ask_hook(id, info, now);
    if (info.record == NodeLink::kLost)
      end_what_is_fenced(id, info, state, now);
    schedule(id, info, deaf_now(now) ? now + kBeatEvery : Instant{});
    CHECK(info.due > now, "a node would be looked at without end");
  }

  void send_again(std::uint64_t token) {
    const auto it = pending.find(token);
    if (it == pending.end())
      return;
    const What what = it->second.what;
    const auto conn = conns.find(it->second.link);
    if ((what == What::kReport || what == What::kHello) && conn == conns.end()) {
      pending.erase(it);
      return;
    }
    if (what != What::kReport) {
      commands.push_back({it->second.command, token});
      return;
    }
    // All of the connection's that wait, at once: each is in the queue once, in its order.
    for (const auto waiting : std::exchange(conn->second.waiting, {}))
      if (const auto item = pending.find(waiting); item != pending.end())
        commands.push_back({item->second.command, waiting});
  }

  void again(std::uint64_t token, Instant now) { retries.emplace(now + kRetry, token); }

  // The engine could not take it. What came by a connection waits with that; the rest is our own business.
  bool waits_for_engine(std::uint64_t token, const Pending& item, Instant now) {
    const auto conn = conns.find(item.link);
    const bool of_link = item.what == What::kReport || item.what == What::kHello;
    if (of_link && conn == conns.end())
      return false;
    if (item.what == What::kReport)
      conn->second.waiting.push_back(token);
    again(token, now);
    return true;
  }

  void report_answered(std::uint64_t link, std::uint64_t number) {
    const auto conn = conns.find(link);
    if (conn == conns.end())
      return;
    const bool was_in_hand = conn->second.reports_in_hand.erase(number) == 1;
    CHECK(was_in_hand, format("report {} is answered twice", number));
    reports_done[link].push_back(number);
  }

  void loss_answered(NodeId id, const Result<Answer>& answer, Instant now) {
    const auto node = nodes.find(id);
    if (node == nodes.end())
      return;
    node->second.loss_in_hand = false;
    if (!answer.ok())
      heard(node->second, now);  // the record says otherwise: look again a full timeout later
    schedule(id, node->second);
  }

  void fence_answered(NodeId id, const NodeFenced& fenced, const Result<Answer>& answer) {
    const auto node = nodes.find(id);
    if (node == nodes.end())
      return;
    node->second.fence_in_hand = false;
    if (answer.ok())
      node->second.fenced_boot = fenced.boot_id;
    schedule(id, node->second);
  }

  void answered(std::uint64_t token, const Result<Answer>& answer, const ClusterState& state, Instant now) {
    const auto it = pending.find(token);
    if (it == pending.end())
      return;
    if (!answer.ok() && try_again(answer.error()) && waits_for_engine(token, it->second, now))
      return;
    const Pending done = std::move(it->second);
    pending.erase(it);
    switch (done.what) {
      case What::kHello: return hello_answered(done.link, answer, state, now);
      case What::kReport: return report_answered(done.link, done.number);
      case What::kLost: return loss_answered(done.node, answer, now);
      case What::kFenced: return fence_answered(done.node, std::get<NodeFenced>(done.command.body), answer);
      case What::kMemberFenced:
      case What::kGivenUp:
      case What::kForget: return;
    }
  }
};

NodeDesk::NodeDesk(NodeDeskSettings settings, Composer composer, Instant now)
    : inner_(std::make_unique<Inner>(settings, std::move(composer), now)) {
  CHECK(settings.lease_term > Duration{} && settings.node_timeout >= settings.lease_term,
        "a node would be lost before its lease ends");
  CHECK(inner_->composer.attempt && inner_->composer.step && inner_->composer.task);
}
NodeDesk::~NodeDesk() = default;

void NodeDesk::connected(std::uint64_t link, const std::string& node_name, Instant, const std::string& certificate,
                         const std::string& address) {
  CHECK(link != 0);
  auto& conn = inner_->conns[link];
  conn.node_name = node_name;
  conn.certificate = certificate;
  conn.address = address;
  conn.order = ++inner_->connections;
}

void NodeDesk::disconnected(std::uint64_t link, Instant now) {
  auto& in = *inner_;
  const auto it = in.conns.find(link);
  if (it == in.conns.end())
    return;
  const NodeId node = it->second.node;
  in.forget(link);
  const auto info = in.nodes.find(node);
  if (info == in.nodes.end() || info->second.link != link)
    return;
  info->second.link = 0;
  info->second.ask_hook = now;
  in.went_away(node, info->second);
}

void NodeDesk::receive(std::uint64_t link, FromAgent message, const ClusterState& state, Instant now) {
  auto& in = *inner_;
  in.prime(state);
  const auto it = in.conns.find(link);
  if (it == in.conns.end())
    return;  // replaced or refused
  Inner::Conn& conn = it->second;
  if (auto* hello = std::get_if<Hello>(&message))
    in.hello(link, conn, std::move(*hello), state);
  else if (auto* renew = std::get_if<Renew>(&message))
    in.renew(link, conn, std::move(*renew), state, now);
  else if (auto* report = std::get_if<Report>(&message))
    in.report(link, conn, std::move(*report), now);
}

void NodeDesk::committed(const ClusterState& state, std::span<const Change> changes, std::span<const Action> actions,
                         Instant) {
  auto& in = *inner_;
  in.prime(state);
  for (const auto& change : changes) {
    if (const auto* node = std::get_if<Ref<Node>>(&change.record))
      in.note_node(**node, change.removed);
    else if (const auto* job = std::get_if<Ref<Job>>(&change.record))
      in.note_job(**job, change.removed);
  }
  for (const auto& action : actions) in.will_perform(action);
  in.perform_some(state);
}

void NodeDesk::fenced(NodeId node, std::string proof) {
  auto& in = *inner_;
  const auto it = in.nodes.find(node);
  if (it == in.nodes.end() || it->second.link != 0 || it->second.fence_in_hand || it->second.asked_boot.empty())
    return;
  auto& info = it->second;
  if (info.record != NodeLink::kLost)
    in.commit_lost(node, info);
  info.fence_in_hand = true;
  CHECK(!in.connected_now(info) && !info.asked_boot.empty());
  in.commit(
      {Inner::What::kFenced, {{UserId{}, true}, NodeFenced{node, info.asked_boot, std::move(proof)}}, 0, 0, node, {}});
  in.schedule(node, info);
}

void NodeDesk::beat(Instant now) {
  auto& in = *inner_;
  CHECK(now >= in.beat);
  const Duration gap = now - in.beat;
  in.beat = now;
  if (gap <= kBeatLate || mutant(Mutant::kOwnSilence))
    return;
  CHECK(gap > kBeatEvery);
  in.deaf = in.deaf + gap - kBeatEvery;
  in.awake = now;
}

void NodeDesk::tick(const ClusterState& state, Instant now) {
  auto& in = *inner_;
  in.prime(state);
  while (!in.retries.empty() && in.retries.begin()->first <= now) {
    const auto token = in.retries.begin()->second;
    in.retries.erase(in.retries.begin());
    in.send_again(token);
  }
  in.perform_some(state);
  while (!in.deadlines.empty() && in.deadlines.begin()->first <= now) in.due(in.deadlines.begin()->second, state, now);
}

Instant NodeDesk::next_timer() const {
  if (!inner_->primed)
    return inner_->start;  // the first tick looks at the records
  if (!inner_->to_perform.empty())
    return inner_->start;  // more may go out
  Instant next = kNever;
  if (!inner_->deadlines.empty())
    next = inner_->deadlines.begin()->first;
  if (!inner_->retries.empty())
    next = std::min(next, inner_->retries.begin()->first);
  return next;
}

std::vector<NodeDesk::Outgoing> NodeDesk::take_messages() {
  for (auto& [link, numbers] : inner_->reports_done)
    if (inner_->conns.contains(link))
      inner_->out.push_back({link, ReportAck{std::move(numbers)}});
  inner_->reports_done.clear();
  inner_->performed = inner_->composed_bytes = 0;
  return std::exchange(inner_->out, {});
}
std::vector<NodeDesk::ToCommit> NodeDesk::take_commands() { return std::exchange(inner_->commands, {}); }
std::vector<NodeDesk::FenceRequest> NodeDesk::take_fence_requests() {
  return std::exchange(inner_->fence_requests, {});
}

void NodeDesk::answered(std::uint64_t token, const Result<Answer>& answer, const ClusterState& state, Instant now) {
  inner_->answered(token, answer, state, now);
}

}  // namespace lockstep
