// Secrets and config maps: written as text or as bytes, and some of them never changed again.
// Source: kubernetes.io/docs/concepts/configuration (Secrets, ConfigMaps).
#include <algorithm>
#include <boost/json/parse.hpp>

#include "base/text.h"
#include "frontends/kube/kinds/families.h"
#include "frontends/kube/kinds/place.h"
#include "frontends/kube/machinery/encodings.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kBytesMax = 1 << 20;  // of all values together
constexpr std::size_t kKeyMax = 253;

// Keys become the names of files.
std::vector<std::string> data_key_faults(std::string_view key) {
  std::vector<std::string> out;
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  };
  if (key.size() > kKeyMax)
    out.push_back(format("must be no more than {} characters", kKeyMax));
  if (key.empty() || !std::ranges::all_of(key, good))
    out.emplace_back(
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME', "
        " or "
        "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')");
  if (key == "." || key == ".." || key.starts_with(".."))
    out.push_back(format("must not {} '{}'", key.size() > 2 ? "start with" : "be", key.size() > 2 ? ".." : key));
  return out;
}

bool is_immutable(const json::object& tree) {
  const json::value* immutable = tree.if_contains("immutable");
  return immutable && immutable->is_bool() && immutable->get_bool();
}

json::value value_at(const json::object& tree, std::string_view name) {
  const json::value* value = tree.if_contains(name);
  return value ? *value : json::value();
}

class DataRules final : public KindRules {
 public:
  void prepare_create(json::object& tree) const override { take_texts(tree); }
  void prepare_update(json::object& tree, const json::object&, std::string_view) const override { take_texts(tree); }

  void validate(const json::object& tree, const json::object* old, FieldErrors& out) const override {
    std::size_t bytes = 0;
    for (const char* part : {"data", "binaryData"})
      if (const json::object* data = member_object(tree, part))
        for (const auto& [key, value] : *data) {
          bytes += key.size() + text_of(value).size();
          for (const std::string& fault : data_key_faults(key))
            out.push_back(field_invalid(format("{}[{}]", part, std::string_view(key)), json::value(key), fault));
        }
    if (bytes > kBytesMax)
      out.push_back(field_too_long("data", kBytesMax));
    if (const json::object* data = member_object(tree, "data"))
      for (const auto& [key, value] : *data)
        if (!part(part(tree, "binaryData"), key).is_null())
          out.push_back(field_invalid(format("data[{}]", std::string_view(key)), json::value(key),
                                      "duplicate of key present in binaryData"));
    check_type(tree, out);
    if (!old)
      return;
    if (is_immutable(*old)) {
      if (!is_immutable(tree))
        out.push_back(field_forbidden("immutable", "field is immutable when `immutable` is set"));
      for (const char* part : {"data", "binaryData"})
        if (!same_json(value_at(tree, part), value_at(*old, part)))
          out.push_back(field_forbidden(part, "field is immutable when `immutable` is set"));
    }
    if (old->contains("type") && !same_json(value_at(tree, "type"), value_at(*old, "type")))
      out.push_back(field_invalid("type", value_at(tree, "type"), "field is immutable"));
  }

 private:
  // What a secret of a known type must hold.
  static void check_type(const json::object& tree, FieldErrors& out) {
    const json::value all(tree);
    const Place secret(all, "", out), data = secret["data"];
    const std::string type = secret["type"].text();
    const auto need = [&](const char* key) {
      if (!data[key].there())
        data.entry(key).required();
    };
    if (type == "kubernetes.io/tls") {
      need("tls.crt");
      need("tls.key");
    } else if (type == "kubernetes.io/ssh-auth") {
      need("ssh-privatekey");
    } else if (type == "kubernetes.io/basic-auth") {
      if (!data["username"].there() && !data["password"].there()) {
        need("username");
        need("password");
      }
    } else if (type == "kubernetes.io/service-account-token") {
      const Place names = secret["metadata"]["annotations"];
      if (names["kubernetes.io/service-account.name"].empty())
        names.entry("kubernetes.io/service-account.name").required();
    } else if (type == "kubernetes.io/dockerconfigjson" || type == "kubernetes.io/dockercfg") {
      const char* key = type == "kubernetes.io/dockercfg" ? ".dockercfg" : ".dockerconfigjson";
      need(key);
      if (const Place login = data[key]; login.there()) {
        const auto bytes = bytes_of_base64(login.text());
        boost::system::error_code fault;
        json::parse(bytes.value_or(""), fault);
        if (fault)
          out.push_back(field_invalid(data.entry(key).path(), json::value("<secret contents redacted>"),
                                      "it is no JSON: " + fault.message()));
      }
    }
  }

  // A secret's stringData is for writing only.
  static void take_texts(json::object& tree) {
    const json::value* texts = tree.if_contains("stringData");
    if (texts && texts->is_object()) {
      json::value& data = tree["data"];
      if (!data.is_object())
        data.emplace_object();
      for (const auto& [key, text] : tree["stringData"].get_object())
        tree["data"].get_object()[key] = base64_text(text_of(text));
    }
    tree.erase("stringData");
  }
};

}  // namespace

const KindRules& data_rules() {
  static const DataRules rules;
  return rules;
}

}  // namespace lockstep::kube
