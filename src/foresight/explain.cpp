#include "foresight/explain.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "foresight/job_words.h"
#include "foresight/reserved.h"
#include "foresight/suggest.h"
#include "rules/awaited.h"
#include "views/reasons.h"
#include "views/selectors.h"

namespace lockstep {

namespace {

constexpr std::size_t kTextShown = 1'000;  // bytes of a list of nodes in a sentence

// What holds a job up whose node does not answer, or does not do as it was told. Once it is proven that nothing of it
// runs there, this is over.
std::string words_of_nodes(const Tables& tables, const Job& job) {
  std::string out;
  const std::size_t grants = job.allocation ? job.allocation->grants.size() : 0;
  for (std::size_t i = 0; i < grants; ++i) {
    const Node* node = tables.node(job.allocation->grants[i].node);
    const bool stopped = i < job.members.size() && job.members[i] == MemberState::kStopped;
    if (node && node->link == NodeLink::kLost && !stopped)
      out += format(
          " Node {} is lost ({}): what runs there counts as running until it is proven to have stopped, or its "
          "fence has passed.",
          node->meta.name, reason_of(*node).words);
    else if (const Unconfirmed* named = node && !stopped ? unconfirmed_of(*node, job.id) : nullptr)
      out +=
          format(" Node {} was told to {} it, answers, and has not done so: something of it may hang there. {}",
                 node->meta.name, job.state == JobState::kSuspended ? "pause" : "stop",
                 named->forgiven ? "An administrator resumed the node: nobody waits for what the job holds there."
                                 : "The node takes no other work until it has, or until an administrator resumes it.");
    if (out.size() > kTextShown)
      break;
  }
  return out;
}

std::string sentence(std::string words) {
  if (words.front() >= 'a' && words.front() <= 'z')
    words.front() = static_cast<char>(words.front() - 'a' + 'A');
  return words;
}

// The first filter after which there are too few nodes.
std::string narrow_place(const std::vector<NodeFunnel>& funnels) {
  for (const NodeFunnel& funnel : funnels) {
    if (!funnel.closed.empty())
      continue;
    for (std::size_t i = 0; i < funnel.filters.size(); ++i) {
      const NodeFilter& filter = funnel.filters[i];
      if (filter.left >= funnel.wanted)
        continue;
      const std::string needed = format("{} node{} needed", funnel.wanted, funnel.wanted == 1 ? " is" : "s are");
      if (filter.name.starts_with(kTopologyFilter) && i > 0)
        return format("{} {}; of the {} that are {}, {} {} so", needed, filter.name.substr(kTopologyFilter.size()),
                      funnel.filters[i - 1].left, funnel.filters[i - 1].name, filter.left,
                      filter.left == 1 ? "lies" : "lie");
      return format("{}, {} {} {}", needed, filter.left, filter.left == 1 ? "is" : "are", filter.name);
    }
  }
  return "";
}

std::string closed_words(const std::vector<NodeFunnel>& funnels) {
  for (const NodeFunnel& funnel : funnels)
    if (!funnel.closed.empty())
      return format("partition {}: {}", funnel.partition, funnel.closed);
  return "";
}

// Nothing is said against the job by itself: others are before it, or hold what it needs.
std::string busy_words(const std::string& narrow, const std::string& closed, std::uint64_t ahead) {
  std::string words;
  if (!narrow.empty())
    words = narrow + ".";
  if (ahead > 0)
    words +=
        format("{}{} job{} before it in the queue.", words.empty() ? "" : " ", ahead, ahead == 1 ? " is" : "s are");
  if (words.empty())
    words = closed.empty() ? "There is no single place for it now." : closed + ".";
  return sentence(std::move(words));
}

std::string wait_words(Wait wait, const std::string& detail, const Explanation& out) {
  const auto with_detail = [&](const std::string& words) {
    return words + (detail.empty() ? "." : ": " + detail + ".");
  };
  const std::string narrow = narrow_place(out.funnels), closed = closed_words(out.funnels);
  switch (wait) {
    case Wait::kLimit: return with_detail("A limit or quota is reached");
    case Wait::kLicenses: return with_detail("Licences are lacking");
    case Wait::kReservation: return with_detail("It waits for its reservation");
    case Wait::kNodesUnavailable:
      return with_detail("Nodes it needs cannot be used now" + (narrow.empty() ? "" : "; " + narrow));
    case Wait::kPartitionDown:
    case Wait::kPartitionTimeLimit:
    case Wait::kPartitionNodeLimit:
      if (!closed.empty())
        return closed + ".";
      return with_detail("Its partition does not take it");
    case Wait::kBadConstraints: return with_detail(narrow.empty() ? "No nodes are as it asks" : narrow);
    case Wait::kNone:
    case Wait::kPriority:
    case Wait::kResources: break;
  }
  return busy_words(narrow, closed, out.ahead);
}

// Why a pending job waits.
void give_reason(const ClusterCopy& copy, const Job& job, Explanation& out) {
  if (job.hold != Hold::kNone) {
    out.because = held_words(copy.tables(), job);
    out.topic = job.hold == Hold::kBeginTime && job.spec->begin.us != 0 ? ReasonTopic::kBeginTime : ReasonTopic::kNone;
    return;
  }
  if (const RefusedPart* refused = copy.refused(job.id)) {
    out.because = refused_words(*refused);
    return;
  }
  const PlanNote* note = copy.notes().of(job.id);
  const Wait wait = note ? note->wait : Wait::kNone;
  if (wait == Wait::kNodesUnavailable)
    if (std::string words = shut_out_for_good(copy.tables(), *job.spec); !words.empty()) {
      out.because = sentence(std::move(words) + ".");
      out.topic = ReasonTopic::kTimeLimit;
      return;
    }
  out.because = wait_words(wait, note ? note->detail : "", out);
}

// The nodes of the cluster that the job could be placed on when they are empty, over all its groups and partitions.
std::set<NodeId> usable_nodes(const Tables& tables, const JobSpec& spec) {
  std::set<NodeId> out;
  for (const Partition* partition : partitions_asked(tables, spec))
    for (const auto& [id, node] : tables.nodes)
      if (node_expected(*node) && std::any_of(spec.groups.begin(), spec.groups.end(), [&](const GroupSpec& group) {
            return eligible(*node, *partition, group);
          }))
        out.insert(id);
  return out;
}

bool shares_partition(const JobSpec& a, const JobSpec& b, const Tables& tables) {
  const auto of_a = partitions_asked(tables, a), of_b = partitions_asked(tables, b);
  return std::any_of(of_a.begin(), of_a.end(),
                     [&](const Partition* p) { return std::find(of_b.begin(), of_b.end(), p) != of_b.end(); });
}

// The nodes it is foreseen on, or could go to.
std::set<NodeId> wanted_nodes(const ClusterCopy& copy, const Job& job) {
  std::set<NodeId> wanted;
  if (job.promise)
    for (const Grant& grant : job.promise->grants) wanted.insert(grant.node);
  else if (const PlanNote* note = copy.notes().of(job.id))
    wanted.insert(note->expected_nodes.begin(), note->expected_nodes.end());
  return wanted.empty() ? usable_nodes(copy.tables(), *job.spec) : wanted;
}

// When a job that holds something will have ended at the latest; kNever: it has no limit.
Instant end_of(const Job& job, Instant now) {
  if (job.state == JobState::kStarting && job.allocation->limit < kForever)
    return now + job.allocation->limit;
  return job.limit_end ? job.limit_end : kNever;
}

bool asks_for_devices(const JobSpec& spec) {
  return std::any_of(spec.groups.begin(), spec.groups.end(), [](const GroupSpec& group) {
    return !group.per_task.devices.empty() || !group.per_node.devices.empty();
  });
}

// Jobs that hold something on the nodes this one is foreseen on, or could go to. Who asks for devices waits for those
// that hold some: they come first.
std::vector<JobInTheWay> in_the_way(const ClusterCopy& copy, const Job& job, std::size_t most) {
  const Tables& tables = copy.tables();
  const std::set<NodeId> wanted = wanted_nodes(copy, job);
  const bool for_devices = asks_for_devices(*job.spec);
  struct Holder {
    Instant end;
    const Job* job;
    std::vector<NodeId> nodes;
    bool of_other = false;  // it holds nothing of the kind that is scarce
  };
  std::vector<Holder> holders;
  for (const auto& [id, other] : tables.jobs) {
    if (!other->allocation || is_final(other->state))
      continue;
    Holder holder{end_of(*other, copy.now()), other.get(), {}, for_devices};
    for (const Grant& grant : other->allocation->grants)
      if (wanted.contains(grant.node)) {
        holder.nodes.push_back(grant.node);
        holder.of_other &= !grant.whole_node && !grant.visible().any();
      }
    if (!holder.nodes.empty())
      holders.push_back(std::move(holder));
  }
  std::stable_sort(holders.begin(), holders.end(), [](const Holder& a, const Holder& b) {
    return std::pair(a.of_other, a.end) < std::pair(b.of_other, b.end);
  });
  std::vector<JobInTheWay> out;
  for (const Holder& holder : holders) {
    if (out.size() == most)
      break;
    out.push_back({holder.job->id, holder.job->spec->name, user_name(tables, *holder.job),
                   host_list(tables, holder.nodes), copy.wall(holder.end)});
  }
  return out;
}

std::string_view word(Ahead::Why why) {
  switch (why) {
    case Ahead::Why::kTier: return "tier";
    case Ahead::Why::kPriority: return "priority";
    case Ahead::Why::kTurn: break;
  }
  return "earlier";
}

// Waiting jobs that are neither ahead of this one nor tied to others by an array.
std::vector<JobId> jobs_behind(const ClusterCopy& copy, JobId self, const std::vector<Ahead>& ahead) {
  std::set<JobId> keep{self};
  for (const auto& a : ahead) keep.insert(a.job);
  std::vector<JobId> out;
  for (const auto& [id, job] : copy.tables().jobs)
    if (job->state == JobState::kPending && job->hold == Hold::kNone && !job->array && !job->array_job &&
        !keep.contains(id))
      out.push_back(id);
  return out;
}

void tell_of_started(const Tables& tables, const Job& job, bool starts_now, Explanation& out) {
  if (starts_now) {
    out.because = "It starts now.";
  } else if (holds_allocation(job.state)) {
    out.because = "It has its nodes." + words_of_nodes(tables, job);
  } else {
    out.because = ended_words(job);
    out.topic = ReasonTopic::kAccounting;
  }
}

// The first of those ahead that could use the same nodes.
std::vector<JobAhead> first_ahead(const ClusterCopy& copy, const Job& job, const std::vector<Ahead>& ahead,
                                  std::size_t most) {
  std::vector<JobAhead> out;
  for (const Ahead& a : ahead) {
    if (out.size() == most)
      break;
    const Job* other = copy.tables().job(a.job);
    if (other && shares_partition(*other->spec, *job.spec, copy.tables()))
      out.push_back(
          {a.job, other->spec->name, user_name(copy.tables(), *other), std::string(word(a.why)), copy.foresee(a.job)});
  }
  return out;
}

// How many nodes could take a part of it now, where that is most.
std::uint32_t nodes_free(const std::vector<NodeFunnel>& funnels) {
  std::uint32_t most = 0;
  for (const NodeFunnel& funnel : funnels)
    if (!funnel.filters.empty() && funnel.closed.empty())
      most = std::max(most, funnel.filters.back().left);
  return most;
}

}  // namespace

// Plans the cluster once as it is, and says of the job what that shows; the suggestions plan it anew.
Result<Explanation> explain(const Tables& tables, const ClusterCopy::Clock& clock, JobId id,
                            const ExplainSettings& settings, const CoreSettings& core) {
  if (!tables.job(id))
    return not_found(
        format("there is no job {}: it never was, or it ended a while ago and only accounting has it", id.value));
  ClusterCopy copy(tables, clock, core);
  copy.plan();
  Explanation out;
  const Job* job = copy.tables().job(id);
  if (!job)
    return not_found(format("job {} has ended", id.value));
  out.job = id;
  out.name = job->spec->name;
  out.user = user_name(tables, *job);
  out.state = state_word(job->state);
  out.expected = copy.foresee(id);
  const Visible<Job> told = as_seen_by(copy.tables().jobs.at(id), settings.asker).as<Job>();
  if (is_pausing(*job))
    out.state = "being suspended";
  if (job->array && job->array->waiting.empty()) {
    out.because = format("All its elements have started. Ask for one of them, such as {}_{}.", id.value,
                         job->array->asked.empty() ? 0 : job->array->asked.front());
    return out;
  }
  if (job->state != JobState::kPending || out.expected.started) {
    const bool starts_now = out.expected.started && tables.job(id)->state == JobState::kPending;
    if (starts_now)
      out.state = "pending";
    tell_of_started(tables, *told, starts_now, out);
    return out;
  }
  const std::vector<Ahead> ahead = jobs_ahead(copy.tables().snapshot(), copy.now(), id);
  out.funnels = funnels(copy, *job, ahead);
  out.ahead = ahead.size();
  out.first_ahead = first_ahead(copy, *job, ahead, settings.ahead_max);
  if (job->hold == Hold::kBeginTime)
    out.not_before = std::max(job->spec->begin, job->begin_after ? copy.wall(job->begin_after) : WallTime{});
  out.in_the_way = in_the_way(copy, *job, settings.ahead_max);
  give_reason(copy, *told, out);

  Search search{tables, clock, core, settings, id, out.expected, nodes_free(out.funnels), {}};
  if (job->hold == Hold::kNone)
    if (const auto behind = jobs_behind(copy, id, ahead); behind.size() > settings.whole_queue_max)
      search.behind = behind;
  suggest(search, out);
  return out;
}

}  // namespace lockstep
