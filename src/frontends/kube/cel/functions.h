// The functions of CEL and of Kubernetes' libraries for it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "frontends/kube/cel/types.h"
#include "frontends/kube/cel/value.h"

namespace lockstep::kube::cel {

// What an evaluation may still cost. A step costs 1; work on texts and lists more, by their size.
class Budget {
 public:
  explicit Budget(std::int64_t limit) : left_(limit), limit_(limit) {}

  bool spend(std::size_t cost) {
    left_ -= static_cast<std::int64_t>(cost);
    return left_ >= 0;
  }
  bool exhausted() const { return left_ < 0; }
  std::int64_t spent() const { return limit_ - left_; }

 private:
  std::int64_t left_, limit_;
};

using Arguments = std::vector<Value>;
using Handler = Value (*)(Budget& budget, const Arguments& arguments);

struct Function {
  Handler handler = nullptr;
  std::vector<Signature> signatures;
};

// By name; null: there is none. A handler gets arguments that are no faults, as many as some signature has, of whatever
// types; it answers "no such overload" for those that it does not take.
const Function* find_function(std::string_view name);

struct FunctionRow {
  const char* name;
  Handler handler;
  std::vector<const char*> signatures;
};
std::vector<FunctionRow> operator_functions();  // arithmetic, comparison, conversions, time
std::vector<FunctionRow> text_functions();      // texts, regular expressions, formats
std::vector<FunctionRow> list_functions();      // lists, sets, optional values
std::vector<FunctionRow> kube_functions();      // quantities, addresses, URLs, formats, versions

std::vector<FunctionRow> access_functions();  // rights: access.h

Value no_overload();
constexpr std::size_t text_cost(std::size_t bytes) { return bytes / 10 + 1; }

}  // namespace lockstep::kube::cel
