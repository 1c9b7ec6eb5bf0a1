// Expressions in objects are read when they are stored.
#include <gtest/gtest.h>

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>

#include "frontends/kube/kinds/rules.h"

namespace lockstep::kube {
namespace {

std::string said_of(std::string_view type, std::string_view spec, const char* old = nullptr) {
  const auto tree = [](std::string_view text) {
    return json::object{{"metadata", {{"name", "x"}}}, {"spec", json::parse(text)}};
  };
  FieldErrors found;
  const json::object before = tree(old ? old : "{}");
  rules_of(type).validate(tree(spec), old ? &before : nullptr, found);
  std::string out;
  for (const FieldError& one : found) out += (out.empty() ? "" : "\n") + one.text();
  return out;
}

constexpr const char* kPolicy = "validatingadmissionpolicies.admissionregistration.k8s.io";
constexpr std::string_view kRules =
    R"("matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],"resources":["pods"]}]})";

std::string of_policy(std::string_view rest) {
  return said_of(kPolicy, "{" + std::string(kRules) + "," + std::string(rest) + "}");
}
std::string of_validation(std::string_view expression, std::string_view more = {}) {
  return of_policy(R"("validations":[{"expression":")" + std::string(expression) + "\"}]" + std::string(more));
}

TEST(Expressions, OfPoliciesThatCanBe) {
  for (const char* fine :
       {"object.spec.replicas < 3", "has(object.spec) && request.userInfo.groups.exists(g, g == 'x')",
        "namespaceObject.metadata.labels['a'] == 'b'", "request.operation == 'CREATE' || oldObject != null",
        "authorizer.requestResource.check('x').allowed()",
        "authorizer.serviceAccount('a', 'b').group('').resource('pods').namespace('n').check('get').allowed()",
        "string(request.options.kind) == 'CreateOptions'"})
    EXPECT_EQ(of_validation(fine), "") << fine;
  EXPECT_EQ(of_policy(R"j("variables":[{"name":"a","expression":"3"},{"name":"b","expression":"variables.a + 1"}],
      "paramKind":{"apiVersion":"v1","kind":"ConfigMap"},
      "matchConditions":[{"name":"m","expression":"params.data.x == 'y' && authorizer.path('/x').check('get').allowed()"}],
      "validations":[{"expression":"variables.b > 2","messageExpression":"'at most ' + string(variables.b)","reason":"Forbidden"}],
      "auditAnnotations":[{"key":"k","valueExpression":"string(params.data.x)"}])j"),
            "");
}

