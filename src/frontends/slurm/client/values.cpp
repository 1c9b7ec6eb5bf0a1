#include "frontends/slurm/client/values.h"

#include <stdlib.h>
#include <time.h>

#include <cstring>
#include <variant>

#include "base/items.h"
#include "base/text.h"
#include "model/bounds.h"
#include "model/program.h"
#include "model/spec.h"

namespace lockstep::slurm {

namespace {

constexpr std::uint64_t kCountMax = 0x7fffffff;
constexpr std::int64_t kSecondsMax = 0x7fffffffLL * 60;  // a year 6000 is enough

std::optional<std::int64_t> number(std::string_view text, std::int64_t max = kSecondsMax) {
  const auto value = parse_uint(text);
  if (!value || *value > static_cast<std::uint64_t>(max))
    return std::nullopt;
  return static_cast<std::int64_t>(*value);
}

// A count with Slurm's suffixes of gres and node counts: k, m, g … of 1024.
std::optional<std::uint32_t> scaled_count(std::string_view text) {
  std::uint64_t factor = 1;
  if (!text.empty()) {
    const char last = lower(text.substr(text.size() - 1))[0];
    constexpr std::string_view kScales = "kmg";
    if (const auto at = kScales.find(last); at != std::string_view::npos) {
      factor = std::uint64_t{1} << (10 * (at + 1));
      text.remove_suffix(1);
    }
  }
  const auto value = parse_uint(text);
  if (!value || *value > kCountMax || *value * factor > kCountMax)
    return std::nullopt;
  return static_cast<std::uint32_t>(*value * factor);
}

bool name_like(std::string_view text) {
  if (text.empty() || text.size() > 64)
    return false;
  for (const char c : text)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
          c == '.' || c == '+'))
      return false;
  return true;
}

bool digits_first(std::string_view text) { return !text.empty() && text[0] >= '0' && text[0] <= '9'; }

// "1g.10gb" and "a100_1g.10gb" are MIG slices.
void split_mig(DeviceAsk& ask) {
  const auto mark = ask.type.rfind('_');
  const std::string_view tail = std::string_view(ask.type).substr(mark == ask.type.npos ? 0 : mark + 1);
  const auto dot = tail.find("g.");
  if (dot != 1 || tail[0] < '1' || tail[0] > '7' || !tail.ends_with("gb") ||
      !parse_uint(tail.substr(3, tail.size() - 5)))
    return;
  ask.mig = tail;
  ask.type.resize(mark == ask.type.npos ? 0 : mark);
}

// Slurm's "mps" is a share of one GPU, in hundredths.
Result<void> as_share(DeviceAsk& ask, std::string_view whole) {
  if (ask.count > 100)
    return invalid(format("\"{}\": mps is a share of one GPU, at most 100", whole));
  ask.kind = "gpu";
  ask.milli = static_cast<std::uint16_t>(ask.count * 10);
  ask.count = ask.count > 0;
  return {};
}

// Slurm's "shard" is a part of one GPU that others use in turns with it. How many a GPU has a site says in Slurm; here
// each has eight.
Result<void> as_shards(DeviceAsk& ask, std::string_view whole) {
  constexpr std::uint32_t kShardsOfGpu = 8;
  if (ask.count > kShardsOfGpu)
    return invalid(format("\"{}\": shards of a job are those of one GPU, which has {}", whole, kShardsOfGpu));
  ask.kind = "gpu";
  ask.milli = static_cast<std::uint16_t>(ask.count * kWholeDevice / kShardsOfGpu);
  ask.count = ask.count > 0;
  return {};
}

