// Kubernetes' own kinds, of the version that the tables are made from (scripts/make_kube_tables): schemas and
// resources.
//
// The tables are read once, at the first question, in a few milliseconds; what is handed out lives as long as the
// program.
#pragma once

#include <string_view>
#include <vector>

#include "frontends/kube/machinery/resource.h"
#include "frontends/kube/machinery/schema.h"

namespace lockstep::kube {

// In the order of discovery: core first, a group's preferred version before its others, then by name.
const std::vector<Resource>& builtin_resources();

// Null: there is none.
const Resource* find_builtin(std::string_view group, std::string_view version, std::string_view plural);
const Resource* find_builtin_kind(std::string_view group, std::string_view version, std::string_view kind);

// By its full name: "io.k8s.api.core.v1.PodSpec". Null: there is none.
const Schema* builtin_schema(std::string_view name);
// Of any kind, also of lists ("PodList"), options ("DeleteOptions", which every group has) and answers ("Status").
const Schema* builtin_kind_schema(std::string_view group, std::string_view version, std::string_view kind);

// All that have a name, ascending by it.
const std::vector<const Schema*>& builtin_schemas();

// Names that code asks for.
inline constexpr std::string_view kObjectMetaName = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
inline constexpr std::string_view kListMetaName = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
inline constexpr std::string_view kTimeName = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";
inline constexpr std::string_view kMicroTimeName = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";
inline constexpr std::string_view kDurationName = "io.k8s.apimachinery.pkg.apis.meta.v1.Duration";
inline constexpr std::string_view kFieldsName = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1";
inline constexpr std::string_view kQuantityName = "io.k8s.apimachinery.pkg.api.resource.Quantity";
inline constexpr std::string_view kIntOrStringName = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
inline constexpr std::string_view kRawExtensionName = "io.k8s.apimachinery.pkg.runtime.RawExtension";
inline constexpr std::string_view kCustomJsonName = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON";
inline constexpr std::string_view kSchemaPropsName =
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
inline constexpr std::string_view kSchemaOrArrayName =
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray";
inline constexpr std::string_view kSchemaOrBoolName =
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool";
inline constexpr std::string_view kSchemaOrStringsName =
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray";

// What is said of the fields that every object has, in words that clients look for the beginnings of.
inline constexpr std::string_view kVersionSaid =
    "APIVersion defines the version of the schema that the object is written in.";
inline constexpr std::string_view kKindSaid = "Kind is the name of what the object stands for.";
inline constexpr std::string_view kMetadataSaid = "Standard object's metadata.";
inline constexpr std::string_view kListMetadataSaid = "Standard list metadata.";

}  // namespace lockstep::kube
