// libFuzzer entry: the input up to a line "%%" is an expression, what is behind it the JSON of `self`. Whatever they
// are, the expression is refused with words, or ends with a value within its budget.
#include <boost/json/parse.hpp>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "frontends/kube/cel/program.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::kube;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t end = text.find("\n%%\n");
  json::error_code error;
  json::value self = end == text.npos ? json::value() : json::parse(text.substr(end + 4), error);
  if (error)
    self = nullptr;
  const auto program = cel::compile(text.substr(0, end), {{"self", cel::simple_type("dyn")}});
  if (!program) {
    CHECK(!program.error().message.empty());
    return 0;
  }
  cel::Budget budget(100'000);
  const cel::Value value = program->evaluate({cel::from_json(self, nullptr)}, budget);
  CHECK(!budget.exhausted() || value.is_fault());
  return 0;
}
