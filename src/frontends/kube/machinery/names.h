// What names, labels and annotations may look like, with the messages of the real server.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/kube/machinery/field_error.h"

namespace lockstep::kube {

// What is wrong; empty: nothing.
std::vector<std::string> dns_label_faults(std::string_view name);      // RFC 1123: "web-1"
std::vector<std::string> dns_1035_faults(std::string_view name);       // begins with a letter: Services
std::vector<std::string> dns_subdomain_faults(std::string_view name);  // "web.example"
std::vector<std::string> search_path_faults(std::string_view name);    // the same, also with underscores: "_tcp.web_1"
std::vector<std::string> path_segment_faults(std::string_view name);   // any text that is one part of a path: roles
std::vector<std::string> qualified_name_faults(
    std::string_view name);  // "example.com/name": keys of labels and annotations
std::vector<std::string> label_value_faults(std::string_view value);
std::vector<std::string> port_name_faults(std::string_view name);  // "http"

enum class NameRule : unsigned char { kDnsSubdomain, kDnsLabel, kDns1035, kPathSegment };
NameRule name_rule(std::string_view group,
                   std::string_view plural);  // of built-in resources; subdomains for all others

inline constexpr std::size_t kAnnotationsBytesMax = 256u << 10;

struct MetadataRules {
  bool namespaced = false;
  NameRule names = NameRule::kDnsSubdomain;
  std::string path = "metadata";
  bool built_in = false;  // a finalizer is Kubernetes' own, or says whose it is
};
// `metadata` of an object that is to be made, its name settled (generateName done).
FieldErrors validate_metadata(const json::object& metadata, const MetadataRules& rules);
// What may not change, and what of `after` is wrong in itself.
FieldErrors validate_metadata_update(const json::object& after, const json::object& before,
                                     const std::string& path = "metadata");

}  // namespace lockstep::kube
