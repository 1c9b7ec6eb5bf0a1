// libFuzzer entry: any text as the body of a built-in object, through everything that a write does with it.
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "frontends/kube/machinery/builtin.h"
#include "frontends/kube/machinery/defaulting.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/names.h"
#include "frontends/kube/machinery/protobuf.h"
#include "frontends/kube/machinery/pruning.h"
#include "frontends/kube/machinery/typed.h"
#include "frontends/kube/machinery/validation.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  using namespace lockstep::kube;
  if (size == 0)
    return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  (void)duplicate_fields(text);
  json::parse_options options;
  options.max_depth = kDepthMax;
  json::error_code error;
  json::value value = json::parse(text, error, {}, options);
  if (error || !value.is_object())
    return 0;
  json::object& object = value.get_object();
  const Resource& resource = builtin_resources()[data[0] % builtin_resources().size()];
  (void)prune(object, *resource.schema);
  if (const json::object* metadata = member_object(value, "metadata")) {
    (void)validate_metadata(*metadata, {resource.namespaced, name_rule(resource.group, resource.plural)});
    (void)validate_metadata_update(*metadata, *metadata);
  }
  if (!settle(object, *resource.schema).ok())
    return 0;
  fill_defaults(object, *resource.schema, {});
  (void)joined_text(validate_fields(object, *resource.schema));
  // What has its defaults is as it will stay.
  json::object again = object;
  CHECK(prune(again, *resource.schema).empty());
  CHECK(settle(again, *resource.schema).ok());
  fill_defaults(again, *resource.schema, {});
  CHECK(json::serialize(again) == json::serialize(object));
  if (const auto bytes = encode_message(object, *resource.schema); bytes.ok())
    CHECK(decode_message(*bytes, *resource.schema).ok());
  return 0;
}
