#include "frontends/kube/machinery/typed.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "frontends/kube/machinery/builtin.h"
#include "frontends/kube/machinery/defaulting.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/names.h"
#include "frontends/kube/machinery/pruning.h"
#include "frontends/kube/machinery/validation.h"

namespace lockstep::kube {
namespace {

using Texts = std::vector<std::string>;

const Schema& schema_of(std::string_view api_version, std::string_view kind) {
  const GroupVersion of = split_group_version(api_version);
  return *builtin_kind_schema(of.group, of.version, kind);
}

json::object object(std::string_view text) { return json::parse(text).as_object(); }

std::string settled(std::string_view text, const Schema& schema) {
  json::object value = object(text);
  const auto done = settle(value, schema);
  return done.ok() ? json::serialize(value) : done.error().message;
}

void expect_defaults(std::string_view text, const Schema& schema, std::string_view wanted) {
  json::object value = object(text);
  fill_defaults(value, schema, WallTime{1'700'000'000'000'000});
  EXPECT_TRUE(same_json(value, json::parse(wanted))) << json::serialize(value) << "\n" << wanted;
}

TEST(Pruning, UnknownFieldsGoAndAreTold) {
  json::object pod = object(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","nme":"b"},"foo":1,
      "spec":{"containers":[{"name":"c","imge":"x"},{"name":"d","ports":[{"containerPort":1,"x.y":2}]}],"nodeSelector":{"any":"thing"}}})");
  EXPECT_EQ(prune(pod, schema_of("v1", "Pod")),
            (Texts{"metadata.nme", "spec.containers[0].imge", "spec.containers[1].ports[0].x.y", "foo"}));
  EXPECT_EQ(
      json::serialize(pod),
      R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},)"
      R"("spec":{"containers":[{"name":"c"},{"name":"d","ports":[{"containerPort":1}]}],"nodeSelector":{"any":"thing"}}})");
}

TEST(Pruning, SchemasOfCustomResourcesAreFollowedWhereverTheyMayStand) {
  json::object definition =
      object(R"({"spec":{"versions":[{"schema":{"openAPIV3Schema":{"properties":{"a":{"items":{"typ":"string"}},
      "b":{"additionalProperties":{"typ":1}},"c":{"default":{"any":1}}}}}}]}})");
  EXPECT_EQ(prune(definition, schema_of("apiextensions.k8s.io/v1", "CustomResourceDefinition")),
            (Texts{"spec.versions[0].schema.openAPIV3Schema.properties.a.items.typ",
                   "spec.versions[0].schema.openAPIV3Schema.properties.b.additionalProperties.typ"}));
}

TEST(Pruning, DuplicateFieldsAreFoundByPath) {
  EXPECT_EQ(duplicate_fields(R"({"a":1,"a":2,"b":{"c":1,"c":1},"d":[{"e":0,"e":0},{"e":0}],"a":3})"),
            (Texts{"a", "b.c", "d[0].e", "a"}));
  EXPECT_EQ(duplicate_fields(R"({"a":[[1,{"x":1,"x":1}]]})"), Texts{"a[0][1].x"});
  EXPECT_EQ(duplicate_fields(R"({"a":1,"a")"), Texts{});
  EXPECT_EQ(strict_message(strict_errors({"spec.foo"}, {"spec.bar"})),
            R"(strict decoding error: duplicate field "spec.bar", unknown field "spec.foo")");
}

TEST(Settle, DropsWhatSaysNothingAndKeepsEmptyPointers) {
  const Schema& schema = schema_of("apps/v1", "Deployment");
  EXPECT_EQ(
      settled(
          R"({"metadata":{"name":"a","labels":null,"generateName":""},"spec":{"replicas":0,"minReadySeconds":0,"paused":false,"selector":{}}})",
          schema),
      R"({"metadata":{"name":"a"},"spec":{"replicas":0,"selector":{}}})");
}

TEST(Settle, ValuesBecomeCanonical) {
  EXPECT_EQ(
      settled(R"({"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":0.5,"memory":"1024Ki","x":2}}}]}})",
              schema_of("v1", "Pod")),
      R"({"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"500m","memory":"1Mi","x":"2"}}}]}})");
  EXPECT_EQ(settled(R"({"metadata":{"creationTimestamp":"2026-01-01T01:00:00+01:00"}})", schema_of("v1", "Pod")),
            R"({"metadata":{"creationTimestamp":"2026-01-01T00:00:00Z"}})");
}

