// What an agent decides, as stories in testdata/*.txt: messages, shims' words and time go in, orders and messages come
// out. See base/scenario.h for how a file is read, and words() below for the commands.
#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "agent/journal.h"
#include "agent/logic.h"
#include "base/mutant.h"
#include "base/scenario.h"
#include "model/message_text.h"
#include "model/work_id.h"

namespace lockstep {
namespace {

using Order = AgentLogic::ShimOrder;

// What a staging copies, whether a script writes behind what was said of it, and the signs of checkpoints.
std::string signs_text(const ShimStart& start) {
  std::string out;
  if (is_staging(start.key))
    for (const std::string& word : start.launch.process.argv) out += " " + word;
  else if (start.launch.process.append)
    out += " append";
  if (!start.checkpoint_file.empty())
    out += " checkpoint-file=" + start.checkpoint_file;
  if (!start.checkpoint_line.empty())
    out += " checkpoint-line=" + start.checkpoint_line;
  return out;
}

std::string order_text(const Order& o) {
  const std::string key = text_of(o.key);
  switch (o.what) {
    case Order::What::kStart:
      return format("start {} uid={} ranks={} fence={}{}", key, o.start.launch.process.uid,
                    MessageText::ranks(o.start.launch.ranks), span_text(o.start.fence_after),
                    o.start.script.empty() ? "" : " script") +
             signs_text(o.start);
    case Order::What::kSignal:
      return format("signal {} {}{}", o.signal, key, o.reach == Shims::Reach::kFirst ? " first process only" : "");
    case Order::What::kStop: return format("stop {} within {}{}", key, span_text(o.kill_wait), MessageText::why(o.why));
    case Order::What::kForget: return "forget " + key;
    case Order::What::kNotice:
      return format("notice {}: killed in {}{}", key, span_text(o.kill_wait), MessageText::why(o.why));
    case Order::What::kPause: return format("pause {} #{}", key, o.number);
    case Order::What::kResume: return format("resume {} #{}", key, o.number);
  }
  return "?";
}

// An agent's logic and what its shell keeps for it: the journal, and which reports and renewals left.
class Story {
 public:
  Story() {
    facts_.meta.name = "n1";
    facts_.boot_id = "boot-1";
    begin({}, {});
  }

  std::string run(ScenarioCommand& c) {
    const auto word = words().find(c.name());
    if (word == words().end()) {
      c.mistake("no such command");
      return {};
    }
    std::string out = (this->*word->second)(c);
    return out += come();
  }

 private:
  using Word = std::string (Story::*)(ScenarioCommand&);
  static const std::map<std::string, Word>& words() {
    static const std::map<std::string, Word> all = {
        {"limits", &Story::limits},
        {"hooks", &Story::hooks},
        {"connect", &Story::connect},
        {"welcome", &Story::welcome},
        {"disconnect", &Story::disconnect},
        {"refuse", &Story::refuse},
        {"launch", &Story::launch},
        {"launch-step", &Story::launch_step},
        {"launch-task", &Story::launch_task},
        {"stop", &Story::stop},
        {"signal", &Story::signal},
        {"pause", &Story::pause},
        {"resume", &Story::resume},
        {"shim", &Story::shim},
        {"pass", &Story::pass},
        {"ack", &Story::ack},
        {"renew-ack", &Story::renew_ack},
        {"restart", &Story::restart},
        {"no-room", &Story::no_room},
        {"step-here", &Story::step_here},
        {"next-timer", &Story::next_timer},
        {"journal", &Story::show_journal},
        {"break-journal", &Story::break_journal},
    };
    return all;
  }

  void begin(const std::vector<WorkId>& survivors, const std::vector<FoundWork>& found) {
    logic_ = std::make_unique<AgentLogic>(settings_, facts_, journal_, survivors, now_, found);
  }

