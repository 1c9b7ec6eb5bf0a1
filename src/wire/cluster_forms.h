// Internal to wire: how values are written in cluster.yaml. A form reads what stands behind a key and writes it; its
// definition is what the schema for editors says of it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "model/accounting.h"
#include "model/health.h"
#include "model/reservation.h"
#include "wire/yaml.h"

namespace lockstep::wire {

// What stands behind a key: text, a list, or a map of texts.
struct FileValue {
  YamlNode::Shape shape = YamlNode::Shape::kScalar;
  std::vector<std::pair<std::string, std::string>> items;  // of a list and of text the first of each pair is empty
  bool literal = false;                                    // true, 12: not text, and never between quotes

  static FileValue text(std::string value) { return {YamlNode::Shape::kScalar, {{"", std::move(value)}}, false}; }
  static FileValue plain(std::string value) { return {YamlNode::Shape::kScalar, {{"", std::move(value)}}, true}; }
  static FileValue list(const std::vector<std::string>& values);

  // On one line, as the file has it. where: behind a key, or between brackets.
  std::string yaml(YamlPlace within = YamlPlace::kBlock) const;
  std::string words() const;  // for people: "(none)" for nothing
  friend bool operator==(const FileValue&, const FileValue&) = default;
};

// A form: its name ("duration"), which the documentation explains, and what the schema says.
struct FormRow {
  std::string_view name, schema, meaning;
};

// What a value is wrong about. The message begins with the line.
Error wrong_at(const YamlNode& node, std::string_view why);
Result<std::string> scalar_of(const YamlNode& node, std::string_view what);
Result<std::int64_t> number_of(const YamlNode& node, std::int64_t low, std::int64_t high);
// Texts of a list; of one text its parts between commas.
Result<std::vector<std::string>> texts_of(const YamlNode& node);
// "max_tres_per_job", "MaxTRESPerJob" and "max-tres-per-job" are one name.
std::string squeezed(std::string_view name);
// Which of the words it is, by squeezed names; the error says which there are.
Result<std::size_t> word_of(const YamlNode& node, std::span<const std::string_view> words);

struct FlagForm {
  static const FormRow row;
  static Result<void> read(const YamlNode& node, bool& out);
  static FileValue write(bool value) { return FileValue::plain(value ? "true" : "false"); }
};
struct UpForm {
  static const FormRow row;
  static Result<void> read(const YamlNode& node, bool& out);
  static FileValue write(bool value) { return FileValue::text(value ? "up" : "down"); }
};
struct TextForm {
  static const FormRow row;
  static Result<void> read(const YamlNode& node, std::string& out);
  static FileValue write(const std::string& value) { return FileValue::text(value); }
};
struct NamesForm {
  static const FormRow row;
  static Result<void> read(const YamlNode& node, std::vector<std::string>& out);
  static FileValue write(const std::vector<std::string>& value) { return FileValue::list(value); }
};
struct HostsForm {
  static const FormRow row;
  static Result<void> read(const YamlNode& node, std::vector<std::string>& out);
  static FileValue write(const std::vector<std::string>& value);
};
struct CountForm {
  static const FormRow row;
  static Result<void> read(const YamlNode& node, std::uint32_t& out);
  static Result<void> read(const YamlNode& node, std::int64_t& out);
  static FileValue write(std::int64_t value) { return FileValue::plain(std::to_string(value)); }
};
// 0 bounds nothing.
struct BoundForm {
  static const FormRow row;
  static Result<void> read(const YamlNode& node, std::uint32_t& out);
  static FileValue write(std::uint32_t value);
};
// kNoLimit bounds nothing.
struct LimitForm {
  static const FormRow row;
  static Result<void> read(const YamlNode& node, std::int64_t& out);
  static FileValue write(std::int64_t value);
};
struct SharesForm {
  static const FormRow row;
  static Result<void> read(const YamlNode& node, std::uint32_t& out);
  static FileValue write(std::uint32_t value);
};
struct SpanForm {
  static const FormRow row;
  static Result<void> read(const YamlNode& node, Duration& out);
  static FileValue write(Duration value);
};
// Whole minutes; kNoLimit bounds nothing.
struct MinutesForm {
  static const FormRow row;
  static Result<void> read(const YamlNode& node, std::int64_t& out);
  static FileValue write(std::int64_t value);
};
struct MemoryForm {
  static const FormRow row;
  static Result<void> read(const YamlNode& node, std::int64_t& megabytes);
  static FileValue write(std::int64_t megabytes);
};
struct TresForm {
  static const FormRow row;
  static Result<void> read(const YamlNode& node, TresLimit& out);
  static Result<void> read(const YamlNode& node, Tres& out);
  static FileValue write(const TresLimit& value);
  static FileValue write(const Tres& value);
};
struct WeightsForm {
  static const FormRow row;
  static Result<void> read(const YamlNode& node, std::vector<TresWeight>& out);
  static FileValue write(const std::vector<TresWeight>& value);
};
struct CountsForm {
  static const FormRow row;
  static Result<void> read(const YamlNode& node, std::vector<NamedCount>& out);
  static FileValue write(const std::vector<NamedCount>& value);
};
// Thousandths.
struct FactorForm {
  static const FormRow row;
  static Result<void> read(const YamlNode& node, std::uint32_t& milli);
  static FileValue write(std::uint32_t milli);
};
// Millionths; -1: none.
struct ShareForm {
  static const FormRow row;
  static Result<void> read(const YamlNode& node, std::int64_t& ppm);
  static FileValue write(std::int64_t ppm);
};
struct PreemptForm {
  static const FormRow row;
  static Result<void> read(const YamlNode& node, PreemptMode& out);
  static FileValue write(PreemptMode value);
};
struct OnUnhealthyForm {
  static const FormRow row;
  static Result<void> read(const YamlNode& node, OnUnhealthy& out);
  static FileValue write(OnUnhealthy value);
};
struct ResetForm {
  static const FormRow row;
  static Result<void> read(const YamlNode& node, Policy::Reset& out);
  static FileValue write(Policy::Reset value);
};
struct RecurrenceForm {
  static const FormRow row;
  static Result<void> read(const YamlNode& node, Recurrence& out);
  static FileValue write(Recurrence value);
};
struct MomentForm {
  static const FormRow row;
  static Result<void> read(const YamlNode& node, WallTime& out);
  static FileValue write(WallTime value);
  // With the zone: seconds east of Greenwich.
  static Result<void> read(const YamlNode& node, WallTime& out, std::int32_t& zone_s);
  static FileValue write(WallTime value, std::int32_t zone_s);
};

}  // namespace lockstep::wire
