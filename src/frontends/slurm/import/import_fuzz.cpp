// libFuzzer entry over a Slurm site's files: slurm.conf, and behind lines of "%%" an included file, gres.conf,
// topology.conf and a dump. Whatever they hold, an import is refused with words, or makes a file that reads back as the
// same.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>

#include "base/check.h"
#include "frontends/slurm/import/importer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  using namespace lockstep::slurm;
  constexpr const char* kNames[] = {"slurm.conf", "nodes.conf", "gres.conf", "topology.conf", "dump"};
  constexpr std::string_view kNext = "\n%%\n";
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::map<std::string, std::string> files;
  for (const char* name : kNames) {
    const std::size_t end = rest.find(kNext);
    files[name] = rest.substr(0, end);
    if (end == std::string_view::npos)
      break;
    rest.remove_prefix(end + kNext.size());
  }
  const ReadFile read = [&](const std::string& path) -> Result<std::string> {
    const auto file = files.find(path);
    return file == files.end() ? Result<std::string>(not_found(path + " is not there")) : file->second;
  };
  const ImportPaths paths{.slurm_conf = "slurm.conf",
                          .gres_conf = "gres.conf",
                          .topology_conf = "topology.conf",
                          .accounts = files.contains("dump") ? "dump" : "",
                          .qos = {}};
  const auto imported = import_slurm(paths, read);
  if (!imported) {
    CHECK(!imported.error().message.empty());
    return 0;
  }
  (void)report_text(imported->report, {});
  (void)report_json(imported->report);
  if (!check_cluster_file(imported->file))
    return 0;
  // Some names stand in values that are taken as they are; what apply would not read is told by the command.
  const std::string once = encode_cluster_file(imported->file);
  const auto again = decode_cluster_file(once);
  CHECK(!again.ok() || encode_cluster_file(*again) == once, once);
  return 0;
}
