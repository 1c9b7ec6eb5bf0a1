// libFuzzer entry over what clients write: the first byte chooses selectors, quantities, paths, times, or patches, a
// field set or a schema with the object they are for, divided by a line of "%%". Whatever the bytes are, they are
// refused with words, or give what reads back as the same.
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "frontends/kube/machinery/custom_validation.h"
#include "frontends/kube/machinery/json_patch.h"
#include "frontends/kube/machinery/json_path.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/managed_fields.h"
#include "frontends/kube/machinery/merge_patch.h"
#include "frontends/kube/machinery/quantity.h"
#include "frontends/kube/machinery/schema_reader.h"
#include "frontends/kube/machinery/selectors.h"
#include "frontends/kube/machinery/strategic_patch.h"
#include "frontends/kube/machinery/structural.h"
#include "frontends/kube/machinery/timestamps.h"

namespace {

using namespace lockstep::kube;

void texts(char which, std::string_view text) {
  if (which == 'l') {
    const auto selector = parse_label_selector(text);
    if (selector.ok()) {
      const auto again = parse_label_selector(selector->text());
      CHECK(again.ok() && again->requirements == selector->requirements);
    }
  } else if (which == 'f') {
    const auto selector = parse_field_selector(text);
    CHECK(!selector.ok() || parse_field_selector(selector->text()).ok());
  } else if (which == 'q') {
    const auto quantity = parse_quantity(text);
    CHECK(!quantity.ok() || *parse_quantity(quantity->text()) == *quantity);
  } else if (which == 't') {
    const auto time = parse_timestamp(text);
    if (time && *time >= *parse_timestamp("0001-01-01T00:00:00Z") && *time <= *parse_timestamp("9999-12-31T23:59:59Z"))
      CHECK(parse_timestamp(micro_timestamp_text(*time)) == time);
  }
}

void documents(char which, const json::value& a, const json::value& b, std::string_view raw) {
  constexpr std::string_view kSchema =
      R"({"type":"object","properties":{"a":{"type":"array","x-kubernetes-list-type":"map",
    "x-kubernetes-list-map-keys":["k"],"x-kubernetes-patch-strategy":"merge","x-kubernetes-patch-merge-key":"k","items":{"type":"object",
    "properties":{"k":{"type":"string"},"v":{"type":"integer"}}}},"s":{"type":"array","x-kubernetes-list-type":"set",
    "x-kubernetes-patch-strategy":"merge","items":{"type":"string"}},"m":{"type":"object","additionalProperties":{"type":"string"}},
    "any":{"x-kubernetes-preserve-unknown-fields":true}}})";
  static SchemaSet set;
  static const Schema* const schema = *read_root_schema({set}, json::parse(kSchema));
  if (which == 'j') {
    (void)apply_json_patch(a, b);
  } else if (which == 'm') {
    (void)apply_merge_patch(a, b);
    CHECK(same_json(apply_merge_patch(a, make_merge_patch(a, a)), a) || !a.is_object());
  } else if (which == 's') {
    (void)apply_strategic_patch(a, b, *schema);
  } else if (which == 'p') {
    const auto path = parse_json_path(raw);
    if (path.ok())
      (void)path->find(a);
  } else if (which == 'w') {
    const auto set_of = read_fields_v1(b);
    if (set_of.ok())
      CHECK(*read_fields_v1(fields_v1(*set_of)) == *set_of);
  } else if (which == 'd') {
    (void)structural_faults(b, "schema");
    SchemaSet own;
    const auto definition = read_root_schema({own}, b);
    if (definition.ok()) {
      Patterns patterns;
      add_patterns(**definition, patterns);
      (void)validate_custom(a, **definition, patterns);
    }
  } else if (which == 'a') {
    const FieldManager manager{"fuzz", "v1", "", lockstep::WallTime{1'000'000}, nullptr};
    json::value changed = b;
    track_update(a, changed, *schema, manager);
    const auto applied = apply_configuration(a, b, *schema, manager, Force::kYes);
    if (applied.ok())  // what is applied twice is there already
      CHECK(apply_configuration(*applied, b, *schema, manager, Force::kNo).ok());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0)
    return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const char which = static_cast<char>(data[0]);
  texts(which, text);
  const std::size_t end = text.find("\n%%\n");
  if (end == text.npos)
    return 0;
  json::parse_options options;
  options.max_depth = kDepthMax;
  json::error_code error, error_behind;
  const json::value a = json::parse(text.substr(0, end), error, {}, options);
  const json::value b = json::parse(text.substr(end + 4), error_behind, {}, options);
  if (!error && (!error_behind || which == 'p'))
    documents(which, a, error_behind ? json::value() : b, text.substr(end + 4));
  return 0;
}
