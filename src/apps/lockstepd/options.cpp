#include "apps/lockstepd/options.h"

#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "io/local/folder.h"

namespace lockstep {

constexpr std::size_t kNameMax = 256;

const char* const kDaemonHelp =
    "lockstepd: the controller of a Lockstep cluster\n"
    "\n"
    "  --dir DIR             state directory (required): log, history, keys\n"
    "  --listen ADDR:PORT    TLS port for nodes and remote clients (default 127.0.0.1:0; 0 = any that is free)\n"
    "  --socket PATH         Unix socket for local clients (default DIR/public/api.sock)\n"
    "  --cluster-name NAME   of a new cluster (default lockstep)\n"
    "  --fence-command CMD   asked as CMD NODE when a node is silent; exit 0 proves that it has stopped\n"
    "  --fence-silence SECONDS  but not before the node has been silent for so long (default 30); a node whose agent "
    "was\n"
    "                        only stopped for longer loses its work where CMD switches it off\n"
    "  --unkillable-after SECONDS  a node that is heard and does not stop a job in this time after its kill wait takes "
    "no\n"
    "                        new work until it has (default 60)\n"
    "  --defragment          move jobs that can save their work where a waiting one fits for it\n"
    "  --move-after SECONDS  but none in this time after its start (default 600)\n"
    "  --kill-invalid-depend cancel jobs whose dependency can never hold, instead of leaving them to wait\n"
    "  --namespace-objects N  objects of Kubernetes' API that a namespace may hold (default 100000; events, of which "
    "the\n"
    "                        newest are kept, aside)\n"
    "  --namespace-mib N     and what they may take (default 1024)\n"
    "  --serve-everyone      serve every user of this machine, also where it is not root that runs the controller: for "
    "an\n"
    "                        installed one, whose agents are root's\n"
    "  --backup DIR          write a backup of the cluster in --dir and end: see lockstep backup --help (--keep, "
    "--rate, "
    "--json)\n"
    "  --restore DIR         put a backup into --dir and end: see lockstep restore --help (--replace, --json)\n"
    "  --rights              print who may ask what of the API, as Markdown, and end\n"
    "\n"
    "DIR is a new or an empty directory, or one that a controller made; others may not be able to exchange it. Run by\n"
    "root, or with --serve-everyone, the controller serves every user of this machine, else its own user only. Root "
    "and\n"
    "the user it runs as are administrators.\n"
    "What it listens on is written to DIR/controller.json. SIGTERM ends it; nothing that was acknowledged is lost,\n"
    "however it ends. Jobs go on running meanwhile.\n";

namespace {

struct Switch {
  std::string_view name;
  bool DaemonOptions::*is_set;
  bool is_all = false;  // nothing else is looked at
};
constexpr Switch kSwitches[] = {
    {"--help", &DaemonOptions::help, true},
    {"-h", &DaemonOptions::help, true},
    {"--version", &DaemonOptions::version, true},
    {"--rights", &DaemonOptions::rights, true},
    {"--kill-invalid-depend", &DaemonOptions::kill_invalid_dependency},
    {"--defragment", &DaemonOptions::defragment},
    {"--replace", &DaemonOptions::replace},
    {"--json", &DaemonOptions::json},
    {"--serve-everyone", &DaemonOptions::serve_everyone},
};

Result<void> take_cluster_name(DaemonOptions& out, std::string_view name, const std::string& value) {
  if (value.empty() || value.size() > kNameMax ||
      std::any_of(value.begin(), value.end(), [](unsigned char c) { return c < 32 || c == 127; }))
    return invalid(format("{}: write 1 to {} bytes without control characters", name, kNameMax));
  out.cluster_name = value;
  return {};
}

Result<void> take_listen(DaemonOptions& out, std::string_view name, const std::string& value) {
  const auto colon = value.rfind(':');
  const auto port = colon == std::string::npos ? std::nullopt : parse_uint(std::string_view(value).substr(colon + 1));
  if (!port || *port > 65535 || colon == 0)
    return invalid(format("{} {}: ADDR:PORT is meant", name, value));
  out.address = value.substr(0, colon);
  if (out.address.size() > 2 && out.address.front() == '[' && out.address.back() == ']')  // [fd00::1]:6820
    out.address = out.address.substr(1, out.address.size() - 2);
  out.port = static_cast<std::uint16_t>(*port);
  return {};
}

constexpr std::uint64_t kSecondsMost = 1'000'000'000;

template <Duration DaemonOptions::*kSpan, std::uint64_t kLeast = 0>
Result<void> take_span(DaemonOptions& out, std::string_view name, const std::string& value) {
  const auto count = parse_uint(value);
  if (!count || *count > kSecondsMost || *count < kLeast)
    return invalid(format("{} {}: a number of seconds is meant", name, value));
  out.*kSpan = seconds(static_cast<std::int64_t>(*count));
  return {};
}

template <std::string DaemonOptions::*kText>
Result<void> take_text(DaemonOptions& out, std::string_view, const std::string& value) {
  out.*kText = value;
  return {};
}

template <auto kNumber, std::uint64_t kMost>
Result<void> take_count(DaemonOptions& out, std::string_view name, const std::string& value) {
  const auto count = parse_uint(value);
  if (!count || *count == 0 || *count > kMost)
    return invalid(format("{} {}: a number from 1 to {} is meant", name, value, kMost));
  out.*kNumber = static_cast<std::remove_reference_t<decltype(out.*kNumber)>>(*count);
  return {};
}

struct Option {
  std::string_view name;
  Result<void> (*take)(DaemonOptions& out, std::string_view name, const std::string& value);
};
constexpr Option kOptions[] = {
    {"--dir", take_text<&DaemonOptions::dir>},
    {"--socket", take_text<&DaemonOptions::socket>},
    {"--listen", take_listen},
    {"--cluster-name", take_cluster_name},
    {"--fence-command", take_text<&DaemonOptions::fence_command>},
    {"--fence-silence", take_span<&DaemonOptions::fence_silence>},
    {"--unkillable-after", take_span<&DaemonOptions::unkillable_after, 1>},
    {"--move-after", take_span<&DaemonOptions::move_after>},
    {"--namespace-objects", take_count<&DaemonOptions::namespace_objects, 1'000'000>},
    {"--namespace-mib", take_count<&DaemonOptions::namespace_mib, 8192>},
    {"--backup", take_text<&DaemonOptions::backup>},
    {"--restore", take_text<&DaemonOptions::restore>},
    {"--settings", take_text<&DaemonOptions::settings>},
    {"--keep", take_count<&DaemonOptions::keep, 10'000>},
    {"--rate", take_count<&DaemonOptions::rate_mib, 100'000>},
};

template <class Row, std::size_t kRows>
const Row* row_of(const Row (&rows)[kRows], std::string_view name) {
  const auto row = std::find_if(std::begin(rows), std::end(rows), [name](const Row& r) { return r.name == name; });
  return row == std::end(rows) ? nullptr : row;
}

// Where nothing is said.
void fill_in(DaemonOptions& out) {
  out.dir = absolute_path(out.dir);
  CHECK(out.dir.starts_with('/'), out.dir);
  for (std::string* path : {&out.backup, &out.restore})
    if (!path->empty())
      *path = absolute_path(*path);
  if (out.socket.empty())
    out.socket = out.dir + "/public/api.sock";
}

}  // namespace

Result<DaemonOptions> parse_options(int argc, char** argv) {
  DaemonOptions out;
  for (int i = 1; i < argc; ++i) {
    std::string name = argv[i], value;
    if (const Switch* row = row_of(kSwitches, name)) {
      out.*row->is_set = true;
      if (row->is_all)
        return out;
      continue;
    }
    if (const auto equals = name.find('='); equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    } else if (i + 1 < argc) {
      value = argv[++i];
    } else {
      return invalid(format("{} needs a value", name));
    }
    const Option* row = row_of(kOptions, name);
    if (!row)
      return invalid(format("unknown option {}; see lockstepd --help", name));
    TRY(row->take(out, row->name, value));
  }
  if (out.dir.empty())
    return invalid("--dir is missing: where the cluster's state lives");
  fill_in(out);
  return out;
}

}  // namespace lockstep
