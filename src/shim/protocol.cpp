#include "shim/protocol.h"

#include <iterator>

#include "base/check.h"
#include "base/interval_set.h"
#include "base/text.h"
#include "wire/container_text.h"
#include "wire/sandbox_text.h"

namespace lockstep {
namespace {

// Tags of the launch. Never renumbered.
enum class Tag : std::uint16_t {
  kUid = 1,
  kGid = 2,
  kGroup = 3,
  kArgument = 4,
  kVariable = 5,
  kTaskVariable = 6,
  kWorkDir = 7,
  kStdIn = 8,
  kStdOut = 9,
  kStdErr = 10,
  kAppend = 11,
  kUmask = 12,
  kNodeIndex = 13,
  kRank = 14,
  kRankArguments = 15,
  kRankVariables = 16,
  kToClient = 17,
  kPty = 18,
  kRows = 19,
  kColumns = 20,
  kKillWaitUs = 21,
  kFenceAfterUs = 22,
  kScript = 23,
  kNoNewPrivs = 24,
  kEnter = 25,
  kOomFile = 26,
  kFreezeFile = 27,
  kRankCores = 28,
  kTaskProlog = 29,
  kTaskEpilog = 30,
  kContainer = 64,
  kSandbox = 65,
  kHostName = 66,
  kRange = 67,
  kNote = 68,
  kMemoryBind = 69,
  kCheckpointFile = 95,
  kCheckpointLine = 96,
};

void put(std::string& out, std::uint64_t value, int bytes) {
  CHECK(bytes == 8 || value >> (8 * bytes) == 0, format("{} in {} bytes", value, bytes));
  for (int i = bytes - 1; i >= 0; --i) out.push_back(static_cast<char>(value >> (8 * i)));
}

std::uint64_t get(std::string_view bytes) {
  std::uint64_t value = 0;
  for (char c : bytes) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

std::string record(ShimRecord kind, std::string_view body) {
  CHECK(body.size() <= UINT32_MAX, format("a record of {} bytes", body.size()));
  std::string out;
  out.reserve(body.size() + 5);
  put(out, static_cast<std::uint8_t>(kind), 1);
  put(out, body.size(), 4);
  out.append(body);
  return out;
}

void field(std::string& out, Tag tag, std::string_view text) {
  CHECK(text.size() <= UINT32_MAX, format("a field of {} bytes", text.size()));
  put(out, static_cast<std::uint16_t>(tag), 2);
  put(out, text.size(), 4);
  out.append(text);
}

void field(std::string& out, Tag tag, std::uint64_t value) {
  put(out, static_cast<std::uint16_t>(tag), 2);
  put(out, 8, 4);
  put(out, value, 8);
}

// Words joined by NUL: none of them may hold one, which arguments and variables cannot anyway.
std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& word : words) out.append(word.c_str()).push_back('\0');
  return out;
}

std::vector<std::string> unjoined(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    auto end = text.find('\0');
    if (end == text.npos)
      end = text.size();
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return words;
}

// "0-3,8"
std::string text_of_cores(const CoreSet& cores) {
  IntervalSet set;
  cores.for_each([&set](std::uint32_t core) { set.insert(core); });
  return set.text();
}

CoreSet cores_of(std::string_view text) {
  CoreSet out;
  if (const auto set = IntervalSet::parse(text); set.ok())
    for (const Interval& part : set->intervals())
      for (std::uint32_t core = part.low; core <= part.high && core < CoreSet::kCapacity; ++core) out.set(core);
  return out;
}

// What a field holds: text, which is a number where it has eight bytes.
struct FieldValue {
  std::string_view text;
  std::uint64_t number = 0;
  bool flag() const { return number != 0; }
  template <class T>
  T as() const {
    return static_cast<T>(number);
  }
};

struct LaunchField {
  Tag tag;
  void (*apply)(ShimStart& start, const FieldValue& value);
};
using Start = ShimStart;
using Value = FieldValue;
constexpr LaunchField kLaunchFields[] = {
    {Tag::kUid, [](Start& s, const Value& v) { s.launch.process.uid = v.as<std::uint32_t>(); }},
    {Tag::kGid, [](Start& s, const Value& v) { s.launch.process.gid = v.as<std::uint32_t>(); }},
    {Tag::kGroup, [](Start& s, const Value& v) { s.launch.process.groups.push_back(v.as<std::uint32_t>()); }},
    {Tag::kArgument, [](Start& s, const Value& v) { s.launch.process.argv.emplace_back(v.text); }},
    {Tag::kVariable, [](Start& s, const Value& v) { s.launch.process.env.emplace_back(v.text); }},
    {Tag::kTaskVariable, [](Start& s, const Value& v) { s.launch.process.task_env.emplace_back(v.text); }},
    {Tag::kWorkDir, [](Start& s, const Value& v) { s.launch.process.work_dir = v.text; }},
    {Tag::kStdIn, [](Start& s, const Value& v) { s.launch.process.std_in = v.text; }},
    {Tag::kStdOut, [](Start& s, const Value& v) { s.launch.process.std_out = v.text; }},
    {Tag::kStdErr, [](Start& s, const Value& v) { s.launch.process.std_err = v.text; }},
    {Tag::kAppend, [](Start& s, const Value& v) { s.launch.process.append = v.flag(); }},
    {Tag::kUmask, [](Start& s, const Value& v) { s.launch.process.umask = v.as<std::int32_t>(); }},
    {Tag::kNodeIndex, [](Start& s, const Value& v) { s.launch.node_index = v.as<std::uint32_t>(); }},
    {Tag::kRank, [](Start& s, const Value& v) { s.launch.ranks.push_back(v.as<std::uint32_t>()); }},
    {Tag::kRankArguments, [](Start& s, const Value& v) { s.launch.argv_by_rank.push_back(unjoined(v.text)); }},
    {Tag::kRankVariables, [](Start& s, const Value& v) { s.launch.env_by_rank.push_back(unjoined(v.text)); }},
    {Tag::kToClient, [](Start& s, const Value& v) { s.launch.to_client = v.flag(); }},
    {Tag::kPty, [](Start& s, const Value& v) { s.launch.pty = v.flag(); }},
    {Tag::kRows, [](Start& s, const Value& v) { s.launch.rows = v.as<std::uint16_t>(); }},
    {Tag::kColumns, [](Start& s, const Value& v) { s.launch.columns = v.as<std::uint16_t>(); }},
    {Tag::kKillWaitUs, [](Start& s, const Value& v) { s.launch.kill_wait.us = v.as<std::int64_t>(); }},
    {Tag::kFenceAfterUs, [](Start& s, const Value& v) { s.fence_after.us = v.as<std::int64_t>(); }},
    {Tag::kScript, [](Start& s, const Value& v) { s.script = v.text; }},
    {Tag::kNoNewPrivs, [](Start& s, const Value& v) { s.no_new_privs = v.flag(); }},
    {Tag::kEnter, [](Start& s, const Value& v) { s.enter.emplace_back(v.text); }},
    {Tag::kOomFile, [](Start& s, const Value& v) { s.oom_file = v.text; }},
    {Tag::kFreezeFile, [](Start& s, const Value& v) { s.freeze_file = v.text; }},
    {Tag::kRankCores, [](Start& s, const Value& v) { s.launch.cores_by_rank.push_back(cores_of(v.text)); }},
    {Tag::kTaskProlog, [](Start& s, const Value& v) { s.launch.process.task_prologs.emplace_back(v.text); }},
    {Tag::kTaskEpilog, [](Start& s, const Value& v) { s.launch.process.task_epilogs.emplace_back(v.text); }},
};

// Tags from 80 on: tasks that find each other.
enum class WorldTag : std::uint16_t { kPmi = 80, kNode = 81, kNodeRanks = 82, kSecret = 83 };

Pmi pmi_of(std::uint64_t number) {
  return number <= static_cast<std::uint64_t>(Pmi::kPmix) ? static_cast<Pmi>(number) : Pmi::kNone;
}

void apply_ranks(ShimStart& start, std::string_view text) {
  if (start.launch.world.empty())
    return;
  for (; text.size() >= 4; text.remove_prefix(4))
    start.launch.world.back().ranks.push_back(static_cast<std::uint32_t>(get(text.substr(0, 4))));
}

void apply_world_field(ShimStart& start, std::uint16_t tag, std::string_view text) {
  switch (static_cast<WorldTag>(tag)) {
    case WorldTag::kPmi: start.launch.pmi = text.size() == 8 ? pmi_of(get(text)) : Pmi::kNone; break;
    case WorldTag::kNode: start.launch.world.emplace_back().name = text; break;
    case WorldTag::kNodeRanks: apply_ranks(start, text); break;
    case WorldTag::kSecret: start.launch.world_secret = text; break;
  }
}

constexpr bool each_at_its_tag() {
  for (std::size_t i = 0; i < std::size(kLaunchFields); ++i)
    if (static_cast<std::size_t>(kLaunchFields[i].tag) != i + 1)
      return false;
  return true;
}
static_assert(each_at_its_tag(), "a field stands at the place of its tag");

void apply_container(Start& start, const Value& value) {
  if (auto container = decode_container(value.text); container.ok())
    start.launch.process.container = std::move(*container);
  else
    start.launch.process.container.image = "?";  // which is refused: the tasks were not meant to run outside
}

// Tags of parts that stand for themselves, by number.
void apply_sandbox(Start& start, const Value& value) {
  if (auto sandbox = decode_sandbox(value.text); sandbox.ok())
    start.sandbox = std::move(*sandbox);
  else
    start.launch.process.container.image = "?";  // as above
}

constexpr LaunchField kPartFields[] = {
    {Tag::kContainer, apply_container},
    {Tag::kSandbox, apply_sandbox},
    {Tag::kHostName, [](Start& s, const Value& v) { s.place.host_name = v.text; }},
    {Tag::kRange, [](Start& s, const Value& v) { s.place.range = v.text; }},
    {Tag::kNote, [](Start& s, const Value& v) { s.note = v.text; }},
    {Tag::kMemoryBind, [](Start& s, const Value& v) { s.launch.memory_bind = v.text; }},
    {Tag::kCheckpointFile, [](Start& s, const Value& v) { s.checkpoint_file = v.text; }},
    {Tag::kCheckpointLine, [](Start& s, const Value& v) { s.checkpoint_line = v.text; }},
};

// A tag of a later version asks for what this shim cannot do. Its agent knows which shim it started.
void apply_field(ShimStart& start, std::uint16_t tag, std::string_view text) {
  if (tag >= 1 && tag <= std::size(kLaunchFields))
    kLaunchFields[tag - 1].apply(start, {text, text.size() == 8 ? get(text) : 0});
  for (const LaunchField& field : kPartFields)
    if (static_cast<std::uint16_t>(field.tag) == tag)
      field.apply(start, {text, 0});
  apply_world_field(start, tag, text);
}

Result<ShimStart> decode_launch(std::string_view body) {
  ShimStart start;
  while (!body.empty()) {
    if (body.size() < 6)
      return Error{Errc::kCorrupt, "launch record: a field is cut off", {}};
    const auto tag = static_cast<std::uint16_t>(get(body.substr(0, 2)));
    const std::uint64_t size = get(body.substr(2, 4));
    body.remove_prefix(6);
    if (size > body.size())
      return Error{Errc::kCorrupt, "launch record: a field is longer than the record", {}};
    apply_field(start, tag, body.substr(0, size));
    body.remove_prefix(size);
  }
  const TaskProcesses& step = start.launch;
  if (step.ranks.empty())
    return Error{Errc::kCorrupt, "launch record: no task", {}};
  if (!step.argv_by_rank.empty() && step.argv_by_rank.size() != step.ranks.size())
    return Error{Errc::kCorrupt, "launch record: arguments for another number of tasks", {}};
  if (!step.env_by_rank.empty() && step.env_by_rank.size() != step.ranks.size())
    return Error{Errc::kCorrupt, "launch record: variables for another number of tasks", {}};
  if (!step.cores_by_rank.empty() && step.cores_by_rank.size() != step.ranks.size())
    return Error{Errc::kCorrupt, "launch record: cores for another number of tasks", {}};
  return start;
}

void put_world_fields(std::string& out, const TaskProcesses& step) {
  field(out, static_cast<Tag>(WorldTag::kPmi), static_cast<std::uint64_t>(step.pmi));
  if (!step.world_secret.empty())
    field(out, static_cast<Tag>(WorldTag::kSecret), step.world_secret);
  for (const auto& node : step.world) {
    field(out, static_cast<Tag>(WorldTag::kNode), node.name);
    std::string ranks;
    for (const auto rank : node.ranks) put(ranks, rank, 4);
    field(out, static_cast<Tag>(WorldTag::kNodeRanks), ranks);
  }
}

}  // namespace

