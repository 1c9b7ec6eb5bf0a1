#include "wire/long_environment.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::size_t kLinesBytesMax = 64 << 10;  // of those that launches look at
// What launches read, set if it is missing, or take out, beside SLURM_….
constexpr std::array kLookedAt = {std::string_view("ENVIRONMENT"), std::string_view("HOME"),
                                  std::string_view("HOSTNAME"),    std::string_view("LOGNAME"),
                                  std::string_view("PATH"),        std::string_view("PWD"),
                                  std::string_view("SHELL"),       std::string_view("USER")};
static_assert(std::is_sorted(kLookedAt.begin(), kLookedAt.end()));

std::string_view name_of(std::string_view line) { return line.substr(0, line.find('=')); }

bool is_looked_at(std::string_view name) {
  return name.starts_with("SLURM") || name.find("_HET_GROUP_") != std::string_view::npos ||
         std::binary_search(kLookedAt.begin(), kLookedAt.end(), name);
}

// A line without a name or a value is none.
template <class F>
void each_line(std::string_view environment, F f) {
  while (!environment.empty()) {
    const std::string_view line = environment.substr(0, environment.find('\0'));
    environment.remove_prefix(std::min(environment.size(), line.size() + 1));
    if (line.find('=') != std::string_view::npos && line.front() != '=')
      f(line);
  }
}

}  // namespace

std::string encode(const LongEnvironment& head) { return format("{} {}{}", head.id, head.bytes, head.forget); }

Result<LongEnvironment> decode_long_environment(std::string_view text) {
  const auto id_end = text.find(' ');
  const std::string_view rest = id_end == std::string_view::npos ? std::string_view{} : text.substr(id_end + 1);
  const std::string_view number = rest.substr(0, rest.find(' '));
  const auto bytes = parse_uint(number);
  if (id_end == 0 || !bytes || *bytes == 0 || *bytes > kLongEnvironmentMax)
    return invalid("does not announce an environment");
  return LongEnvironment{BlobId(text.substr(0, id_end)), *bytes, std::string(rest.substr(number.size()))};
}

const ProcessSpec* process_of(const ToAgent& message) {
  return std::visit(
      [](const auto& m) -> const ProcessSpec* {
        if constexpr (requires { m.process; })
          return &m.process;
        else
          return nullptr;
      },
      message);
}
ProcessSpec* process_of(ToAgent& message) { return const_cast<ProcessSpec*>(process_of(std::as_const(message))); }

EnvironmentParts split_environment(std::string_view environment) {
  EnvironmentParts out;
  const bool is_long = environment.size() > kLongEnvironment;
  std::size_t kept = 0;
  each_line(environment, [&](std::string_view line) {
    if (!is_long || (kept + line.size() <= kLinesBytesMax && is_looked_at(name_of(line)))) {
      kept += line.size();
      out.lines.emplace_back(line);
    } else {
      out.rest.append(line).push_back('\0');
    }
  });
  return out;
}

void complete_environment(ProcessSpec& process, std::string_view rest) {
  std::vector<std::string> env = std::move(process.env);
  std::vector<std::string_view> names;
  for (const std::string& line : env) names.push_back(name_of(line));
  std::sort(names.begin(), names.end());
  std::vector<std::string> whole;
  each_line(rest, [&](std::string_view line) {
    if (!std::binary_search(names.begin(), names.end(), name_of(line)))
      whole.emplace_back(line);
  });
  whole.insert(whole.end(), std::make_move_iterator(env.begin()), std::make_move_iterator(env.end()));
  process.env = std::move(whole);
  process.env_base.clear();
}

}  // namespace lockstep
