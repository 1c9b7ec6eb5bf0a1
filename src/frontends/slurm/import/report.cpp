#include "frontends/slurm/import/report.h"

#include <algorithm>

#include "base/text.h"
#include "views/shown_text.h"
#include "wire/json_text.h"

namespace lockstep::slurm {

namespace {

constexpr std::size_t kSettingWidth = 38;

std::string cut(const std::string& text, std::size_t most) {
  const std::string shown = lockstep::shown(text);
  if (shown.size() <= most)
    return shown;
  std::size_t end = most - 3;
  while (end > 0 && (static_cast<unsigned char>(shown[end]) & 0xc0u) == 0x80) --end;  // not within a character
  return shown.substr(0, end) + "...";
}

// Words behind an indentation that their first line has already.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
  std::string out;
  std::size_t column = indent;
  for (const std::string& word : split_words(text)) {
    if (column > indent && column + 1 + word.size() > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    }
    if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out;
}

std::string entry_text(const ReportEntry& entry, bool is_first_of_line, const ReportLook& look) {
  const std::string number = is_first_of_line ? std::to_string(entry.line) : "";
  const std::string setting = cut(format("{}={}", entry.key, entry.value), kSettingWidth);
  std::string out = format("{:>5}  {:<8}  {:<{}}  ", number, verdict_text(entry.verdict), setting, kSettingWidth);
  const std::size_t indent = 5 + 2 + 8 + 2 + kSettingWidth + 2;
  std::string words = lockstep::shown(entry.words);
  if (!look.all && !entry.of.empty())
    words += format(" ({})", cut(entry.of, 40));
  return out + wrapped(words, indent, look.width) + "\n";
}

bool is_trouble(Verdict verdict) { return verdict == Verdict::kNoEqual || verdict == Verdict::kUnknown; }

}  // namespace

std::size_t Report::count(Verdict verdict) const {
  return static_cast<std::size_t>(std::count_if(
      entries.begin(), entries.end(), [verdict](const ReportEntry& entry) { return entry.verdict == verdict; }));
}

bool Report::is_whole() const { return count(Verdict::kNoEqual) + count(Verdict::kUnknown) == 0; }

std::string report_summary(const Report& report) {
  return format("{} settings: {} taken, {} the same by nature, {} without equal, {} unknown", report.entries.size(),
                report.count(Verdict::kTaken), report.count(Verdict::kSame), report.count(Verdict::kNoEqual),
                report.count(Verdict::kUnknown));
}

std::string report_text(const Report& report, const ReportLook& look) {
  std::string out, file;
  std::size_t line = 0;
  for (const ReportEntry& entry : report.entries) {
    if (!look.all && !is_trouble(entry.verdict))
      continue;
    const bool is_new_file = entry.file != file;
    if (is_new_file) {
      file = entry.file;
      out += format("{}{}\n", out.empty() ? "" : "\n", shown(file));
    }
    out += entry_text(entry, is_new_file || entry.line != line, look);
    line = entry.line;
  }
  if (!out.empty())
    out += "\n";
  for (const std::string& note : report.notes) out += "note: " + wrapped(shown(note), 6, look.width) + "\n";
  return out + report_summary(report) + "\n";
}

std::string report_json(const Report& report) {
  JsonText j;
  j.object().key("settings").array();
  for (const ReportEntry& entry : report.entries) {
    j.object().field("file", entry.file).field("line", entry.line).field("column", entry.column);
    j.field("key", entry.key).field("value", entry.value).field("of", entry.of);
    j.field("verdict", verdict_text(entry.verdict)).field("words", entry.words).end();
  }
  j.end().key("notes").array();
  for (const std::string& note : report.notes) j.value(note);
  j.end();
  j.field("taken", report.count(Verdict::kTaken)).field("same", report.count(Verdict::kSame));
  j.field("no_equal", report.count(Verdict::kNoEqual)).field("unknown", report.count(Verdict::kUnknown)).end();
  return j.take() + "\n";
}

}  // namespace lockstep::slurm
