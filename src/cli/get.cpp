// lockstep get: a cluster as a file.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "base/nearest.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/cluster_dir.h"
#include "cli/cluster_files.h"
#include "cli/verb_words.h"
#include "io/client/unix_api_client.h"
#include "io/local/folder.h"
#include "views/shown_text.h"
#include "wire/cluster_keep.h"
#include "wire/yaml.h"

namespace lockstep {

namespace {

constexpr const char* kGetHelp = R"help(Usage: lockstep get [-o yaml|json] [--keep FILE] [--dir DIR] [KIND[/NAME] …]

Prints a cluster's settings as a cluster.yaml, which `lockstep apply` reads: what is at its default is left out. KIND is
a section of the file: nodes, partitions, qos, accounts, licences, reservations, health_checks, policy, topology, administrators; with
a NAME only that one.

  -o yaml|json     how (yaml)
      --keep FILE  write the values into that file, with its comments, order and layout as they are. Sections that it
                   does not have are not added, records that the cluster does not have stay and are named
      --dir DIR    the cluster's directory

Exit codes: 0 done; 1 failed, or --keep left something, which is said; 2 wrong usage.

Examples
  lockstep get > cluster.yaml
  lockstep get partitions/gpu qos
  lockstep get --keep cluster.yaml
)help";

constexpr std::string_view kKindWords[] = {"administrators", "nodes",        "partitions", "qos",      "accounts",
                                           "licences",       "reservations", "policy",     "topology", "health_checks"};

int get_failed(const std::string& message) {
  fprintf(stderr, "lockstep get: %s\n", shown(message).c_str());
  return 1;
}

// Which records are asked for: by section, and by names in it (none: all of them).
using Chosen = std::map<std::string, std::set<std::string>, std::less<>>;

Result<Chosen> chosen_by(const std::vector<std::string>& words) {
  Chosen out;
  for (const std::string& word : words) {
    const auto slash = word.find('/');
    const std::string kind = word.substr(0, slash);
    if (std::find(std::begin(kKindWords), std::end(kKindWords), kind) == std::end(kKindWords))
      return invalid(format("no kind \"{}\" is known{}", kind, hint(kind, kKindWords)));
    std::set<std::string>& names = out[kind];
    if (slash != word.npos)
      names.insert(word.substr(slash + 1));
  }
  return out;
}

template <class T>
Result<void> keep_chosen(std::vector<T>& records, std::string_view kind, const Chosen& chosen) {
  const auto at = chosen.find(kind);
  if (at == chosen.end()) {
    records.clear();
    return {};
  }
  for (const std::string& name : at->second)
    if (std::none_of(records.begin(), records.end(), [&](const T& record) { return record.meta.name == name; }))
      return not_found(format("there is no {} in {}", name, kind));
  if (!at->second.empty())
    std::erase_if(records, [&](const T& record) { return !at->second.contains(record.meta.name); });
  return {};
}

Result<ClusterFile> only_chosen(ClusterFile file, const Chosen& chosen) {
  if (chosen.empty())
    return file;
  TRY(keep_chosen(file.node_classes, "nodes", chosen));
  TRY(keep_chosen(file.partitions, "partitions", chosen));
  TRY(keep_chosen(file.qos, "qos", chosen));
  TRY(keep_chosen(file.accounts, "accounts", chosen));
  TRY(keep_chosen(file.licences, "licences", chosen));
  TRY(keep_chosen(file.reservations, "reservations", chosen));
  TRY(keep_chosen(file.health_checks, "health_checks", chosen));
  std::set<std::string> accounts;
  for (const Account& account : file.accounts) accounts.insert(account.meta.name);
  std::erase_if(file.associations, [&](const Association& one) { return !accounts.contains(one.account); });
  if (!chosen.contains("policy"))
    file.policy.reset();
  if (!chosen.contains("topology"))
    file.topology.reset();
  if (!chosen.contains("administrators"))
    file.administrators.reset();
  return file;
}

// A file that is read and then replaced. Its directory is held meanwhile: what is written is beside what was read, also
// where somebody exchanges a link on the way.
class KeptFile {
 public:
  static Result<KeptFile> open(const std::string& path) {
    const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), &free);
    const std::string target = real ? real.get() : "";
    const auto slash = target.rfind('/');
    const int dir = real ? ::open(target.substr(0, slash + 1).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (dir < 0)
      return not_found(format("cannot open {}: {}", path, strerror(errno)));
    KeptFile out(Folder::held(target.substr(0, slash), dir), target.substr(slash + 1));
    const int fd = openat(dir, out.name_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
      return os_error("cannot open " + path);
    const std::unique_ptr<FILE, int (*)(FILE*)> file(fdopen(fd, "r"), &fclose);
    if (fstat(fd, &out.info_) != 0 || !S_ISREG(out.info_.st_mode))
      return invalid(format("{} is {}", path, S_ISDIR(out.info_.st_mode) ? "a directory, not a file" : "no file"));
    out.text_ = TRY(read_cluster_text(file.get(), path));
    return out;
  }
  const std::string& text() const { return text_; }

  // In one step: whoever reads it sees the old file or the new one.
  Result<void> replace(const std::string& text) const {
    TRY(dir_.write_durably(name_, text, info_.st_mode & 0777));
    // Only root may give it away, and nobody else needs to.
    (void)!fchownat(dir_.fd(), name_.c_str(), info_.st_uid, info_.st_gid, AT_SYMLINK_NOFOLLOW);
    return {};
  }

 private:
  KeptFile(Folder dir, std::string name) : dir_(std::move(dir)), name_(std::move(name)) {}

  Folder dir_;
  std::string name_, text_;
  struct stat info_ {};
};

int keep_in_file(const std::string& path, const ClusterFile& live) {
  const auto file = KeptFile::open(path);
  if (!file)
    return get_failed(file.error().message);
  const auto kept = keep_cluster_file(file->text(), live);
  if (!kept)
    return get_failed(format("{}: {}", path, kept.error().message));
  if (kept->text != file->text())
    if (const auto done = file->replace(kept->text); !done)
      return get_failed(done.error().message);
  for (const std::string& what : kept->left) fprintf(stderr, "left: %s\n", shown(what).c_str());
  printf("%s: %s\n", path.c_str(), kept->text == file->text() ? "nothing to write" : "written");
  return kept->left.empty() ? 0 : 1;
}

struct GetAsk {
  std::string dir, output = "yaml", keep;
  Chosen chosen;
};

// An exit code when there is nothing more to do.
std::optional<int> read_get_words(GetAsk& ask, int argc, char** argv) {
  static const option kOptions[] = {{"output", 1, nullptr, 'o'}, {"json", 0, nullptr, 'j'}, {"keep", 1, nullptr, 'k'},
                                    {"dir", 1, nullptr, 'd'},    {"help", 0, nullptr, 'h'}, {nullptr, 0, nullptr, 0}};
  VerbWords words({.verb = "get", .options = kOptions, .letters = "o:h", .words = kAnyWords}, argc, argv);
  for (int c; (c = words.next()) != -1;) switch (c) {
      case 'o': ask.output = optarg; break;
      case 'j': ask.output = "json"; break;
      case 'k': ask.keep = optarg; break;
      case 'd': ask.dir = optarg; break;
      case 'h': fputs(kGetHelp, stdout); return 0;
      default: return 2;
    }
  auto chosen = chosen_by(words.rest());
  const char* const wrong = ask.output != "yaml" && ask.output != "json" ? "-o: write yaml or json"
                            : !ask.keep.empty() && (ask.output != "yaml" || !words.rest().empty())
                                ? "--keep writes all that the file has sections for, as YAML"
                                : nullptr;
  if (wrong || !chosen) {
    fprintf(stderr, "lockstep get: %s\n", wrong ? wrong : chosen.error().message.c_str());
    return 2;
  }
  ask.chosen = std::move(*chosen);
  return std::nullopt;
}

}  // namespace

int get_main(int argc, char** argv) {
  GetAsk ask;
  if (const auto exit_code = read_get_words(ask, argc, argv))
    return *exit_code;
  const auto client = connect_and_tell(ask.dir.empty() ? find_socket() : cluster_dir(ask.dir).socket());
  if (!client)
    return get_failed(client.error().message);
  const auto live = read_live_cluster(**client);
  if (!live)
    return get_failed(live.error().message);
  if (!ask.keep.empty())
    return keep_in_file(ask.keep, file_of(*live));
  const auto file = only_chosen(file_of(*live), ask.chosen);
  if (!file)
    return get_failed(file.error().message);
  const std::string text = encode_cluster_file(*file);
  if (ask.output == "yaml") {
    fputs(text.c_str(), stdout);
    return 0;
  }
  const auto json = text.empty() ? Result<YamlText>(YamlText{"{}", {}}) : json_of_yaml(text);
  if (!json)
    return get_failed(json.error().message);
  puts(json->json.c_str());
  return 0;
}

}  // namespace lockstep
