#include "container/image_config.h"

#include <string.h>

#include <optional>

#include "base/text.h"
#include "container/documents.h"

namespace lockstep {
namespace {

constexpr std::size_t kVariablesMax = 4096;

bool is_variable(std::string_view line) {
  const std::size_t equals = line.find('=');
  return equals != line.npos && equals > 0 && line.find('\0') == line.npos;
}

std::vector<std::string> variables_of(const YamlNode* list) {
  std::vector<std::string> out = texts_of(list);
  std::erase_if(out, [](const std::string& line) { return !is_variable(line); });
  if (out.size() > kVariablesMax)
    out.resize(kVariablesMax);
  return out;
}

// A word of a shell line, between single quotes.
std::string shell_quoted(std::string_view word) {
  std::string out = "'";
  for (const char c : word)
    if (c == '\'')
      out += "'\\''";
    else
      out.push_back(c);
  return out + "'";
}

// The path behind `cd`, with or without quotes.
std::string folder_of_cd(std::string_view line) {
  std::string_view rest = trim(line.substr(3));
  if (rest.empty())
    return {};
  const char quote = rest[0] == '"' || rest[0] == '\'' ? rest[0] : ' ';
  if (quote != ' ')
    rest.remove_prefix(1);
  const std::string folder(rest.substr(0, rest.find(quote)));
  return folder.starts_with('/') ? folder : std::string();
}

}  // namespace

Result<ImageConfig> parse_image_config(std::string_view json) {
  const YamlNode document = TRY(read_document(json, "image configuration"));
  ImageConfig config;
  const YamlNode* part = document.child("config");
  if (!part)
    return config;
  config.env = variables_of(part->child("Env"));
  config.entrypoint = texts_of(part->child("Entrypoint"));
  config.command = texts_of(part->child("Cmd"));
  if (const std::string folder = text_of(part->child("WorkingDir")); folder.starts_with('/'))
    config.work_dir = folder;
  config.user = text_of(part->child("User"));
  config.stop_signal = signal_named(text_of(part->child("StopSignal")));
  return config;
}

std::int32_t signal_named(std::string_view word) {
  constexpr std::int32_t kFirstOfUsers = 34,
                         kLast = 64;  // of the kernel's real-time signals, below which libc's own are
  if (const auto number = parse_uint(word))
    return *number >= 1 && *number <= kLast ? static_cast<std::int32_t>(*number) : 0;
  if (word.starts_with("SIG"))
    word.remove_prefix(3);
  for (const bool from_end : {false, true}) {
    const std::string_view base = from_end ? "RTMAX" : "RTMIN";
    if (!word.starts_with(base))
      continue;
    const std::string_view rest = word.substr(base.size());
    const auto more = rest.empty() ? std::optional<std::uint64_t>(0) : parse_uint(rest.substr(1));
    if (!more || *more > kLast - kFirstOfUsers || (!rest.empty() && rest[0] != (from_end ? '-' : '+')))
      return 0;
    const auto by = static_cast<std::int32_t>(*more);
    return from_end ? kLast - by : kFirstOfUsers + by;
  }
  for (std::int32_t number = 1; number < 32; ++number)
    if (const char* const name = ::sigabbrev_np(number); name && word == name)
      return number;
  return 0;
}

ImageConfig parse_enroot_config(std::string_view environment, std::string_view rc) {
  ImageConfig config;
  for (std::string line : split(environment, '\n')) {
    const std::size_t equals = line.find('=');
    if (!is_variable(line) || line[0] == '#' || config.env.size() >= kVariablesMax)
      continue;
    const bool quoted = line.size() > equals + 2 && line[equals + 1] == '"' && line.back() == '"';
    if (quoted)
      line = line.substr(0, equals + 1) + line.substr(equals + 2, line.size() - equals - 3);
    config.env.push_back(std::move(line));
  }
  for (const std::string& line : split(rc, '\n'))
    if (line.starts_with("cd "))
      if (const std::string folder = folder_of_cd(line); !folder.empty())
        config.work_dir = folder;
  if (!rc.empty())
    config.entrypoint = {"/bin/sh", "/etc/rc"};
  return config;
}

std::string enroot_environment(const ImageConfig& config) {
  std::string out;
  for (const std::string& line : config.env)
    if (line.find('\n') == line.npos)
      out += line + "\n";
  return out;
}

std::string enroot_rc(const ImageConfig& config) {
  std::string words, command;
  for (const std::string& word : config.entrypoint) words += shell_quoted(word) + " ";
  for (const std::string& word : config.command) command += " " + shell_quoted(word);
  return format(
      "cd {} || exit 1\n"
      "if [ $# -gt 0 ]; then\n    exec {}\"$@\"\nelse\n    exec {}{}\nfi\n",
      shell_quoted(config.work_dir), words, words, command.empty() ? "/bin/sh" : command);
}

Result<Bundle> parse_bundle(std::string_view json) {
  const YamlNode document = TRY(read_document(json, "config.json"));
  Bundle bundle;
  const YamlNode* root = document.child("root");
  bundle.root = root ? text_of(root->child("path")) : std::string();
  if (bundle.root.empty())
    return invalid("config.json: root.path is missing");
  bundle.read_only = root->child("readonly") && text_of(root->child("readonly")) == "true";
  if (const YamlNode* process = document.child("process")) {
    bundle.config.env = variables_of(process->child("env"));
    bundle.config.command = texts_of(process->child("args"));
    if (const std::string folder = text_of(process->child("cwd")); folder.starts_with('/'))
      bundle.config.work_dir = folder;
  }
  for (const YamlNode& entry : children_of(document.child("mounts"))) {
    Mount mount{text_of(entry.child("source")), text_of(entry.child("destination")), false,
                texts_of(entry.child("options"))};
    bool binds = text_of(entry.child("type")) == "bind";
    for (const std::string& option : mount.options) {
      binds = binds || option == "bind" || option == "rbind";
      mount.read_only = mount.read_only || option == "ro" || option == "rro";
    }
    std::erase_if(mount.options, [](const std::string& option) { return option == "ro" || option == "rro"; });
    if (binds && mount.source.starts_with('/') && mount.target.starts_with('/'))
      bundle.mounts.push_back(std::move(mount));
  }
  return bundle;
}

}  // namespace lockstep