TEST(Settle, RefusesOtherTypesInTheServersWords) {
  EXPECT_EQ(settled(R"({"spec":{"replicas":"3"}})", schema_of("apps/v1", "Deployment")),
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32");
  EXPECT_EQ(settled(R"({"spec":{"containers":[{"name":7}]}})", schema_of("v1", "Pod")),
            "json: cannot unmarshal number into Go struct field Container.spec.containers.name of type string");
  EXPECT_EQ(settled(R"({"spec":{"containers":{}}})", schema_of("v1", "Pod")),
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container");
  EXPECT_EQ(settled(R"({"spec":{"replicas":3000000000}})", schema_of("apps/v1", "Deployment")),
            "json: cannot unmarshal number 3000000000 into Go struct field DeploymentSpec.spec.replicas of type int32");
  json::object secret = object(R"({"data":{"a":"YQ==","b":"?"}})");
  EXPECT_EQ(settle(secret, schema_of("v1", "Secret")).error().field, "data.b");
}

TEST(Defaults, OfAPod) {
  expect_defaults(
      R"({"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"nginx:1.2","resources":{"limits":{"cpu":"1"}},
          "ports":[{"containerPort":80}],"livenessProbe":{"httpGet":{"port":80}}},{"name":"d","image":"reg:5000/x"}],"volumes":[{"name":"v"}]}})",
      schema_of("v1", "Pod"),
      R"({"metadata":{"name":"a"},"status":{},"spec":{"restartPolicy":"Always","dnsPolicy":"ClusterFirst","schedulerName":"default-scheduler",
          "securityContext":{},"terminationGracePeriodSeconds":30,"enableServiceLinks":true,"volumes":[{"name":"v","emptyDir":{}}],
          "containers":[{"name":"c","image":"nginx:1.2","imagePullPolicy":"IfNotPresent","terminationMessagePath":"/dev/termination-log",
            "terminationMessagePolicy":"File","resources":{"limits":{"cpu":"1"},"requests":{"cpu":"1"}},"ports":[{"containerPort":80,"protocol":"TCP"}],
            "livenessProbe":{"httpGet":{"port":80,"path":"/","scheme":"HTTP"},"failureThreshold":3,"periodSeconds":10,"successThreshold":1,"timeoutSeconds":1}},
           {"name":"d","image":"reg:5000/x","imagePullPolicy":"Always","terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","resources":{}}]}})");
}

TEST(Defaults, OfAService) {
  expect_defaults(
      R"({"spec":{"type":"NodePort","ports":[{"port":80}]}})", schema_of("v1", "Service"),
      R"({"metadata":{},"status":{"loadBalancer":{}},"spec":{"type":"NodePort","sessionAffinity":"None","externalTrafficPolicy":"Cluster",
                      "internalTrafficPolicy":"Cluster","ports":[{"port":80,"protocol":"TCP","targetPort":80}]}})");
}

TEST(Defaults, OfWorkloads) {
  json::object deployment = object(R"({"spec":{"selector":{},"template":{"spec":{"containers":[]}}}})");
  fill_defaults(deployment, schema_of("apps/v1", "Deployment"), {});
  const json::object& spec = deployment["spec"].as_object();
  EXPECT_EQ(spec.at("replicas"), json::value(1));
  EXPECT_EQ(json::serialize(spec.at("strategy")),
            R"({"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":"25%","maxSurge":"25%"}})");
  EXPECT_EQ(spec.at("template").at("spec").at("restartPolicy"), json::value("Always"));
  EXPECT_FALSE(spec.at("template").at("spec").as_object().contains("enableServiceLinks"));

  json::object job = object(R"({"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}})");
  fill_defaults(job, schema_of("batch/v1", "Job"), {});
  EXPECT_EQ(job["spec"].at("backoffLimit"), json::value(6));
  EXPECT_EQ(job["spec"].at("completions"), json::value(1));
  EXPECT_EQ(job["metadata"].at("labels").at("a"), json::value("b"));
}

