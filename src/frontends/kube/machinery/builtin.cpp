// Reads the rows of kube_types.inc, kube_resources.inc, kube_defaults.inc and
// kube_descriptions*.inc.
//
//   :PodSpec [kind] [atomic]                    a type; its fields follow
//   name NUMBER TYPE [attribute…]               NUMBER: 3, 0 (none), 2/3 (3 within 2)
//
// TYPE: a word of scalar(), [T], {T}, NAME[T] (a list that is a message of its own), a name of the same package, or a
// full name. Descriptions say, in the same form:
//
//   :PodSpec what the type is             fields follow
//   nodeName what the field is
//   = Container                           fields that have no text yet have that type's, where it has one of their name
//
// The files are part of the program, so whatever does not fit is a bug, and CHECKed.
#include "frontends/kube/machinery/builtin.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <map>

#include "base/check.h"
#include "base/text.h"

namespace lockstep::kube {
namespace {

struct PackageRows {
  std::string_view package, api_version, rows;
};
constexpr PackageRows kPackages[] = {
#include "frontends/kube/machinery/kube_types.inc"
};

struct ResourceRows {
  std::string_view api_version, rows;
};
constexpr ResourceRows kResources[] = {
#include "frontends/kube/machinery/kube_resources.inc"
};

struct DefaultRow {
  std::string_view type, field, json;
};
constexpr DefaultRow kDefaults[] = {
#include "frontends/kube/machinery/kube_defaults.inc"
};

struct DescriptionRows {
  std::string_view package, rows;
};
constexpr DescriptionRows kDescriptions[] = {
#include "frontends/kube/machinery/kube_descriptions.inc"
#include "frontends/kube/machinery/kube_descriptions_apis.inc"
#include "frontends/kube/machinery/kube_descriptions_core.inc"
#include "frontends/kube/machinery/kube_descriptions_pods.inc"
#include "frontends/kube/machinery/kube_descriptions_volumes.inc"
};

// Calls each(part) for what lies between separators, without empty parts.
template <class Each>
void each_part(std::string_view text, char separator, Each each) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (end != 0)
      each(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> out;
  each_part(text, ',', [&](std::string_view part) { out.emplace_back(part); });
  return out;
}

class Tables {
 public:
  Tables() {
    make_scalars();
    for (const PackageRows& package : kPackages) name_types(package);
    for (const PackageRows& package : kPackages) fill_types(package);
    for (const DefaultRow& row : kDefaults) set_default(row);
    for (const DescriptionRows& rows : kDescriptions) describe(rows);
    for (const auto& [name, schema] : types_) describe_kind(*schema);
    // In this order: a copy may have been copied.
    for (const auto& [copy, original] : copies_) copy->fields = original->fields;
    for (const auto& [name, schema] : types_) all_.push_back(schema);
    for (const ResourceRows& rows : kResources) read_resources(rows);
  }

  const Schema* type(std::string_view name) const {
    const auto at = types_.find(name);
    return at == types_.end() ? nullptr : at->second;
  }
  const Schema* kind(std::string_view api_version, std::string_view kind) const {
    const auto at = kinds_.find({api_version, kind});
    if (at != kinds_.end())
      return at->second;
    // Options, Status, Table and their like belong to every group.
    const Schema* common = type(format("io.k8s.apimachinery.pkg.apis.meta.v1.{}", kind));
    const Field* own_kind = common ? common->field("kind") : nullptr;
    return own_kind && own_kind->number == 0 ? common : nullptr;  // others have a field of that name
  }
  const std::vector<Resource>& resources() const { return resources_; }
  const std::vector<const Schema*>& all() const { return all_; }

 private:
  Schema& named(std::string_view name, Schema::Type type, std::string_view format = {}) {
    Schema& schema = schemas_.make();
    schema.name = name;
    schema.type = type;
    schema.format = format;
    types_.emplace(schema.name, &schema);
    return schema;
  }
  Schema& scalar(std::string_view word, Schema::Type type, std::string_view format = {}) {
    Schema& schema = schemas_.make();
    schema.type = type;
    schema.format = format;
    words_.emplace(word, &schema);
    return schema;
  }

