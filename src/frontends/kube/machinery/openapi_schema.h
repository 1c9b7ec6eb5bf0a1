// Internal to openapi*.cpp: schemas as OpenAPI writes them.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/kube/machinery/discovery.h"

namespace lockstep::kube {

enum class OpenApiVersion : unsigned char { kV2, kV3 };

// The definitions that a document has, each written when it is first referred to.
class Definitions {
 public:
  explicit Definitions(OpenApiVersion version) : version_(version) {}

  json::object reference(std::string_view name) const;  // {"$ref":…}
  json::object with(json::object schema, json::object more) const;
  // References, with what it takes for them to lead somewhere.
  json::object object_of(const Resource& resource);
  json::object list_of(const Resource& resource);
  json::object kind_of(const Schema& schema, std::string_view group, std::string_view version, std::string_view kind);

  json::object take();  // ascending by name

 private:
  struct Kind {
    std::string group, version, kind;
  };

  json::object schema(const Schema& schema);  // where it is used
  // Where it is defined. `said`: of the field that it is of, instead of what the schema says; "" = nothing.
  json::object content(const Schema& schema, std::string_view said = {});
  json::object field(const Field& field);
  void need(const Schema& schema);
  void work();  // defines what is needed and not yet there
  void custom(const Resource& resource, const std::string& name);
  void custom_list(const Resource& resource, const std::string& name, const std::string& element);
  void mark(std::string_view name, const Kind& kind);

  OpenApiVersion version_;
  std::vector<const Schema*> needed_;
  json::object done_;
};

}  // namespace lockstep::kube
