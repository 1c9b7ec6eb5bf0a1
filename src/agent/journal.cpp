#include "agent/journal.h"

#include <algorithm>

#include "base/interval_set.h"
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
    const std::string line =
        format("attempt {} {} {} {} {} {} {} {} {}", f.job.value, f.attempt, f.uid, f.fence_after.us, f.kill_wait.us,
               f.has_script ? 1 : 0, f.renewed.us, f.memory_mb, f.cores.empty() ? "-" : f.cores);
    if (!f.devices)
      return line;
    IntervalSet devices;
    f.devices->for_each([&devices](std::uint32_t device) { devices.insert(device); });
    return line + " " + (devices.empty() ? "-" : devices.text());
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

// What a line says behind its first word; nullopt: what cannot be. Words that are missing show in Words::ok().
using Read = std::optional<JournalFact>(Words&);

std::optional<JournalFact> read_attempt(Words& in) {
  SeenAttempt f;
  f.job = in.job();
  f.attempt = in.number<AttemptNo>();
  f.uid = in.number<std::uint32_t>();
  f.fence_after = in.duration();
  f.kill_wait = in.duration();
  f.has_script = in.number<int>() != 0;
  f.renewed.us = in.number<std::int64_t>();
  if (in.at_end())
    return f;  // an earlier version's
  f.memory_mb = in.number<std::int64_t>();
  if (const std::string cores = in.word(); cores != "-") {
    if (!IntervalSet::parse(cores).ok())
      return std::nullopt;
    f.cores = cores;
  }
  if (in.at_end())
    return f;
  f.devices.emplace();
  if (const std::string devices = in.word(); devices != "-") {
    const auto set = IntervalSet::parse(devices);
    if (!set.ok() || set->back() >= DeviceSet::kCapacity)
      return std::nullopt;
    for (const Interval& part : set->intervals())
      for (std::uint32_t i = part.low; i <= part.high; ++i) f.devices->set(i);
  }
  return f;
}
std::optional<JournalFact> read_shim(Words& in) {
  SeenShim f{in.work(), {}};
  while (in.ok() && !in.at_end()) f.ranks.push_back(in.number<std::uint32_t>());
  return f;
}
std::optional<JournalFact> read_stopping(Words& in) {
  Stopping f;
  f.job = in.job();
  f.attempt = in.number<AttemptNo>();
  f.fenced = in.number<int>() != 0;
  return f;
}
std::optional<JournalFact> read_pausing(Words& in) {
  Pausing f;
  f.job = in.job();
  f.attempt = in.number<AttemptNo>();
  f.paused = in.number<int>() != 0;
  f.number = in.number<std::uint32_t>();
  f.done = in.number<int>() != 0;
  return f;
}
std::optional<JournalFact> read_gone(Words& in) {
  GoneAttempt f;
  f.job = in.job();
  f.attempt = in.number<AttemptNo>();
  return f;
}
std::optional<JournalFact> read_gone_steps(Words& in) {
  GoneSteps f;
  f.job = in.job();
  f.attempt = in.number<AttemptNo>();
  f.steps = in.word();
  return f;
}
std::optional<JournalFact> read_gone_task(Words& in) {
  const WorkId work = in.work();
  return task_of(work) ? std::optional<JournalFact>(GoneTask{work}) : std::nullopt;
}
std::optional<JournalFact> read_acknowledged(Words& in) {
  Acknowledged f;
  while (in.ok() && !in.at_end()) f.numbers.push_back(in.number<std::uint64_t>());
  return f;
}
std::optional<JournalFact> read_renewed(Words& in) { return Renewed{{in.number<std::int64_t>()}}; }
std::optional<JournalFact> read_highest_job(Words& in) { return HighestJob{in.job()}; }
// Numbers begin at 1: below it there is nothing that could have been given out before.
std::optional<JournalFact> read_next_report(Words& in) {
  const NextReport f{in.number<std::uint64_t>()};
  return f.number > 0 ? std::optional<JournalFact>(f) : std::nullopt;
}

struct FactKind {
  std::string_view word;
  Read* read;
};
constexpr FactKind kFactKinds[] = {
    {"attempt", read_attempt},
    {"shim", read_shim},
    {"stopping", read_stopping},
    {"pausing", read_pausing},
    {"gone", read_gone},
    {"gone-steps", read_gone_steps},
    {"gone-task", read_gone_task},
    {"acknowledged", read_acknowledged},
    {"renewed", read_renewed},
    {"highest-job", read_highest_job},
    {"next-report", read_next_report},
};

std::optional<JournalFact> decode_report(std::string_view json) {
  auto message = decode_from_agent(json);
  if (!message.ok() || !std::holds_alternative<Report>(*message) || std::get<Report>(*message).number == 0)
    return std::nullopt;
  return std::get<Report>(std::move(*message));
}

}  // namespace

std::string encode_fact(const JournalFact& fact) { return std::visit(Encoder{}, fact); }

std::optional<JournalFact> decode_fact(std::string_view line) {
  if (line.starts_with("report "))
    return decode_report(line.substr(7));
  Words in(line);
  const std::string word = in.word();
  const auto kind = std::find_if(std::begin(kFactKinds), std::end(kFactKinds),
                                 [&word](const FactKind& known) { return known.word == word; });
  if (kind == std::end(kFactKinds))
    return std::nullopt;
  auto fact = kind->read(in);
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
