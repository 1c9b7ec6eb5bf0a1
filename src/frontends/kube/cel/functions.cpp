#include "frontends/kube/cel/functions.h"

namespace lockstep::kube::cel {

const Function* find_function(std::string_view name) {
  static const auto* const table = [] {
    auto* out = new std::unordered_map<std::string_view, Function>;  // lives as long as the program
    for (const auto& rows :
         {operator_functions(), text_functions(), list_functions(), kube_functions(), access_functions()})
      for (const FunctionRow& row : rows) {
        Function& function = (*out)[row.name];
        function.handler = row.handler;
        for (const char* signature : row.signatures) function.signatures.push_back(parse_signature(signature));
      }
    return out;
  }();
  const auto found = table->find(name);
  return found == table->end() ? nullptr : &found->second;
}

Value no_overload() { return Value::fault("no such overload"); }

}  // namespace lockstep::kube::cel
