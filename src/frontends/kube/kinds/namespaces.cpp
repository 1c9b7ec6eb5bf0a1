// Namespaces carry their own name as a label, and a finalizer until everything inside is gone
// (controllers/namespaces.cpp). It is shown in spec.finalizers and kept among the envelope's, where the core sees it.
#include <algorithm>
#include <boost/json/array.hpp>

#include "base/text.h"
#include "frontends/kube/kinds/families.h"
#include "frontends/kube/kinds/place.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

namespace {

constexpr const char* kFinalizer = "kubernetes";
constexpr std::string_view kLevelLabel = "pod-security.kubernetes.io/";
constexpr const char* kNameLabel = "kubernetes.io/metadata.name";

bool names_finalizer(const json::value& tree) {
  const json::value* spec = tree.get_object().if_contains("spec");
  const json::array* finalizers = spec ? member_array(*spec, "finalizers") : nullptr;
  return finalizers &&
         std::ranges::any_of(*finalizers, [](const json::value& one) { return text_of(one) == kFinalizer; });
}

void keep_envelope(json::object& tree) {
  json::object& metadata = object_at(tree, "metadata");
  object_at(metadata, "labels")[kNameLabel] = text_of(metadata["name"]);
  json::value& finalizers = metadata["finalizers"];
  json::array kept;
  if (finalizers.is_array())
    for (const json::value& one : finalizers.get_array())
      if (text_of(one) != kFinalizer)
        kept.push_back(one);
  if (names_finalizer(tree))
    kept.emplace_back(kFinalizer);
  finalizers = std::move(kept);
}

class NamespaceRules final : public KindRules {
 public:
  void prepare_create(json::object& tree) const override {
    json::value& finalizers = object_at(tree, "spec")["finalizers"];
    if (!finalizers.is_array())
      finalizers.emplace_array();
    if (!names_finalizer(tree))
      finalizers.get_array().emplace_back(kFinalizer);
    tree["status"] = {{"phase", "Active"}};
    keep_envelope(tree);
  }

  void prepare_update(json::object& tree, const json::object& old, std::string_view subresource) const override {
    const json::value* spec = old.if_contains("spec");
    if (subresource != "finalize")
      tree["spec"] = spec ? *spec : json::value(json::object());
    keep_envelope(tree);
  }

  void validate(const json::object& tree, const json::object* old, FieldErrors& out) const override {
    const Place labels(part(part(tree, "metadata"), "labels"), "metadata.labels", out);
    for (const auto& [key, label] : labels.map())
      if (key.starts_with(kLevelLabel) &&
          !(old && same_json(label.value(), part(part(part(*old, "metadata"), "labels"), key))))
        check_level(label, key.ends_with("-version"));
  }

 private:
  // Source: k8s.io/pod-security-admission api (ParseLevel, ParseVersion).
  static void check_level(const Place& label, bool is_version) {
    const std::string text = label.text();
    if (!is_version) {
      if (text != "privileged" && text != "baseline" && text != "restricted")
        label.invalid("must be one of privileged, baseline, restricted");
    } else if (text != "latest" && !(text.starts_with("v1.") && parse_uint(text.substr(3)))) {
      label.invalid("must be \"latest\" or \"v1.x\"");
    }
  }
};

}  // namespace

const KindRules& namespace_rules() {
  static const NamespaceRules rules;
  return rules;
}

}  // namespace lockstep::kube
