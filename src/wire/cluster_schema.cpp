#include "wire/cluster_schema.h"

#include <algorithm>

#include "base/text.h"
#include "wire/cluster_keys.h"
#include "wire/json.h"

namespace lockstep {

namespace wire {

namespace {

std::string quoted(std::string_view text) {
  std::string out;
  append_string(out, text);
  return out;
}

std::string definition_name(std::string_view form) {
  std::string out(form);
  std::replace(out.begin(), out.end(), ' ', '_');
  return out;
}

std::string reference(std::string_view form) { return format("\"$ref\":\"#/$defs/{}\"", definition_name(form)); }

template <class T>
std::string properties_of() {
  std::string out;
  for (const FileKey<T>& key : file_keys<T>())
    out += format("{}\n    {}: {{{}, \"description\":{}}}", out.empty() ? "" : ",", quoted(key.name),
                  reference(key.form->name), quoted(key.meaning));
  return out;
}

template <class T>
std::string required_of() {
  std::string out;
  for (const FileKey<T>& key : file_keys<T>())
    if (key.always)
      out += format("{}{}", out.empty() ? "" : ",", quoted(key.name));
  return out;
}

// besides: properties that no row has.
template <class T>
std::string definition_of(std::string_view name, std::string_view besides = {}, std::string_view also_required = {}) {
  const std::string required = required_of<T>() + std::string(also_required);
  return format("  {}: {{\"type\":{}, \"additionalProperties\":false, \"required\":[{}], \"properties\":{{{}{}}}}}",
                quoted(name), required.empty() ? "[\"object\",\"null\"]" : "\"object\"", required, properties_of<T>(),
                besides);
}

std::string named_section(std::string_view word, std::string_view definition, std::string_view meaning) {
  return format("  {}: {{\"description\":{}, \"type\":[\"object\",\"null\"], \"additionalProperties\":{{{}}}}}",
                quoted(word), quoted(meaning), reference(definition));
}

std::string section_schema(const SectionRow& section) {
  switch (section.kind) {
    case Kind::kNodeClass: return named_section(section.word, "node_class", section.meaning);
    case Kind::kPartition: return named_section(section.word, "partition", section.meaning);
    case Kind::kQos: return named_section(section.word, "qos", section.meaning);
    case Kind::kAccount: return named_section(section.word, "account", section.meaning);
    case Kind::kLicence: return named_section(section.word, "licence_or_count", section.meaning);
    case Kind::kReservation: return named_section(section.word, "reservation", section.meaning);
    case Kind::kHealthCheck: return named_section(section.word, "health_check", section.meaning);
    default:
      return format("  {}: {{{}, \"description\":{}}}", quoted(section.word), reference(section.word),
                    quoted(section.meaning));
  }
}

template <class T>
void add_forms(std::vector<const FormRow*>& out) {
  for (const FileKey<T>& key : file_keys<T>())
    if (std::find(out.begin(), out.end(), key.form) == out.end())
      out.push_back(key.form);
}

// Each form that some key has, once.
std::vector<const FormRow*> every_form() {
  std::vector<const FormRow*> out;
  add_forms<NodeClass>(out);
  add_forms<Partition>(out);
  add_forms<Qos>(out);
  add_forms<Account>(out);
  add_forms<Association>(out);
  add_forms<Licence>(out);
  add_forms<Reservation>(out);
  add_forms<HealthCheck>(out);
  add_forms<Policy>(out);
  add_forms<Topology>(out);
  return out;
}

std::string definitions() {
  std::vector<std::string> out;
  const auto add_form = [&](const FormRow& form) {
    out.push_back(format("  {}: {}", quoted(definition_name(form.name)), form.schema));
  };
  for (const FormRow* form : every_form()) add_form(*form);
  out.push_back(definition_of<NodeClass>("node_class"));
  out.push_back(definition_of<Partition>("partition"));
  out.push_back(definition_of<Qos>("qos"));
  out.push_back(definition_of<Account>(
      "account",
      ",\n    \"parent\": {\"$ref\":\"#/$defs/text\"},\n    \"users\": {\"oneOf\":[{\"$ref\":\"#/$defs/names\"},"
      "{\"type\":[\"object\",\"null\"], \"additionalProperties\":{\"$ref\":\"#/$defs/association\"}}]},\n"
      "    \"accounts\": {\"type\":[\"object\",\"null\"], "
      "\"additionalProperties\":{\"$ref\":\"#/$defs/account\"}}"));
  out.push_back(definition_of<Association>("association"));
  out.push_back(definition_of<Licence>("licence"));
  out.emplace_back("  \"licence_or_count\": {\"oneOf\":[{\"$ref\":\"#/$defs/count\"},{\"$ref\":\"#/$defs/licence\"}]}");
  out.push_back(definition_of<Reservation>("reservation"));
  out.push_back(definition_of<HealthCheck>("health_check"));
  out.push_back(definition_of<Policy>("policy"));
  out.push_back(definition_of<Topology>(
      "topology", ",\n    \"tree\": {\"type\":\"object\", \"additionalProperties\":{\"$ref\":\"#/$defs/branch\"}}",
      ",\"tree\""));
  out.emplace_back(
      "  \"branch\": {\"oneOf\":[{\"$ref\":\"#/$defs/hosts\"},"
      "{\"type\":\"object\", \"additionalProperties\":{\"$ref\":\"#/$defs/branch\"}}]}");
  return join(out, ",\n");
}

// --- the documentation's tables ---

std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

template <class T>
std::string table_of() {
  std::string out = "| key | value | left out | what it means |\n| --- | --- | --- | --- |\n";
  for (const FileKey<T>& key : file_keys<T>())
    out += format("| `{}` | {} | {} | {} |\n", key.name, cell(key.form->name),
                  key.always ? "must be said" : cell(key.write(default_record<T>()).words()), cell(key.meaning));
  return out + "\n";
}

std::string table_of(Kind kind) {
  switch (kind) {
    case Kind::kNodeClass: return table_of<NodeClass>();
    case Kind::kPartition: return table_of<Partition>();
    case Kind::kQos: return table_of<Qos>();
    case Kind::kAccount:
      return table_of<Account>() + "Of a user in an account (`ann`, or `ann/debug` in that partition only):\n\n" +
             table_of<Association>();
    case Kind::kLicence: return table_of<Licence>();
    case Kind::kReservation: return table_of<Reservation>();
    case Kind::kHealthCheck: return table_of<HealthCheck>();
    case Kind::kPolicy: return table_of<Policy>();
    default: return table_of<Topology>();
  }
}

}  // namespace

}  // namespace wire

std::string cluster_file_schema() {
  std::string sections = "  \"administrators\": {\"$ref\":\"#/$defs/names\", \"description\":\"Login names.\"}";
  for (const wire::SectionRow& section : wire::file_sections()) sections += ",\n" + wire::section_schema(section);
  return format(
      "{{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\n\"title\":\"Lockstep cluster.yaml\",\n"
      "\"type\":\"object\", \"additionalProperties\":false,\n\"properties\":{{\n{}}},\n\"$defs\":{{\n{}}}}}\n",
      sections, wire::definitions());
}

std::string cluster_file_tables() {
  std::string out;
  for (const wire::SectionRow& section : wire::file_sections())
    out += format("### `{}`\n\n{}\n\n{}", section.word, section.meaning, wire::table_of(section.kind));
  out += "### How values are written\n\n| value | written |\n| --- | --- |\n";
  for (const wire::FormRow* form : wire::every_form())
    out += format("| {} | {} |\n", form->name, wire::cell(form->meaning));
  return out;
}

}  // namespace lockstep