TEST(Expressions, OfPoliciesThatCannotBe) {
  const auto begins = [](std::string_view expression, std::string_view words) {
    const std::string said = of_validation(expression);
    EXPECT_EQ(said.substr(0, words.size()), words) << expression << ": " << said;
  };
  begins("object.spec.(",
         R"(spec.validations[0].expression: Invalid value: "object.spec.(": compilation failed: ERROR: <input>:1:13:)");
  begins(
      "nothing == 1",
      R"(spec.validations[0].expression: Invalid value: "nothing == 1": compilation failed: ERROR: <input>:1:1: undeclared reference to 'nothing')");
  begins("params.x == 1", R"(spec.validations[0].expression: Invalid value: "params.x == 1": compilation failed:)");
  begins("variables.x == 1",
         R"(spec.validations[0].expression: Invalid value: "variables.x == 1": compilation failed:)");
  begins(
      "request.user == 'x'",
      R"(spec.validations[0].expression: Invalid value: "request.user == 'x'": compilation failed: ERROR: <input>:1:8: undefined field 'user')");
  begins("authorizer.check('x')",
         R"x(spec.validations[0].expression: Invalid value: "authorizer.check('x')": compilation failed:)x");
  begins("'x'", R"(spec.validations[0].expression: Invalid value: "'x'": must evaluate to bool but got string)");
  begins(" ", "spec.validations[0].expression: Required value: expression is not specified");
  EXPECT_EQ(of_policy(R"("validations":[])"),
            "spec.validations: Required value: validations or auditAnnotations must contain at least one item\n"
            "spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item");
  EXPECT_EQ(
      of_policy(R"("validations":[{"expression":"true","messageExpression":"1","message":"a\nb","reason":"No"}])"),
      R"(spec.validations[0].messageExpression: Invalid value: "1": must evaluate to string but got int)"
      "\n"
      R"(spec.validations[0].message: Invalid value: "a\nb": must not contain line breaks)"
      "\n"
      R"(spec.validations[0].reason: Unsupported value: "No": supported values: "Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")");
  EXPECT_EQ(
      of_policy(R"("validations":[{"expression":"true"}],"variables":[{"name":"in","expression":"1"}],
                         "matchConditions":[{"name":"m","expression":"1"}],
                         "auditAnnotations":[{"key":"k","valueExpression":"3"}])"),
      R"(spec.matchConditions[0].expression: Invalid value: "1": must evaluate to bool but got int)"
      "\n"
      R"(spec.variables[0].name: Invalid value: "in": must be a valid CEL identifier)"
      "\n"
      R"(spec.auditAnnotations[0].valueExpression: Invalid value: "3": must evaluate to one of [string null] but got int)");
}

// What was stored before stays, and can be told its status.
TEST(Expressions, OfWhatIsStoredAreNotReadAgain) {
  constexpr const char* kBad = R"({"validations":[{"expression":"("}]})";
  EXPECT_NE(said_of(kPolicy, kBad), "");
  EXPECT_EQ(said_of(kPolicy, kBad, kBad), "");
}

TEST(Expressions, BindingsOfPolicies) {
  const auto of = [](std::string_view spec) {
    return said_of("validatingadmissionpolicybindings.admissionregistration.k8s.io", spec);
  };
  EXPECT_EQ(
      of(R"({"policyName":"p","validationActions":["Deny","Audit"],"paramRef":{"name":"x","parameterNotFoundAction":"Deny"}})"),
      "");
  EXPECT_EQ(of("{}"),
            "spec.policyName: Required value\nspec.validationActions: Required value: at least one validation action "
            "is required");
  EXPECT_EQ(of(R"({"policyName":"p","validationActions":["Deny","Deny"],"paramRef":{}})"),
            "spec.paramRef: Required value: one of name or selector must be specified\n"
            "spec.paramRef.parameterNotFoundAction: Required value\n"
            R"(spec.validationActions[1]: Duplicate value: "Deny")");
  EXPECT_NE(of(R"({"policyName":"p","validationActions":["Deny","Warn"]})").find("must not contain both Deny and Warn"),
            std::string::npos);
  EXPECT_EQ(of(R"({"policyName":"p","validationActions":["Stop"]})"),
            R"(spec.validationActions[0]: Unsupported value: "Stop": supported values: "Audit", "Deny", "Warn")");
}

TEST(Expressions, SelectorsOfDevices) {
  const auto selector = [](const std::string& expression) {
    return R"({"selectors":[{"cel":{"expression":")" + expression + "\"}}]}";
  };
  const std::string fine = selector(
      "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu' && "
      "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0");
  constexpr const char* kClass = "deviceclasses.resource.k8s.io";
  EXPECT_EQ(said_of(kClass, fine), "");
  EXPECT_EQ(
      said_of(kClass, selector("device.speed == 1")).substr(0, 103),
      R"(spec.selectors[0].cel.expression: Invalid value: "device.speed == 1": compilation failed: ERROR: <input)");
  EXPECT_EQ(
      said_of(kClass, selector("1")),
      R"(spec.selectors[0].cel.expression: Invalid value: "1": must evaluate to bool or the unknown type, not int)");
  EXPECT_EQ(said_of(kClass, R"({"selectors":[{}]})"), "spec.selectors[0].cel: Required value");
  EXPECT_EQ(said_of(kClass, selector(std::string(11000, ' '))),
            "spec.selectors[0].cel.expression: Too long: may not be more than 10240 bytes");
  const auto claim = [&](const std::string& request) { return R"({"devices":{"requests":[)" + request + "]}}"; };
  constexpr const char* kClaim = "resourceclaims.resource.k8s.io";
  const std::string bad = selector("x");
  EXPECT_EQ(said_of(kClaim, claim(R"({"name":"a","exactly":)" + fine + "}")), "");
  EXPECT_EQ(said_of(kClaim, claim(R"({"name":"a","exactly":)" + bad + "}")).substr(0, 66),
            "spec.devices.requests[0].exactly.selectors[0].cel.expression: Inva");
  EXPECT_EQ(said_of(kClaim, claim(R"({"name":"a","firstAvailable":[)" + fine + "," + bad + "]}")).substr(0, 66),
            "spec.devices.requests[0].firstAvailable[1].selectors[0].cel.expres");
  EXPECT_EQ(said_of("resourceclaimtemplates.resource.k8s.io",
                    R"({"spec":)" + claim(R"({"name":"a","exactly":)" + bad + "}") + "}")
                .substr(0, 66),
            "spec.spec.devices.requests[0].exactly.selectors[0].cel.expression:");
  const std::string other = claim(R"({"name":"b"})"), was = claim(R"({"name":"a"})");
  EXPECT_NE(said_of(kClaim, other, was.c_str()).find("field is immutable"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::kube