  void make_scalars() {
    using enum Schema::Type;
    scalar("string", kString);
    scalar("bool", kBoolean);
    scalar("int32", kInteger, "int32");
    scalar("int64", kInteger, "int64");
    scalar("double", kNumber, "double");
    scalar("bytes", kString, "byte");
    scalar("any", kAny);
    words_.emplace("time", &named(kTimeName, kString, "date-time"));
    words_.emplace("micro-time", &named(kMicroTimeName, kString, "micro-time"));
    words_.emplace("duration", &named(kDurationName, kString, "duration"));
    words_.emplace("fields-v1", &named(kFieldsName, kAny));
    words_.emplace("quantity", &named(kQuantityName, kQuantity));
    words_.emplace("int-or-string", &named(kIntOrStringName, kIntOrString, "int-or-string"));
    words_.emplace("raw", &named(kRawExtensionName, kAny));
    words_.emplace("raw-json", &named(kCustomJsonName, kAny));
    words_.emplace("schema-or-array", &named(kSchemaOrArrayName, kAny));
    words_.emplace("schema-or-bool", &named(kSchemaOrBoolName, kAny));
    words_.emplace("schema-or-strings", &named(kSchemaOrStringsName, kAny));
  }

  void name_types(const PackageRows& package) {
    each_part(package.rows, '\n', [&](std::string_view row) {
      if (row[0] != ':')
        return;
      const std::string_view name = row.substr(1, row.find(' ') - 1);
      Schema& schema = named(format("{}.{}", package.package, name), Schema::Type::kObject);
      each_part(row, ' ', [&](std::string_view word) {
        schema.atomic = schema.atomic || word == "atomic";
        if (word == "kind")
          kinds_.emplace(std::pair(package.api_version, name), &schema);
      });
    });
  }

  void fill_types(const PackageRows& package) {
    Schema* into = nullptr;
    each_part(package.rows, '\n', [&](std::string_view row) {
      if (row[0] == ':') {
        into = const_cast<Schema*>(type(format("{}.{}", package.package, row.substr(1, row.find(' ') - 1))));
        return;
      }
      into->fields.push_back(read_field(row, package.package));
    });
    for (const std::string_view name : {kSchemaOrArrayName, kSchemaOrBoolName, kSchemaOrStringsName})
      const_cast<Schema*>(type(name))->element = type(kSchemaPropsName);
  }

  Field read_field(std::string_view row, std::string_view package) {
    std::vector<std::string_view> cells;
    each_part(row, ' ', [&](std::string_view cell) { cells.push_back(cell); });
    CHECK(cells.size() >= 3);
    Field field;
    field.name = cells[0];
    each_part(cells[1], '/', [&](std::string_view number) {
      field.within.push_back(static_cast<std::uint32_t>(*parse_uint(number)));
    });
    field.number = field.within.back();
    field.within.pop_back();
    Schema* own = nullptr;  // what attributes of lists and enums are written to
    const Schema* schema = read_type(cells[2], package, own);
    const auto separate = [&]() -> Schema& {
      if (!own) {
        own = &copy_of(*schema);
        copies_.emplace_back(own, schema);
        schema = own;
      }
      return *own;
    };
    for (std::size_t i = 3; i < cells.size(); ++i) {
      const std::string_view word = cells[i].substr(0, cells[i].find('='));
      const std::string_view rest = cells[i].substr(std::min(word.size() + 1, cells[i].size()));
      if (word == "required")
        field.required = true;
      else if (word == "pointer")
        field.pointer = true;
      else if (word == "always")
        field.always = true;
      else if (word == "default")
        field.standard = json::parse(rest);
      else
        read_attribute(word, rest, separate());
    }
    field.schema = schema;
    return field;
  }

