// Everybody's pods are root's jobs, and root of a node is nobody: a caller who comes from a node as root reaches those
// of root's jobs that this node holds. Every command that names a job is tried, as the variant lists them.
#include "core/testing.h"
#include "model/job.h"

namespace lockstep {
namespace {

// What the controller itself says, never a caller.
template <class T>
inline constexpr bool kIsOurs = false;
template <>
inline constexpr bool kIsOurs<AgentReport> = true;
template <>
inline constexpr bool kIsOurs<GiveUpMember> = true;

constexpr Caller root_of(NodeId node) { return {World::kAlice, false, node}; }

// Two jobs of one user, each on a node of its own.
struct Apart : World {
  Apart() : World(2) {
    for (JobId* job : {&first, &second}) {
      JobSpec spec = interactive();
      spec.groups[0].per_task.cores = kCores;
      *job = submit(spec);
    }
    settle();
    CHECK(first_node(first) != first_node(second));
  }
  Caller beside(JobId job) const { return root_of(id(first_node(job))); }
  JobId first, second;
};

template <class T>
std::optional<CommandBody> about(JobId job) {
  T body{};
  if constexpr (kIsOurs<T>)
    return std::nullopt;
  else if constexpr (requires { body.target.job = job; })
    body.target.job = job;
  else if constexpr (requires { body.job = job; })
    body.job = job;
  else
    return std::nullopt;
  if constexpr (std::is_same_v<T, CreateStep>)
    body.spec = std::make_shared<const StepSpec>();
  return CommandBody(std::move(body));
}

template <class... T>
std::vector<CommandBody> all_about(JobId job, std::type_identity<std::variant<T...>>) {
  std::vector<CommandBody> out;
  const auto add = [&](std::optional<CommandBody> body) {
    if (body)
      out.push_back(std::move(*body));
  };
  (add(about<T>(job)), ...);
  return out;
}

TEST(Reach, RootOfANodeActsOnNothingElsewhere) {
  Apart w;
  w.must(CreateStep{w.second, std::make_shared<const StepSpec>()});
  const auto bodies = all_about(w.second, std::type_identity<CommandBody>{});
  EXPECT_GE(bodies.size(), 12u);
  for (const CommandBody& body : bodies)
    EXPECT_EQ(w.refused(body, w.beside(w.first)), Errc::kDenied) << "command " << body.index();
  EXPECT_EQ(w.state_of(w.second), JobState::kRunning);
  EXPECT_EQ(w.job(w.second).hold, Hold::kNone);
}

TEST(Reach, RootOfANodeActsOnWhatIsThere) {
  Apart w;
  w.must(CreateStep{w.first, std::make_shared<const StepSpec>()}, w.beside(w.first));
  w.must(CancelJob{.target = {w.first, {}}}, w.beside(w.first));
  w.obey();
  EXPECT_EQ(w.state_of(w.first), JobState::kCancelled);
  // It is there no more.
  EXPECT_EQ(w.refused(RequeueJob{.target = {w.first, {}}}, root_of(w.id(1))), Errc::kDenied);
  EXPECT_EQ(w.refused(SubmitJob{.spec = std::make_shared<const JobSpec>(World::batch())}, w.beside(w.second)),
            Errc::kDenied);
}

TEST(Reach, ElementsAreJudgedOneByOne) {
  World w(2);
  JobSpec spec = World::batch();
  spec.groups[0].per_task.cores = World::kCores;
  const JobId array = w.submit_array(spec, "0-2");
  w.settle();
  const JobId zero = w.element(array, 0).id;
  const NodeId there = w.id(w.first_node(zero));
  const auto only = [&](std::uint32_t i) { return CancelJob{.target = {array, IntervalSet(i, i)}}; };
  EXPECT_EQ(w.refused(only(1), root_of(there)), Errc::kDenied);                           // on the other node
  EXPECT_EQ(w.refused(only(2), root_of(there)), Errc::kDenied);                           // waits
  EXPECT_EQ(w.refused(CancelJob{.target = {array, {}}}, root_of(there)), Errc::kDenied);  // all of it
  w.must(only(0), root_of(there));
  w.obey();
  EXPECT_EQ(w.state_of(zero), JobState::kCancelled);
}

}  // namespace
}  // namespace lockstep
