// Answers of the API: what the controller writes and its clients read. Clients trust the controller's numbers.
#include "model/job.h"
#include "wire/api.h"
#include "wire/api_fields.h"
#include "wire/change_codec.h"

namespace lockstep {

namespace wire {

namespace {

struct SubmittedJob {
  JobId job;
  std::optional<Error> error;
  std::string warning;
};
struct SubmittedJobs {
  std::vector<SubmittedJob> jobs;
};
struct CreatedStep {
  StepNo step = 0;
};
struct PlanNotes {
  std::vector<PlanNote> notes;
};
struct JobRows {
  std::vector<JobRow> rows;
};

}  // namespace

template <class V>
constexpr void describe(V& v, const SubmittedJob*) {
  v("job_id", &SubmittedJob::job);
  v("error", &SubmittedJob::error);
  v("warning", &SubmittedJob::warning);
}

template <class V>
constexpr void describe(V& v, const SubmittedJobs*) {
  v.always("jobs", &SubmittedJobs::jobs);
}

template <class V>
constexpr void describe(V& v, const CreatedStep*) {
  v.always("step", &CreatedStep::step);
}

template <class V>
constexpr void describe(V& v, const PlanNotes*) {
  v.always("notes", &PlanNotes::notes);
}

template <class V>
constexpr void describe(V& v, const JobRows*) {
  v.always("rows", &JobRows::rows);
}

namespace {

// "jobs": the member that lists records of a kind.
std::string list_name(Kind kind) { return std::string(word(kind)) + "s"; }

template <class T>
Result<T> decode_answer(std::string_view text) {
  return decode_value<T>(text, Origin::kOurselves);
}

Error lacks(std::string_view what) { return invalid(format("the controller's answer holds no {}", what)); }

template <std::size_t I = 0>
Result<std::vector<Record>> read_list_of(Kind kind, std::string_view text) {
  if constexpr (I == std::variant_size_v<Record>) {
    return invalid("no such kind of record");
  } else {
    if (kind != static_cast<Kind>(I))
      return read_list_of<I + 1>(kind, text);
    using R = std::variant_alternative_t<I, Record>;
    struct Into {
      std::string name;
      std::vector<R> records;
    } into{list_name(kind), {}};
    Reader reader{Origin::kOurselves};
    TRY(with_document(
        text, reader,
        [](Reader& r, const json::value& v, void* out) {
          auto& into = *static_cast<Into*>(out);
          const json::object* object = read_object(r, v);
          if (!object)
            return false;
          const json::value* list = object->if_contains(into.name);
          if (!list)
            return r.fail("is missing"), r.under(into.name);
          return Codec<std::vector<R>>::read(r, *list, into.records) || r.under(into.name);
        },
        &into));
    std::vector<Record> records;
    records.reserve(into.records.size());
    for (auto& ref : into.records) {
      if (!ref)
        return lacks("record where one is listed");
      records.emplace_back(std::move(ref));
    }
    return records;
  }
}

}  // namespace

}  // namespace wire

using wire::decode_answer;

std::string encode(const Ping& ping) { return wire::encode_value(ping); }
Result<Ping> decode_ping(std::string_view text) { return decode_answer<Ping>(text); }

std::string encode_submitted(JobId job, std::string warning) {
  return wire::encode_value(wire::SubmittedJob{job, {}, std::move(warning)});
}

std::string encode_submitted(const std::vector<Result<JobId>>& jobs) {
  wire::SubmittedJobs answer;
  for (const auto& job : jobs) {
    auto& one = answer.jobs.emplace_back();
    if (job.ok())
      one.job = *job;
    else
      one.error = job.error();
  }
  return wire::encode_value(answer);
}

Result<Submitted> decode_submitted(std::string_view text) {
  auto answer = TRY(decode_answer<wire::SubmittedJob>(text));
  if (!answer.job)
    return wire::lacks("job id");
  return Submitted{answer.job, std::move(answer.warning)};
}

Result<std::vector<Result<JobId>>> decode_submitted_list(std::string_view text) {
  auto answer = TRY(decode_answer<wire::SubmittedJobs>(text));
  std::vector<Result<JobId>> jobs;
  for (auto& one : answer.jobs) {
    if (one.error)
      jobs.emplace_back(std::move(*one.error));
    else
      jobs.emplace_back(one.job);
  }
  return jobs;
}

std::string encode(const CancelledMany& answer) { return wire::encode_value(answer); }
Result<CancelledMany> decode_cancelled_many(std::string_view text) { return decode_answer<CancelledMany>(text); }

std::string encode_step_created(StepNo step) { return wire::encode_value(wire::CreatedStep{step}); }
Result<StepNo> decode_step_created(std::string_view text) { return TRY(decode_answer<wire::CreatedStep>(text)).step; }

std::string encode(const VisibleStarted& started) {
  return wire::encode_value(Started{started.job.ref(), started.step.ref()});
}
Result<Started> decode_started(std::string_view text) {
  auto started = TRY(decode_answer<Started>(text));
  if (!started.job)
    return wire::lacks("job");
  return started;
}

std::string encode(const VisibleDetail& detail) {
  JobDetail out{detail.job.ref(), {}, {}, detail.note};
  for (const auto& step : detail.steps) out.steps.push_back(step.ref());
  for (const auto& task : detail.tasks) out.tasks.push_back(task.ref());
  return wire::encode_value(out);
}
Result<JobDetail> decode_job_detail(std::string_view text) {
  auto detail = TRY(decode_answer<JobDetail>(text));
  if (!detail.job)
    return wire::lacks("job");
  return detail;
}

std::string encode_records(Kind kind, const std::vector<VisibleRecord>& records) {
  wire::Writer w;
  ((w.out += "{\"") += wire::list_name(kind)) += "\":[";
  for (std::size_t i = 0; i < records.size(); ++i) {
    CHECK(kind_of(records[i].record()) == kind);
    if (i)
      w.out += ',';
    w.out += encode_record(records[i]);
  }
  w.out += "]}";
  return std::move(w.out);
}

Result<std::vector<Record>> decode_records(Kind kind, std::string_view text) { return wire::read_list_of(kind, text); }

std::string encode(const std::vector<PlanNote>& notes) { return wire::encode_value(wire::PlanNotes{notes}); }
Result<std::vector<PlanNote>> decode_plan_notes(std::string_view text) {
  return TRY(decode_answer<wire::PlanNotes>(text)).notes;
}

std::string encode(const std::vector<JobRow>& rows) { return wire::encode_value(wire::JobRows{rows}); }
Result<std::vector<JobRow>> decode_job_rows(std::string_view text) {
  return TRY(decode_answer<wire::JobRows>(text)).rows;
}

std::string encode_change(Seq seq, const VisibleRecord& record, bool removed) {
  const Change change{seq, record.record(), removed};
  wire::Writer w;
  wire::Codec<Change>::write(w, change, change);
  return std::move(w.out);
}
Result<Change> decode_change(std::string_view text) { return decode_answer<Change>(text); }

std::optional<JobState> job_state_of(std::string_view text) {
  const auto words = wire::words_of(JobState{});
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i] == text)
      return static_cast<JobState>(i);
  return std::nullopt;
}

}  // namespace lockstep
