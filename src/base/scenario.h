// For tests: scenarios as text, in the manner of etcd-raft's datadriven tests. A file of FOLDER/testdata is about one
// subject, which a comment at its top names, and a list of blocks with an empty line between them:
//
//   # What stops before it came never starts.
//   stop job=5 attempt=1          one or more commands, each a word and arguments: name, name=value, name="some words"
//   pass 3s                       an argument without "=" that is no known name is the command's own
//   ----
//   what comes of it, to the last letter
//
// With LOCKSTEP_UPDATE=1 in the environment what comes is written into the file: the difference is read like code.
#pragma once

#include <dirent.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/time.h"

namespace lockstep {

// "250us", "3s", "10m", "2h", "forever".
inline std::optional<Duration> parse_span(std::string_view text) {
  if (text == "forever")
    return kForever;
  constexpr std::pair<std::string_view, Duration> kUnits[] = {
      {"us", micros(1)}, {"ms", millis(1)}, {"s", seconds(1)}, {"m", minutes(1)}, {"h", hours(1)}};
  for (const auto& [unit, length] : kUnits)
    if (text.ends_with(unit))
      if (const auto count = parse_int(text.substr(0, text.size() - unit.size())))
        return length * *count;
  return std::nullopt;
}
// The same words: whole seconds where it is whole seconds.
inline std::string span_text(Duration span) {
  if (span >= kForever)
    return "forever";
  if (span.us % 1'000'000 == 0)
    return format("{}s", span.us / 1'000'000);
  return span.us % 1'000 == 0 ? format("{}ms", span.us / 1'000) : format("{}us", span.us);
}

// One command line. Whatever of it nobody asked for is a mistake of the scenario's author.
class ScenarioCommand {
 public:
  explicit ScenarioCommand(const std::string& line) : line_(line) {
    const auto words = words_of(line);
    name_ = words.empty() ? "" : words[0];
    for (std::size_t i = 1; i < words.size(); ++i) {
      const auto equals = words[i].find('=');
      arguments_.emplace_back(words[i].substr(0, equals),
                              equals == std::string::npos ? "" : words[i].substr(equals + 1));
    }
  }

  const std::string& name() const { return name_; }
  bool has(const std::string& name) { return find(name) != nullptr; }
  std::string text(const std::string& name, const std::string& otherwise = {}) {
    const std::string* value = find(name);
    return value ? *value : otherwise;
  }
  std::uint64_t number(const std::string& name, std::uint64_t otherwise = 0) {
    const std::string* value = find(name);
    const auto number = value ? parse_uint(*value) : std::optional(otherwise);
    if (!number)
      mistake(name + " is a number");
    return number.value_or(0);
  }
  Duration span(const std::string& name, Duration otherwise = {}) {
    const std::string* value = find(name);
    const auto span = value ? parse_span(*value) : std::optional(otherwise);
    if (!span)
      mistake(name + " is a time, such as 3s");
    return span.value_or(Duration{});
  }
  std::vector<std::string> list(const std::string& name) { return split(text(name), ','); }
  // The argument that is no name of anything, such as the time in "pass 3s"; "" if all are named or asked for.
  std::string own() {
    for (std::size_t i = 0; i < arguments_.size(); ++i)
      if (arguments_[i].second.empty() && asked_.insert(i).second)
        return arguments_[i].first;
    return {};
  }

  void mistake(const std::string& what) {
    if (mistake_.empty())
      mistake_ = format("\"{}\": {}", line_, what);
  }
  const std::string& mistakes() {
    for (std::size_t i = 0; i < arguments_.size(); ++i)
      if (!asked_.contains(i))
        mistake(format("nobody knows {}", arguments_[i].first));
    return mistake_;
  }

 private:
  static std::vector<std::string> words_of(const std::string& line) {
    std::vector<std::string> words;
    bool quoted = false, inside = false;
    for (const char c : line) {
      const bool blank = c == ' ' && !quoted;
      if (!blank && !std::exchange(inside, true))
        words.emplace_back();
      if (c == '"')
        quoted = !quoted;
      else if (!blank)
        words.back().push_back(c);
      inside = inside && !blank;
    }
    return words;
  }
  const std::string* find(const std::string& name) {
    for (std::size_t i = 0; i < arguments_.size(); ++i)
      if (arguments_[i].first == name) {
        asked_.insert(i);
        return &arguments_[i].second;
      }
    return nullptr;
  }

  std::string line_, name_, mistake_;
  std::vector<std::pair<std::string, std::string>> arguments_;
  std::set<std::size_t> asked_;
};

// Carries a command out and returns what comes of it: lines, each with its end.
using ScenarioRunner = std::function<std::string(ScenarioCommand&)>;

// Where this test's scenarios are: `testdata` of its folder, as the build tells it, from the folder of the program.
inline std::string scenario_folder(const char* from_program) {
  char self[4096];
  const ssize_t n = ::readlink("/proc/self/exe", self, sizeof self);
  const std::string path(self, static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  return path.substr(0, path.rfind('/') + 1) + from_program;
}

// Names, without ".txt", of those that begin with `prefix`, sorted. Without any there is one, which cannot be read.
inline std::vector<std::string> scenario_names(const std::string& folder, const std::string& prefix = {}) {
  std::vector<std::string> names;
  if (DIR* dir = ::opendir(folder.c_str())) {
    while (const dirent* entry = ::readdir(dir))
      if (const std::string name = entry->d_name; name.ends_with(".txt") && name.starts_with(prefix))
        names.push_back(name.substr(0, name.size() - 4));
    ::closedir(dir);
  }
  std::sort(names.begin(), names.end());
  return names.empty() ? std::vector<std::string>{"none"} : names;
}

// The same text, with what comes now in place of what was expected. A mistake of its author is told with its line.
inline std::string scenario_as_it_comes(const std::string& text, const ScenarioRunner& run) {
  std::string written, come;
  bool in_output = false;
  std::size_t number = 0;
  for (const std::string& line : split(text.substr(0, text.find_last_not_of('\n') + 1), '\n')) {
    ++number;
    if (in_output && !line.empty())
      continue;  // what was expected
    if (std::exchange(in_output, line == "----"))
      written += std::exchange(come, {});
    written += line + "\n";
    if (in_output || line.empty() || line[0] == '#')
      continue;
    ScenarioCommand command(line);
    come += run(command);
    EXPECT_EQ(command.mistakes(), "") << "line " << number;
    EXPECT_EQ(("\n" + come).find("\n\n"), std::string::npos) << "line " << number << ": an empty line ends a block";
  }
  EXPECT_TRUE(in_output || come.empty()) << "the last commands have no ----";
  return written + come;
}

inline std::string scenario_text(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << "cannot read " << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

// Runs one file and compares; see above for LOCKSTEP_UPDATE.
inline void run_scenario(const std::string& path, const ScenarioRunner& run) {
  const std::string text = scenario_text(path);
  EXPECT_TRUE(text.starts_with("# ")) << path << " does not say what it shows";
  EXPECT_NE(text.find("\n----\n"), std::string::npos) << path << " expects nothing";
  const std::string written = scenario_as_it_comes(text, run);
  if (::getenv("LOCKSTEP_UPDATE") == nullptr) {
    EXPECT_EQ(written, text) << path << ": this came, and that was expected";
  } else if (written != text) {
    std::ofstream(path) << written;
  }
}

}  // namespace lockstep