  // Everything that the logic has to say, as its shell takes it: the journal first.
  std::string come(const std::string& before = {}) {
    std::string out;
    for (auto& line : logic_->take_journal()) journal_.push_back(std::move(line));
    for (const StepRefusal& r : logic_->take_refusals())
      out += format("{}refusal {}: {}\n", before, text_of(r.key), r.why);
    for (const Order& o : logic_->take_orders()) out += format("{}{}\n", before, order_text(o));
    for (const FromAgent& m : logic_->take_messages()) {
      if (const auto* report = std::get_if<Report>(&m))
        told_.insert(report->number);
      if (const auto* renew = std::get_if<Renew>(&m))
        renewal_us_ = renew->sent_boot_us;
      out += format("{}> {}\n", before, message_text(m));
    }
    return out;
  }
  std::string hear(ToAgent message) {
    logic_->receive(message, now_);
    return {};
  }

  // --- words ---

  // limits steps=2 works=3: what may live here at once, from the beginning.
  std::string limits(ScenarioCommand& c) {
    settings_.steps_max = c.number("steps", settings_.steps_max);
    settings_.works_max = c.number("works", settings_.works_max);
    begin({}, {});
    return {};
  }
  // hooks prolog=60s epilog=20s staging=300s: programs that run around every attempt from the next beginning of the
  // agent on, and how long they may take.
  std::string hooks(ScenarioCommand& c) {
    settings_.hooks = {.prolog = c.has("prolog"), .epilog = c.has("epilog")};
    settings_.hooks.prolog_limit = c.span("prolog", minutes(1));
    settings_.hooks.epilog_limit = c.span("epilog", minutes(1));
    settings_.hooks.staging_limit = c.span("staging", minutes(5));
    begin({}, {});
    return {};
  }
  std::string connect(ScenarioCommand& c) {
    logic_->connected(now_);
    std::string out = come();
    return c.has("unanswered") ? out : out += welcome(c);
  }
  std::string welcome(ScenarioCommand&) { return hear(Welcome{1, NodeId(1), seconds(3), "test"}); }
  std::string disconnect(ScenarioCommand&) {
    logic_->disconnected(now_);
    return {};
  }
  std::string refuse(ScenarioCommand& c) { return hear(Refused{c.text("why")}); }

  template <class Message>
  Message about(ScenarioCommand& c) {
    Message m;
    m.job = JobId(c.number("job", 5));
    m.attempt = static_cast<AttemptNo>(c.number("attempt", 1));
    return m;
  }
  std::optional<WorkPart> part(ScenarioCommand& c) {
    if (c.has("step"))
      return StepPart{static_cast<StepNo>(c.number("step"))};
    if (!c.has("task"))
      return std::nullopt;
    const auto words = split(c.text("task"), '.');
    TaskPart task;
    if (words.size() == 3)
      task = {static_cast<std::uint16_t>(parse_uint(words[0]).value_or(0)),
              static_cast<std::uint32_t>(parse_uint(words[1]).value_or(0)),
              static_cast<std::uint32_t>(parse_uint(words[2]).value_or(0))};
    else
      c.mistake("task is GROUP.INDEX.INCARNATION");
    return task;
  }
  // launch in=data,more out=results waits checkpoint-file=/w/saved checkpoint-line=saved
  std::string launch(ScenarioCommand& c) {
    auto m = about<LaunchAttempt>(c);
    m.fence_after = c.span("fence", minutes(10));
    m.kill_wait = seconds(30);
    m.has_script = !c.has("allocation");
    m.script = m.has_script ? "#!/bin/sh\n" : "";
    m.process.uid = 1000;
    for (const auto& from : c.list("in")) m.stage_in.push_back({"/" + from, from});
    for (const auto& from : c.list("out")) m.stage_out.push_back({from, "/kept/" + from});
    m.script_waits = c.has("waits");
    m.checkpoint_file = c.text("checkpoint-file", "");
    m.checkpoint_line = c.text("checkpoint-line", "");
    return hear(m);
  }
  std::string launch_step(ScenarioCommand& c) {
    auto m = about<LaunchStep>(c);
    m.step = static_cast<StepNo>(c.number("step"));
    for (const auto& rank : c.list("ranks"))
      m.ranks.push_back(static_cast<std::uint32_t>(parse_uint(rank).value_or(0)));
    if (!c.has("ranks"))
      m.ranks = {0};
    return hear(m);
  }
  std::string launch_task(ScenarioCommand& c) {
    auto m = about<LaunchTask>(c);
    if (const auto which = part(c))
      m.task = std::get<TaskPart>(*which);
    return hear(m);
  }
  std::string stop(ScenarioCommand& c) {
    auto m = about<StopWork>(c);
    m.part = part(c);
    m.kill_wait = c.span("within", seconds(7));
    m.why = c.has("time-limit") ? StopWhy::kTimeLimit : StopWhy::kCancelled;
    return hear(m);
  }
  std::string signal(ScenarioCommand& c) {
    auto m = about<SignalWork>(c);
    m.part = part(c);
    const std::string reach = c.text("reach", "steps");
    m.reach = reach == "script"       ? SignalReach::kScript
              : reach == "everything" ? SignalReach::kEverything
                                      : SignalReach::kSteps;
    m.signal = static_cast<std::int32_t>(c.number("number"));
    if (c.has("warns")) {
      m.why = StopWhy::kPreempted;
      m.stops_in = c.span("warns", seconds(60));
    }
    return hear(m);
  }
  std::string pause_or_resume(ScenarioCommand& c, bool paused) {
    auto m = about<PauseWork>(c);
    m.paused = paused;
    m.number = static_cast<std::uint32_t>(c.number("order"));
    return hear(m);
  }
  std::string pause(ScenarioCommand& c) { return pause_or_resume(c, true); }
  std::string resume(ScenarioCommand& c) { return pause_or_resume(c, false); }

