#include "model/job.h"

#include "base/text.h"
#include "model/bounds.h"
#include "model/records.h"

namespace lockstep {

bool is_final(JobState state) { return state >= JobState::kCompleted; }

bool holds_allocation(JobState state) { return state >= JobState::kStarting && state <= JobState::kCompleting; }

bool legal_transition(JobState from, JobState to) {
  using enum JobState;
  switch (from) {
    case kPending: return to == kStarting || to == kCancelled || to == kDeadline || to == kFailed;
    case kStarting: return to == kRunning || to == kCompleting;
    case kRunning: return to == kSuspended || to == kCompleting;
    case kSuspended: return to == kRunning || to == kCompleting;
    case kCompleting: return to == kPending || is_final(to);
    default: return to == kPending;  // an ended job may be requeued by its owner
  }
}

bool is_held_on(const Job& job, NodeId node) {
  if (!job.allocation)
    return false;
  const auto& grants = job.allocation->grants;
  for (std::size_t i = 0; i < grants.size(); ++i)
    if (grants[i].node == node && (i >= job.members.size() || job.members[i] != MemberState::kStopped))
      return true;
  return false;
}

bool array_tells(const Job& array) {
  if (!array.array->waiting.empty())
    return true;
  return array.array->cut_short && is_final(array.state) && array.state != JobState::kCompleted &&
         array.state != JobState::kFailed;
}

bool node_drained(const Node& node) {
  return node.drain || node.unfit ||
         std::any_of(node.unconfirmed.begin(), node.unconfirmed.end(),
                     [](const Unconfirmed& u) { return !u.forgiven; }) ||
         std::any_of(node.health.begin(), node.health.end(), [](const HealthFinding& f) { return f.closes; });
}

bool node_usable(const Node& node) { return node.link == NodeLink::kUp && !node_drained(node); }

const Unconfirmed* unconfirmed_of(const Node& node, JobId job) {
  const auto at = std::lower_bound(node.unconfirmed.begin(), node.unconfirmed.end(), job,
                                   [](const Unconfirmed& one, JobId id) { return one.job < id; });
  return at != node.unconfirmed.end() && at->job == job ? &*at : nullptr;
}

namespace {

std::string amount_words(std::int64_t count, Shortage::What what) {
  switch (what) {
    case Shortage::What::kDiskFiles:
    case Shortage::What::kImageFiles: return format("{} files", count);
    case Shortage::What::kProcesses: return format("{} processes", count);
    case Shortage::What::kMemory:
    case Shortage::What::kDisk:
    case Shortage::What::kImages: break;
  }
  const std::int64_t mib = count >> 20;
  return mib < 10'240 ? format("{} MiB", mib) : format("{}.{} GiB", mib / 1024, mib % 1024 * 10 / 1024);
}

const char* shortage_name(Shortage::What what) {
  switch (what) {
    case Shortage::What::kMemory: return "memory";
    case Shortage::What::kDisk: return "disk";
    case Shortage::What::kDiskFiles: return "files of its disk";
    case Shortage::What::kImages: return "disk for images";
    case Shortage::What::kImageFiles: return "files for images";
    case Shortage::What::kProcesses: return "processes";
  }
  return "";
}

// "Short of memory: 90 MiB left, 100 MiB wanted". It closes the node to nothing but what minds its marks.
void add_shortages(NodeReason& out, const Node& node) {
  for (const Shortage& one : node.shortages) {
    if (out.words.empty())
      out.at = one.since;
    out.words +=
        format("{}{} of {}: {} left, {} wanted", out.words.empty() ? "" : "; ", one.acute ? "Short" : "Lately short",
               shortage_name(one.what), amount_words(one.available, one.what), amount_words(one.threshold, one.what));
  }
}

}  // namespace

NodeReason reason_of(const Node& node) {
  constexpr const char* kWhileItLasts = " (drained while that lasts)";
  NodeReason out{node.reason, node.reason_by, node.reason_at};
  if (!node.word.empty()) {
    if (out.words.empty())
      out.at = node.word_at;
    out.words += format("{}Node says: {}{}", out.words.empty() ? "" : "; ", node.word,
                        node.unfit && !node.drain ? kWhileItLasts : "");
  }
  for (const HealthFinding& one : node.health) {
    if (!one.closes)
      continue;
    if (out.words.empty())
      out.at = one.at;
    out.words += format("{}Health check {}: {}", out.words.empty() ? "" : "; ", one.check, evidence_of(one));
  }
  const Unconfirmed* first = nullptr;
  std::size_t count = 0;
  for (const Unconfirmed& one : node.unconfirmed)
    if (!one.forgiven && count++ == 0)
      first = &one;
  if (first) {
    if (out.words.empty())
      out.at = first->since;
    out.words += format("{}Kill task failed: job {}", out.words.empty() ? "" : "; ", first->job.value);  // Slurm's
    if (count > 1)
      out.words += format(" and {} more", count - 1);
    out.words += kWhileItLasts;
  }
  add_shortages(out, node);
  return out;
}

bool stays_below(std::string_view path) {
  if (path.empty() || path.front() == '/' || path.size() > kPathBytesMax || path.find('\0') != path.npos)
    return false;
  for (std::string_view rest = path; !rest.empty();) {
    const std::string_view name = rest.substr(0, rest.find('/'));
    if (name == "..")
      return false;
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
  }
  return true;
}

void share_parts(JobSpec& spec, const JobSpec& other) {
  for (const auto part :
       {&JobSpec::front_end, &JobSpec::account, &JobSpec::qos, &JobSpec::reservation, &JobSpec::licenses,
        &JobSpec::comment, &JobSpec::wckey, &JobSpec::script, &JobSpec::environment, &JobSpec::work_dir,
        &JobSpec::std_in, &JobSpec::std_out, &JobSpec::std_err, &JobSpec::submit_host, &JobSpec::command,
        &JobSpec::checkpoint_file, &JobSpec::checkpoint_line, &JobSpec::health_check})
    (spec.*part).share_with(other.*part);
  for (const auto part : {&JobSpec::options, &JobSpec::labels}) (spec.*part).share_with(other.*part);
  for (const auto part : {&JobSpec::stage_in, &JobSpec::stage_out}) (spec.*part).share_with(other.*part);
  spec.partitions.share_with(other.partitions);
  spec.groups.share_with(other.groups);
  spec.dependencies.share_with(other.dependencies);
}

}  // namespace lockstep
