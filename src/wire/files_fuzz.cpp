// libFuzzer entry over the files that people write: topology.conf and what-if changes in YAML. What a topology says
// when written out again is the same topology.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "wire/foresight.h"
#include "wire/topology_file.h"
#include "wire/yaml.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  if (size == 0)
    return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
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
  const auto json = json_of_yaml(text);
  if (json.ok())
    (void)decode_changes(json->json);
  return 0;
}