std::string encode_launch_record(const ShimStart& start) {
  const TaskProcesses& step = start.launch;
  const ProcessSpec& process = step.process;
  std::string out;
  std::size_t bytes = start.script.size() + 1024;
  for (const auto& variable : process.env) bytes += variable.size() + 6;
  out.reserve(bytes);
  field(out, Tag::kUid, process.uid);
  field(out, Tag::kGid, process.gid);
  for (auto group : process.groups) field(out, Tag::kGroup, group);
  for (const auto& word : process.argv) field(out, Tag::kArgument, word);
  for (const auto& variable : process.env) field(out, Tag::kVariable, variable);
  for (const auto& variable : process.task_env) field(out, Tag::kTaskVariable, variable);
  field(out, Tag::kWorkDir, process.work_dir);
  field(out, Tag::kStdIn, process.std_in);
  field(out, Tag::kStdOut, process.std_out);
  field(out, Tag::kStdErr, process.std_err);
  field(out, Tag::kAppend, process.append);
  field(out, Tag::kUmask, static_cast<std::uint64_t>(process.umask));
  field(out, Tag::kNodeIndex, step.node_index);
  for (auto rank : step.ranks) field(out, Tag::kRank, rank);
  for (const auto& words : step.argv_by_rank) field(out, Tag::kRankArguments, joined(words));
  for (const auto& variables : step.env_by_rank) field(out, Tag::kRankVariables, joined(variables));
  field(out, Tag::kToClient, step.to_client);
  field(out, Tag::kPty, step.pty);
  field(out, Tag::kRows, step.rows);
  field(out, Tag::kColumns, step.columns);
  field(out, Tag::kKillWaitUs, static_cast<std::uint64_t>(step.kill_wait.us));
  field(out, Tag::kFenceAfterUs, static_cast<std::uint64_t>(start.fence_after.us));
  if (!start.script.empty())
    field(out, Tag::kScript, start.script);
  if (start.no_new_privs)
    field(out, Tag::kNoNewPrivs, 1);
  for (const auto& file : start.enter) field(out, Tag::kEnter, file);
  if (!start.oom_file.empty())
    field(out, Tag::kOomFile, start.oom_file);
  if (!start.freeze_file.empty())
    field(out, Tag::kFreezeFile, start.freeze_file);
  for (const auto& cores : step.cores_by_rank) field(out, Tag::kRankCores, text_of_cores(cores));
  for (const auto& program : process.task_prologs) field(out, Tag::kTaskProlog, program);
  for (const auto& program : process.task_epilogs) field(out, Tag::kTaskEpilog, program);
  if (process.container != Container{})
    field(out, Tag::kContainer, encode_container(process.container));
  if (is_sandbox(start.sandbox)) {
    field(out, Tag::kSandbox, encode_sandbox(start.sandbox));
    field(out, Tag::kHostName, start.place.host_name);
    field(out, Tag::kRange, start.place.range);
  }
  if (!start.note.empty())
    field(out, Tag::kNote, start.note);
  if (!step.memory_bind.empty())
    field(out, Tag::kMemoryBind, step.memory_bind);
  if (!start.checkpoint_file.empty())
    field(out, Tag::kCheckpointFile, start.checkpoint_file);
  if (!start.checkpoint_line.empty())
    field(out, Tag::kCheckpointLine, start.checkpoint_line);
  if (step.pmi != Pmi::kNone)
    put_world_fields(out, step);
  return record(ShimRecord::kLaunch, out);
}

