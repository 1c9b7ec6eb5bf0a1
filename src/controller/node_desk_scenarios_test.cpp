// What the node desk makes of what agents say and leave unsaid, as stories in testdata/node_desk_*.txt. What comes of a
// command: "= …" is what the desk has committed, "N> …" what it says on connection N, "? …" what it asks a fence hook.
#include <gtest/gtest.h>

#include <map>

#include "base/mutant.h"
#include "base/scenario.h"
#include "controller/node_desk_rig.h"
#include "model/message_text.h"
#include "wire/codec.h"

namespace lockstep {
namespace {

class DeskStory : private DeskRig {
 public:
  DeskStory() {
    core_acts = true;
    committed = [this](const CommandBody& body, const Result<Answer>& answer) {
      const std::string what = std::visit([this](const auto& b) { return text(b); }, body);
      note("= " + what + (answer.ok() ? "" : ": refused, " + answer.error().message));
    };
    begin();
    notes_.clear();
  }

  std::string run(ScenarioCommand& c) {
    const auto word = words().find(c.name());
    if (word == words().end()) {
      c.mistake("no such command");
      return {};
    }
    (this->*word->second)(c);
    settle();
    return std::exchange(notes_, {});
  }

 private:
  using Word = void (DeskStory::*)(ScenarioCommand&);
  static const std::map<std::string, Word>& words() {
    static const std::map<std::string, Word> all = {
        {"connect", &DeskStory::connect},
        {"hello", &DeskStory::say_hello},
        {"disconnect", &DeskStory::disconnect},
        {"renew", &DeskStory::say_renew},
        {"report", &DeskStory::report},
        {"start", &DeskStory::start},
        {"step", &DeskStory::make_step},
        {"cancel", &DeskStory::cancel},
        {"suspend", &DeskStory::suspend},
        {"resume", &DeskStory::resume},
        {"signal", &DeskStory::signal_job},
        {"join", &DeskStory::join_node},
        {"revoke", &DeskStory::revoke},
        {"pass", &DeskStory::pass_time},
        {"stand-still", &DeskStory::stand},
        {"tick", &DeskStory::tick},
        {"log", &DeskStory::break_log},
        {"proof", &DeskStory::proof},
        {"new-controller", &DeskStory::new_controller},
        {"node", &DeskStory::show_node},
        {"job", &DeskStory::show_job},
    };
    return all;
  }

  // --- what comes ---

  void note(const std::string& what) {
    const Duration since = now - kStart;
    notes_ += passing_ ? format("@{} {}\n", span_text(since), what) : what + "\n";
  }
  void settle() {
    pump();
    for (const auto& out : std::exchange(sent, {})) note(format("{}> {}", out.link, message_text(out.message)));
    for (const auto& ask : std::exchange(asked, {}))
      note(format("? is {} off, silent for {}", name_of(ask.node), span_text(ask.silence)));
  }
  std::string name_of(NodeId id) const {
    const auto it = engine->state().tables().nodes.find(id);
    return it == engine->state().tables().nodes.end() ? "a node that is gone" : it->second->meta.name;
  }
  std::string text(const NodeHello& b) const {
    return format("{} says hello from {}", b.facts.meta.name, b.facts.boot_id);
  }
  std::string text(const NodeAway& b) const { return name_of(b.node) + " is away"; }
  std::string text(const NodeLost& b) const { return name_of(b.node) + " is lost"; }
  std::string text(const NodeFenced& b) const {
    return format("{} is proven off, boot {}: {}", name_of(b.node), b.boot_id, b.proof);
  }
  std::string text(const GiveUpMember& b) const {
    return format("{}-{} is given up on {}", b.job.value, b.attempt, name_of(b.node));
  }
  std::string text(const AgentReport& b) const {
    return format("{} tells of {}-{}: {}", name_of(b.node), b.job.value, b.attempt, report_text(b.body));
  }
  template <class T>
  std::string text(const T&) const {
    return "something that no desk commits";
  }

  // --- words ---

