#include "agent/journal.h"

#include "base/text.h"
#include "wire/codec.h"

namespace lockstep {
namespace {

// The words of one line, read in order. Once a word is missing or bad, ok() is false for good.
class Words {
 public:
  explicit Words(std::string_view line) : words_(split_words(line)) {}
  bool ok() const { return ok_; }
  bool at_end() const { return next_ == words_.size(); }
  std::string word() {
    if (at_end())
      ok_ = false;
    return ok_ ? words_[next_++] : std::string();
  }
  template <class T>
  T number() {
    const auto value = parse_int(word());
    if (!value || static_cast<std::int64_t>(static_cast<T>(*value)) != *value) {
      ok_ = false;
      return {};
    }
    return static_cast<T>(*value);
  }
  JobId job() { return JobId(number<std::uint64_t>()); }
  Duration duration() { return {number<std::int64_t>()}; }
  WorkId work() {
    const auto work = parse_work_id(word());
    ok_ = ok_ && work;
    return work.value_or(WorkId{});
  }

 private:
  std::vector<std::string> words_;
  std::size_t next_ = 0;
  bool ok_ = true;
};

struct Encoder {
  std::string operator()(const SeenAttempt& f) const {
    return format("attempt {} {} {} {} {} {} {}", f.job.value, f.attempt, f.uid, f.fence_after.us, f.kill_wait.us,
                  f.has_script ? 1 : 0, f.renewed.us);
  }
  std::string operator()(const SeenShim& f) const {
    std::string line = "shim " + text_of(f.key);
    for (auto rank : f.ranks) line += format(" {}", rank);
    return line;
  }
  std::string operator()(const Stopping& f) const {
    return format("stopping {} {} {}", f.job.value, f.attempt, f.fenced ? 1 : 0);
  }
  std::string operator()(const Pausing& f) const {
    return format("pausing {} {} {} {} {}", f.job.value, f.attempt, f.paused ? 1 : 0, f.number, f.done ? 1 : 0);
  }
  std::string operator()(const GoneAttempt& f) const { return format("gone {} {}", f.job.value, f.attempt); }
  std::string operator()(const GoneSteps& f) const {
    return format("gone-steps {} {} {}", f.job.value, f.attempt, f.steps);
  }
  std::string operator()(const GoneTask& f) const { return "gone-task " + text_of(f.key); }
  std::string operator()(const Report& f) const { return "report " + encode(FromAgent(f)); }
  std::string operator()(const Acknowledged& f) const {
    std::string line = "acknowledged";
    for (auto number : f.numbers) line += format(" {}", number);
    return line;
  }
  std::string operator()(const Renewed& f) const { return format("renewed {}", f.at.us); }
  std::string operator()(const HighestJob& f) const { return format("highest-job {}", f.job.value); }
  std::string operator()(const NextReport& f) const { return format("next-report {}", f.number); }
};

std::optional<JournalFact> decode_report(std::string_view json) {
  auto message = decode_from_agent(json);
  if (!message.ok() || !std::holds_alternative<Report>(*message))
    return std::nullopt;
  return std::get<Report>(std::move(*message));
}

}  // namespace

std::string encode_fact(const JournalFact& fact) { return std::visit(Encoder{}, fact); }

std::optional<JournalFact> decode_fact(std::string_view line) {
  if (line.starts_with("report "))
    return decode_report(line.substr(7));
  Words in(line);
  const std::string kind = in.word();
  std::optional<JournalFact> fact;
  if (kind == "attempt") {
    SeenAttempt f;
    f.job = in.job();
    f.attempt = in.number<AttemptNo>();
    f.uid = in.number<std::uint32_t>();
    f.fence_after = in.duration();
    f.kill_wait = in.duration();
    f.has_script = in.number<int>() != 0;
    f.renewed.us = in.number<std::int64_t>();
    fact = f;
  } else if (kind == "shim") {
    SeenShim f{in.work(), {}};
    while (in.ok() && !in.at_end()) f.ranks.push_back(in.number<std::uint32_t>());
    fact = f;
  } else if (kind == "stopping") {
    Stopping f;
    f.job = in.job();
    f.attempt = in.number<AttemptNo>();
    f.fenced = in.number<int>() != 0;
    fact = f;
  } else if (kind == "pausing") {
    Pausing f;
    f.job = in.job();
    f.attempt = in.number<AttemptNo>();
    f.paused = in.number<int>() != 0;
    f.number = in.number<std::uint32_t>();
    f.done = in.number<int>() != 0;
    fact = f;
  } else if (kind == "gone") {
    GoneAttempt f;
    f.job = in.job();
    f.attempt = in.number<AttemptNo>();
    fact = f;
  } else if (kind == "gone-steps") {
    GoneSteps f;
    f.job = in.job();
    f.attempt = in.number<AttemptNo>();
    f.steps = in.word();
    fact = f;
  } else if (kind == "gone-task") {
    const WorkId work = in.work();
    if (!task_of(work))
      return std::nullopt;
    fact = GoneTask{work};
  } else if (kind == "acknowledged") {
    Acknowledged f;
    while (in.ok() && !in.at_end()) f.numbers.push_back(in.number<std::uint64_t>());
    fact = f;
  } else if (kind == "renewed") {
    fact = Renewed{{in.number<std::int64_t>()}};
  } else if (kind == "highest-job") {
    fact = HighestJob{in.job()};
  } else if (kind == "next-report") {
    fact = NextReport{in.number<std::uint64_t>()};
  }
  return in.ok() ? fact : std::nullopt;
}

JobId highest_job(const std::vector<std::string>& lines) {
  JobId highest;
  for (const std::string& line : lines) {
    const auto fact = decode_fact(line);
    if (!fact)
      continue;
    if (const auto* attempt = std::get_if<SeenAttempt>(&*fact))
      highest = std::max(highest, attempt->job);
    else if (const auto* gone = std::get_if<GoneAttempt>(&*fact))
      highest = std::max(highest, gone->job);
    else if (const auto* told = std::get_if<HighestJob>(&*fact))
      highest = std::max(highest, told->job);
  }
  return highest;
}

}  // namespace lockstep
