#include "frontends/kube/server/accept.h"

#include <gtest/gtest.h>

#include <map>

namespace lockstep::kube {
namespace {

HttpRequest accepting(const std::string& header) {
  HttpRequest http;
  http.headers["accept"] = header;
  return http;
}

std::string form_of(const std::string& header, const Served& served = {.protobuf = true}) {
  const auto accepted = accepted_by(accepting(header), served);
  if (!accepted.ok())
    return accepted.error().message;
  std::string out = accepted->protobuf ? "protobuf" : accepted->yaml ? "yaml" : "json";
  if (accepted->form != Accepted::Form::kWhole)
    out += accepted->form == Accepted::Form::kTable ? " table" : " metadata";
  return out + (accepted->pretty ? " pretty" : "");
}

// What Kubernetes 1.34's own server chose for these.
TEST(Accept, TheGreatestWeightThenTheFirst) {
  for (const auto& [header, form] : std::map<std::string, std::string>{
           {"", "json"},
           {"*/*", "json"},
           {"application/json;q=0.5,application/yaml", "yaml"},
           {"application/yaml;q=0.5,application/json", "json"},
           {"text/html,application/yaml;q=0.1,application/json;q=0.2", "json"},
           {"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "json"},
           {"*/*,application/yaml", "yaml"},
           {"application/json;q=0", "json"},
           {"application/json;q=x,application/yaml;q=0.001", "yaml"},
           {"application/json;charset=utf-8", "json"},
           {"application/json;pretty=1", "json pretty"},
           {"application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "json table"},
           {"application/json;as=Table;v=v1;g=meta.k8s.io;q=0.1,application/json;q=0.9", "json"},
           {"application/yaml;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "yaml metadata"},
           {"application/vnd.kubernetes.protobuf;stream=watch,application/json", "protobuf"},
           {"application/json;stream=foo,application/yaml", "yaml"}})
    EXPECT_EQ(form_of(header), form) << header;
  EXPECT_EQ(form_of("text/html"),
            "only the following media types are accepted: application/json, application/yaml, "
            "application/vnd.kubernetes.protobuf");
}

TEST(Accept, WatchesAreNoYaml) {
  EXPECT_EQ(form_of("application/yaml,application/json", {.protobuf = true, .watch = true}),
            "only the following media types are accepted: application/json;stream=watch, "
            "application/vnd.kubernetes.protobuf;stream=watch");
  EXPECT_EQ(form_of("application/json;stream=watch", {.watch = true}), "json");
}

TEST(Accept, EverybodyReadsAStatus) {
  EXPECT_TRUE(accepted_of_status(accepting("text/html")).pretty);
  EXPECT_TRUE(accepted_of_status(accepting("application/json;as=Table;v=v1;g=meta.k8s.io")).pretty);
  EXPECT_FALSE(accepted_of_status(accepting("application/json")).pretty);
  EXPECT_TRUE(accepted_of_status(accepting("application/json;stream=foo")).pretty);
  EXPECT_TRUE(accepted_of_status(accepting("application/yaml;as=Table;v=v1;g=meta.k8s.io,application/yaml")).yaml);
  EXPECT_TRUE(accepted_of_status(accepting("application/vnd.kubernetes.protobuf,application/json")).protobuf);
}

}  // namespace
}  // namespace lockstep::kube
