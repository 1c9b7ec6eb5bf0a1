#include "apps/lockstepd/options.h"

#include <algorithm>

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
    "  --rights              print who may ask what of the API, as Markdown, and end\n"
    "\n"
    "DIR is a new or an empty directory, or one that a controller made; others may not be able to exchange it. Run by\n"
    "root the controller serves every user of this machine, else its own user only.\n"
    "What it listens on is written to DIR/controller.json. SIGTERM ends it; nothing that was acknowledged is lost,\n"
    "however it ends. Jobs go on running meanwhile.\n";

namespace {

Duration* span_of(DaemonOptions& out, std::string_view name) {
  return name == "--fence-silence"      ? &out.fence_silence
         : name == "--unkillable-after" ? &out.unkillable_after
         : name == "--move-after"       ? &out.move_after
                                        : nullptr;
}

}  // namespace

Result<DaemonOptions> parse_options(int argc, char** argv) {
  DaemonOptions out;
  for (int i = 1; i < argc; ++i) {
    std::string name = argv[i], value;
    const auto equals = name.find('=');
    if (name == "--help" || name == "-h") {
      out.help = true;
      return out;
    }
    if (name == "--rights") {
      out.rights = true;
      return out;
    }
    if (name == "--kill-invalid-depend") {
      out.kill_invalid_dependency = true;
      continue;
    }
    if (name == "--defragment") {
      out.defragment = true;
      continue;
    }
    if (equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    } else if (i + 1 < argc) {
      value = argv[++i];
    } else {
      return invalid(format("{} needs a value", name));
    }
    if (name == "--dir") {
      out.dir = value;
    } else if (name == "--socket") {
      out.socket = value;
    } else if (name == "--cluster-name") {
      if (value.empty() || value.size() > kNameMax ||
          std::any_of(value.begin(), value.end(), [](unsigned char c) { return c < 32 || c == 127; }))
        return invalid(format("--cluster-name: write 1 to {} bytes without control characters", kNameMax));
      out.cluster_name = value;
    } else if (name == "--fence-command") {
      out.fence_command = value;
    } else if (Duration* span = span_of(out, name)) {
      const auto count = parse_uint(value);
      if (!count || *count > 1'000'000'000 || (*count == 0 && span == &out.unkillable_after))
        return invalid(format("{} {}: a number of seconds is meant", name, value));
      *span = seconds(static_cast<std::int64_t>(*count));
    } else if (name == "--listen") {
      const auto colon = value.rfind(':');
      const auto port =
          colon == std::string::npos ? std::nullopt : parse_uint(std::string_view(value).substr(colon + 1));
      if (!port || *port > 65535 || colon == 0)
        return invalid(format("--listen {}: ADDR:PORT is meant", value));
      out.address = value.substr(0, colon);
      out.port = static_cast<std::uint16_t>(*port);
    } else {
      return invalid(format("unknown option {}; see lockstepd --help", name));
    }
  }
  if (out.dir.empty())
    return invalid("--dir is missing: where the cluster's state lives");
  out.dir = absolute_path(out.dir);
  if (out.socket.empty())
    out.socket = out.dir + "/public/api.sock";
  return out;
}

}  // namespace lockstep
