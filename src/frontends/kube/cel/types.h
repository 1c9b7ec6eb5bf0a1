// Types that the checker gives to expressions, and signatures of functions in them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/kube/machinery/schema.h"

namespace lockstep::kube::cel {

struct Type;
using TypeRef = std::shared_ptr<const Type>;

struct Type {
  // Of "list", "map", "optional" with parts; "object" with a schema; "A", "B" stand for any one type in a signature;
  // "dyn" is settled when the expression runs.
  std::string name;
  std::vector<TypeRef> parts;
  const Schema* schema = nullptr;
  std::map<std::string, TypeRef, std::less<>> fields = {};  // of a type that no schema describes; empty: it has none
};

TypeRef simple_type(std::string_view name);
TypeRef composed_type(std::string_view name, std::vector<TypeRef> parts);
// "kubernetes.AdmissionRequest": told apart by its name.
TypeRef fields_type(std::string_view name, std::map<std::string, TypeRef, std::less<>> fields);
TypeRef type_of_schema(const Schema& schema);  // null: an expression cannot reach such a value
std::string type_text(const TypeRef& type);    // "list(int)", as messages say it

struct Signature {
  std::vector<TypeRef> arguments;  // of a method the target first
  TypeRef result;
  bool method = false;
};
// "string.contains(string) bool" of a method, "@(list(A)) int" of a function.
Signature parse_signature(std::string_view text);

using Bindings = std::map<std::string, TypeRef>;
// May a value of type `given` stand where `wanted` is asked? Parameters of the signature are bound by the first use.
bool assignable(const TypeRef& given, const TypeRef& wanted, Bindings& bindings);
TypeRef substituted(const TypeRef& type, const Bindings& bindings);
TypeRef joined(const TypeRef& a, const TypeRef& b);  // of the two branches of a choice, or elements of a list

}  // namespace lockstep::kube::cel