// "type:count", "count" or "type" behind the kind. False: it is none of these.
bool read_amount(DeviceAsk& ask, std::string_view text) {
  const auto parts = split(text, ':');
  const auto count = scaled_count(parts.back());
  const bool is_pair = parts.size() == 2 && count && !parts[0].empty();
  const bool is_type = parts.size() == 1 && !count && name_like(parts[0]) && !parse_int(parts[0]);
  if (!is_pair && !is_type && (parts.size() != 1 || !count))
    return false;
  if (count)
    ask.count = *count;
  if (is_pair || is_type)
    ask.type = lower(parts[0]);
  return ask.type.empty() || name_like(ask.type);
}

Result<DeviceAsk> one_device(std::string kind, std::string_view rest, std::string_view whole) {
  DeviceAsk ask{std::move(kind), "", 1};
  if (!rest.empty() && !read_amount(ask, rest))
    return invalid(format("\"{}\" is not [type:]count", whole));
  if (ask.kind == "mps")
    TRY(as_share(ask, whole));
  if (ask.kind == "shard")
    TRY(as_shards(ask, whole));
  if (ask.kind == "gpu")
    split_mig(ask);
  return ask;
}

Result<void> add_device(std::vector<DeviceAsk>& out, DeviceAsk ask) {
  for (auto& seen : out) {
    if (seen.kind != ask.kind || seen.type != ask.type || seen.mig != ask.mig)
      continue;
    if (!seen.whole() && seen.mig.empty())
      return invalid("one share of a GPU is possible, not several");
    seen.count = ask.count;  // as in Slurm the last of several counts
    std::erase_if(out, [](const DeviceAsk& known) { return known.count == 0; });
    return {};
  }
  if (ask.count)
    out.push_back(std::move(ask));
  return {};
}

struct SignalName {
  const char* name;
  int number;
};
constexpr SignalName kSignals[] = {
    {"HUP", 1},   {"INT", 2},    {"QUIT", 3},  {"ILL", 4},   {"TRAP", 5},  {"ABRT", 6},  {"BUS", 7},   {"FPE", 8},
    {"KILL", 9},  {"USR1", 10},  {"SEGV", 11}, {"USR2", 12}, {"PIPE", 13}, {"ALRM", 14}, {"TERM", 15}, {"CHLD", 17},
    {"CONT", 18}, {"STOP", 19},  {"TSTP", 20}, {"TTIN", 21}, {"TTOU", 22}, {"URG", 23},  {"XCPU", 24}, {"XFSZ", 25},
    {"PROF", 27}, {"WINCH", 28}, {"IO", 29},   {"PWR", 30},  {"SYS", 31},
};

// "12:34", "12:34:56", an optional AM or PM; gives hours, minutes, seconds.
bool clock_time(std::string_view text, int& hour, int& minute, int& second) {
  std::string word = lower(trim(text));
  int half = -1;
  for (const auto& [suffix, is_pm] : {std::pair{"am", 0}, std::pair{"pm", 1}}) {
    if (word.size() > 2 && word.ends_with(suffix)) {
      half = is_pm;
      word = std::string(trim(std::string_view(word).substr(0, word.size() - 2)));
    }
  }
  const auto parts = split(word, ':');
  if (parts.size() < 2 || parts.size() > 3)
    return false;
  const auto h = number(parts[0], half < 0 ? 23 : 12), m = number(parts[1], 59),
             s = parts.size() == 3 ? number(parts[2], 59) : std::optional<std::int64_t>(0);
  if (!h || !m || !s || (half >= 0 && *h == 0))
    return false;
  hour = static_cast<int>(*h);
  if (half >= 0)
    hour = hour % 12 + 12 * half;
  minute = static_cast<int>(*m);
  second = static_cast<int>(*s);
  return true;
}

