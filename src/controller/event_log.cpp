#include "controller/event_log.h"

#include <algorithm>

#include "base/hostlist.h"
#include "base/text.h"
#include "model/job.h"
#include "wire/codec.h"

namespace lockstep {

namespace {

// First words of requests that people make and that change something, submissions aside: those are events. What agents,
// the planner and the clock ask for is nobody's act.
constexpr std::string_view kActs[] = {"cancel", "hold",        "release", "requeue",    "update",      "suspend",
                                      "resume", "signal",      "scale",   "topology",   "user",        "account",
                                      "remove", "association", "qos",     "licence",    "reservation", "policy",
                                      "reset",  "partition",   "token",   "checkpoint", "node_class",  "health_check"};

std::string user_text(UserId id, const Tables& tables) {
  const auto it = tables.users.find(id);
  return it == tables.users.end() ? format("u{}", id.value) : it->second->meta.name;
}

std::string place_words(const Job& job, const Tables& tables) {
  if (!job.allocation)
    return {};
  std::vector<std::string> names;
  for (const Grant& grant : job.allocation->grants)
    if (const Node* node = tables.node(grant.node))
      names.push_back(node->meta.name);
  return names.empty() ? std::string() : " nodes=" + compress_hostlist(names);
}

// "u3 cancel 12 9" -> who, and the rest.
std::string act_line(const std::string& name, bool refused, const Tables& tables) {
  const auto blank = name.find(' ');
  const auto number = blank == name.npos ? std::nullopt : parse_uint(std::string_view(name).substr(1, blank - 1));
  if (!number || name[0] != 'u')
    return {};
  const std::string_view rest = std::string_view(name).substr(blank + 1);
  if (std::find(std::begin(kActs), std::end(kActs), rest.substr(0, rest.find(' '))) == std::end(kActs))
    return {};
  return format("{} by={}: {}", refused ? "Refused" : "Asked",
                user_text(UserId{static_cast<std::uint32_t>(*number)}, tables), rest);
}

std::string event_line(const Event& event, const Tables& tables) {
  std::string line = event.what;
  const auto job = event.job.value != 0 ? tables.jobs.find(event.job) : tables.jobs.end();
  if (event.job.value != 0)
    line += format(" job={}", event.job.value);
  if (job != tables.jobs.end()) {
    const Job& record = *job->second;
    line += format(" user={}", user_text(record.spec->user, tables));
    if (event.what == "Allocated" || event.what == "Started")
      line += place_words(record, tables);
    if (event.what == "Ended" || event.what == "Ending")
      line += format(" state={} exit={}:{}", text_of(event.what == "Ended" ? record.state : record.ending),
                     record.exit.code, record.exit.signal);
  }
  if (event.kind == Kind::kNode && tables.node(event.message))
    return line + " node=" + event.message;
  return event.message.empty() ? line : line + ": " + event.message;
}

}  // namespace

std::vector<std::string> lines_of(const Engine::Batch& batch, const Tables& tables) {
  std::vector<std::string> lines;
  for (const auto& act : batch.acts)
    if (std::string line = act_line(act.name, act.refused, tables); !line.empty())
      lines.push_back(std::move(line));
  for (const Event& event : batch.events) lines.push_back(event_line(event, tables));
  return lines;
}

}  // namespace lockstep
