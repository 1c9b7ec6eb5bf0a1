#include "io/local/backup_note.h"

#include <time.h>

#include <algorithm>

#include "base/plain_file.h"
#include "base/text.h"
#include "io/local/state_dir.h"

namespace lockstep {

namespace {

constexpr std::string_view kHead = "# A backup of a Lockstep cluster. `lockstep restore` puts it back.\n";
constexpr std::string_view kFormat = "format";
constexpr std::size_t kTextMax = 64 << 10;

struct Row {
  std::string_view key;
  std::string BackupFacts::*text;
  std::uint64_t BackupFacts::*number = nullptr;
};
constexpr Row kRows[] = {
    {"version", &BackupFacts::version},  {"cluster", &BackupFacts::cluster},
    {"made_at", &BackupFacts::made_at},  {"entry", nullptr, &BackupFacts::entry},
    {"seq", nullptr, &BackupFacts::seq}, {"host", &BackupFacts::host},
    {"from", &BackupFacts::from},        {"mark", &BackupFacts::mark},
};

Error damaged(std::string why) { return {Errc::kCorrupt, std::move(why), {}}; }

// A value stands in one line.
std::string in_a_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 32 || c == 127; }, '?');
  return text;
}

Result<void> take(BackupFacts& facts, std::string_view key, const std::string& value) {
  const auto row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return r.key == key; });
  if (row == std::end(kRows))
    return damaged(format("{} is not a word of a manifest", key));
  if (row->text) {
    facts.*row->text = value;
    return {};
  }
  const auto number = parse_uint(value);
  if (!number)
    return damaged(format("{}={} is no number", key, value));
  facts.*row->number = *number;
  return {};
}

// Before anything else is looked at: a newer version may say more.
Result<void> check_format(const std::vector<std::string>& lines) {
  for (const auto& line : lines)
    if (line.starts_with(kFormat) && line.size() > kFormat.size() && line[kFormat.size()] == '=') {
      const auto number = parse_uint(std::string_view(line).substr(kFormat.size() + 1));
      if (!number)
        return damaged("its format is no number");
      if (*number <= kBackupFormat)
        return {};
      return Error{Errc::kUnsupported,
                   format("a newer version made it (format {}, this one reads up to {}): use that version's restore",
                          *number, kBackupFormat),
                   {}};
    }
  return damaged("it does not say its format");
}

}  // namespace

std::string facts_text(const BackupFacts& facts) {
  std::string out = format("{}{}={}\n", kHead, kFormat, kBackupFormat);
  for (const Row& row : kRows)
    out += format("{}={}\n", row.key, row.text ? in_a_line(facts.*row.text) : std::to_string(facts.*row.number));
  return out;
}

Result<BackupFacts> parse_facts(const std::string& text) {
  const auto lines = split(text, '\n');
  TRY(check_format(lines));
  BackupFacts facts;
  for (const auto& line : lines) {
    if (line.empty() || line[0] == '#' || line.starts_with(std::string(kFormat) + "="))
      continue;
    const auto equals = line.find('=');
    if (equals == std::string::npos)
      return damaged(format("\"{}\" is not a line of a manifest", line.substr(0, 40)));
    TRY(take(facts, std::string_view(line).substr(0, equals), line.substr(equals + 1)));
  }
  if (facts.cluster.empty() || facts.made_at.empty())
    return damaged("it does not say which cluster it is of, or of when");
  return facts;
}

constexpr std::string_view kWhole = "restored=whole\n", kBegun = "restored=begun\n";

std::string restore_note_text(const RestoreNote& note) {
  return std::string(note.is_whole ? kWhole : kBegun) + facts_text(note.of);
}

Result<std::optional<RestoreNote>> read_restore_note(const std::string& dir) {
  const std::string path = dir + "/" + kRestoreNote;
  const auto text = read_plain(path, Links::kRefused, kTextMax);
  if (!text && text.error().code == Errc::kNotFound)
    return std::optional<RestoreNote>();
  if (!text)
    return text.error();
  RestoreNote note;
  note.is_whole = text->starts_with(kWhole);
  auto facts = parse_facts(text->substr(std::min(text->size(), note.is_whole ? kWhole.size() : kBegun.size())));
  if (!facts || (!note.is_whole && !text->starts_with(kBegun)))
    return damaged(
        format("{} is damaged, which says that this cluster was restored and is not taken over. Restore it "
               "again; or, if it is meant to run, remove that file",
               path));
  note.of = std::move(*facts);
  return std::optional<RestoreNote>(std::move(note));
}

std::string quiet_text(const RestoreNote& note, const std::string& dir) {
  return format(
      "this cluster was restored from a backup of {} of cluster \"{}\" and is quiet: it shows what was, changes "
      "nothing, "
      "starts no job and takes no node. `lockstep restore --take-over --dir {}` puts it to work",
      note.of.made_at, note.of.cluster, dir);
}

std::string half_restored_text(const std::string& dir) {
  return format(
      "a restore into {0} was interrupted, and nothing is started from what is there. Run it again: lockstep restore "
      "BACKUP --dir {0}",
      dir);
}

std::string mark_in(const std::string& dir) {
  constexpr std::string_view kId = "\nid=";
  constexpr std::size_t kIdDigits = 32;
  const auto text = read_plain(dir + "/" + kMarkFile, Links::kRefused, kTextMax);
  const auto at = text ? text->find(kId) : std::string::npos;
  return at == std::string::npos ? std::string() : text->substr(at + kId.size(), kIdDigits);
}

std::string utc_text(std::int64_t at_s) {
  char text[32] = "";
  const time_t when = at_s;
  tm utc{};
  if (gmtime_r(&when, &utc))
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace lockstep