// "" as the year: the one that the day has.
bool put_date(::tm& day, std::string_view y, std::string_view m, std::string_view d) {
  constexpr int kDays[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const auto year = y.empty() ? std::optional<std::int64_t>(day.tm_year + 1900) : number(y, 9999);
  const auto month = number(m, 12), date = number(d, 31);
  if (!year || !month || !date || *month < 1 || *date < 1 || *date > kDays[*month - 1])
    return false;
  day.tm_year = static_cast<int>(*year < 100 ? *year + 2000 : *year) - 1900;
  day.tm_mon = static_cast<int>(*month) - 1;
  day.tm_mday = static_cast<int>(*date);
  return true;
}

// "2030-01-20", "1/20", "1/20/30", "1.20.30", "0120", "012030".
bool calendar_date(std::string_view text, ::tm& day) {
  if (const auto dash = split(text, '-'); dash.size() == 3)
    return dash[0].size() == 4 && put_date(day, dash[0], dash[1], dash[2]);
  for (const char separator : {'/', '.'}) {
    const auto parts = split(text, separator);
    if (parts.size() == 2 && separator == '/')
      return put_date(day, "", parts[0], parts[1]);
    if (parts.size() == 3)
      return put_date(day, parts[2], parts[0], parts[1]);
  }
  const bool is_run = (text.size() == 4 || text.size() == 6) && number(text);
  return is_run && put_date(day, text.substr(4), text.substr(0, 2), text.substr(2, 2));
}

}  // namespace

std::optional<std::uint32_t> parse_count(std::string_view text) {
  const auto value = parse_uint(text);
  if (!value || *value > kCountMax)
    return std::nullopt;
  return static_cast<std::uint32_t>(*value);
}

std::optional<bool> parse_yes_no(std::string_view text) {
  const std::string word = lower(text);
  if (word == "yes" || word == "y" || word == "1" || word == "true" || word == "on")
    return true;
  if (word == "no" || word == "n" || word == "0" || word == "false" || word == "off")
    return false;
  return std::nullopt;
}

Duration whole_minutes(Duration limit) {
  if (limit >= kForever || ::getenv("LOCKSTEP_LIMIT_SECONDS"))
    return limit;
  return minutes((limit.us + minutes(1).us - 1) / minutes(1).us);
}

std::optional<Duration> parse_time_limit(std::string_view text) {
  const std::string word = lower(text);
  if (word == "infinite" || word == "unlimited" || word == "-1")
    return kForever;
  std::string_view rest = word;
  std::int64_t days = 0;
  bool has_days = false;
  if (const auto dash = rest.find('-'); dash != std::string_view::npos) {
    const auto value = number(rest.substr(0, dash), 1'000'000);
    if (!value)
      return std::nullopt;
    days = *value;
    has_days = true;
    rest.remove_prefix(dash + 1);
  }
  const auto parts = split(rest, ':');
  if (parts.empty() || parts.size() > 3)
    return std::nullopt;
  std::int64_t fields[3] = {0, 0, 0};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto value = number(parts[i], 100'000'000);
    if (!value)
      return std::nullopt;
    fields[i] = *value;
  }
  std::int64_t total = 0;
  if (has_days || parts.size() == 3)
    total = days * 86400 + fields[0] * 3600 + fields[1] * 60 + fields[2];
  else
    total = fields[0] * 60 + fields[1];  // minutes, or minutes:seconds
  if (total > kSecondsMax)
    return std::nullopt;
  return total == 0 ? kForever : seconds(total);
}

std::optional<std::int64_t> parse_memory_mb(std::string_view text) {
  constexpr std::uint64_t kMax = std::uint64_t{1} << 42;  // of any unit
  std::size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
  const auto value = parse_uint(text.substr(0, digits));
  std::string unit = lower(text.substr(digits));
  if (unit.size() == 2 && unit[1] == 'b')
    unit.pop_back();
  const auto at = unit.empty() ? 1 : std::string_view("kmgt").find(unit);
  if (!value || *value > kMax || unit.size() > 1 || at == std::string_view::npos)
    return std::nullopt;
  const std::size_t shift = at == 0 ? 0 : 10 * (at - 1);  // of units above a megabyte
  if (*value > kMax >> shift)
    return std::nullopt;
  const std::uint64_t mb = at == 0 ? (*value + 1023) / 1024 : *value << shift;
  return mb > static_cast<std::uint64_t>(kMegabytesMax) ? std::nullopt : std::optional(static_cast<std::int64_t>(mb));
}

