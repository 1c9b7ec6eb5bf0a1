// libFuzzer entry over the files that people write: topology.conf, what-if changes in YAML, and cluster.yaml. What a
// topology or a cluster's file says when written out again is the same.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "wire/cluster_file.h"
#include "wire/cluster_keep.h"
#include "wire/foresight.h"
#include "wire/topology_file.h"
#include "wire/yaml.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  if (size == 0)
    return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 3 == 0) {
    const auto file = parse_topology("t.conf", text);
    if (!file.ok())
      return 0;
    const std::string once = topology_text(file->topology);
    const auto again = parse_topology("again.conf", once);
    CHECK(again.ok(), again.ok() ? "" : again.error().message);
    CHECK(topology_text(again->topology) == once);
    (void)switches_of(file->topology);
    return 0;
  }
  if (data[0] % 3 == 1) {
    const auto file = decode_cluster_file(text);
    if (!file.ok())
      return 0;
    const std::string once = encode_cluster_file(*file);
    const auto again = once.empty() ? Result<ClusterFile>(ClusterFile{}) : decode_cluster_file(once);
    CHECK(again.ok(), again.ok() ? "" : again.error().message);
    CHECK(encode_cluster_file(*again) == once);
    const auto kept = keep_cluster_file(text, *file);
    CHECK(!kept.ok() || kept->text == text, "a file that says what is so is changed");
    return 0;
  }
  const auto json = json_of_yaml(text);
  if (json.ok())
    (void)decode_changes(json->json);
  return 0;
}
