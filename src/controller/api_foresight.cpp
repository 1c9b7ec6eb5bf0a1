// The API's questions about what is to come: why a job waits, what would become of a submission, what if. They are
// answered from copies of the cluster, on a thread of their own.
#include <ctime>

#include "base/text.h"
#include "controller/api.h"
#include "foresight/explain.h"
#include "foresight/replay.h"
#include "foresight/whatif.h"
#include "wire/foresight.h"

namespace lockstep {

namespace {

std::string time_text(WallTime at) {
  const std::time_t seconds = at.seconds();
  std::tm parts{};
  localtime_r(&seconds, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts)};
}

}  // namespace

void Api::ask(Visit visit, Question question, std::optional<HistoryQuery> query) {
  const auto held = std::make_shared<Visit>(std::move(visit));  // of this thread; comes back with the answer
  auto reply = [this, held, question = std::move(question)](const Tables& tables, const QuestionLoop::Rows& rows) {
    auto answer = std::make_shared<Result<std::string>>(question(tables, rows));
    world_.loop.post([v = std::move(*held), answer] {
      if (answer->ok())
        v.answer(std::move(**answer));
      else
        v.refuse(answer->error());
    });
  };
  if (const auto asked = world_.questions.ask(held->payer, std::move(reply), std::move(query)); !asked.ok())
    held->refuse(asked.error());
}

namespace {

// Nodes that run short of something, where objects may be kept waiting: "; node n1: Short of memory: …".
std::string nodes_in_need(const Tables& tables) {
  constexpr std::size_t kNodesTold = 5;
  std::string out;
  std::size_t count = 0;
  for (const auto& [id, node] : tables.nodes)
    if (!node->shortages.empty() && count++ < kNodesTold)
      out += format("; node {}: {}", node->meta.name, reason_of(*node).words);
  return count > kNodesTold ? format("{}; and {} more", out, count - kNodesTold) : out;
}

// Of the object "TYPE:NAMESPACE:NAME" that a front end keeps.
Result<const Job*> job_of_object(const Tables& tables, const std::string& name) {
  const std::vector<std::string> parts = split(name, ':');
  if (parts.size() != 3)
    return invalid(format("\"{}\" names no job: an id does, or TYPE:NAMESPACE:NAME of an object", name), "job");
  const auto object = tables.objects.find({parts[0], parts[1], parts[2]});
  if (object == tables.objects.end())
    return not_found(format("there is no {} {} in namespace {}", parts[0], parts[2], parts[1]));
  for (const Shown& shown : object->second->shows)
    if (shown.kind == Kind::kJob)
      if (const Job* job = tables.job(shown.job))
        return job;
  return not_found(format("{} {} has no job: its own status says what it waits for, or how it ended{}", parts[0],
                          parts[2], nodes_in_need(tables)));
}

}  // namespace

void Api::explain_job(Visit visit) {
  const Job* job = nullptr;
  if (const std::string& name = visit.names.at(0); name.find(':') != name.npos) {
    // Whether an object is there is for its front end to tell.
    if (!visit.caller.admin)
      return visit.refuse(denied(
          "the jobs of objects are explained to administrators: name the job's number, or ask the front end that "
          "keeps the object (kubectl describe)"));
    const auto found = job_of_object(world_.view.tables(), name);
    if (!found.ok())
      return visit.refuse(found.error());
    job = *found;
  } else {
    job = job_of(visit);
  }
  if (!job)
    return;
  ask(std::move(visit),
      [clock = question_clock(), id = job->id, asker = sees_job_as(visit.viewer(), *job), core = settings_.core,
       word = settings_.word](const Tables& tables, const QuestionLoop::Rows&) -> Result<std::string> {
        Explanation found = TRY(explain(tables, clock, id, {.asker = asker}, core));
        if (word)
          word(found);
        return encode(found);
      });
}

void Api::ask_what_if(Visit visit) {
  decoded(
      std::move(visit), [](const std::string& body) { return decode_changes(body); },
      [this](Visit v, Result<std::vector<ChangeAsk>> changes) { ask_what_if_read(std::move(v), std::move(changes)); });
}

void Api::ask_what_if_read(Visit visit, Result<std::vector<ChangeAsk>> changes) {
  if (!changes.ok())
    return visit.refuse(changes.error());
  if (const auto days = visit.query("history_days"); !days.empty()) {
    const auto count = parse_uint(days);
    if (!count || *count == 0 || *count > 36'500)
      return visit.refuse(invalid(format("history_days={}: a number of days is meant", days), "history_days"));
    return ask_what_if_past(std::move(visit), std::move(*changes), *count);
  }
  ask(std::move(visit),
      [clock = question_clock(), changes = std::move(*changes), core = settings_.core](
          const Tables& tables, const QuestionLoop::Rows&) -> Result<std::string> {
        return encode(TRY(what_if(tables, clock, changes, core)));
      });
}

void Api::ask_what_if_past(Visit visit, std::vector<ChangeAsk> changes, std::uint64_t days) {
  constexpr std::size_t kJobsMost = 20'000;  // a replay takes about a millisecond for each
  HistoryQuery query{.steps = false, .limit = kJobsMost};
  query.from_us =
      question_clock().now.us + question_clock().wall_offset.us - hours(24).us * static_cast<std::int64_t>(days);
  ask(
      std::move(visit),
      [changes = std::move(changes)](const Tables& tables, const QuestionLoop::Rows& rows) -> Result<std::string> {
        if (!rows.ok())
          return rows.error();
        return encode(TRY(what_if_past(tables, *rows, changes)));
      },
      std::move(query));
}

void Api::try_submit(Visit visit, Command command) {
  ask(std::move(visit),
      [clock = question_clock(), command = std::move(command), core = settings_.core](
          const Tables& tables, const QuestionLoop::Rows&) -> Result<std::string> {
        const Tried tried =
            TRY(lockstep::try_submit(tables, clock, std::get<SubmitJob>(command.body), command.caller, core));
        return encode(
            TrySubmit{tried.job, tried.foreseen, sentence(tried.job, tried.foreseen, time_text(tried.foreseen.start))});
      });
}

}  // namespace lockstep