std::optional<CountRange> parse_node_range(std::string_view text) {
  const auto dash = text.find('-');
  const auto low = scaled_count(text.substr(0, dash));
  const auto high = dash == std::string_view::npos ? low : scaled_count(text.substr(dash + 1));
  if (!low || !high || *high < *low || *high == 0)
    return std::nullopt;
  return CountRange{std::max<std::uint32_t>(*low, 1), *high};
}

Result<std::vector<DeviceAsk>> parse_gres(std::string_view text) {
  std::vector<DeviceAsk> out;
  if (lower(text) == "none")
    return out;
  if (items_of(text).empty())
    return invalid("the list is empty");
  std::uint32_t of_gpus = 0;
  bool shares = false;
  for (const auto& item : items_of(text)) {
    std::string_view rest = item;
    if (rest.starts_with("gres/") || rest.starts_with("gres:"))
      rest.remove_prefix(5);
    const auto colon = rest.find_first_of(":=");
    const std::string kind = lower(rest.substr(0, colon));
    if (!name_like(kind) || digits_first(kind))
      return invalid(format("\"{}\" is not name[[:type]:count]", item));
    const std::string_view tail = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
    if (colon != std::string_view::npos && tail.empty())
      return invalid(format("\"{}\" is not name[[:type]:count]", item));
    DeviceAsk ask = TRY(one_device(kind, tail, item));
    of_gpus += ask.kind == "gpu" && ask.count > 0;
    shares |= is_share_of_gpu(kind) && ask.count > 0;
    if (shares && of_gpus > 1)  // a share may be all of a GPU, and is none of those that others do not use
      return invalid("one share of a GPU is possible, not several");
    TRY(add_device(out, std::move(ask)));
  }
  return out;
}

bool is_share_of_gpu(std::string_view kind) { return kind == "mps" || kind == "shard"; }

Result<std::vector<DeviceAsk>> parse_gpus(std::string_view text) {
  std::vector<DeviceAsk> out;
  if (items_of(text).empty())
    return invalid("the list is empty");
  for (const auto& item : items_of(text)) {
    if (const std::string kind = lower(std::string_view(item).substr(0, item.find(':'))); is_share_of_gpu(kind))
      return invalid(format("{} is a share of a GPU, and no type of one: --gres={} asks for it", kind, item));
    TRY(add_device(out, TRY(one_device("gpu", item, item))));
  }
  return out;
}

std::optional<PreemptMode> parse_preempt_mode(std::string_view text) {
  constexpr std::string_view kModes[] = {"cluster", "off", "cancel", "requeue", "suspend", "gang", "checkpoint"};
  const std::string word = lower(text);
  const auto at = std::find(std::begin(kModes), std::end(kModes), word);
  return at == std::end(kModes) ? std::nullopt : std::optional(static_cast<PreemptMode>(at - std::begin(kModes)));
}

std::optional<int> parse_signal(std::string_view text) {
  if (const auto value = number(text, 64); value && *value > 0)
    return static_cast<int>(*value);
  std::string_view name = text;
  if (name.size() > 3 && strncasecmp(name.data(), "SIG", 3) == 0)
    name.remove_prefix(3);
  for (const auto& known : kSignals)
    if (name.size() == std::strlen(known.name) && strncasecmp(name.data(), known.name, name.size()) == 0)
      return known.number;
  return std::nullopt;
}

std::string signal_text(int signal) {
  const char* text = ::strsignal(signal);
  return text ? text : format("Signal {}", signal);
}

