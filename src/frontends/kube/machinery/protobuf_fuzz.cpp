// libFuzzer entry: any bytes as a protobuf body, and as the message of a kind. What is read can be written again.
#include <boost/json/object.hpp>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "frontends/kube/machinery/builtin.h"
#include "frontends/kube/machinery/protobuf.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::kube;
  if (size == 0)
    return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  (void)decode_protobuf(bytes, "v1", "Pod");
  const auto& resources = builtin_resources();
  const Schema& schema = *resources[data[0] % resources.size()].schema;
  const auto object = decode_message(bytes, schema);
  if (!object.ok())
    return 0;
  const auto again = encode_message(*object, schema);
  if (again.ok())
    CHECK(decode_message(*again, schema).ok());
  return 0;
}
