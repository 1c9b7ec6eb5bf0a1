#include "frontends/kube/server/list_text.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::kube {
namespace {

constexpr std::string_view kHead =
    R"({"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[)";

std::string written(ListForm form, std::string_view head, const std::vector<std::string>& items) {
  ListText text(form);
  std::string out;
  text.begin(out, head, "]}");
  for (const std::string& one : items) text.item(out, [&](std::string& to) { to += one; });
  text.end(out, "]}");
  return out;
}

TEST(ListText, Indented) {
  const std::vector<std::string> items{R"({"a":{},"b":[1]})", R"({"c":"{\"d\":1}"})"};
  std::string whole = std::string(kHead) + items[0] + "," + items[1] + "]}";
  EXPECT_EQ(written(ListForm::kPlain, kHead, items), whole + "\n");
  EXPECT_EQ(written(ListForm::kIndented, kHead, items), indented(whole));
  EXPECT_EQ(written(ListForm::kIndented, kHead, {}), indented(std::string(kHead) + "]}"));
}

TEST(ListText, Yaml) {
  EXPECT_EQ(written(ListForm::kYaml, kHead, {R"({"b":{"c":[1,{}]},"a":"x"})", R"({"d":[]})", "{}"}),
            "apiVersion: v1\nitems:\n- a: x\n  b:\n    c:\n    - 1\n    - {}\n- d: []\n- {}\nkind: PodList\nmetadata:\n"
            "  resourceVersion: \"7\"\n");
  EXPECT_EQ(written(ListForm::kYaml, kHead, {}),
            "apiVersion: v1\nitems: []\nkind: PodList\nmetadata:\n  resourceVersion: \"7\"\n");
  EXPECT_EQ(written(ListForm::kYaml, R"({"kind":"Table","rows":[)", {R"({"cells":["a"]})"}),
            "kind: Table\nrows:\n- cells:\n  - a\n");
}

}  // namespace
}  // namespace lockstep::kube