std::optional<SignalAhead> parse_signal_ahead(std::string_view text) {
  SignalAhead out;
  out.ahead = seconds(60);
  if (const auto colon = text.find(':'); colon != std::string_view::npos) {
    for (const char flag : text.substr(0, colon)) {
      if (flag == 'B' || flag == 'b')
        out.script_only = true;
      else if (flag != 'R' && flag != 'r')
        return std::nullopt;
    }
    text.remove_prefix(colon + 1);
  }
  if (const auto at = text.find('@'); at != std::string_view::npos) {
    const auto ahead = number(text.substr(at + 1), 65535);
    if (!ahead)
      return std::nullopt;
    out.ahead = seconds(*ahead);
    text = text.substr(0, at);
  }
  const auto signal = parse_signal(text);
  if (!signal)
    return std::nullopt;
  out.signal = *signal;
  return out;
}

namespace {

using DependencyType = Dependency::Type;

// A bare job id is an old spelling of afterany.
Result<DependencyType> dependency_type(std::string_view kind) {
  using enum Dependency::Type;
  constexpr std::pair<std::string_view, DependencyType> kTypes[] = {{"after", kAfter},
                                                                    {"afterany", kAfterAny},
                                                                    {"afterok", kAfterOk},
                                                                    {"afternotok", kAfterNotOk},
                                                                    {"aftercorr", kAfterCorr}};
  if (kind == "afterburstbuffer" || kind == "expand")
    return Error{Errc::kUnsupported, format("dependency type \"{}\" is not supported yet", kind), "dependencies"};
  if (parse_uint(kind))
    return kAfterAny;
  for (const auto& [name, type] : kTypes)
    if (kind == name)
      return type;
  return invalid(format("\"{}\" is no dependency type", kind), "dependencies");
}

// "157", "157_2" and "157_*", which is how squeue shows a whole array; "+5" behind it: so many minutes later.
Result<Dependency> dependency_on(const std::string& word, DependencyType type) {
  const auto plus = word.find('+');
  const std::string_view named = std::string_view(word).substr(0, plus);
  const auto line = named.find('_');
  const auto id = parse_uint(named.substr(0, line));
  const bool whole = line == std::string_view::npos || named.substr(line + 1) == "*";
  const auto element = whole ? std::nullopt : parse_count(named.substr(line + 1));
  const bool is_job = id && *id != 0 && (whole || element);
  if (!is_job || (plus != std::string::npos && type != DependencyType::kAfter))
    return invalid(format("\"{}\" is no job id", word), "dependencies");
  Duration delay;
  if (plus != std::string::npos) {
    const auto minutes_later = number(std::string_view(word).substr(plus + 1), 10'000'000);
    if (!minutes_later)
      return invalid(format("\"{}\" is not job id+minutes", word), "dependencies");
    delay = minutes(*minutes_later);
  }
  return Dependency{type, JobId(*id), delay, element};
}

// "afterok:12:13", or "singleton".
Result<void> add_dependencies(std::vector<Dependency>& out, const std::string& item) {
  auto parts = split(item, ':');
  const std::string kind = parts.empty() ? "" : lower(parts[0]);
  if (kind == "singleton" && parts.size() == 1) {
    out.push_back({DependencyType::kSingleton, JobId{}, {}});
    return {};
  }
  const DependencyType type = TRY(dependency_type(kind));
  if (!parse_uint(kind))
    parts.erase(parts.begin());
  if (parts.empty())
    return invalid(format("\"{}\" names no job", item), "dependencies");
  for (const auto& word : parts) out.push_back(TRY(dependency_on(word, type)));
  return {};
}

}  // namespace

Result<Dependencies> parse_dependencies(std::string_view text) {
  Dependencies out;
  if (text.find_first_not_of(",?") == std::string_view::npos)
    return invalid("the dependency list is empty");
  out.any = text.find('?') != std::string_view::npos;
  if (out.any && text.find(',') != std::string_view::npos)
    return invalid(format("\"{}\" mixes ',' and '?'", text));
  for (const auto& item : items_of(text, out.any ? '?' : ',')) TRY(add_dependencies(out.all, item));
  return out;
}

