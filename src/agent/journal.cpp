#include "agent/journal.h"

#include <algorithm>

#include "base/interval_set.h"
#include "base/text.h"
#include "model/hook_part.h"
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

// A word for any text: what parts words, ends lines or cannot be seen stands as % and two digits.
std::string as_word(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string word;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > ' ' && byte < 0x7f && c != '%')
      word.push_back(c);
    else
      word.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
  }
  return word;
}

std::optional<unsigned> digit_of(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  return std::nullopt;
}

std::optional<std::string> text_of_word(std::string_view word) {
  std::string text;
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (word[i] != '%') {
      text.push_back(word[i]);
      continue;
    }
    const bool whole = word.size() - i > 2;
    const auto high = whole ? digit_of(word[i + 1]) : std::nullopt;
    const auto low = whole ? digit_of(word[i + 2]) : std::nullopt;
    if (!high || !low)
      return std::nullopt;
    text.push_back(static_cast<char>(*high << 4 | *low));
    i += 2;
  }
  return text;
}

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
  std::string operator()(const HooksOf& f) const {
    std::string line = format("hooks {} {}", f.job.value, f.attempt);
    for (const std::string& variable : f.env) line += " " + as_word(variable);
    return line;
  }
  std::string operator()(const PartsOf& f) const {
    std::string line = format("parts {} {}", f.job.value, f.attempt);
    for (const DevicePart& part : f.parts)
      line += format(" {} {} {} {} {}", part.device, part.milli, part.memory_mb, part.slice,
                     part.mig.empty() ? "-" : as_word(part.mig));
    return line;
  }
  std::string operator()(const HookBegun& f) const { return format("hook-begun {} {}", text_of(f.key), f.at.us); }
  std::string operator()(const HookEnded& f) const {
    return format("hook-ended {} {}{}{}", text_of(f.key), f.passed ? 1 : 0, f.why.empty() ? "" : " ", as_word(f.why));
  }
  // Words may be empty, so each begins with a mark.
  std::string operator()(const StagingOf& f) const {
    std::string line = format("staging {} {}", f.job.value, f.attempt);
    for (const std::string& word : words_of(f.plan)) line += " ." + as_word(word);
    return line;
  }
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

std::optional<JournalFact> read_hooks(Words& in) {
  HooksOf f;
  f.job = in.job();
  f.attempt = in.number<AttemptNo>();
  while (in.ok() && !in.at_end()) {
    auto variable = text_of_word(in.word());
    if (!variable)
      return std::nullopt;
    f.env.push_back(std::move(*variable));
  }
  return f;
}
std::optional<JournalFact> read_parts(Words& in) {
  PartsOf f;
  f.job = in.job();
  f.attempt = in.number<AttemptNo>();
  while (in.ok() && !in.at_end()) {
    DevicePart part;
    part.device = in.number<std::uint16_t>();
    part.milli = in.number<std::uint16_t>();
    part.memory_mb = in.number<std::int64_t>();
    part.slice = in.number<std::uint16_t>();
    const auto mig = text_of_word(in.word());
    if (!mig || part.device >= DeviceSet::kCapacity)
      return std::nullopt;
    part.mig = *mig == "-" ? "" : *mig;
    f.parts.push_back(std::move(part));
  }
  return f;
}
std::optional<JournalFact> read_hook_begun(Words& in) {
  const WorkId key = in.work();
  const HookBegun f{key, {in.number<std::int64_t>()}};
  return is_hook(key) ? std::optional<JournalFact>(f) : std::nullopt;
}
std::optional<JournalFact> read_hook_ended(Words& in) {
  const WorkId key = in.work();
  HookEnded f{key, in.number<int>() != 0, {}};
  if (in.ok() && !in.at_end()) {
    auto why = text_of_word(in.word());
    if (!why)
      return std::nullopt;
    f.why = std::move(*why);
  }
  return is_hook(key) ? std::optional<JournalFact>(f) : std::nullopt;
}

std::optional<JournalFact> read_staging(Words& in) {
  StagingOf f;
  f.job = in.job();
  f.attempt = in.number<AttemptNo>();
  std::vector<std::string> words;
  while (in.ok() && !in.at_end()) {
    const std::string word = in.word();
    auto text = word.starts_with('.') ? text_of_word(std::string_view(word).substr(1)) : std::nullopt;
    if (!text)
      return std::nullopt;
    words.push_back(std::move(*text));
  }
  auto plan = plan_of_words(words);
  if (!plan)
    return std::nullopt;
  f.plan = std::move(*plan);
  return f;
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
    {"hooks", read_hooks},
    {"hook-begun", read_hook_begun},
    {"hook-ended", read_hook_ended},
    {"parts", read_parts},
    {"staging", read_staging},
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