TEST(Defaults, KeepWhatIsSaid) {
  expect_defaults(
      R"({"spec":{"replicas":0,"strategy":{"type":"Recreate"}}})", schema_of("apps/v1", "Deployment"),
      R"({"metadata":{},"status":{},"spec":{"replicas":0,"progressDeadlineSeconds":600,"revisionHistoryLimit":10,"strategy":{"type":"Recreate"},
                      "template":{"metadata":{},"spec":{"restartPolicy":"Always","dnsPolicy":"ClusterFirst","schedulerName":"default-scheduler","securityContext":{},
                      "terminationGracePeriodSeconds":30}}}})");
}

TEST(Defaults, OfACustomResourceAreThoseOfItsSchemaAlone) {
  SchemaSet set;
  Schema &root = set.make(), &number = set.make(), &text = set.make();
  number.type = Schema::Type::kInteger;
  text.type = Schema::Type::kString;
  text.nullable = true;
  root.type = Schema::Type::kObject;
  root.fields = {{"count", &number}, {"name", &text}};
  root.fields[0].standard = 3;
  root.fields[1].standard = "x";
  expect_defaults("{}", root, R"({"count":3,"name":"x"})");
  expect_defaults(R"({"count":0,"name":""})", root, R"({"count":0,"name":""})");
  expect_defaults(R"({"count":null,"name":null})", root, R"({"count":3,"name":null})");
}

Texts texts(const FieldErrors& errors) {
  Texts out;
  for (const FieldError& error : errors) out.push_back(error.text());
  return out;
}

TEST(Validation, RequiredFieldsAndKnownWords) {
  EXPECT_EQ(
      texts(validate_fields(object(R"({"spec":{"containers":[{"name":""}],"restartPolicy":"Sometimes"}})"),
                            schema_of("v1", "Pod"))),
      (Texts{
          "spec.containers[0].name: Required value",
          R"(spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "Never", "OnFailure")"}));
  EXPECT_EQ(texts(validate_fields(object(R"({"spec":{}})"), schema_of("v1", "Pod"))),
            Texts{"spec.containers: Required value"});
}

TEST(Validation, Metadata) {
  const auto faults = [](std::string_view text, NameRule rule = NameRule::kDnsSubdomain) {
    return texts(validate_metadata(object(text), {true, rule}));
  };
  EXPECT_EQ(faults(R"({"name":"web.a-1","namespace":"default"})"), Texts{});
  EXPECT_EQ(
      faults(R"({"name":"A","namespace":"default"})"),
      Texts{
          R"(metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*'))"});
  EXPECT_EQ(faults(R"({"name":"a.b","namespace":"default"})", NameRule::kDnsLabel),
            Texts{R"(metadata.name: Invalid value: "a.b": must not contain dots)"});
  EXPECT_EQ(faults(R"({"name":"system:x","namespace":"default"})", NameRule::kPathSegment), Texts{});
  EXPECT_EQ(faults(R"({"namespace":"default"})"),
            Texts{"metadata.name: Required value: name or generateName is required"});
  EXPECT_EQ(faults(R"({"name":"a","namespace":"default","labels":{"a":"-"}})").size(), 1u);
  EXPECT_EQ(
      faults(R"({"name":"a","namespace":"default","finalizers":["orphan","foregroundDeletion"]})"),
      Texts{
          R"(metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion cannot be both set)"});
  json::object big{{"name", "a"}, {"namespace", "b"}};
  big["annotations"] = json::object{{"k", std::string(kAnnotationsBytesMax, 'x')}};
  EXPECT_EQ(texts(validate_metadata(big, {true})),
            Texts{"metadata.annotations: Too long: may not be more than 262144 bytes"});
}

TEST(Validation, MetadataThatMayNotChange) {
  EXPECT_EQ(texts(validate_metadata_update(object(R"({"name":"b","uid":"1","resourceVersion":"7"})"),
                                           object(R"({"name":"a","uid":"1"})"))),
            Texts{R"(metadata.name: Invalid value: "b": field is immutable)"});
  EXPECT_EQ(
      texts(
          validate_metadata_update(object(R"({"resourceVersion":"7","deletionTimestamp":"x","finalizers":["a.b/c"]})"),
                                   object(R"({"deletionTimestamp":"x"})"))),
      Texts{
          R"(metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"a.b/c"})"});
}

}  // namespace
}  // namespace lockstep::kube