namespace {

// "7", "3-9", "0-15:4".
struct IndexRange {
  std::uint32_t low = 0, high = 0, step = 1;
};
// The range, or why the text is none.
std::variant<IndexRange, std::string> index_range(std::string_view part) {
  constexpr std::uint32_t kIndexMax = 4'000'000;
  IndexRange out;
  const auto dash = part.find('-');
  if (const auto colon = part.find(':'); colon != std::string_view::npos) {
    const auto step = parse_count(part.substr(colon + 1));
    if (!step || *step == 0 || dash == std::string_view::npos)
      return "a step is written low-high:step";
    out.step = *step;
    part = part.substr(0, colon);
  }
  const auto low = parse_count(part.substr(0, dash));
  const auto high = dash == std::string_view::npos ? low : parse_count(part.substr(dash + 1));
  if (!low || !high)
    return "an index is a number";
  if (*high < *low)
    return "a range goes upwards";
  if (*high > kIndexMax)
    return format("the largest index is {}", kIndexMax);
  out.low = *low;
  out.high = *high;
  return out;
}

void insert(IntervalSet& indices, const IndexRange& range) {
  if (range.step == 1)
    return indices.insert(range.low, range.high);
  for (std::uint64_t i = range.low; i <= range.high; i += range.step) indices.insert(static_cast<std::uint32_t>(i));
}

}  // namespace

Result<ArrayAsk> parse_array(std::string_view text) {
  ArrayAsk out;
  const auto bad = [&](std::string_view why) { return invalid(format("\"{}\": {}", text, why), "array"); };
  std::string_view list = text;
  if (const auto percent = list.find('%'); percent != std::string_view::npos) {
    const auto throttle = parse_count(list.substr(percent + 1));
    if (!throttle)
      return bad("what follows % is how many may run at once");
    out.throttle = *throttle;
    list = list.substr(0, percent);
  }
  if (list.starts_with('[') && list.ends_with(']'))
    list = list.substr(1, list.size() - 2);
  const auto items = items_of(list);
  if (items.empty())
    return bad("no index");
  for (const auto& item : items) {
    const auto range = index_range(item);
    if (const auto* why = std::get_if<std::string>(&range))
      return bad(*why);
    insert(out.indices, std::get<IndexRange>(range));
    if (items.size() == 1)
      out.step = std::get<IndexRange>(range).step;
  }
  return out;
}

