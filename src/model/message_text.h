// For tests: what controller and agent say to each other, a line a message, as scenarios show it. A field that is what
// it always is does not show.
#pragma once

#include <string>
#include <vector>

#include "base/scenario.h"
#include "model/agent_messages.h"
#include "model/work_id.h"

namespace lockstep {

struct MessageText {
  static std::string exit(const ExitStatus& e) {
    return format("{}:{}{}", e.code, e.signal, e.not_opened ? " not opened" : "");
  }
  static std::string part(JobId job, AttemptNo attempt, const std::optional<WorkPart>& part) {
    return part ? text_of(WorkId{job, attempt, *part}) : format("{}-{}", job.value, attempt);
  }
  static const char* why(StopWhy why) {
    constexpr const char* kWords[] = {
        "", " why=cancelled", " why=time-limit", " why=preempted", " why=node-fail", " why=requeued", " why=failed"};
    return kWords[static_cast<std::size_t>(why)];
  }
  static const char* reach(SignalReach reach) {
    constexpr const char* kWords[] = {"steps", "script", "everything"};
    return kWords[static_cast<std::size_t>(reach)];
  }
  static std::string ranks(const std::vector<std::uint32_t>& ranks) {
    std::string out;
    for (const auto rank : ranks) out += format("{}{}", out.empty() ? "" : ",", rank);
    return out;
  }
  static std::string holdings(const std::vector<Holding>& holdings) {
    std::string out;
    for (const Holding& h : holdings) {
      out += format(" [{}-{}", h.job.value, h.attempt);
      for (const StepNo step : h.steps) out += format(" step {}", step);
      for (const TaskPart& t : h.tasks) out += format(" task {}.{}.{}", t.group, t.index, t.incarnation);
      out += format("{}{}{}]", h.stopping ? " stopping" : "", h.paused ? " paused" : "",
                    h.next_step > 0 ? format(" next-step {}", h.next_step) : "");
    }
    return out.empty() ? " nothing" : out;
  }

  // Bodies of reports.
  std::string operator()(const AttemptStarted&) const { return "attempt started"; }
  std::string operator()(const StagedIn&) const { return "staged in"; }
  std::string operator()(const CheckpointSeen&) const { return "checkpoint seen"; }
  std::string operator()(const LaunchFailed& m) const {
    return (m.node_at_fault ? "launch failed, the node is at fault: " : "launch failed: ") + m.why;
  }
  std::string operator()(const ScriptEnded& m) const {
    return format("script ended {}{}", exit(m.exit), m.by_itself ? " by itself" : "");
  }
  std::string operator()(const MemberStopped& m) const {
    return format("member stopped{}{}{}", m.fenced ? " fenced" : "", m.refused ? " refused" : "",
                  m.trouble.empty() ? "" : ": " + m.trouble);
  }
  std::string operator()(const StepStarted& m) const { return format("step {} started", m.step); }
  std::string operator()(const StepEnded& m) const {
    std::string out = format("step {} ended", m.step);
    for (const TaskResult& r : m.results) out += format(" rank {} {}", r.rank, exit(r.exit));
    return out;
  }
  std::string operator()(const TaskStarted& m) const {
    return format("task {}.{}.{} started", m.group, m.index, m.incarnation);
  }
  std::string operator()(const TaskReady& m) const {
    return format("task {}.{}.{} {}", m.group, m.index, m.incarnation, m.ready ? "ready" : "not ready");
  }
  std::string operator()(const TaskEnded& m) const {
    return format("task {}.{}.{} ended {}", m.group, m.index, m.incarnation, exit(m.exit));
  }
  std::string operator()(const TaskContainers& m) const {
    std::string out = format("task {}.{}.{} containers", m.group, m.index, m.incarnation);
    if (!m.address.empty())
      out += " at " + m.address;
    constexpr const char* kStates[] = {"waiting", "running", "ended"};
    for (const ContainerStatus& one : m.containers)
      out += format(" {} {}{} restarts={}", one.name, kStates[static_cast<std::size_t>(one.state)],
                    one.ready ? " ready" : "", one.restarts);
    return m.reason.empty() ? out : out + ": " + m.reason;
  }
  std::string operator()(const MemberPaused& m) const {
    return format("member {} #{}", m.paused ? "paused" : "goes on", m.number);
  }

  // An agent's.
  std::string operator()(const Hello& m) const {
    return format("hello boot={} highest-job={} holds{}", m.facts.boot_id, m.highest_job.value, holdings(m.holdings));
  }
  std::string operator()(const Renew& m) const { return "renew holds" + holdings(m.holdings); }
  std::string operator()(const Report& m) const {
    return format("report {} of {}-{}: {}{}", m.number, m.job.value, m.attempt, std::visit(*this, m.body),
                  m.ago.us > 0 ? format(" ({} ago)", span_text(m.ago)) : "");
  }
  std::string operator()(const Telemetry& m) const { return format("telemetry of {} parts", m.work.size()); }

  // The controller's.
  std::string operator()(const Welcome& m) const { return "welcome renew-every=" + span_text(m.renew_every); }
  std::string operator()(const Refused& m) const { return "refused: " + m.why; }
  std::string operator()(const RenewAck&) const { return "renew-ack"; }
  std::string operator()(const ReportAck& m) const {
    std::string out = "report-ack";
    for (const auto number : m.numbers) out += format(" {}", number);
    return out;
  }
  std::string operator()(const LaunchAttempt& m) const { return format("launch {}-{}", m.job.value, m.attempt); }
  std::string operator()(const LaunchStep& m) const {
    return "launch " + part(m.job, m.attempt, WorkPart(StepPart{m.step}));
  }
  std::string operator()(const LaunchTask& m) const { return "launch " + part(m.job, m.attempt, WorkPart(m.task)); }
  std::string operator()(const StopWork& m) const {
    return format("stop {} within {}{}", part(m.job, m.attempt, m.part), span_text(m.kill_wait), why(m.why));
  }
  std::string operator()(const SignalWork& m) const {
    return format("signal {} {}{}{}", m.signal, part(m.job, m.attempt, m.part),
                  m.part ? "" : format(" {}", reach(m.reach)),
                  m.why == StopWhy::kNothing ? "" : format("{} in {}", why(m.why), span_text(m.stops_in)));
  }
  std::string operator()(const PauseWork& m) const {
    return format("{} {}-{} #{}", m.paused ? "pause" : "resume", m.job.value, m.attempt, m.number);
  }
  std::string operator()(const TaskRoutes& m) const {
    std::string out = m.all ? "routes" : "changed routes";
    for (const TaskRoute& one : m.routes) out += format(" {} via {}", one.range, one.via.empty() ? "nobody" : one.via);
    return out;
  }
  std::string operator()(const Revoked& m) const { return "revoked " + m.node; }
};

inline std::string message_text(const FromAgent& message) { return std::visit(MessageText{}, message); }
inline std::string message_text(const ToAgent& message) { return std::visit(MessageText{}, message); }
inline std::string report_text(const ReportBody& body) { return std::visit(MessageText{}, body); }

}  // namespace lockstep
