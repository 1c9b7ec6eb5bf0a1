#include "frontends/kube/machinery/table.h"

#include "base/text.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/timestamps.h"

namespace lockstep::kube {
namespace {

json::value custom_cell(const Column& column, const JsonPath& path, const json::value& object, WallTime now) {
  const json::value* value = path.first(object);
  if (value == nullptr)
    return nullptr;
  if (column.type == "string")
    return json::value(json_path_text({value}));
  if (column.type == "integer" && is_number(*value)) {
    if (!value->is_double())
      return *value;
    const double number = value->get_double();
    return number > -9.2e18 && number < 9.2e18 ? json::value(static_cast<std::int64_t>(number)) : json::value();
  }
  if (column.type == "number" && is_number(*value))
    return *value;
  if (column.type == "boolean" && value->is_bool())
    return *value;
  if (column.type == "date" && value->is_string())
    return json::value(since_text(value, now));
  return nullptr;
}

std::string member_text(const json::value& object, std::string_view key) {
  const json::value* found = member(object, key);
  return found == nullptr ? std::string() : std::string(text_of(*found));
}

}  // namespace

std::optional<RowObject> row_object(std::string_view text) {
  if (text.empty() || text == "Metadata")
    return RowObject::kMetadata;
  if (text == "None")
    return RowObject::kNone;
  if (text == "Object")
    return RowObject::kObject;
  return std::nullopt;
}

void Table::add_row(json::array cells, const json::object& object) {
  json::object row;
  row["cells"] = std::move(cells);
  if (include_ == RowObject::kObject) {
    row["object"] = object;
  } else if (include_ == RowObject::kMetadata) {
    json::object partial;
    partial["kind"] = "PartialObjectMetadata";
    partial["apiVersion"] = "meta.k8s.io/" + version_;
    const json::value* metadata = object.if_contains("metadata");
    partial["metadata"] = metadata == nullptr ? json::value(json::object()) : *metadata;
    row["object"] = std::move(partial);
  } else {
    row["object"] = nullptr;
  }
  rows_.push_back(std::move(row));
}

json::object Table::body(json::object list_metadata, bool headers) && {
  json::object body;
  body["kind"] = "Table";
  body["apiVersion"] = "meta.k8s.io/" + version_;
  body["metadata"] = std::move(list_metadata);
  json::array definitions;
  for (const Column& column : columns_) {
    if (!headers)
      break;
    json::object definition;
    definition["name"] = column.name;
    definition["type"] = column.type;
    definition["format"] = column.format;
    definition["description"] = column.description;
    definition["priority"] = column.priority;
    definitions.push_back(std::move(definition));
  }
  body["columnDefinitions"] = headers ? json::value(std::move(definitions)) : json::value();
  body["rows"] = std::move(rows_);
  return body;
}

std::string since_text(const json::value* timestamp, WallTime now) {
  if (timestamp == nullptr || timestamp->is_null() || text_of(*timestamp).empty())
    return "<unknown>";
  const auto since = parse_timestamp(text_of(*timestamp));
  return since ? age_text({now.us - since->us}) : "<invalid>";
}

Result<CustomColumns> read_custom_columns(const json::value& version) {
  CustomColumns out;
  out.columns_.push_back({"Name", "string", "name", "The object's name, unique within its namespace", 0});
  const json::array* columns = member_array(version, "additionalPrinterColumns");
  if (columns == nullptr || columns->empty()) {
    out.columns_.push_back({"Age", "date", "", "How long ago the object was created", 0});
    out.paths_.push_back(TRY(parse_json_path(".metadata.creationTimestamp")));
    return out;
  }
  for (const json::value& each : *columns) {
    Column column{member_text(each, "name"), member_text(each, "type"), member_text(each, "format"),
                  member_text(each, "description"), 0};
    const std::string path = member_text(each, "jsonPath");
    if (column.description.empty())
      column.description = "Custom resource definition column (in JSONPath format): " + path;
    if (const json::value* priority = member(each, "priority"); priority != nullptr && priority->is_int64())
      column.priority = static_cast<std::int32_t>(priority->get_int64());
    Result<JsonPath> parsed = parse_json_path(path);
    if (!parsed)
      return invalid(format("unrecognized column definition \"{}\": {}", path, parsed.error().message));
    out.columns_.push_back(std::move(column));
    out.paths_.push_back(std::move(*parsed));
  }
  return out;
}

json::array CustomColumns::cells(const json::value& object, WallTime now) const {
  json::array cells;
  const json::object* metadata = member_object(object, "metadata");
  const json::value* name = metadata == nullptr ? nullptr : metadata->if_contains("name");
  cells.push_back(name == nullptr ? json::value("") : *name);
  for (std::size_t at = 0; at < paths_.size(); ++at)
    cells.push_back(custom_cell(columns_[at + 1], paths_[at], object, now));
  return cells;
}

}  // namespace lockstep::kube
