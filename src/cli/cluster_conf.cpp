#include "cli/cluster_conf.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "io/local/text_check.h"

namespace lockstep {

namespace {

constexpr std::string_view kHead =
    "# Written by lockstep up. If you change it, remove this line and the last, which is a check over the rest.\n";
constexpr std::string_view kCheck = "check=";
constexpr std::size_t kWordMax = 64;

Error damaged(std::string why) { return {Errc::kCorrupt, std::move(why), {}}; }

// The text without its last line, if that is a check which agrees.
Result<std::string> without_check(const std::string& text) {
  const auto at = text.rfind(kCheck);
  if (at == std::string::npos || (at > 0 && text[at - 1] != '\n'))
    return text.starts_with(kHead) ? Result<std::string>(damaged("its end is missing")) : text;
  const std::string before = text.substr(0, at);
  if (text.substr(at) != format("{}{:016x}\n", kCheck, text_check(before)))
    return damaged("its check does not agree with the rest");
  return before;
}

template <class Number>
bool take_number(std::string_view value, std::uint64_t most, Number& out) {
  const auto number = parse_uint(value);
  if (!number || *number > most)
    return false;
  out = static_cast<Number>(*number);
  return true;
}

bool take_field(ClusterConf& conf, std::string_view key, std::string_view value) {
  if (key == "name")
    return conf.name = value, !value.empty();
  if (key == "gpus")
    return conf.gpus = value, true;
  if (key == "listen")
    return conf.listen = value, true;
  if (key == "bridge")
    return conf.network.bridge = value, true;
  if (key == "nodes")
    return take_number(value, 2000, conf.nodes);
  if (key == "cpus")
    return take_number(value, 512, conf.cpus);
  if (key == "memory_mb")
    return take_number(value, INT64_MAX, conf.memory_mb);
  if (key == "vms")
    return take_number(value, kVmsMax, conf.vms);
  if (key == "vm_cpus")
    return take_number(value, 64, conf.vm_cpus);
  if (key == "vm_memory_mb")
    return take_number(value, INT64_MAX, conf.vm_memory_mb);
  if (key == "port")
    return take_number(value, 65535, conf.port);
  if (key == "network")
    return take_number(value, 255, conf.network.second);
  if (key == "unkillable_s")
    return take_number(value, 1'000'000'000, conf.unkillable_s) && conf.unkillable_s > 0;
  if (key == "namespace_objects")
    return take_number(value, 1'000'000, conf.namespace_objects);
  return key == "move_after_s" && take_number(value, UINT32_MAX, conf.move_after_s);
}

}  // namespace

std::string conf_text(const ClusterConf& conf) {
  std::string text = format(
      "{}name={}\nnodes={}\ngpus={}\ncpus={}\nmemory_mb={}\nport={}\nbridge={}\nnetwork={}\nmove_after_s={}\n"
      "unkillable_s={}\n",
      kHead, conf.name, conf.nodes, conf.gpus, conf.cpus, conf.memory_mb, conf.port, conf.network.bridge,
      conf.network.second, conf.move_after_s, conf.unkillable_s);
  if (!conf.listen.empty())  // unknown to older versions
    text += format("listen={}\n", conf.listen);
  if (conf.namespace_objects > 0)  // likewise
    text += format("namespace_objects={}\n", conf.namespace_objects);
  if (conf.vms > 0)  // neither
    text += format("vms={}\nvm_cpus={}\nvm_memory_mb={}\n", conf.vms, conf.vm_cpus, conf.vm_memory_mb);
  return text + format("{}{:016x}\n", kCheck, text_check(text));
}

Result<ClusterConf> parse_conf(const std::string& text) {
  if (trim(text).empty())
    return damaged("it is empty");
  ClusterConf conf;
  std::set<std::string, std::less<>> keys;
  std::size_t number = 0;
  for (const auto& line : split(TRY(without_check(text)), '\n')) {
    ++number;
    const auto clean = trim(line);
    if (clean.empty() || clean[0] == '#')
      continue;
    const auto equals = clean.find('=');
    if (equals == std::string_view::npos || !take_field(conf, clean.substr(0, equals), clean.substr(equals + 1)))
      return damaged(format("line {} is not understood", number));
    keys.emplace(clean.substr(0, equals));
  }
  for (const char* key : {"name", "nodes", "port"})
    if (!keys.contains(key))
      return damaged(format("it does not say {}=", key));
  return conf;
}

Result<void> check_plain_word(const std::string& option, const std::string& word) {
  const bool good = std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  });
  if (good && !word.empty() && word.size() <= kWordMax && word[0] != '-' && word[0] != '.')
    return {};
  return invalid(
      format("{}: write at most {} letters, digits, - _ and ., the first a letter, digit or _", option, kWordMax));
}

}  // namespace lockstep
