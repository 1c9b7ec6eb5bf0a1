#include "frontends/kube/machinery/validation.h"

#include <algorithm>
#include <boost/json/array.hpp>

#include "base/text.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/pruning.h"

namespace lockstep::kube {
namespace {

class FieldValidator {
 public:
  FieldErrors errors;

  void object(const json::object& object, const Schema& schema) {
    const bool top = path_.empty();
    for (const Field& field : schema.fields) {
      if (errors.size() >= kFieldErrorsMax)
        return;
      if (top && (field.name == "status" || field.name == "metadata"))
        continue;
      const std::size_t length = path_.size();
      path_ += (top ? "" : ".") + field.name;
      const json::value* present = object.if_contains(field.name);
      if (field.required && must_be_there(field, present))
        errors.push_back(field_required(path_));
      else if (present)
        value(*present, *field.schema);
      path_.resize(length);
    }
  }

 private:
  // Zero is a number like any other; an empty text or list is none. Protobuf does not tell an empty list from none, and
  // most required ones may be empty: containers may not.
  static bool must_be_there(const Field& field, const json::value* present) {
    if (field.schema->type == Schema::Type::kList && field.name != "containers")
      return false;
    if (!present || present->is_null())
      return field.schema->type != Schema::Type::kInteger && field.schema->type != Schema::Type::kBoolean;
    if (present->is_string())
      return present->get_string().empty() && !field.pointer;
    return present->is_array() && present->get_array().empty();
  }

  void value(const json::value& value, const Schema& schema) {
    switch (schema.type) {
      case Schema::Type::kString: word(value, schema); break;
      case Schema::Type::kObject:
        if (value.is_object())
          object(value.get_object(), schema);
        break;
      case Schema::Type::kMap:
        if (value.is_object() && schema.element)
          map(value.get_object(), *schema.element);
        break;
      case Schema::Type::kList:
        if (value.is_array() && schema.element)
          list(value.get_array(), schema);
        break;
      case Schema::Type::kAny:
        if (const Schema* other = alternative(schema, value); other && value.is_object())
          object(value.get_object(), *other);
        break;
      default: break;
    }
  }

  void word(const json::value& value, const Schema& schema) {
    const json::array* known = member_array(schema.rules, "enum");
    if (!known || !value.is_string() || value.get_string().empty() || std::ranges::find(*known, value) != known->end())
      return;
    std::vector<std::string> words;
    for (const json::value& each : *known) words.emplace_back(text_of(each));
    errors.push_back(field_not_supported(path_, value, words));
  }

  void map(const json::object& map, const Schema& element) {
    for (const auto& entry : map) {
      const std::size_t length = path_.size();
      path_ += format("[{}]", std::string_view(entry.key()));
      value(entry.value(), element);
      path_.resize(length);
    }
  }

  void list(const json::array& list, const Schema& schema) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::size_t length = path_.size();
      path_ += format("[{}]", i);
      value(list[i], *schema.element);
      path_.resize(length);
    }
  }

  std::string path_;
};

}  // namespace

FieldErrors validate_fields(const json::object& object, const Schema& schema) {
  FieldValidator validator;
  validator.object(object, schema);
  return std::move(validator.errors);
}

}  // namespace lockstep::kube
