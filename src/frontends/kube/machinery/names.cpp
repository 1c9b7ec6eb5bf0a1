#include "frontends/kube/machinery/names.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <set>

#include "base/text.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/quoted.h"

namespace lockstep::kube {
namespace {

constexpr std::size_t kLabelMax = 63, kSubdomainMax = 253, kPortNameMax = 15;

constexpr std::string_view kLabelFormat = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
constexpr std::string_view kSubdomainFormat = R"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)";
constexpr std::string_view kSearchFormat = R"(_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*)";
constexpr std::string_view kQualifiedFormat = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
constexpr std::string_view kQualifiedMessage =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

std::string too_long(std::size_t max) { return format("must be no more than {} characters", max); }

// "MESSAGE (e.g. 'a',  or 'b', regex used for validation is 'FORMAT')": two blanks before "or", as the original has it.
std::string format_fault(std::string_view message, std::string_view pattern,
                         std::initializer_list<std::string_view> examples) {
  std::string out(message);
  out += " (e.g. ";
  bool first = true;
  for (const std::string_view example : examples) {
    out += first ? "'" : " or '";
    out.append(example) += "', ";
    first = false;
  }
  return out.append("regex used for validation is '").append(pattern) + "')";
}

bool is_lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool is_alphanumeric(char c) { return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z'); }

bool is_dns_label(std::string_view text) {
  return !text.empty() && is_lower_or_digit(text.front()) && is_lower_or_digit(text.back()) &&
         std::ranges::all_of(text, [](char c) { return is_lower_or_digit(c) || c == '-'; });
}

bool is_subdomain(std::string_view text) {
  while (true) {
    const std::size_t dot = text.find('.');
    if (!is_dns_label(text.substr(0, dot)))
      return false;
    if (dot == std::string_view::npos)
      return true;
    text.remove_prefix(dot + 1);
  }
}

bool is_search_label(std::string_view text) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  if (text.starts_with('_'))
    text.remove_prefix(1);
  return !text.empty() && plain(text.front()) && plain(text.back()) &&
         std::ranges::all_of(text, [&](char c) { return plain(c) || c == '-' || c == '_'; });
}

bool is_qualified_part(std::string_view text) {
  return !text.empty() && is_alphanumeric(text.front()) && is_alphanumeric(text.back()) &&
         std::ranges::all_of(text, [](char c) { return is_alphanumeric(c) || c == '-' || c == '_' || c == '.'; });
}

std::vector<std::string> faults_by(NameRule rule, std::string_view name) {
  switch (rule) {
    case NameRule::kDnsLabel: return dns_label_faults(name);
    case NameRule::kDns1035: return dns_1035_faults(name);
    case NameRule::kPathSegment: return path_segment_faults(name);
    case NameRule::kDnsSubdomain: break;
  }
  return dns_subdomain_faults(name);
}

std::string text_member(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value ? std::string(text_of(*value)) : std::string();
}

void add_faults(FieldErrors& out, const std::string& path, std::string_view value,
                const std::vector<std::string>& faults) {
  for (const std::string& fault : faults) out.push_back(field_invalid(path, json::value(value), fault));
}

void check_labels(const json::object& labels, const std::string& path, FieldErrors& out) {
  for (const auto& entry : labels) {
    add_faults(out, path, entry.key(), qualified_name_faults(entry.key()));
    const std::string_view value = text_of(entry.value());
    add_faults(out, path, value, label_value_faults(value));
  }
}

void check_annotations(const json::object& annotations, const std::string& path, FieldErrors& out) {
  std::size_t bytes = 0;
  for (const auto& entry : annotations) {
    add_faults(out, path, entry.key(), qualified_name_faults(lower(entry.key())));
    bytes += entry.key().size() + text_of(entry.value()).size();
  }
  if (bytes > kAnnotationsBytesMax)
    out.push_back(field_too_long(path, kAnnotationsBytesMax));
}

void check_owners(const json::array& owners, const std::string& path, FieldErrors& out) {
  std::string controller;
  for (const json::value& owner : owners) {
    if (!owner.is_object())
      continue;
    const json::object& reference = owner.get_object();
    const std::string api_version = text_member(reference, "apiVersion"), kind = text_member(reference, "kind");
    if (api_version.empty() || api_version.back() == '/')
      out.push_back(field_invalid(path + ".apiVersion", json::value(api_version), "version must not be empty"));
    for (const char* key : {"kind", "name", "uid"})
      if (text_member(reference, key).empty())
        out.push_back(field_invalid(path + "." + key, "", "must not be empty"));
    if (api_version == "v1" && kind == "Event")
      out.push_back(field_invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner"));
    const json::value* controls = reference.if_contains("controller");
    if (!controls || !controls->is_bool() || !controls->get_bool())
      continue;
    const std::string name = kind + "/" + text_member(reference, "name");
    if (!controller.empty())
      out.push_back(field_invalid(
          path, owners,
          format("Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
                 controller, name)));
    else
      controller = name;
  }
}

// Kubernetes' own have no domain.
void check_owned_finalizers(const json::array& finalizers, const std::string& path, FieldErrors& out) {
  static constexpr std::string_view kOwn[] = {"kubernetes", "orphan", "foregroundDeletion"};
  for (std::size_t i = 0; i < finalizers.size(); ++i) {
    const std::string_view name = text_of(finalizers[i]);
    if (name.find('/') == name.npos && std::ranges::find(kOwn, name) == std::end(kOwn))
      out.push_back(field_invalid(format("{}[{}]", path, i), finalizers[i],
                                  "name is neither a standard finalizer name nor is it fully qualified"));
  }
}

void check_finalizers(const json::array& finalizers, const std::string& path, FieldErrors& out) {
  bool orphan = false, foreground = false;
  for (const json::value& finalizer : finalizers) {
    const std::string_view name = text_of(finalizer);
    add_faults(out, path, name, qualified_name_faults(name));
    orphan = orphan || name == "orphan";
    foreground = foreground || name == "foregroundDeletion";
  }
  if (orphan && foreground)
    out.push_back(field_invalid(path, finalizers, "finalizer orphan and foregroundDeletion cannot be both set"));
}

void check_parts(const json::object& metadata, const std::string& path, bool finalizers, FieldErrors& out) {
  const json::value whole(metadata);
  if (const json::object* labels = member_object(whole, "labels"))
    check_labels(*labels, path + ".labels", out);
  if (const json::object* annotations = member_object(whole, "annotations"))
    check_annotations(*annotations, path + ".annotations", out);
  if (const json::array* owners = member_array(whole, "ownerReferences"))
    check_owners(*owners, path + ".ownerReferences", out);
  if (const json::array* list = member_array(whole, "finalizers"); list && finalizers)
    check_finalizers(*list, path + ".finalizers", out);
}

}  // namespace

std::vector<std::string> dns_label_faults(std::string_view name) {
  std::vector<std::string> out;
  if (name.size() > kLabelMax)
    out.push_back(too_long(kLabelMax));
  if (is_dns_label(name))
    return out;
  out.push_back(
      is_subdomain(name)
          ? "must not contain dots"
          : format_fault(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
                "and end with an alphanumeric character",
                kLabelFormat, {"my-name", "123-abc"}));
  return out;
}

std::vector<std::string> dns_1035_faults(std::string_view name) {
  std::vector<std::string> out;
  if (name.size() > kLabelMax)
    out.push_back(too_long(kLabelMax));
  if (!is_dns_label(name) || (name[0] >= '0' && name[0] <= '9'))
    out.push_back(format_fault(
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
        "character, and end with an alphanumeric character",
        "[a-z]([-a-z0-9]*[a-z0-9])?", {"my-name", "abc-123"}));
  return out;
}

std::vector<std::string> search_path_faults(std::string_view name) {
  std::vector<std::string> out;
  if (name.size() > kSubdomainMax)
    out.push_back(too_long(kSubdomainMax));
  if (name.empty() || name.ends_with('.') || !std::ranges::all_of(split(name, '.'), is_search_label))
    out.push_back(format_fault(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must "
        "start and end with an alphanumeric character",
        kSearchFormat, {"example.com"}));
  return out;
}

std::vector<std::string> dns_subdomain_faults(std::string_view name) {
  std::vector<std::string> out;
  if (name.size() > kSubdomainMax)
    out.push_back(too_long(kSubdomainMax));
  if (!is_subdomain(name))
    out.push_back(format_fault(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
        "start and end with an alphanumeric character",
        kSubdomainFormat, {"example.com"}));
  return out;
}

std::vector<std::string> path_segment_faults(std::string_view name) {
  std::vector<std::string> out;
  if (name == "." || name == "..")
    return {format("may not be '{}'", name)};
  for (const char* part : {"/", "%"})
    if (name.find(part) != std::string_view::npos)
      out.push_back(format("may not contain '{}'", part));
  return out;
}

std::vector<std::string> qualified_name_faults(std::string_view name) {
  std::vector<std::string> out;
  const std::size_t slash = name.find('/');
  if (slash != std::string_view::npos && name.find('/', slash + 1) != std::string_view::npos)
    return {"a qualified name " + format_fault(kQualifiedMessage, kQualifiedFormat, {"MyName", "my.name", "123-abc"}) +
            " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"};
  if (slash != std::string_view::npos) {
    const std::string_view prefix = name.substr(0, slash);
    if (prefix.empty())
      out.push_back("prefix part must be non-empty");
    else
      for (const std::string& fault : dns_subdomain_faults(prefix)) out.push_back("prefix part " + fault);
    name.remove_prefix(slash + 1);
  }
  if (name.empty())
    out.push_back("name part must be non-empty");
  else if (name.size() > kLabelMax)
    out.push_back("name part " + too_long(kLabelMax));
  if (!is_qualified_part(name))
    out.push_back("name part " + format_fault(kQualifiedMessage, kQualifiedFormat, {"MyName", "my.name", "123-abc"}));
  return out;
}

std::vector<std::string> label_value_faults(std::string_view value) {
  std::vector<std::string> out;
  if (value.size() > kLabelMax)
    out.push_back(too_long(kLabelMax));
  if (!value.empty() && !is_qualified_part(value))
    out.push_back(format_fault(
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
        "start and end with an alphanumeric character",
        "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", {"MyValue", "my_value", "12345"}));
  return out;
}

std::vector<std::string> port_name_faults(std::string_view name) {
  std::vector<std::string> out;
  if (name.size() > kPortNameMax)
    out.push_back(too_long(kPortNameMax));
  if (name.empty() || !std::ranges::all_of(name, [](char c) { return is_lower_or_digit(c) || c == '-'; }))
    out.push_back("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
  if (!std::ranges::any_of(name, [](char c) { return c >= 'a' && c <= 'z'; }))
    out.push_back("must contain at least one letter (a-z)");
  if (name.find("--") != std::string_view::npos)
    out.push_back("must not contain consecutive hyphens");
  if (!name.empty() && (name.front() == '-' || name.back() == '-'))
    out.push_back("must not begin or end with a hyphen");
  return out;
}

NameRule name_rule(std::string_view group, std::string_view plural) {
  if (group.empty() && plural == "namespaces")
    return NameRule::kDnsLabel;
  if (group.empty() && plural == "services")
    return NameRule::kDns1035;
  if (group == "networking.k8s.io" && plural == "ipaddresses")
    return NameRule::kPathSegment;  // the address itself
  return group == "rbac.authorization.k8s.io" ? NameRule::kPathSegment : NameRule::kDnsSubdomain;
}

FieldErrors validate_metadata(const json::object& metadata, const MetadataRules& rules) {
  FieldErrors out;
  if (std::string prefix = text_member(metadata, "generateName"); !prefix.empty()) {
    // A prefix may end in a hyphen: what is made of it does not.
    std::string tried = prefix;
    if (tried.back() == '-' && rules.names != NameRule::kPathSegment)
      tried.back() = 'a';
    add_faults(out, rules.path + ".generateName", prefix, faults_by(rules.names, tried));
  }
  const std::string name = text_member(metadata, "name"), space = text_member(metadata, "namespace");
  if (name.empty())
    out.push_back(field_required(rules.path + ".name", "name or generateName is required"));
  else
    add_faults(out, rules.path + ".name", name, faults_by(rules.names, name));
  if (!rules.namespaced && !space.empty())
    out.push_back(field_forbidden(rules.path + ".namespace", "not allowed on this type"));
  else if (rules.namespaced && space.empty())
    out.push_back(field_required(rules.path + ".namespace"));
  else if (rules.namespaced)
    add_faults(out, rules.path + ".namespace", space, dns_label_faults(space));
  if (const json::value* generation = metadata.if_contains("generation");
      generation && generation->is_int64() && generation->get_int64() < 0)
    out.push_back(field_invalid(rules.path + ".generation", *generation, "must be greater than or equal to 0"));
  check_parts(metadata, rules.path, true, out);
  if (const json::value* list = metadata.if_contains("finalizers"); list && list->is_array() && rules.built_in)
    check_owned_finalizers(list->get_array(), rules.path + ".finalizers", out);
  return out;
}

FieldErrors validate_metadata_update(const json::object& after, const json::object& before, const std::string& path) {
  FieldErrors out;
  const json::value none;
  const auto at = [&](const json::object& object, std::string_view key) -> const json::value& {
    const json::value* value = object.if_contains(key);
    return value ? *value : none;
  };
  if (!at(before, "deletionTimestamp").is_null()) {
    std::set<std::string, std::less<>> added;
    const json::value was(before), is(after);
    if (const json::array* list = member_array(is, "finalizers"))
      for (const json::value& finalizer : *list) added.emplace(text_of(finalizer));
    if (const json::array* list = member_array(was, "finalizers"))
      for (const json::value& finalizer : *list)
        if (const auto known = added.find(text_of(finalizer)); known != added.end())
          added.erase(known);
    std::string names;
    for (const std::string& name : added) names += (names.empty() ? "" : ", ") + quoted(name);
    if (!added.empty())
      out.push_back(field_forbidden(
          path + ".finalizers",
          "no new finalizers can be added if the object is being deleted, found new finalizers []string{" + names +
              "}"));
  }
  if (text_member(after, "resourceVersion").empty())
    out.push_back(field_invalid(path + ".resourceVersion", "", "must be specified for an update"));
  if (number_of(at(after, "generation")) < number_of(at(before, "generation")))
    out.push_back(field_invalid(path + ".generation", at(after, "generation"), "must not be decremented"));
  for (const char* key :
       {"name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"})
    if (!same_json(at(after, key), at(before, key)))
      out.push_back(field_invalid(path + "." + key, at(after, key), "field is immutable"));
  check_parts(after, path, false, out);
  return out;
}

}  // namespace lockstep::kube
