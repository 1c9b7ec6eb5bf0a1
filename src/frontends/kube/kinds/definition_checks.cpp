#include "frontends/kube/kinds/definition_checks.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <unordered_set>

#include "base/text.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/pruning.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kColumnTypes[] = {"boolean", "date", "integer", "number", "string"};
constexpr std::string_view kColumnFormats[] = {"byte",  "date",  "date-time", "double",
                                               "float", "int32", "int64",     "password"};

std::string one_of_words(std::span<const std::string_view> words) {
  return "must be one of " + join(std::vector<std::string>(words.begin(), words.end()), ",");
}

bool is_among(std::span<const std::string_view> words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

void check_column(const json::value& column, const std::string& path, FieldErrors& out) {
  const std::string type = text_in(column, "type"), form = text_in(column, "format"),
                    place = text_in(column, "jsonPath");
  if (text_in(column, "name").empty())
    out.push_back(field_required(path + ".name"));
  if (type.empty())
    out.push_back(field_required(path + ".type", one_of_words(kColumnTypes)));
  else if (!is_among(kColumnTypes, type))
    out.push_back(field_invalid(path + ".type", json::value(type), one_of_words(kColumnTypes)));
  if (!form.empty() && !is_among(kColumnFormats, form))
    out.push_back(field_invalid(path + ".format", json::value(form), one_of_words(kColumnFormats)));
  if (place.empty())
    out.push_back(field_required(path + ".JSONPath"));
  else if (place.front() != '.')
    out.push_back(field_invalid(path + ".JSONPath", json::value(place), "must be a simple json path starting with ."));
}

class DefaultWalk {
 public:
  DefaultWalk(const Patterns& patterns, const cel::Rules& rules, FieldErrors& out)
      : patterns_(patterns), rules_(rules), out_(out) {}

  void walk(const Schema& schema, const std::string& path) {
    if (!seen_.insert(&schema).second)
      return;
    if (schema.element != nullptr && schema.type == Schema::Type::kList)
      walk(*schema.element, path + ".items");
    for (const Field& field : schema.fields) {
      if (field.schema == nullptr || !field.schema->name.empty())  // metadata: built in
        continue;
      const std::string here = format("{}.properties[{}]", path, field.name);
      if (field.standard && !field.standard->is_null())
        check(*field.standard, field, here + ".default");
      walk(*field.schema, here);
    }
  }

 private:
  void say(FieldError error) {
    if (out_.size() < kCustomErrorsMax)
      out_.push_back(std::move(error));
  }

  void check(const json::value& standard, const Field& field, const std::string& path) {
    if (has_unknown(standard, field))
      return say(field_invalid(path, standard, "must not have unknown fields"));
    FieldErrors found = validate_custom(standard, *field.schema, patterns_);
    if (found.empty())  // rules that compare it with what was there before as well
      found = rules_.validate(standard, nullptr, *field.schema);
    for (FieldError& one : found) {
      if (one.path != "<nil>")
        one.path = path + (one.path.empty() || one.path.starts_with('[') ? "" : ".") + one.path;
      say(std::move(one));
    }
  }

  // Fields are pruned from objects: the default is looked at as one's field.
  static bool has_unknown(const json::value& standard, const Field& field) {
    Schema around;
    around.type = Schema::Type::kObject;
    around.fields = {{.name = field.name, .schema = field.schema}};
    json::object object{{field.name, standard}};
    return !prune(object, around).empty();
  }

  const Patterns& patterns_;
  const cel::Rules& rules_;
  FieldErrors& out_;
  std::unordered_set<const Schema*> seen_;
};

}  // namespace

void check_columns(const json::value& version, const std::string& path, FieldErrors& out) {
  const json::array* columns = member_array(version, "additionalPrinterColumns");
  if (columns == nullptr)
    return;
  std::size_t at = 0;
  for (const json::value& column : *columns)
    if (out.size() < kCustomErrorsMax)
      check_column(column, format("{}.additionalPrinterColumns[{}]", path, at++), out);
}

void check_defaults(const CustomVersion& version, const Patterns& patterns, const cel::Rules& rules,
                    const std::string& path, FieldErrors& out) {
  DefaultWalk(patterns, rules, out).walk(*version.schema, path + ".schema.openAPIV3Schema");
}

}  // namespace lockstep::kube
