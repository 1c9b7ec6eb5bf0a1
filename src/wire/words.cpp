// Enum <-> text: lower_snake, one table per enum.
#include "wire/words.h"

#include "wire/codec.h"

namespace lockstep {

namespace wire {

namespace {

using namespace std::string_view_literals;

// A table must name every value, so its length is the last value's plus one.
template <class E, std::size_t N>
constexpr bool names_all(const std::string_view (&)[N], E last) {
  return N == static_cast<std::size_t>(last) + 1;
}

constexpr std::string_view kJobStates[] = {"pending",   "starting",      "running",   "suspended", "completing",
                                           "completed", "failed",        "cancelled", "timeout",   "node_fail",
                                           "preempted", "out_of_memory", "deadline",  "boot_fail"};
static_assert(names_all(kJobStates, JobState::kBootFail));

constexpr std::string_view kHolds[] = {"none",          "user",           "admin",
                                       "requeue_limit", "dependency",     "dependency_never",
                                       "begin_time",    "array_throttle", "launch_failed"};
static_assert(names_all(kHolds, Hold::kLaunchFailed));

constexpr std::string_view kLaunches[] = {"script", "nothing", "tasks"};
static_assert(names_all(kLaunches, Launch::kTasks));

constexpr std::string_view kRestartRules[] = {"never", "on_failure", "always"};
static_assert(names_all(kRestartRules, RestartRule::kAlways));

constexpr std::string_view kSharings[] = {"shared", "exclusive", "exclusive_user"};
static_assert(names_all(kSharings, Sharing::kExclusiveUser));
constexpr std::string_view kLabelRules[] = {"one_of", "none_of", "there", "absent", "above", "below"};
static_assert(names_all(kLabelRules, LabelRule::Is::kBelow));
constexpr std::string_view kMarkEffects[] = {"keeps_off", "puts_off", "drives"};
static_assert(names_all(kMarkEffects, NodeMark::Effect::kDrives));
constexpr std::string_view kNeighbourWishes[] = {"near", "apart", "even"};
static_assert(names_all(kNeighbourWishes, NeighbourTerm::Wish::kEven));

constexpr std::string_view kProbeWhats[] = {"startup", "readiness", "liveness"};
static_assert(names_all(kProbeWhats, Probe::What::kLiveness));

constexpr std::string_view kProbeHows[] = {"http", "tcp", "exec", "grpc"};
static_assert(names_all(kProbeHows, Probe::How::kGrpc));

constexpr std::string_view kDependencyTypes[] = {"after",        "after_any",  "after_ok",
                                                 "after_not_ok", "after_corr", "singleton"};
static_assert(names_all(kDependencyTypes, Dependency::Type::kSingleton));

constexpr std::string_view kMemberStates[] = {"assigned", "running", "stopped", "paused"};
static_assert(names_all(kMemberStates, MemberState::kPaused));

constexpr std::string_view kKindWords[] = {
#define KIND(type, name, word, table, count, seen) word,
#include "model/kinds.def"
};

constexpr std::string_view kNodeLinks[] = {"unknown", "up", "lost", "away"};
static_assert(names_all(kNodeLinks, NodeLink::kAway));

constexpr std::string_view kOnUnhealthy[] = {"drain", "tell"};
static_assert(names_all(kOnUnhealthy, OnUnhealthy::kTell));

constexpr std::string_view kHealthVerdicts[] = {"unknown", "healthy", "suspect", "bad"};
static_assert(names_all(kHealthVerdicts, HealthVerdict::kBad));

constexpr std::string_view kShortages[] = {"memory", "disk", "disk_files", "images", "image_files", "processes"};
static_assert(names_all(kShortages, Shortage::What::kProcesses));

constexpr std::string_view kRoles[] = {"compute", "broker"};
static_assert(names_all(kRoles, JoinToken::Role::kBroker));

constexpr std::string_view kStepStates[] = {"pending", "starting", "running", "ended"};
static_assert(names_all(kStepStates, StepState::kEnded));
constexpr std::string_view kStopWhys[] = {"nothing",   "cancelled", "time_limit", "preempted",
                                          "node_fail", "requeued",  "failed"};
static_assert(names_all(kStopWhys, StopWhy::kFailed));

constexpr std::string_view kPmis[] = {"none", "pmi2", "pmix"};
static_assert(names_all(kPmis, Pmi::kPmix));
constexpr std::string_view kReuses[] = {"auto", "make", "enter", "keep_out"};
static_assert(names_all(kReuses, Container::Reuse::kKeepOut));

constexpr std::string_view kTaskNetworks[] = {"host", "own"};
static_assert(names_all(kTaskNetworks, TaskNetwork::kOwn));
constexpr std::string_view kContainerKinds[] = {"main", "init", "sidecar", "added"};
static_assert(names_all(kContainerKinds, ContainerKind::kAdded));
constexpr std::string_view kContainerStates[] = {"waiting", "running", "ended"};
static_assert(names_all(kContainerStates, ContainerState::kEnded));

constexpr std::string_view kHookHows[] = {"none", "exec", "http", "sleep"};
static_assert(names_all(kHookHows, ContainerHook::How::kSleep));
constexpr std::string_view kPlacedVariables[] = {"task_address", "node_address", "node_name"};
static_assert(names_all(kPlacedVariables, PlacedVariable::What::kNodeName));
constexpr std::string_view kFetches[] = {"missing", "always", "never"};
static_assert(names_all(kFetches, SandboxContainer::Fetch::kNever));
constexpr std::string_view kVolumeKinds[] = {"disk", "memory", "files", "host", "nfs", "image"};
static_assert(names_all(kVolumeKinds, SandboxVolume::Kind::kImage));

constexpr std::string_view kTaskStates[] = {"waiting", "running", "ended"};
static_assert(names_all(kTaskStates, TaskState::kEnded));

constexpr std::string_view kWaits[] = {"none",
                                       "priority",
                                       "resources",
                                       "nodes_unavailable",
                                       "partition_down",
                                       "partition_time_limit",
                                       "partition_node_limit",
                                       "bad_constraints",
                                       "reservation",
                                       "licenses",
                                       "limit"};
static_assert(names_all(kWaits, Wait::kLimit));

constexpr std::string_view kPreemptModes[] = {"cluster", "off", "cancel", "requeue", "suspend", "gang", "checkpoint"};
static_assert(names_all(kPreemptModes, PreemptMode::kCheckpoint));

constexpr std::string_view kResets[] = {"none", "now", "daily", "weekly", "monthly", "quarterly", "yearly"};
static_assert(names_all(kResets, Policy::Reset::kYearly));

constexpr std::string_view kRecurrences[] = {"none", "hourly", "daily", "weekday", "weekend", "weekly"};
static_assert(names_all(kRecurrences, Recurrence::kWeekly));

constexpr std::string_view kReaches[] = {"steps", "script", "everything"};
static_assert(names_all(kReaches, SignalReach::kEverything));

constexpr std::string_view kErrcs[] = {"invalid",   "impossible", "not_found", "conflict", "denied",      "unavailable",
                                       "exhausted", "timeout",    "io",        "corrupt",  "unsupported", "internal"};
static_assert(names_all(kErrcs, Errc::kInternal));

constexpr std::string_view kFromAgent[] = {"hello", "renew", "report", "telemetry"};
static_assert(std::size(kFromAgent) == std::variant_size_v<FromAgent>);

constexpr std::string_view kToAgent[] = {"welcome",        "refused",     "renew_ack",   "report_ack",
                                         "launch_attempt", "launch_step", "launch_task", "stop",
                                         "signal",         "pause",       "revoked",     "task_routes"};
static_assert(std::size(kToAgent) == std::variant_size_v<ToAgent>);

constexpr std::string_view kWorkParts[] = {"script", "step", "task"};
static_assert(std::size(kWorkParts) == std::variant_size_v<WorkPart>);

constexpr std::string_view kReports[] = {"attempt_started", "launch_failed", "script_ended",    "member_stopped",
                                         "step_started",    "step_ended",    "task_started",    "task_ready",
                                         "task_ended",      "member_paused", "task_containers", "staged_in",
                                         "checkpoint_seen"};
static_assert(std::size(kReports) == std::variant_size_v<ReportBody>);

}  // namespace

WordList words_of(JobState) { return kJobStates; }
WordList words_of(Hold) { return kHolds; }
WordList words_of(Launch) { return kLaunches; }
WordList words_of(TaskNetwork) { return kTaskNetworks; }
WordList words_of(ContainerKind) { return kContainerKinds; }
WordList words_of(ContainerState) { return kContainerStates; }
WordList words_of(ContainerHook::How) { return kHookHows; }
WordList words_of(PlacedVariable::What) { return kPlacedVariables; }
WordList words_of(SandboxContainer::Fetch) { return kFetches; }
WordList words_of(SandboxVolume::Kind) { return kVolumeKinds; }
WordList words_of(RestartRule) { return kRestartRules; }
WordList words_of(Sharing) { return kSharings; }
WordList words_of(LabelRule::Is) { return kLabelRules; }
WordList words_of(NodeMark::Effect) { return kMarkEffects; }
WordList words_of(NeighbourTerm::Wish) { return kNeighbourWishes; }
WordList words_of(Probe::What) { return kProbeWhats; }
WordList words_of(Probe::How) { return kProbeHows; }
WordList words_of(Dependency::Type) { return kDependencyTypes; }
WordList words_of(MemberState) { return kMemberStates; }
WordList words_of(Kind) { return kKindWords; }
WordList words_of(NodeLink) { return kNodeLinks; }
WordList words_of(OnUnhealthy) { return kOnUnhealthy; }
WordList words_of(HealthVerdict) { return kHealthVerdicts; }
WordList words_of(Shortage::What) { return kShortages; }
WordList words_of(JoinToken::Role) { return kRoles; }
WordList words_of(StepState) { return kStepStates; }
WordList words_of(StopWhy) { return kStopWhys; }
WordList words_of(Pmi) { return kPmis; }
WordList words_of(Container::Reuse) { return kReuses; }
WordList words_of(TaskState) { return kTaskStates; }
WordList words_of(Wait) { return kWaits; }
WordList words_of(SignalReach) { return kReaches; }
WordList words_of(PreemptMode) { return kPreemptModes; }
WordList words_of(Policy::Reset) { return kResets; }
WordList words_of(Recurrence) { return kRecurrences; }
WordList words_of(Errc) { return kErrcs; }
WordList words_of(const FromAgent*) { return kFromAgent; }
WordList words_of(const ToAgent*) { return kToAgent; }
WordList words_of(const ReportBody*) { return kReports; }
WordList words_of(const WorkPart*) { return kWorkParts; }

}  // namespace wire

std::string_view text_of(JobState state) { return wire::word(state); }
std::string_view text_of(StepState state) { return wire::word(state); }
std::string_view text_of(TaskState state) { return wire::word(state); }
std::string_view text_of(ContainerState state) { return wire::word(state); }
std::string_view text_of(NodeLink link) { return wire::word(link); }
std::string_view text_of(HealthVerdict verdict) { return wire::word(verdict); }
std::string_view text_of(Hold hold) { return wire::word(hold); }
std::string_view text_of(Wait wait) { return wire::word(wait); }
std::string_view text_of(Kind kind) { return wire::word(kind); }

}  // namespace lockstep
