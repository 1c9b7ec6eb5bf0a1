// OpenAPI documents of what the API serves: kubectl explain, apply and clients' validation read them.
//
// Version 2 is one document of everything, as JSON and as protobuf (gnostic's openapi.v2.Document, which older kubectl
// asks for alone); version 3 has an index and a document for each group and version. Made from resources' schemas,
// built-in and custom alike. Answers should name the media types below: clients refuse an answer whose type has an "@".
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/kube/machinery/discovery.h"

namespace lockstep::kube {

inline constexpr std::string_view kOpenApiProtobufType = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

json::object openapi_v2(Resources resources, std::string_view server_version);
std::string openapi_v2_protobuf(const json::object& document);  // of such a document

// "api/v1", "apis/apps/v1": the path of a group's and version's document below /openapi/v3.
std::string openapi_v3_path(std::string_view group, std::string_view version);
json::object openapi_v3(Resources resources, std::string_view group, std::string_view version,
                        std::string_view server_version);

struct OpenApiPart {
  std::string path;  // openapi_v3_path
  std::string hash;  // document_hash of its text; answers name it as their ETag
};
json::object openapi_v3_index(const std::vector<OpenApiPart>& parts);
std::string document_hash(std::string_view text);  // 32 hexadecimal digits; no protection against anybody

// The name that a custom resource's schema has in documents: "com.example.v1.Widget".
std::string custom_schema_name(std::string_view group, std::string_view version, std::string_view kind);

}  // namespace lockstep::kube