  void read_attribute(std::string_view word, std::string_view rest, Schema& schema) {
    if (word == "atomic") {
      schema.atomic = true;
    } else if (word == "retain") {
      schema.patch_retain_keys = true;
    } else if (word == "set") {
      schema.list = ListKind::kSet;
    } else if (word == "map") {
      schema.list = ListKind::kMap;
      schema.keys = words(rest);
    } else if (word == "merge") {
      schema.patch_merge = true;
      schema.patch_key = rest;
    } else if (word == "enum") {
      json::array known;
      each_part(rest, ',', [&](std::string_view value) {
        std::string text(value);
        std::ranges::replace(text, '_', ' ');
        known.emplace_back(text);
      });
      Schema& scalar = schema.type == Schema::Type::kList
                           ? const_cast<Schema&>(*(schema.element = &copy_of(*schema.element)))
                           : schema;
      scalar.rules = json::object{{"enum", std::move(known)}};
    } else {
      CHECK(false);
    }
  }

  Schema& copy_of(const Schema& schema) {
    Schema& copy = schemas_.make();
    copy = schema;
    return copy;
  }

  // `own`: the schema, where nobody else has it.
  const Schema* read_type(std::string_view text, std::string_view package, Schema*& own) {
    if (text.back() == ']' || text.back() == '}') {
      Schema* unused = nullptr;
      const std::size_t open = text.find_first_of("[{");
      const bool list = text[open] == '[';
      Schema& schema = schemas_.make();
      schema.type = list ? Schema::Type::kList : Schema::Type::kMap;
      schema.name = open == 0                                   ? ""
                    : text[0] == 'i' && text.starts_with("io.") ? std::string(text.substr(0, open))
                                                                : format("{}.{}", package, text.substr(0, open));
      schema.element = read_type(text.substr(open + 1, text.size() - open - 2), package, unused);
      return own = &schema;
    }
    if (const auto at = words_.find(text); at != words_.end())
      return at->second;
    const Schema* schema =
        type(text.find('.') == std::string_view::npos ? format("{}.{}", package, text) : std::string(text));
    CHECK(schema);
    return schema;
  }

  void set_default(const DefaultRow& row) {
    const Schema* schema = type(row.type);
    CHECK(schema);
    const Field* field = schema->field(row.field);
    CHECK(field);
    const_cast<Field*>(field)->standard = json::parse(row.json);
  }

  // Texts of fields stay where they lie in the program.
  void describe(const DescriptionRows& rows) {
    Schema* into = nullptr;
    each_part(rows.rows, '\n', [&](std::string_view row) {
      const std::size_t space = row.find(' ');
      CHECK(space != std::string_view::npos);
      const std::string_view word = row.substr(0, space), text = row.substr(space + 1);
      if (word == "=") {
        take_texts(*into, *described(text, rows.package));
      } else if (word[0] == ':') {
        into = described(word.substr(1), rows.package);
        CHECK(into->description.empty());
        into->description = text;
      } else {
        const Field* field = into->field(word);
        CHECK(field);
        CHECK(field->description.empty());
        const_cast<Field*>(field)->description = text;
      }
    });
  }

  Schema* described(std::string_view name, std::string_view package) {
    const bool full = name.find('.') != std::string_view::npos;
    const auto at = types_.find(full ? std::string(name) : format("{}.{}", package, name));
    CHECK(at != types_.end());
    return at->second;
  }

  static void take_texts(Schema& into, const Schema& other) {
    for (Field& field : into.fields)
      if (const Field* same = other.field(field.name); same && field.description.empty())
        field.description = same->description;
  }

  // What all kinds have, and all lists of kinds.
  static void describe_kind(Schema& schema) {
    const Field* kind = schema.field("kind");
    if (!kind || kind->number != 0)
      return;
    const auto say = [&](std::string_view name, std::string_view text) {
      if (const Field* field = schema.field(name); field && field->description.empty())
        const_cast<Field*>(field)->description = text;
    };
    say("apiVersion", kVersionSaid);
    say("kind", kKindSaid);
    const Field* metadata = schema.field("metadata");
    if (!metadata)
      return;
    const bool list = metadata->schema->name == kListMetaName;
    say("metadata", list ? kListMetadataSaid : kMetadataSaid);
    const Field* items = list ? schema.field("items") : nullptr;
    if (!items)
      return;
    say("items", "the objects of the list");
    const std::string_view element = items->schema->element->name;
    if (schema.description.empty() && !element.empty())
      schema.description = format("a list of objects of kind {}", element.substr(element.rfind('.') + 1));
  }

