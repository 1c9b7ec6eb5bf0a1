#include "frontends/kube/machinery/pruning.h"

#include <algorithm>
#include <boost/json/array.hpp>

#include "base/text.h"
#include "frontends/kube/machinery/builtin.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/quoted.h"

namespace lockstep::kube {
namespace {

class Pruner {
 public:
  std::vector<std::string> dropped;

  void object(json::object& object, const Schema& schema, bool has_metadata) {
    has_metadata = has_metadata || schema.embedded;
    std::vector<std::string_view> unknown;
    for (auto& entry : object) {
      const std::string_view key = entry.key();
      const Field* field = schema.field(key);
      if (has_metadata && key == "metadata" && (!field || field->schema->fields.empty()))
        under(key, [&] { value(entry.value(), *builtin_schema(kObjectMetaName)); });
      else if (field)
        under(key, [&] { value(entry.value(), *field->schema); });
      else if (!schema.keep_unknown && !(has_metadata && (key == "apiVersion" || key == "kind")))
        unknown.push_back(key);
    }
    if (unknown.empty())
      return;
    for (const std::string_view key : unknown)
      if (dropped.size() < kStrictErrorsMax)
        under(key, [&] { dropped.push_back(path_); });
    std::ranges::sort(unknown);
    drop_members(object,
                 [&](std::string_view key, const json::value&) { return std::ranges::binary_search(unknown, key); });
  }

 private:
  void value(json::value& value, const Schema& schema) {
    switch (schema.type) {
      case Schema::Type::kObject:
        if (value.is_object())
          object(value.get_object(), schema, false);
        break;
      case Schema::Type::kMap:
        if (value.is_object() && schema.element)
          for (auto& entry : value.get_object())
            under(entry.key(), [&] { this->value(entry.value(), *schema.element); });
        break;
      case Schema::Type::kList:
        if (value.is_array() && schema.element)
          list(value.get_array(), *schema.element);
        break;
      case Schema::Type::kAny:
        if (const Schema* other = alternative(schema, value)) {
          if (value.is_array())
            list(value.get_array(), *other);
          else
            this->value(value, *other);
        }
        break;
      default: break;
    }
  }

  void list(json::array& list, const Schema& element) {
    const std::size_t length = path_.size();
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (list[i].is_structured()) {
        path_ += format("[{}]", i);
        value(list[i], element);
        path_.resize(length);
      }
    }
  }

  template <class Then>
  void under(std::string_view key, Then then) {
    const std::size_t length = path_.size();
    if (length != 0)
      path_ += '.';
    path_ += key;
    then();
    path_.resize(length);
  }

  std::string path_;
};

}  // namespace

const Schema* alternative(const Schema& schema, const json::value& value) {
  if (!schema.element || !value.is_structured())
    return nullptr;
  if (value.is_array() && schema.name != kSchemaOrArrayName)
    return nullptr;
  return schema.element;
}

std::vector<std::string> prune(json::object& object, const Schema& schema) {
  Pruner pruner;
  pruner.object(object, schema, true);
  return std::move(pruner.dropped);
}

std::vector<std::string> strict_errors(const std::vector<std::string>& unknown,
                                       const std::vector<std::string>& duplicate) {
  std::vector<std::string> out;
  for (const std::string& path : duplicate) out.push_back("duplicate field " + quoted(path));
  for (const std::string& path : unknown) out.push_back("unknown field " + quoted(path));
  if (out.size() > kStrictErrorsMax)
    out.resize(kStrictErrorsMax);
  return out;
}

std::string strict_message(const std::vector<std::string>& errors) {
  return "strict decoding error: " + join(errors, ", ");
}

}  // namespace lockstep::kube
