// scontrol show hostnames and its kin: plain host lists, no cluster needed.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "base/hostlist.h"
#include "base/text.h"
#include "frontends/slurm/client/scontrol_verbs.h"

namespace lockstep::slurm {

namespace {

constexpr std::size_t kFileMax = 16 << 20;  // bytes of a file with host names

// Blanks, commas and line ends part the names of a file.
Result<std::string> names_in_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return not_found("cannot open " + path);
  std::string text;
  char block[4096];
  ssize_t n = 0;
  while (text.size() < kFileMax && (n = read(fd, block, sizeof block)) > 0)
    text.append(block, static_cast<std::size_t>(n));
  close(fd);
  std::replace(text.begin(), text.end(), ',', ' ');
  return join(split_words(text), ",");
}

}  // namespace

std::optional<int> scontrol_hosts(const ScontrolSession& session, const Words& words) {
  const std::string& entity = words[0];
  const bool names = abbreviates(entity, "hostnames", 5);
  const bool sorted = !names && abbreviates(entity, "hostlistsorted", 9);
  if (!names && !sorted && !abbreviates(entity, "hostlist", 5))
    return std::nullopt;
  std::string list = words.size() > 1 ? words[1]
                     : names          ? variable_or("SLURM_JOB_NODELIST", variable_or("SLURM_NODELIST"))
                                      : "";
  if (list.empty()) {
    session.voice.error("host list is empty");
    return 1;
  }
  if (!names && list[0] == '/') {
    auto read = names_in_file(list);
    if (!read) {
      session.voice.error(read.error().message);
      return 1;
    }
    list = std::move(*read);
  }
  auto hosts = expand_hostlist(list);
  if (!hosts) {
    session.voice.error(format("Invalid hostlist: {}", hosts.error().message));
    return 1;
  }
  if (names) {
    std::string out;
    for (const std::string& host : *hosts) (out += host) += '\n';
    say(out);
    return 0;
  }
  if (sorted) {
    sort_hosts(*hosts);
    hosts->erase(std::unique(hosts->begin(), hosts->end()), hosts->end());
  }
  say(compress_hostlist(*hosts) + "\n");
  return 0;
}

}  // namespace lockstep::slurm
