// In which form a client wants its answers: its Accept header.
#pragma once

#include <string>

#include "frontends/kube/machinery/status.h"
#include "ports/http.h"

namespace lockstep::kube {

inline constexpr std::string_view kJsonType = "application/json";
inline constexpr std::string_view kYamlType = "application/yaml";
inline constexpr std::string_view kProtobufType = "application/vnd.kubernetes.protobuf";

// What a client wants to have: of the forms in its Accept header that are served the one of the greatest weight, of
// those the first.
struct Accepted {
  enum class Form : unsigned char { kWhole, kMetadata, kTable } form = Form::kWhole;
  std::string version = "v1";  // of Table and PartialObjectMetadata
  bool protobuf = false;       // whole objects, Statuses and lists as protobuf; else as JSON
  bool yaml = false;           // likewise as YAML
  bool pretty = false;         // JSON indented
};

// What is asked for: watches are not told as YAML; objects of custom resources have no protobuf form.
struct Served {
  bool protobuf = false;
  bool watch = false;
};
Answered<Accepted> accepted_by(const HttpRequest& http, const Served& served);
// Of a Status: always whole, and indented JSON for who accepts nothing that it could be.
Accepted accepted_of_status(const HttpRequest& http);

}  // namespace lockstep::kube