namespace {

// The words of a time after "now": a day and a time of day, in any order, either left out.
struct Moment {
  ::tm day{};
  bool has_day = false, has_year = false, has_clock = false;
  int hour = 0, minute = 0, second = 0;
};

bool take_word(Moment& moment, const std::string& word) {
  static constexpr std::pair<std::string_view, int> kHours[] = {
      {"midnight", 0}, {"elevenses", 11}, {"noon", 12}, {"fika", 15}, {"teatime", 16}};
  for (const auto& [name, hour] : kHours) {
    if (word != name)
      continue;
    moment.hour = hour;
    return !std::exchange(moment.has_clock, true);
  }
  if (word == "today" || word == "tomorrow") {
    moment.day.tm_mday += word == "tomorrow" ? 1 : 0;
    moment.has_year = true;
    return !std::exchange(moment.has_day, true);
  }
  if (word.find(':') != std::string::npos)
    return clock_time(word, moment.hour, moment.minute, moment.second) && !std::exchange(moment.has_clock, true);
  moment.has_year = word.size() != 4 && split(word, '/').size() != 2 && split(word, '.').size() != 2;
  return calendar_date(word, moment.day) && !std::exchange(moment.has_day, true);
}

// "16:00 tomorrow", "1/20/30 4:30 pm", "2030-01-20t12:34": the words one by one, halves of the day with their clock.
std::vector<std::string> words_of_time(std::string_view text) {
  std::vector<std::string> out;
  for (const auto& word : split_words(text)) {
    const auto t = word.find('t');
    if (t != std::string::npos && t > 0 && word[t - 1] >= '0' && word[t - 1] <= '9') {
      out.push_back(word.substr(0, t));
      out.push_back(word.substr(t + 1));
    } else if ((word == "am" || word == "pm") && !out.empty()) {
      out.back() += word;
    } else {
      out.push_back(word);
    }
  }
  return out;
}

// Seconds in a unit that is written short or cut short; 0 = there is no such unit.
std::int64_t seconds_of_unit(std::string_view unit) {
  struct Unit {
    std::string_view name, letter;
    std::size_t shortest;  // "mi" could be anything
    std::int64_t seconds;
  };
  constexpr Unit kUnits[] = {{"seconds", "s", 3, 1},
                             {"minutes", "m", 3, 60},
                             {"hours", "h", 1, 3600},
                             {"days", "d", 1, 86400},
                             {"weeks", "w", 1, 7 * 86400}};
  if (unit.empty())
    return 1;
  for (const Unit& known : kUnits)
    if (unit == known.letter || (unit.size() >= known.shortest && known.name.starts_with(unit)))
      return known.seconds;
  return 0;
}

WallTime at_second(std::int64_t s) { return WallTime{s * 1'000'000}; }

// "+1hour", "-30" behind "now".
std::optional<WallTime> beside(std::string_view text, WallTime now) {
  const std::string_view rest = text.substr(1);
  std::size_t digits = 0;
  while (digits < rest.size() && rest[digits] >= '0' && rest[digits] <= '9') ++digits;
  const auto count = number(rest.substr(0, digits), 1'000'000'000);
  const std::int64_t factor = seconds_of_unit(trim(rest.substr(digits)));
  if (!count || factor == 0 || *count > kSecondsMax / factor)
    return std::nullopt;
  return at_second(now.seconds() + (text[0] == '+' ? 1 : -1) * *count * factor);
}

std::optional<Moment> moment_of(std::string_view text, ::time_t reference) {
  Moment moment;
  ::localtime_r(&reference, &moment.day);
  const auto words = words_of_time(text);
  for (const auto& part : words)
    if (!take_word(moment, part))
      return std::nullopt;
  if (words.empty())
    return std::nullopt;
  moment.day.tm_hour = moment.hour;
  moment.day.tm_min = moment.minute;
  moment.day.tm_sec = moment.second;
  return moment;
}

// A time of day that has passed means tomorrow's, and a day without a year the next one.
::time_t first_after(Moment moment, ::time_t reference) {
  const auto result = [&] {
    moment.day.tm_isdst = -1;
    return ::mktime(&moment.day);
  };
  const ::time_t when = result();
  if (when > reference || (moment.has_day && moment.has_year))
    return when;
  ++(moment.has_day ? moment.day.tm_year : moment.day.tm_mday);
  return result();
}

}  // namespace

std::optional<WallTime> parse_wall_time(std::string_view text, WallTime now) {
  std::string word = lower(trim(text));
  if (word.starts_with("now"))
    std::erase(word, ' ');
  if (word == "now")
    return now;
  if (word.starts_with("uts")) {
    const auto value = number(std::string_view(word).substr(3), INT64_MAX / 2'000'000);
    return value && *value > 0 ? std::optional(at_second(*value)) : std::nullopt;
  }
  if (word.starts_with("now+") || word.starts_with("now-"))
    return beside(std::string_view(word).substr(3), now);
  const ::time_t reference = static_cast<::time_t>(now.seconds());
  const auto moment = moment_of(word, reference);
  if (!moment)
    return std::nullopt;
  const ::time_t when = first_after(*moment, reference);
  return when > 0 ? std::optional(at_second(when)) : std::nullopt;
}

}  // namespace lockstep::slurm
