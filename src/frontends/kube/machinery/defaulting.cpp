#include "frontends/kube/machinery/defaulting.h"

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>

#include "base/text.h"
#include "frontends/kube/machinery/conditional_defaults.h"
#include "frontends/kube/machinery/pruning.h"
#include "frontends/kube/machinery/typed.h"

namespace lockstep::kube {
namespace {

class Defaulter {
 public:
  explicit Defaulter(WallTime now) : now_(now) {}

  void object(json::object& object, const Schema& schema) {
    for (const Field& field : schema.fields) fill(object, field);
    if (const auto more = conditional_default(schema.name))
      more(object, now_);
    for (auto& entry : object)
      if (const Field* field = schema.field(entry.key()))
        value(entry.value(), *field->schema);
  }

 private:
  static void fill(json::object& object, const Field& field) {
    json::value* present = object.if_contains(field.name);
    const bool builtin = field.number != 0;
    // An empty value of a built-in field that is no pointer is absence; null is, where nothing allows it.
    const bool absent = !present || (builtin && !field.pointer && says_nothing(*present)) ||
                        (present->is_null() && field.standard && !field.schema->nullable);
    if (!absent)
      return;
    if (field.standard)
      object[field.name] = *field.standard;
    else if (present || !field.always || field.pointer || !builtin)
      return;
    else if (json::value nothing = empty_value(*field.schema); !nothing.is_null())
      object[field.name] = std::move(nothing);
  }

  // Null: the type has none that is written.
  static json::value empty_value(const Schema& schema) {
    switch (schema.type) {
      case Schema::Type::kObject: return json::object();
      case Schema::Type::kQuantity: return "0";
      case Schema::Type::kInteger:
      case Schema::Type::kIntOrString: return 0;
      case Schema::Type::kBoolean: return false;
      case Schema::Type::kString: return schema.format.empty() ? json::value("") : json::value();
      default: return nullptr;
    }
  }

  void value(json::value& value, const Schema& schema) {
    switch (schema.type) {
      case Schema::Type::kObject:
        if (value.is_object())
          object(value.get_object(), schema);
        break;
      case Schema::Type::kMap:
        if (value.is_object() && schema.element)
          for (auto& entry : value.get_object()) this->value(entry.value(), *schema.element);
        break;
      case Schema::Type::kList:
        if (value.is_array() && schema.element)
          for (json::value& element : value.get_array()) this->value(element, *schema.element);
        break;
      default: break;
    }
  }

  WallTime now_;
};

}  // namespace

void fill_defaults(json::object& object, const Schema& schema, WallTime now) { Defaulter(now).object(object, schema); }

}  // namespace lockstep::kube