  std::uint64_t link(ScenarioCommand& c) { return c.number("link", 1); }
  Node facts(ScenarioCommand& c, const std::string& name) {
    return machine(name, c.text("boot", "boot-1"), c.has("hook"));
  }
  // holds=1-1,7-2: attempts, of which the steps named are there: steps=0,1.
  std::vector<Holding> holdings(ScenarioCommand& c) {
    std::vector<Holding> out;
    for (const std::string& text : c.list("holds")) {
      const auto parts = split(text, '-');
      Holding holding;
      holding.job = JobId(parse_uint(parts[0]).value_or(0));
      holding.attempt = parts.size() > 1 ? static_cast<AttemptNo>(parse_uint(parts[1]).value_or(0)) : 1;
      holding.stopping = c.has("stopping");
      holding.paused = c.has("paused");
      for (const std::string& step : c.list("steps"))
        holding.steps.push_back(static_cast<StepNo>(parse_uint(step).value_or(0)));
      out.push_back(std::move(holding));
    }
    return out;
  }
  void connect(ScenarioCommand& c) { desk->connected(link(c), c.own(), now, c.text("certificate")); }
  // hello n1: on a connection of n1. as=: what its facts say. protocol=: the only one it speaks.
  void say_hello(ScenarioCommand& c) {
    const std::string name = c.own();
    if (!c.has("connected"))
      desk->connected(link(c), name, now, c.text("certificate"));
    Hello m;
    m.facts = facts(c, c.text("as", name));
    m.holdings = holdings(c);
    m.protocol_min = m.protocol_max = static_cast<std::uint32_t>(c.number("protocol", kProtocolMax));
    desk->receive(link(c), m, engine->state(), now);
  }
  void disconnect(ScenarioCommand& c) { desk->disconnected(link(c), now); }
  void say_renew(ScenarioCommand& c) { desk->receive(link(c), Renew{now.us, holdings(c)}, engine->state(), now); }

  // report 3 job=1 started: report 3 of the agent.
  void report(ScenarioCommand& c) {
    Report m;
    m.number = parse_uint(c.own()).value_or(0);
    m.job = JobId(c.number("job", 1));
    m.attempt = static_cast<AttemptNo>(c.number("attempt", 1));
    const auto step = static_cast<StepNo>(c.number("step"));
    const ExitStatus exit{static_cast<std::int32_t>(c.number("code")), 0, false};
    const auto pause = static_cast<std::uint32_t>(c.number("order"));
    const std::pair<const char*, ReportBody> kBodies[] = {{"started", AttemptStarted{}},
                                                          {"failed", LaunchFailed{"no memory"}},
                                                          {"script-ended", ScriptEnded{exit, true}},
                                                          {"stopped", MemberStopped{}},
                                                          {"step-started", StepStarted{step}},
                                                          {"step-ended", StepEnded{step, {{0, exit}}}},
                                                          {"paused", MemberPaused{true, pause}},
                                                          {"resumed", MemberPaused{false, pause}}};
    for (const auto& [word, body] : kBodies)
      if (c.has(word))
        m.body = body;
    desk->receive(link(c), m, engine->state(), now);
  }

  // start n1,n2: a job with a core of each.
  void start(ScenarioCommand& c) {
    auto spec = std::make_shared<JobSpec>();
    spec->name = c.text("name", "job");
    spec->user = engine->state().tables().user("local", 1000)->id;
    spec->requeue = !c.has("no-requeue");
    spec->groups.resize(1);
    spec->groups[0].launch = Launch::kScript;
    spec->script = "a-blob";
    PlannedStart start;
    start.partition = "main";
    for (const std::string& name : split(c.own(), ',')) {
      Grant grant{.node = node(name).id, .tasks = 1};
      grant.cores.set(static_cast<std::uint32_t>(engine->state().load(grant.node).cores.count()));
      start.grants.push_back(grant);
    }
    const auto nodes = static_cast<std::uint32_t>(start.grants.size());
    spec->groups[0].tasks = spec->groups[0].nodes = {nodes, nodes};
    start.job = commit(SubmitJob{spec, std::nullopt, nullptr, {}})->job;
    start.read = engine->state().tables().job(start.job)->meta.seq;
    const auto done = commit(ApplyPlan{{start}});
    note(done.ok() && done->starts_applied == 1 ? format("job {} starts", start.job.value) : "nothing starts");
  }
  void say(const Result<Answer>& answer) {
    if (!answer.ok())
      note("refused: " + answer.error().message);
  }
  JobTarget target(ScenarioCommand& c) { return {JobId(parse_uint(c.own()).value_or(0)), {}}; }
  void make_step(ScenarioCommand& c) {
    auto spec = std::make_shared<StepSpec>();
    spec->argv = {"true"};
    spec->tasks = 1;
    spec->nodes = {1, 1};
    say(commit(CreateStep{target(c).job, spec}));
  }
  void cancel(ScenarioCommand& c) { say(commit(CancelJob{target(c)})); }
  void suspend(ScenarioCommand& c) { say(commit(SuspendJob{target(c)})); }
  void resume(ScenarioCommand& c) { say(commit(ResumeJob{target(c)})); }
  void signal_job(ScenarioCommand& c) {
    say(commit(CancelJob{target(c), static_cast<std::int32_t>(c.number("number"))}));
  }
  void join_node(ScenarioCommand& c) {
    const std::string name = c.own();
    join(name, c.text("certificate"));
  }
  void revoke(ScenarioCommand& c) { say(commit(UpdateNode{.name = c.own(), .revoke = true})); }