  WorkId work(ScenarioCommand& c, const std::string& text) {
    const auto id = parse_work_id(text);
    if (!id)
      c.mistake(text + " names no work: 5-1-batch, 5-1-0, 5-1-task-0.4.2");
    return id.value_or(WorkId{});
  }
  std::vector<WorkId> works(ScenarioCommand& c, const std::string& name) {
    std::vector<WorkId> out;
    for (const auto& text : c.list(name)) out.push_back(work(c, text));
    return out;
  }
  // shim 5-1-0 ended code=3 ago=2s
  std::string shim(ScenarioCommand& c) {
    ShimEvent e;
    e.key = work(c, c.own());
    const std::pair<const char*, ShimEvent::What> kWhats[] = {
        {"started", ShimEvent::What::kStarted}, {"failed", ShimEvent::What::kFailed},
        {"ended", ShimEvent::What::kEnded},     {"paused", ShimEvent::What::kPaused},
        {"resumed", ShimEvent::What::kResumed}, {"checkpoint", ShimEvent::What::kCheckpoint}};
    for (const auto& [word, what] : kWhats)
      if (c.has(word))
        e.what = what;
    e.why = c.text("why", "no memory");
    e.number = static_cast<std::uint32_t>(c.number("order"));
    if (e.what == ShimEvent::What::kEnded)
      e.results = {
          {0, {static_cast<std::int32_t>(c.number("code")), static_cast<std::int32_t>(c.number("signal")), false}}};
    if (c.has("ago"))
      e.at = now_ - c.span("ago");
    logic_->shim_event(e, now_);
    return {};
  }

  // Time in which the agent runs, and acts when it wants to.
  std::string pass(ScenarioCommand& c) {
    std::string out;
    const Instant end = now_ + parse_span(c.own()).value_or(Duration{});
    while (logic_->next_timer() <= end) {
      now_ = std::max(now_, logic_->next_timer());
      logic_->tick(now_);
      out += come(format("@{} ", span_text(now_ - kBegin)));
    }
    now_ = end;
    return out;
  }
  // All reports that left so far, or those named.
  std::string ack(ScenarioCommand& c) {
    ReportAck ack;
    for (const auto& number : c.list("reports")) ack.numbers.push_back(parse_uint(number).value_or(0));
    if (!c.has("reports"))
      ack.numbers.assign(told_.begin(), told_.end());
    return hear(ack);
  }
  std::string renew_ack(ScenarioCommand& c) { return hear(RenewAck{c.has("strange") ? now_.us + 1 : renewal_us_}); }