std::string encode_pids_record(const std::vector<ShimPid>& pids) {
  std::string out;
  for (const auto& pid : pids) {
    put(out, pid.pid, 4);
    put(out, static_cast<std::uint64_t>(pid.started_us), 8);
  }
  return record(ShimRecord::kPids, out);
}

std::string encode_result_record(const std::vector<TaskResult>& results) {
  return record(ShimRecord::kResult, encode_results_text(results));
}

std::string encode_ended_record(std::int64_t boot_us) {
  std::string out;
  put(out, static_cast<std::uint64_t>(boot_us), 8);
  return record(ShimRecord::kEndedAt, out);
}

std::string encode_use_record(const WorkUse& use) { return record(ShimRecord::kUse, text_of(use)); }
std::string encode_containers_record(const std::string& text) { return record(ShimRecord::kContainers, text); }

Result<ShimRecords> decode_shim_records(std::string_view bytes) {
  ShimRecords records;
  while (bytes.size() >= 5) {
    const auto kind = static_cast<ShimRecord>(bytes[0]);
    const std::uint64_t size = get(bytes.substr(1, 4));
    if (size > bytes.size() - 5)
      break;
    const std::string_view body = bytes.substr(5, size);
    bytes.remove_prefix(5 + size);
    if (kind == ShimRecord::kLaunch) {
      records.launch = TRY(decode_launch(body));
    } else if (kind == ShimRecord::kPids) {
      records.pids.clear();
      for (std::size_t at = 0; at + 12 <= body.size(); at += 12)
        records.pids.push_back({static_cast<std::uint32_t>(get(body.substr(at, 4))),
                                static_cast<std::int64_t>(get(body.substr(at + 4, 8)))});
    } else if (kind == ShimRecord::kEndedAt && body.size() == 8) {
      records.ended_us = static_cast<std::int64_t>(get(body));
    } else if (kind == ShimRecord::kUse) {
      records.use = parse_work_use(body).value_or(WorkUse{});
    } else if (kind == ShimRecord::kContainers) {
      records.containers = body;
    } else if (kind == ShimRecord::kResult) {
      records.results = decode_results_text(body);
    }
  }
  return records;
}

std::string encode_results_text(const std::vector<TaskResult>& results) {
  std::string out;
  for (const auto& result : results) {
    if (!out.empty())
      out.push_back(' ');
    out += std::to_string(result.rank) + ":" + std::to_string(result.exit.code) + ":" +
           std::to_string(result.exit.signal) + ":" + std::to_string(exit_flags(result.exit));
  }
  return out;
}

std::optional<std::vector<TaskResult>> decode_results_text(std::string_view text) {
  std::vector<TaskResult> results;
  for (const auto& word : split_words(text)) {
    const auto parts = split(word, ':');
    if (parts.size() != 4)
      return std::nullopt;
    const auto rank = parse_uint(parts[0]), code = parse_uint(parts[1]), signal = parse_uint(parts[2]),
               flags = parse_uint(parts[3]);
    if (!rank || !code || !signal || !flags || *rank > UINT32_MAX || *code > 255 || *signal > 255 || *flags > 3)
      return std::nullopt;
    results.push_back({static_cast<std::uint32_t>(*rank),
                       exit_status(static_cast<std::int32_t>(*code), static_cast<std::int32_t>(*signal), *flags)});
  }
  return results;
}

}  // namespace lockstep
