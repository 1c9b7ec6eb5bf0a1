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

std::string because(const ClusterCopy& copy, const Job& job, const Explanation& out) {
  if (job.hold != Hold::kNone)
    return held_words(copy.tables(), job);
  if (const RefusedPart* refused = copy.refused(job.id))
    return refused_words(*refused);
  const PlanNote* note = copy.notes().of(job.id);
  const Wait wait = note ? note->wait : Wait::kNone;
  const std::string detail = note ? note->detail : "";
  const auto with_detail = [&](std::string words) {
    return detail.empty() ? words + "." : format("{}: {}.", words, detail);
  };
  std::string closed;
  for (const NodeFunnel& funnel : out.funnels)
    if (closed.empty() && !funnel.closed.empty())
      closed = format("partition {}: {}", funnel.partition, funnel.closed);
  const std::string narrow = narrow_place(out.funnels);
  if (std::string words = wait == Wait::kNodesUnavailable ? shut_out_for_good(copy.tables(), *job.spec) : "";
      !words.empty())
    return sentence(std::move(words) + ".");
  switch (wait) {
    case Wait::kLimit: return with_detail("A limit or quota is reached");
    case Wait::kLicenses: return with_detail("Licences are lacking");
    case Wait::kReservation: return with_detail("It waits for its reservation");
    case Wait::kNodesUnavailable:
      return narrow.empty() ? with_detail("Nodes it needs cannot be used now")
                            : with_detail(format("Nodes it needs cannot be used now; {}", narrow));
    case Wait::kPartitionDown:
    case Wait::kPartitionTimeLimit:
    case Wait::kPartitionNodeLimit:
      return closed.empty() ? with_detail("Its partition does not take it") : closed + ".";
    case Wait::kBadConstraints: return with_detail(narrow.empty() ? "No nodes are as it asks" : narrow);
    case Wait::kNone:
    case Wait::kPriority:
    case Wait::kResources: break;
  }
  std::string words;
  if (!narrow.empty())
    words = narrow + ".";
  if (out.ahead > 0)
    words += format("{}{} job{} before it in the queue.", words.empty() ? "" : " ", out.ahead,
                    out.ahead == 1 ? " is" : "s are");
  if (words.empty())
    words = closed.empty() ? "There is no single place for it now." : closed + ".";
  return sentence(std::move(words));
}

// The nodes of the cluster that the job could be placed on when they are empty, over all its groups and partitions.
std::set<NodeId> usable_nodes(const Tables& tables, const JobSpec& spec) {
  std::set<NodeId> out;
  std::vector<const Partition*> partitions;
  if (spec.partitions.empty())
    partitions.push_back(tables.default_partition());
  for (const std::string& name : spec.partitions) partitions.push_back(tables.partition(name));
  for (const Partition* partition : partitions)
    for (const auto& [id, node] : tables.nodes)
      if (partition && node_expected(*node) &&
          std::any_of(spec.groups.begin(), spec.groups.end(),
                      [&](const GroupSpec& group) { return eligible(*node, *partition, group); }))
        out.insert(id);
  return out;
}

bool shares_partition(const JobSpec& a, const JobSpec& b, const Tables& tables) {
  const auto names = [&](const JobSpec& spec) {
    std::vector<std::string> out = spec.partitions;
    if (const Partition* partition = tables.default_partition(); out.empty() && partition)
      out.push_back(partition->meta.name);
    return out;
  };
  const auto of_a = names(a), of_b = names(b);
  return std::any_of(of_a.begin(), of_a.end(),
                     [&](const auto& name) { return std::find(of_b.begin(), of_b.end(), name) != of_b.end(); });
}

// Jobs that hold something on the nodes this one is foreseen on, or could go to.
std::vector<JobInTheWay> in_the_way(const ClusterCopy& copy, const Job& job, std::size_t most) {
  const Tables& tables = copy.tables();
  std::set<NodeId> wanted;
  if (job.promise)
    for (const Grant& grant : job.promise->grants) wanted.insert(grant.node);
  else if (const PlanNote* note = copy.notes().of(job.id))
    wanted.insert(note->expected_nodes.begin(), note->expected_nodes.end());
  if (wanted.empty())
    wanted = usable_nodes(tables, *job.spec);
  struct Holder {
    Instant end;
    const Job* job;
    std::vector<NodeId> nodes;
  };
  std::vector<Holder> holders;
  for (const auto& [id, other] : tables.jobs) {
    if (!other->allocation || is_final(other->state))
      continue;
    Holder holder{other->limit_end ? other->limit_end : kNever, other.get(), {}};
    if (other->state == JobState::kStarting && other->allocation->limit < kForever)
      holder.end = copy.now() + other->allocation->limit;
    for (const Grant& grant : other->allocation->grants)
      if (wanted.contains(grant.node))
        holder.nodes.push_back(grant.node);
    if (!holder.nodes.empty())
      holders.push_back(std::move(holder));
  }
  std::stable_sort(holders.begin(), holders.end(), [](const Holder& a, const Holder& b) { return a.end < b.end; });
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

}  // namespace

Result<Explanation> explain(const Tables& tables, const ClusterCopy::Clock& clock, JobId id,
                            const ExplainSettings& settings, const CoreSettings& core) {
  if (!tables.job(id))
    return not_found(format("there is no job {}: it never was, or it ended a while ago (see sacct)", id.value));
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
  if (is_pausing(*job))
    out.state = "being suspended";
  if (job->array && job->array->waiting.empty()) {
    out.because = format("All its elements have started. Ask for one of them, such as {}_{}.", id.value,
                         job->array->asked.empty() ? 0 : job->array->asked.front());
    return out;
  }
  if (job->state != JobState::kPending || out.expected.started) {
    const bool now = out.expected.started && tables.job(id)->state == JobState::kPending;
    if (now)
      out.state = "pending";
    out.because = now                            ? "It starts now."
                  : holds_allocation(job->state) ? "It has its nodes." + words_of_nodes(tables, *job)
                                                 : ended_words(*job);
    return out;
  }
  const std::vector<Ahead> ahead = jobs_ahead(copy.tables().snapshot(), copy.now(), id);
  out.funnels = funnels(copy, *job, ahead);
  out.ahead = ahead.size();
  for (const Ahead& a : ahead) {
    if (out.first_ahead.size() == settings.ahead_max)
      break;
    const Job* other = copy.tables().job(a.job);
    if (other && shares_partition(*other->spec, *job->spec, copy.tables()))
      out.first_ahead.push_back(
          {a.job, other->spec->name, user_name(tables, *other), std::string(word(a.why)), copy.foresee(a.job)});
  }
  if (job->hold == Hold::kBeginTime)
    out.not_before = std::max(job->spec->begin, job->begin_after ? copy.wall(job->begin_after) : WallTime{});
  out.in_the_way = in_the_way(copy, *job, settings.ahead_max);
  out.because = because(copy, *job, out);

  std::uint32_t nodes_free = 0;
  for (const NodeFunnel& funnel : out.funnels)
    if (!funnel.filters.empty() && funnel.closed.empty())
      nodes_free = std::max(nodes_free, funnel.filters.back().left);
  Search search{tables, clock, core, settings, id, out.expected, nodes_free, {}};
  if (job->hold == Hold::kNone)
    if (const auto behind = jobs_behind(copy, id, ahead); behind.size() > settings.whole_queue_max)
      search.behind = behind;
  suggest(search, out);
  return out;
}

}  // namespace lockstep