  // The agent ends and begins again. survivors: shims that are found alive or ended; found: of what their folders tell;
  // lost: of these, who could not be spoken to. journal: kept as it is, written anew as a snapshot, or lost.
  std::string restart(ScenarioCommand& c) {
    const std::string journal = c.text("journal", "kept");
    if (journal == "lost")
      journal_.clear();
    else if (journal == "snapshot")
      journal_ = logic_->journal_snapshot();
    std::vector<FoundWork> found;
    for (const WorkId& key : works(c, "found"))
      found.push_back({key, 1000, minutes(10), seconds(30), {0}, true, false});
    for (const WorkId& key : works(c, "lost")) found.push_back({key, 1000, minutes(10), seconds(30), {0}, true, true});
    told_.clear();
    begin(works(c, "survivors"), found);
    return {};
  }
  std::string no_room(ScenarioCommand& c) {
    logic_->refuse_starts(c.text("why"));
    return {};
  }
  std::string step_here(ScenarioCommand& c) {
    constexpr const char* kHere[] = {"may come", "here", "never"};
    const auto m = about<LaunchStep>(c);
    const auto facts = logic_->step(m.job, m.attempt, static_cast<StepNo>(c.number("step")));
    return format("{}{}\n", kHere[static_cast<std::size_t>(facts.here)],
                  facts.uid ? format(" of uid {}", *facts.uid) : "");
  }
  std::string next_timer(ScenarioCommand&) {
    const Instant next = logic_->next_timer();
    return next >= kNever ? "never\n" : format("@{}\n", span_text(next - kBegin));
  }
  std::string show_journal(ScenarioCommand&) {
    std::string out;
    for (const std::string& line : journal_) out += line + "\n";
    return out;
  }
  // The last line is torn, and one of a later version comes before it.
  std::string break_journal(ScenarioCommand& c) {
    if (c.has("torn") && !journal_.empty())
      journal_.back().resize(journal_.back().size() / 2);
    if (c.has("foreign"))
      journal_.insert(journal_.begin(), "a later fact 1 2 3");
    return {};
  }

  static constexpr Instant kBegin{seconds(1000).us};
  Instant now_ = kBegin;
  AgentSettings settings_;
  Node facts_;
  std::vector<std::string> journal_;
  std::set<std::uint64_t> told_;
  std::int64_t renewal_us_ = 0;
  std::unique_ptr<AgentLogic> logic_;
};

class AgentScenarios : public testing::TestWithParam<std::string> {};

TEST_P(AgentScenarios, ComeOutAsWritten) {
  Story story;
  run_scenario(scenario_folder(LOCKSTEP_TESTDATA) + "/" + GetParam() + ".txt",
               [&](ScenarioCommand& command) { return story.run(command); });
}

// They can fail: each planted bug of the agent shows in one at least.
TEST(AgentStories, NoticePlantedBugs) {
  const std::string folder = scenario_folder(LOCKSTEP_TESTDATA);
  for (const Mutant bug : {Mutant::kNone, Mutant::kDoubleStart, Mutant::kDropReport, Mutant::kFenceFromAck}) {
    std::size_t differ = 0;
    planted = bug;
    for (const std::string& name : scenario_names(folder)) {
      Story story;
      const std::string text = scenario_text(folder + "/" + name + ".txt");
      differ += scenario_as_it_comes(text, [&](ScenarioCommand& command) { return story.run(command); }) != text;
    }
    planted = Mutant::kNone;
    EXPECT_EQ(differ > 0, bug != Mutant::kNone) << static_cast<int>(bug);
  }
}

INSTANTIATE_TEST_SUITE_P(Files, AgentScenarios, testing::ValuesIn(scenario_names(scenario_folder(LOCKSTEP_TESTDATA))),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace lockstep
