// An expression that was read and checked, ready to be evaluated as often as wanted.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "frontends/kube/cel/functions.h"
#include "frontends/kube/cel/syntax.h"
#include "frontends/kube/cel/types.h"

namespace lockstep::kube::cel {

struct Variable {
  std::string name;  // "self", "oldSelf"
  TypeRef type;
};

class Program {
 public:
  const TypeRef& result() const { return result_; }
  bool uses(std::string_view variable) const;

  // `values` in the order of the variables. What costs more than the budget ends as a fault that begins with
  // "operation cancelled"; so do faults of the expression, in the language's words.
  Value evaluate(const std::vector<Value>& values, Budget& budget) const;

 private:
  friend Result<Program> compile(std::string_view text, std::vector<Variable> variables);

  std::shared_ptr<const Node> root_;
  std::vector<Variable> variables_;
  TypeRef result_;
};

// Error: what the parser or the checker says, all faults, each with its place.
Result<Program> compile(std::string_view text, std::vector<Variable> variables);

}  // namespace lockstep::kube::cel