  void read_resources(const ResourceRows& rows) {
    const GroupVersion of = split_group_version(rows.api_version);
    each_part(rows.rows, '\n', [&](std::string_view row) {
      std::vector<std::string_view> cells;
      each_part(row, ' ', [&](std::string_view cell) { cells.push_back(cell); });
      CHECK(cells.size() >= 5);
      const auto attribute = [&](std::string_view name) {
        for (std::size_t i = 5; i < cells.size(); ++i)
          if (cells[i].size() > name.size() && cells[i].starts_with(name) && cells[i][name.size()] == '=')
            return cells[i].substr(name.size() + 1);
        return std::string_view();
      };
      const std::size_t slash = cells[0].find('/');
      if (slash != std::string_view::npos) {
        const GroupVersion own = attribute("of").empty() ? of : split_group_version(attribute("of"));
        Resource* parent = nullptr;
        for (Resource& resource : resources_)
          if (resource.plural == cells[0].substr(0, slash) && resource.group == of.group &&
              resource.version == of.version)
            parent = &resource;
        CHECK(parent);
        parent->subresources.push_back({std::string(cells[0].substr(slash + 1)), own.group, own.version,
                                        std::string(cells[1]), words(cells[4]),
                                        kind(group_version_text(own.group, own.version), cells[1])});
        return;
      }
      Resource resource;
      resource.group = of.group;
      resource.version = of.version;
      resource.plural = cells[0];
      resource.kind = cells[1];
      resource.singular = cells[2] == "-" ? "" : cells[2];
      resource.namespaced = cells[3] == "namespaced";
      resource.verbs = words(cells[4]);
      resource.short_names = words(attribute("short"));
      resource.categories = words(attribute("in"));
      resource.storage_hash = attribute("hash");
      resource.schema = kind(rows.api_version, resource.kind);
      CHECK(resource.schema);
      if (resource.has_verb("list")) {
        resource.list_kind = resource.kind + "List";
        resource.list_schema = kind(rows.api_version, resource.list_kind);
        CHECK(resource.list_schema);
      }
      resources_.push_back(std::move(resource));
    });
  }

  SchemaSet schemas_;
  std::map<std::string_view, Schema*> words_;
  std::map<std::string, Schema*, std::less<>> types_;
  std::map<std::pair<std::string_view, std::string_view>, const Schema*> kinds_;  // apiVersion and kind
  std::vector<std::pair<Schema*, const Schema*>> copies_;  // the same type with attributes of one field
  std::vector<const Schema*> all_;
  std::vector<Resource> resources_;
};

const Tables& tables() {
  static const Tables all;
  return all;
}

}  // namespace

const std::vector<Resource>& builtin_resources() { return tables().resources(); }

const Resource* find_builtin(std::string_view group, std::string_view version, std::string_view plural) {
  for (const Resource& resource : tables().resources())
    if (resource.plural == plural && resource.group == group && resource.version == version)
      return &resource;
  return nullptr;
}

const Resource* find_builtin_kind(std::string_view group, std::string_view version, std::string_view kind) {
  for (const Resource& resource : tables().resources())
    if (resource.kind == kind && resource.group == group && resource.version == version)
      return &resource;
  return nullptr;
}

const Schema* builtin_schema(std::string_view name) { return tables().type(name); }

const Schema* builtin_kind_schema(std::string_view group, std::string_view version, std::string_view kind) {
  return tables().kind(group_version_text(group, version), kind);
}

const std::vector<const Schema*>& builtin_schemas() { return tables().all(); }

}  // namespace lockstep::kube
