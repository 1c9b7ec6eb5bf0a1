#include "frontends/kube/machinery/field_set.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "base/text.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/quoted.h"

namespace lockstep::kube {
namespace {

void visit_below(const FieldSet& set, std::vector<std::string>& path,
                 const std::function<void(const std::vector<std::string>&)>& visit) {
  for (const auto& [element, child] : set.below) {
    path.push_back(element);
    if (child.member)
      visit(path);
    visit_below(child, path, visit);
    path.pop_back();
  }
}

json::object write_set(const FieldSet& set, bool self) {
  json::object out;
  if (self && !set.below.empty())
    out["."] = json::object();
  for (const auto& [element, child] : set.below) out[element] = write_set(child, child.member);
  return out;
}

// Nullopt: of a kind that is not known here.
Result<std::optional<std::string>> read_element(std::string_view text) {
  if (text.size() < 2 || text[1] != ':')
    return invalid(format("{} names no field: it begins with f:, k:, v: or i:", quoted(text)));
  const std::string_view rest = text.substr(2);
  if (text[0] == 'f')
    return std::optional(std::string(text));
  if (text[0] == 'i') {
    const auto index = parse_int(rest);
    if (!index)
      return invalid(format("{} is no index", quoted(rest)));
    return std::optional(format("i:{}", *index));
  }
  if (text[0] != 'k' && text[0] != 'v')
    return std::optional<std::string>();
  const auto value = parse_given(rest);
  if (!value.ok() || (text[0] == 'k' && !value->is_object()))
    return invalid(format("{} holds no JSON", quoted(text)));
  return std::optional(std::string(text.substr(0, 2)) + canonical_text(*value));
}

Result<std::monostate> read_set(const json::value& fields, FieldSet& set, std::size_t depth) {
  const json::object* object = fields.if_object();
  if (object == nullptr)
    return invalid("a set of fields is an object of objects");
  if (depth > kFieldSetDepthMax)
    return invalid(format("a set of fields is {} levels deep at most", kFieldSetDepthMax));
  for (const auto& entry : *object) {
    if (entry.key() == ".")
      continue;
    const auto element = TRY(read_element(entry.key()));
    if (!element)
      continue;
    FieldSet child;
    TRY(read_set(entry.value(), child, depth + 1));
    const json::object& below = entry.value().get_object();
    child.member = below.contains(".") || child.below.empty();
    set.below.insert_or_assign(*element, std::move(child));
  }
  return std::monostate{};
}

std::string bare_text(const json::value& value) {
  if (value.is_string())
    return quoted(text_of(value));
  return is_number(value) ? number_text(value) : canonical_text(value);
}

}  // namespace

FieldSet& FieldSet::at(std::string_view element) {
  const auto found = below.find(element);
  return found != below.end() ? found->second : below.emplace(std::string(element), FieldSet()).first->second;
}

const FieldSet* FieldSet::find(std::string_view element) const {
  const auto found = below.find(element);
  return found == below.end() ? nullptr : &found->second;
}

void FieldSet::insert(const std::vector<std::string>& path) {
  FieldSet* set = this;
  for (const std::string& element : path) set = &set->at(element);
  if (!path.empty())
    set->member = true;
}

bool FieldSet::has(const std::vector<std::string>& path) const {
  const FieldSet* set = this;
  for (const std::string& element : path)
    if (set = set->find(element); set == nullptr)
      return false;
  return !path.empty() && set->member;
}

void FieldSet::each(const std::function<void(const std::vector<std::string>&)>& visit) const {
  std::vector<std::string> path;
  visit_below(*this, path, visit);
}

FieldSet united(FieldSet a, const FieldSet& b) {
  a.member = a.member || b.member;
  for (const auto& [element, child] : b.below) {
    FieldSet& mine = a.at(element);
    mine = united(std::move(mine), child);
  }
  return a;
}

FieldSet common(const FieldSet& a, const FieldSet& b) {
  FieldSet out;
  out.member = a.member && b.member;
  for (const auto& [element, child] : a.below)
    if (const FieldSet* other = b.find(element))
      if (FieldSet both = common(child, *other); !both.empty())
        out.below.emplace(element, std::move(both));
  return out;
}

FieldSet without(const FieldSet& a, const FieldSet& b) {
  FieldSet out;
  out.member = a.member && !b.member;
  for (const auto& [element, child] : a.below) {
    const FieldSet* other = b.find(element);
    if (FieldSet rest = other == nullptr ? child : without(child, *other); !rest.empty())
      out.below.emplace(element, std::move(rest));
  }
  return out;
}

FieldSet without_below(const FieldSet& a, const FieldSet& b) {
  FieldSet out;
  out.member = a.member && !b.member;
  for (const auto& [element, child] : a.below) {
    const FieldSet* other = b.find(element);
    if (other != nullptr && other->member)
      continue;
    if (FieldSet rest = other == nullptr ? child : without_below(child, *other); !rest.empty())
      out.below.emplace(element, std::move(rest));
  }
  return out;
}

json::object fields_v1(const FieldSet& set) { return write_set(set, false); }

Result<FieldSet> read_fields_v1(const json::value& fields) {
  FieldSet set;
  TRY(read_set(fields, set, 0));
  return set;
}

std::string field_element(std::string_view name) { return "f:" + std::string(name); }

std::string canonical_text(const json::value& value) {
  if (is_number(value))
    return number_text(value);
  if (const json::array* list = value.if_array()) {
    std::string out = "[";
    for (const json::value& each : *list) out += (out.size() > 1 ? "," : "") + canonical_text(each);
    return out + "]";
  }
  if (const json::object* object = value.if_object()) {
    std::vector<std::string_view> names;
    for (const auto& entry : *object) names.push_back(entry.key());
    std::ranges::sort(names);
    std::string out = "{";
    for (const std::string_view name : names)
      out += (out.size() > 1 ? "," : "") + json::serialize(json::string(name)) + ":" + canonical_text(object->at(name));
    return out + "}";
  }
  return json::serialize(value);
}

std::string path_text(const std::vector<std::string>& elements) {
  std::string out;
  for (const std::string& element : elements) {
    const std::string_view rest = std::string_view(element).substr(2);
    json::error_code error;
    if (element[0] == 'f') {
      out += "." + std::string(rest);
    } else if (element[0] == 'i') {
      out += format("[{}]", rest);
    } else if (element[0] == 'v') {
      out += "[=" + bare_text(json::parse(rest, error)) + "]";
    } else {
      const json::value keys = json::parse(rest, error);
      std::string inside;
      if (const json::object* object = keys.if_object())
        for (const auto& entry : *object)
          inside += (inside.empty() ? "" : ",") + std::string(entry.key()) + "=" + bare_text(entry.value());
      out += "[" + inside + "]";
    }
  }
  return out;
}

}  // namespace lockstep::kube