  // Time in which the controller runs, and hears. Each thing is told with when it came.
  void pass_time(ScenarioCommand& c) {
    const Instant end = now + parse_span(c.own()).value_or(Duration{});
    passing_ = true;
    pass({});  // what is due now
    settle();
    while (now < end) {
      Instant next = std::min({std::max(now, desk->next_timer()), std::max(now, engine->state().next_timer()), end});
      if (next == now)
        next = std::min(now + micros(1), end);
      pass(next - now);
      settle();
    }
    passing_ = false;
  }
  void stand(ScenarioCommand& c) { stand_still(parse_span(c.own()).value_or(Duration{})); }
  void tick(ScenarioCommand&) { desk->tick(engine->state(), now); }
  void break_log(ScenarioCommand& c) {
    log.next = c.has("fails") ? TestLog::Append::kFails : TestLog::Append::kWorks;
    (void)c.has("works");
  }
  // The hook's answer.
  void proof(ScenarioCommand& c) { desk->fenced(node(c.own()).id, c.text("of", "its process is gone")); }
  // Another one leads the same log; every connection is gone.
  void new_controller(ScenarioCommand&) {
    say(commit(StartEpoch{"test"}));
    start_desk();
  }

  void show_node(ScenarioCommand& c) {
    const Node* found = engine->state().tables().node(c.own());
    if (!found)
      return note("no such node");
    std::string hangs;
    for (const Unconfirmed& one : found->unconfirmed) hangs += format(", job {} hangs on it", one.job.value);
    note(format("{} is {} since {}, {} of {} cores held{}", found->meta.name, text_of(found->link), found->boot_id,
                engine->state().load(found->id).cores.count(), found->cores, hangs));
  }
  void show_job(ScenarioCommand& c) {
    const Job* found = engine->state().tables().job(JobId(parse_uint(c.own()).value_or(0)));
    if (!found)
      return note("no such job");
    const bool ends = found->state == JobState::kCompleting;
    note(format("job {} is {}{}, attempt {}", found->id.value, text_of(found->state),
                ends ? " as " + std::string(text_of(found->ending)) : "", found->attempt));
  }

  std::string notes_;
  bool passing_ = false;
};

class DeskScenarios : public testing::TestWithParam<std::string> {};

TEST_P(DeskScenarios, ComeOutAsWritten) {
  DeskStory story;
  run_scenario(scenario_folder(LOCKSTEP_TESTDATA) + "/" + GetParam() + ".txt",
               [&](ScenarioCommand& command) { return story.run(command); });
}

// They can fail: each of these planted bugs shows in one at least.
TEST(DeskStories, NoticePlantedBugs) {
  const std::string folder = scenario_folder(LOCKSTEP_TESTDATA);
  for (const Mutant bug :
       {Mutant::kNone, Mutant::kOwnSilence, Mutant::kSkipFence, Mutant::kNoRequeue, Mutant::kEpochIgnored}) {
    std::size_t differ = 0;
    planted = bug;
    for (const std::string& name : scenario_names(folder, "node_desk_")) {
      DeskStory story;
      const std::string text = scenario_text(folder + "/" + name + ".txt");
      differ += scenario_as_it_comes(text, [&](ScenarioCommand& command) { return story.run(command); }) != text;
    }
    planted = Mutant::kNone;
    EXPECT_EQ(differ > 0, bug != Mutant::kNone) << static_cast<int>(bug);
  }
}

INSTANTIATE_TEST_SUITE_P(Files, DeskScenarios,
                         testing::ValuesIn(scenario_names(scenario_folder(LOCKSTEP_TESTDATA), "node_desk_")),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace lockstep
