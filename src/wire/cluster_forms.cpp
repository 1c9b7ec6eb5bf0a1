#include "wire/cluster_forms.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/hostlist.h"
#include "base/nearest.h"
#include "base/text.h"
#include "model/bounds.h"
#include "model/tres_names.h"
#include "wire/json.h"

namespace lockstep::wire {

namespace {

constexpr std::string_view kUnlimited = "unlimited";

bool bounds_nothing_word(std::string_view text) {
  const std::string word = lower(text);
  return word == kUnlimited || word == "infinite" || word == "none" || word == "-1";
}

}  // namespace

Error wrong_at(const YamlNode& node, std::string_view why) {
  return invalid(format("line {}: {}", node.begin.line, why));
}

Result<std::string> scalar_of(const YamlNode& node, std::string_view what) {
  if (node.shape != YamlNode::Shape::kScalar || node.is_null())
    return wrong_at(node, format("must be {}", what));
  return unescape(node.text);
}

Result<std::int64_t> number_of(const YamlNode& node, std::int64_t low, std::int64_t high) {
  const std::string text = TRY(scalar_of(node, "a number"));
  const auto number = parse_int(trim(text));
  if (!number || *number < low || *number > high)
    return wrong_at(node, format("\"{}\" is no number from {} to {}", text, low, high));
  return *number;
}

Result<std::vector<std::string>> texts_of(const YamlNode& node) {
  std::vector<std::string> out;
  if (node.shape == YamlNode::Shape::kMap)
    return wrong_at(node, "must be a list");
  if (node.shape == YamlNode::Shape::kList) {
    for (const YamlNode& item : node.children) out.push_back(TRY(scalar_of(item, "a list of words")));
    return out;
  }
  if (node.is_null())
    return out;
  for (const std::string& part : split(unescape(node.text), ',')) out.emplace_back(trim(part));
  return out;
}

std::string squeezed(std::string_view name) {
  std::string out;
  for (const char c : lower(name))
    if (c != '_' && c != '-')
      out += c;
  return out;
}

Result<std::size_t> word_of(const YamlNode& node, std::span<const std::string_view> words) {
  const std::string text = TRY(scalar_of(node, "a word"));
  for (std::size_t i = 0; i < words.size(); ++i)
    if (squeezed(words[i]) == squeezed(text))
      return i;
  return wrong_at(node, format("\"{}\" is not among the words here{}", text, hint(text, words)));
}

// --- what is written ---

FileValue FileValue::list(const std::vector<std::string>& values) {
  FileValue out{YamlNode::Shape::kList, {}, false};
  for (const std::string& value : values) out.items.emplace_back("", value);
  return out;
}

std::string FileValue::yaml(YamlPlace within) const {
  if (shape == YamlNode::Shape::kScalar)
    return literal ? items[0].second : yaml_scalar(items[0].second, within);
  const bool is_map = shape == YamlNode::Shape::kMap;
  std::string out(1, is_map ? '{' : '[');
  for (const auto& [key, value] : items) {
    if (out.size() > 1)
      out += ", ";
    if (is_map)
      out += yaml_scalar(key, YamlPlace::kBrackets) + ": ";
    out += literal ? value : yaml_scalar(value, YamlPlace::kBrackets);
  }
  return out + (is_map ? '}' : ']');
}

std::string FileValue::words() const {
  const bool empty = items.empty() || (shape == YamlNode::Shape::kScalar && items[0].second.empty());
  if (empty)
    return "(none)";
  const bool is_line = shape == YamlNode::Shape::kScalar && items[0].second.find('\n') == std::string::npos;
  return is_line ? items[0].second : yaml();  // a script is one line between quotes
}

// --- flags, texts, names ---

const FormRow FlagForm::row{"flag", R"({"type":"boolean"})", "`true` or `false`"};

Result<void> FlagForm::read(const YamlNode& node, bool& out) {
  const std::string word = lower(TRY(scalar_of(node, "true or false")));
  const bool yes = word == "true" || word == "yes" || word == "on";
  if (!yes && word != "false" && word != "no" && word != "off")
    return wrong_at(node, format("\"{}\" must be true or false", node.text));
  out = yes;
  return {};
}

const FormRow UpForm::row{"state", R"({"enum":["up","down"]})", "`up` or `down`"};

Result<void> UpForm::read(const YamlNode& node, bool& out) {
  constexpr std::string_view kWords[] = {"down", "up"};
  out = TRY(word_of(node, kWords)) == 1;
  return {};
}

const FormRow TextForm::row{"text", R"({"type":["string","number","boolean"]})", "text"};

Result<void> TextForm::read(const YamlNode& node, std::string& out) {
  out = TRY(scalar_of(node, "text"));
  return {};
}

const FormRow NamesForm::row{"names",
                             R"({"oneOf":[{"type":"string"},{"type":"array","items":{"type":["string","number"]}}]})",
                             "a list: `[a, b]`; also `a,b`"};

Result<void> NamesForm::read(const YamlNode& node, std::vector<std::string>& out) {
  std::vector<std::string> names = TRY(texts_of(node));
  std::vector<std::string> sorted = names;
  std::sort(sorted.begin(), sorted.end());
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
    return wrong_at(node, format("{} is there twice", *twice));
  if (!sorted.empty() && sorted.front().empty())
    return wrong_at(node, "an empty name");
  out = std::move(names);
  return {};
}

const FormRow HostsForm::row{"hosts",
                             R"({"oneOf":[{"type":"string"},{"type":"array","items":{"type":["string","number"]}}]})",
                             "names of nodes: `gpu[01-16]`, `gpu1,gpu2`, or a list of such; `ALL` is every node"};

Result<void> HostsForm::read(const YamlNode& node, std::vector<std::string>& out) {
  std::vector<std::string> texts;
  if (node.shape == YamlNode::Shape::kList)
    texts = TRY(texts_of(node));
  else if (!node.is_null())
    texts = {TRY(scalar_of(node, "names of nodes"))};
  std::vector<std::string> names;
  for (const std::string& text : texts) {
    if (lower(trim(text)) == "all") {
      names.emplace_back("ALL");
      continue;
    }
    const auto more = expand_hostlist(text, kAllNodesMax);
    if (!more)
      return wrong_at(node, more.error().message);
    names.insert(names.end(), more->begin(), more->end());
    if (names.size() > kAllNodesMax)
      return wrong_at(node, format("more than {} names", kAllNodesMax));
  }
  for (const std::string& name : names)
    if (!is_node_name(name))
      return wrong_at(node, format("\"{}\" is no name of a node", name));
  sort_hosts(names);
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    return wrong_at(node, format("node {} is there twice", *twice));
  if (names.size() > 1 && std::find(names.begin(), names.end(), "ALL") != names.end())
    return wrong_at(node, "ALL is every node: it stands alone");
  out = std::move(names);
  return {};
}

FileValue HostsForm::write(const std::vector<std::string>& value) {
  std::vector<std::string> names = value;
  sort_hosts(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names.empty() ? FileValue::list({}) : FileValue::text(compress_hostlist(names));
}

// --- numbers ---

const FormRow CountForm::row{"count", R"({"type":"integer","minimum":0})", "a number"};

Result<void> CountForm::read(const YamlNode& node, std::uint32_t& out) {
  out = static_cast<std::uint32_t>(TRY(number_of(node, 0, UINT32_MAX)));
  return {};
}

Result<void> CountForm::read(const YamlNode& node, std::int64_t& out) {
  out = TRY(number_of(node, 0, kSumMax));
  return {};
}

const FormRow BoundForm::row{"bound", R"({"oneOf":[{"type":"integer","minimum":0},{"const":"unlimited"}]})",
                             "a number, or `unlimited`"};

Result<void> BoundForm::read(const YamlNode& node, std::uint32_t& out) {
  if (node.shape == YamlNode::Shape::kScalar && bounds_nothing_word(node.text)) {
    out = 0;
    return {};
  }
  return CountForm::read(node, out);
}

FileValue BoundForm::write(std::uint32_t value) {
  return value == 0 ? FileValue::text(std::string(kUnlimited)) : CountForm::write(value);
}

const FormRow LimitForm::row{"limit", R"({"oneOf":[{"type":"integer","minimum":0},{"const":"unlimited"}]})",
                             "a number, or `unlimited`"};

Result<void> LimitForm::read(const YamlNode& node, std::int64_t& out) {
  if (node.shape == YamlNode::Shape::kScalar && bounds_nothing_word(node.text)) {
    out = kNoLimit;
    return {};
  }
  return CountForm::read(node, out);
}

FileValue LimitForm::write(std::int64_t value) {
  return value == kNoLimit ? FileValue::text(std::string(kUnlimited)) : CountForm::write(value);
}

const FormRow SharesForm::row{"shares", R"({"oneOf":[{"type":"integer","minimum":0},{"const":"parent"}]})",
                              "a number, or `parent`: counts as the account above"};

Result<void> SharesForm::read(const YamlNode& node, std::uint32_t& out) {
  if (node.shape == YamlNode::Shape::kScalar && lower(node.text) == "parent") {
    out = kParentShares;
    return {};
  }
  return CountForm::read(node, out);
}

FileValue SharesForm::write(std::uint32_t value) {
  return value == kParentShares ? FileValue::text("parent") : CountForm::write(value);
}

namespace {

// "2.5" in units of 1/scale; nullopt: no such number, or finer than that.
std::optional<std::int64_t> decimal_of(std::string_view text, std::int64_t scale, std::int64_t most) {
  const auto point = text.find('.');
  const auto whole = parse_uint(text.substr(0, point));
  if (!whole || *whole > static_cast<std::uint64_t>(most / scale))
    return std::nullopt;
  std::int64_t value = static_cast<std::int64_t>(*whole) * scale;
  if (point == text.npos)
    return value;
  std::int64_t unit = scale;
  for (const char c : text.substr(point + 1)) {
    unit /= 10;
    if (c < '0' || c > '9' || (unit == 0 && c != '0'))
      return std::nullopt;
    value += (c - '0') * unit;
  }
  return value <= most ? std::optional(value) : std::nullopt;
}

std::string decimal_text(std::int64_t value, std::int64_t scale) {
  std::string out = std::to_string(value / scale);
  std::string rest;
  for (std::int64_t left = value % scale, unit = scale / 10; left > 0; left %= unit, unit /= 10)
    rest += static_cast<char>('0' + left / unit);
  return rest.empty() ? out : out + "." + rest;
}

}  // namespace

const FormRow FactorForm::row{"factor", R"({"type":"number","minimum":0})", "a number such as `1` or `0.25`"};

Result<void> FactorForm::read(const YamlNode& node, std::uint32_t& milli) {
  const std::string text = TRY(scalar_of(node, "a number"));
  const auto value = decimal_of(trim(text), 1000, UINT32_MAX);
  if (!value)
    return wrong_at(node, format("\"{}\" is no number such as 1 or 0.25 (thousandths are the finest)", text));
  milli = static_cast<std::uint32_t>(*value);
  return {};
}

FileValue FactorForm::write(std::uint32_t milli) { return FileValue::plain(decimal_text(milli, 1000)); }

const FormRow ShareForm::row{"part", R"({"oneOf":[{"type":"number","minimum":0,"maximum":1},{"const":"none"}]})",
                             "a number from 0 to 1, or `none`"};

Result<void> ShareForm::read(const YamlNode& node, std::int64_t& ppm) {
  const std::string text = TRY(scalar_of(node, "a number from 0 to 1"));
  if (bounds_nothing_word(text)) {
    ppm = -1;
    return {};
  }
  const auto value = decimal_of(trim(text), 1'000'000, 1'000'000);
  if (!value)
    return wrong_at(node, format("\"{}\" is no number from 0 to 1", text));
  ppm = *value;
  return {};
}

FileValue ShareForm::write(std::int64_t ppm) {
  return ppm < 0 ? FileValue::text("none") : FileValue::plain(decimal_text(ppm, 1'000'000));
}

// --- time ---

namespace {

struct SpanUnit {
  std::string_view word;
  std::int64_t us;
};
constexpr SpanUnit kSpanUnits[] = {{"d", 86'400'000'000}, {"h", 3'600'000'000}, {"m", 60'000'000},
                                   {"s", 1'000'000},      {"ms", 1'000},        {"us", 1}};
constexpr std::int64_t kWeek = 7 * kSpanUnits[0].us;

std::string span_text(std::int64_t us) {
  if (us == 0)
    return "0";
  std::string out;
  for (const SpanUnit& unit : kSpanUnits) {
    if (us >= unit.us)
      out += format("{}{}", us / unit.us, unit.word);
    us %= unit.us;
  }
  return out;
}

// "1h30m": numbers with units, the sum of them.
std::optional<std::int64_t> units_span(std::string_view text) {
  std::int64_t total = 0;
  while (!text.empty()) {
    const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    const auto number = parse_uint(text.substr(0, digits));
    text.remove_prefix(digits);
    const std::string_view word = text.substr(0, std::min(text.find_first_of("0123456789"), text.size()));
    text.remove_prefix(word.size());
    std::int64_t unit = word == "w" ? kWeek : 0;
    for (const SpanUnit& known : kSpanUnits) unit = word == known.word ? known.us : unit;
    std::int64_t part = 0;
    if (!number || unit == 0 || *number > INT64_MAX / 2 ||
        __builtin_mul_overflow(static_cast<std::int64_t>(*number), unit, &part) ||
        __builtin_add_overflow(total, part, &total))
      return std::nullopt;
  }
  return total;
}

// Slurm's "1-12:00:00", "1-12", "12:30:00" and "30:00" (minutes and seconds).
std::optional<std::int64_t> clock_span(std::string_view text) {
  const auto dash = text.find('-');
  std::int64_t total_s = 0;
  if (dash != text.npos) {
    const auto days = parse_uint(text.substr(0, dash));
    if (!days || *days > 1'000'000)
      return std::nullopt;
    total_s = static_cast<std::int64_t>(*days) * 86'400;
    text.remove_prefix(dash + 1);
  }
  const std::vector<std::string> parts = split(text, ':');
  if (parts.empty() || parts.size() > 3)
    return std::nullopt;
  std::int64_t unit_s = dash != std::string_view::npos || parts.size() == 3 ? 3600 : 60;
  for (const std::string& part : parts) {
    const auto number = parse_uint(part);
    if (!number || *number > 100'000'000)
      return std::nullopt;
    total_s += static_cast<std::int64_t>(*number) * unit_s;
    unit_s /= 60;
  }
  return total_s * 1'000'000;
}

Result<std::int64_t> span_of(const YamlNode& node) {
  const std::string text = lower(trim(TRY(scalar_of(node, "a time such as 90m, 7d or 1-12:00:00"))));
  if (text == "0")
    return 0;
  if (parse_uint(text))
    return wrong_at(node, format("\"{}\" has no unit: {}m is minutes, {}s is seconds", text, text, text));
  const bool is_clock = text.find_first_of(":-") != text.npos;
  const auto span = is_clock ? clock_span(text) : units_span(text);
  if (!span || text.empty() || *span >= kForever.us)
    return wrong_at(node, format("\"{}\" is no time: write 90m, 7d, 1h30m or 1-12:00:00", text));
  return *span;
}

}  // namespace

const FormRow SpanForm::row{
    "duration",
    R"({"oneOf":[{"const":0},{"type":"string","pattern":"^([0-9]+(w|d|h|ms|m|us|s))+$|^[0-9]+(-[0-9]+(:[0-9]+){0,2}|(:[0-9]+){1,2})$|^(unlimited|0)$"}]})",
    "`90m`, `7d`, `1h30m`, `45s`, Slurm's `1-12:00:00`, or `unlimited`; a bare number is refused, since its unit would "
    "be a guess"};

Result<void> SpanForm::read(const YamlNode& node, Duration& out) {
  const std::string word = node.shape == YamlNode::Shape::kScalar ? lower(node.text) : "";
  if (word == kUnlimited || word == "infinite" || word == "forever") {
    out = kForever;
    return {};
  }
  out = {TRY(span_of(node))};
  return {};
}

FileValue SpanForm::write(Duration value) {
  if (value >= kForever)
    return FileValue::text(std::string(kUnlimited));
  return value.us == 0 ? FileValue::plain("0") : FileValue::text(span_text(value.us));
}

const FormRow MinutesForm::row{"minutes", SpanForm::row.schema, "as a duration, in whole minutes; or `unlimited`"};

Result<void> MinutesForm::read(const YamlNode& node, std::int64_t& out) {
  if (node.shape == YamlNode::Shape::kScalar && bounds_nothing_word(node.text)) {
    out = kNoLimit;
    return {};
  }
  const std::int64_t us = TRY(span_of(node));
  if (us % 60'000'000 != 0)
    return wrong_at(node, format("\"{}\" must be whole minutes", node.text));
  out = us / 60'000'000;
  return {};
}

FileValue MinutesForm::write(std::int64_t value) {
  return value == kNoLimit || value >= kForever.us / 60'000'000 ? FileValue::text(std::string(kUnlimited))
                                                                : SpanForm::write(minutes(value));
}

// --- memory ---

namespace {

struct MemoryUnit {
  char word;
  std::int64_t megabytes;
};
constexpr MemoryUnit kMemoryUnits[] = {{'P', 1 << 30}, {'T', 1 << 20}, {'G', 1 << 10}, {'M', 1}};

std::string memory_text(std::int64_t megabytes) {
  for (const MemoryUnit& unit : kMemoryUnits)
    if (megabytes >= unit.megabytes && megabytes % unit.megabytes == 0)
      return format("{}{}", megabytes / unit.megabytes, unit.word);
  return "0";
}

// "512GiB" -> "512G"
std::string_view without_bytes(std::string_view text) {
  for (const std::string_view end : {"iB", "ib", "B", "b"})
    if (text.size() > end.size() + 1 && text.ends_with(end))
      return text.substr(0, text.size() - end.size());
  return text;
}

// "1.5T" is 1536G; nullopt: no such amount, or finer than a megabyte.
std::optional<std::int64_t> megabytes_in(std::string_view text, std::int64_t most) {
  const std::string_view digits = trim(text.substr(0, text.size() - 1));
  const bool has_point = digits.find('.') != digits.npos;
  const auto number = decimal_of(digits, has_point ? 1000 : 1, INT64_MAX / 1000);
  for (const MemoryUnit& unit : kMemoryUnits)
    if (lower(text.substr(text.size() - 1))[0] == lower(std::string_view(&unit.word, 1))[0]) {
      const __int128 scaled = number ? static_cast<__int128>(*number) * unit.megabytes : -1;
      const __int128 megabytes = has_point ? scaled / 1000 : scaled;
      const bool finer = unit.megabytes == 1 && has_point;
      return megabytes < 0 || megabytes > most || finer ? std::nullopt
                                                        : std::optional(static_cast<std::int64_t>(megabytes));
    }
  return std::nullopt;
}

Result<std::int64_t> memory_of(const YamlNode& node, std::int64_t most) {
  const std::string_view text = trim(node.text);
  if (node.shape != YamlNode::Shape::kScalar || text.empty())
    return wrong_at(node, "must be an amount of memory such as 512G");
  if (text == "0")
    return 0;
  if (parse_uint(text))
    return wrong_at(node, format("\"{}\" has no unit: {}M is megabytes, {}G gigabytes", text, text, text));
  const auto megabytes = megabytes_in(without_bytes(text), most);
  if (!megabytes)
    return wrong_at(node, format("\"{}\" is no amount of memory: write 512G, 2T or 1536M", text));
  return *megabytes;
}

}  // namespace

const FormRow MemoryForm::row{
    "memory", R"({"oneOf":[{"const":0},{"type":"string","pattern":"^[0-9]+(\\.[0-9]+)?[MmGgTtPp](i?[Bb])?$|^0$"}]})",
    "`512G`, `2T`, `1536M`; a bare number is refused"};

Result<void> MemoryForm::read(const YamlNode& node, std::int64_t& megabytes) {
  megabytes = TRY(memory_of(node, kMegabytesMax));
  return {};
}

FileValue MemoryForm::write(std::int64_t megabytes) {
  return megabytes == 0 ? FileValue::plain("0") : FileValue::text(memory_text(megabytes));
}

// --- amounts of several things ---

namespace {

// In the file gpu and gpu:h100 stand for gres/gpu and gres/gpu:h100.
std::string tres_name(std::string_view written) {
  const std::string word = lower(trim(written));
  if (word == "gpus" || word == "gpu" || word.starts_with("gpu:"))
    return "gres/gpu" + word.substr(word == "gpus" ? 4 : 3);
  if (word == "cpus" || word == "cores")
    return "cpu";
  if (word == "memory")
    return "mem";
  if (word == "nodes")
    return "node";
  // Names behind the slash keep their letters.
  const auto slash = word.find('/');
  return slash == word.npos ? word : word.substr(0, slash) + std::string(trim(written).substr(slash));
}

std::string file_name_of(std::string_view tres) {
  return std::string(tres.starts_with("gres/gpu") && (tres.size() == 8 || tres[8] == ':') ? tres.substr(5) : tres);
}

Error unknown_tres(const YamlNode& node, std::string_view name) {
  constexpr std::string_view kKnown[] = {"cpu", "mem", "gpu", "node", "billing", "gres/NAME", "license/NAME"};
  return wrong_at(node, format("\"{}\" is nothing that is counted{}", name, hint(name, kKnown)));
}

// A text of Slurm's, "cpu=8,mem=4G", as a map would have it.
Result<YamlNode> as_map(const YamlNode& node) {
  if (node.shape == YamlNode::Shape::kMap)
    return node;
  YamlNode map = node;
  map.shape = YamlNode::Shape::kMap;
  map.children.clear();
  if (node.is_null())
    return map;
  if (node.shape != YamlNode::Shape::kScalar)
    return wrong_at(node, "must be amounts such as {cpu: 100, gpu: 8, mem: 2T}");
  for (const std::string& part : split(node.text, ',')) {
    const auto equals = part.find('=');
    if (equals == part.npos)
      return wrong_at(node, format("\"{}\" must be amounts such as {{cpu: 100, gpu: 8, mem: 2T}}", node.text));
    YamlNode& child = map.children.emplace_back();
    child.key = trim(part.substr(0, equals));
    child.text = trim(std::string_view(part).substr(equals + 1));
    child.plain = true;
    child.begin = node.begin;
  }
  return map;
}

template <class Set>
Result<void> each_amount(const YamlNode& node, bool may_be_unlimited, const Set& set) {
  std::vector<std::string> seen;
  for (const YamlNode& child : TRY(as_map(node)).children) {
    const std::string name = tres_name(unescape(child.key));
    if (std::find(seen.begin(), seen.end(), name) != seen.end())
      return wrong_at(child, format("{} is there twice", file_name_of(name)));
    seen.push_back(name);
    const bool open = may_be_unlimited && child.shape == YamlNode::Shape::kScalar && bounds_nothing_word(child.text);
    const std::int64_t amount = open            ? kNoLimit
                                : name == "mem" ? TRY(memory_of(child, kSumMax))
                                                : TRY(number_of(child, 0, kSumMax));
    if (!set(name, amount))
      return unknown_tres(child, child.key);
  }
  return {};
}

std::string amount_text(std::string_view name, std::int64_t amount) {
  return name == "mem" ? memory_text(amount) : std::to_string(amount);
}

void add_amount(FileValue& out, std::string_view name, std::int64_t amount) {
  out.items.emplace_back(file_name_of(name), amount_text(name, amount));
}

}  // namespace

const FormRow TresForm::row{
    "amounts",
    R"({"oneOf":[{"type":"string"},{"type":"object","additionalProperties":{"type":["integer","string"]}}]})",
    "amounts by name: `{cpu: 100, gpu: 8, mem: 2T}`; names are `cpu`, `mem`, `gpu`, `gpu:TYPE`, `node`, `billing`, "
    "`gres/NAME`, `license/NAME`"};

Result<void> TresForm::read(const YamlNode& node, TresLimit& out) {
  TresLimit read;
  TRY(each_amount(node, true, [&](const std::string& name, std::int64_t n) { return set_bound(read, name, n); }));
  out = std::move(read);
  return {};
}

Result<void> TresForm::read(const YamlNode& node, Tres& out) {
  Tres read;
  TRY(each_amount(node, false, [&](const std::string& name, std::int64_t n) { return set_count(read, name, n); }));
  out = std::move(read);
  return {};
}

FileValue TresForm::write(const TresLimit& value) {
  FileValue out{YamlNode::Shape::kMap, {}, false};
  for (const TresField& field : kTresFields)
    if (value.*field.limit != kNoLimit)
      add_amount(out, field.name, value.*field.limit);
  for (const NamedCount& other : value.others) add_amount(out, other.name, other.count);
  out.literal = true;
  return out;
}

FileValue TresForm::write(const Tres& value) {
  FileValue out{YamlNode::Shape::kMap, {}, true};
  for (const TresField& field : kTresFields)
    if (value.*field.count != 0)
      add_amount(out, field.name, value.*field.count);
  for (const NamedCount& other : value.others) add_amount(out, other.name, other.count);
  return out;
}

const FormRow WeightsForm::row{
    "weights",
    R"({"oneOf":[{"type":"string"},{"type":"object","additionalProperties":{"type":"number","minimum":0}}]})",
    "what one of each counts: `{cpu: 1, mem: 0.25, gpu: 2.5}`; `mem` is by the gigabyte"};

Result<void> WeightsForm::read(const YamlNode& node, std::vector<TresWeight>& out) {
  std::vector<TresWeight> read;
  for (const YamlNode& child : TRY(as_map(node)).children) {
    const std::string name = tres_name(unescape(child.key));
    const auto same = [&](const TresWeight& weight) { return weight.name == name; };
    if (std::any_of(read.begin(), read.end(), same))
      return wrong_at(child, format("{} is there twice", child.key));
    Tres known;
    if (!set_count(known, name, 1))
      return unknown_tres(child, child.key);
    const std::string text = TRY(scalar_of(child, "a number"));
    const auto milli = decimal_of(trim(text), 1000, kSumMax);
    if (!milli)
      return wrong_at(child, format("\"{}\" is no number such as 1 or 0.25", text));
    read.push_back({name, *milli});
  }
  out = std::move(read);
  return {};
}

FileValue WeightsForm::write(const std::vector<TresWeight>& value) {
  FileValue out{YamlNode::Shape::kMap, {}, true};
  for (const TresWeight& weight : value)
    out.items.emplace_back(file_name_of(weight.name), decimal_text(weight.milli, 1000));
  return out;
}

const FormRow CountsForm::row{
    "counts",
    R"({"oneOf":[{"type":"string"},{"type":"object","additionalProperties":{"type":"integer","minimum":1}}]})",
    "numbers by name: `{matlab: 2}`"};

Result<void> CountsForm::read(const YamlNode& node, std::vector<NamedCount>& out) {
  if (node.shape == YamlNode::Shape::kScalar) {
    auto counts = parse_licenses(node.is_null() ? std::string() : unescape(node.text));
    if (!counts)
      return wrong_at(node, counts.error().message);
    out = std::move(*counts);
    return {};
  }
  if (node.shape != YamlNode::Shape::kMap)
    return wrong_at(node, "must be numbers by name: {matlab: 2}");
  std::vector<NamedCount> read;
  for (const YamlNode& child : node.children) add_named(read, unescape(child.key), TRY(number_of(child, 1, INT32_MAX)));
  out = std::move(read);
  return {};
}

FileValue CountsForm::write(const std::vector<NamedCount>& value) {
  FileValue out{YamlNode::Shape::kMap, {}, true};
  for (const NamedCount& one : value) out.items.emplace_back(one.name, std::to_string(one.count));
  return out;
}

// --- words ---

const FormRow PreemptForm::row{"preempt mode",
                               R"({"enum":["cluster","off","cancel","requeue","suspend","gang","checkpoint"]})",
                               "`off`, `cancel`, `requeue`, `suspend`, `checkpoint`, or `cluster`: as the policy says"};

Result<void> PreemptForm::read(const YamlNode& node, PreemptMode& out) {
  out = static_cast<PreemptMode>(TRY(word_of(node, words_of(PreemptMode{}))));
  return {};
}
FileValue PreemptForm::write(PreemptMode value) { return FileValue::text(std::string(word(value))); }

const FormRow OnUnhealthyForm::row{"on failure", R"({"enum":["drain","tell"]})", "`drain` or `tell`"};

Result<void> OnUnhealthyForm::read(const YamlNode& node, OnUnhealthy& out) {
  out = static_cast<OnUnhealthy>(TRY(word_of(node, words_of(OnUnhealthy{}))));
  return {};
}
FileValue OnUnhealthyForm::write(OnUnhealthy value) { return FileValue::text(std::string(word(value))); }

const FormRow ResetForm::row{"reset", R"({"enum":["none","now","daily","weekly","monthly","quarterly","yearly"]})",
                             "`none`, `now`, `daily`, `weekly`, `monthly`, `quarterly` or `yearly`"};

Result<void> ResetForm::read(const YamlNode& node, Policy::Reset& out) {
  out = static_cast<Policy::Reset>(TRY(word_of(node, words_of(Policy::Reset{}))));
  return {};
}
FileValue ResetForm::write(Policy::Reset value) { return FileValue::text(std::string(word(value))); }

const FormRow RecurrenceForm::row{"recurrence", R"({"enum":["none","hourly","daily","weekday","weekend","weekly"]})",
                                  "`none`, `hourly`, `daily`, `weekday`, `weekend` or `weekly`"};

Result<void> RecurrenceForm::read(const YamlNode& node, Recurrence& out) {
  out = static_cast<Recurrence>(TRY(word_of(node, words_of(Recurrence{}))));
  return {};
}
FileValue RecurrenceForm::write(Recurrence value) { return FileValue::text(std::string(word(value))); }

// --- moments ---

namespace {

constexpr std::int64_t kDayS = 86'400;

// Days since 1970-01-01 in the Gregorian calendar.
std::int64_t days_of(std::int64_t year, std::int64_t month, std::int64_t day) {
  year -= month <= 2;
  const std::int64_t era = (year >= 0 ? year : year - 399) / 400, of_era = year - era * 400;
  const std::int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146'097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719'468;
}

struct Date {
  std::int64_t year, month, day;
};
Date date_of(std::int64_t days) {
  days += 719'468;
  const std::int64_t era = (days >= 0 ? days : days - 146'096) / 146'097, of_era = days - era * 146'097;
  const std::int64_t years = (of_era - of_era / 1460 + of_era / 36'524 - of_era / 146'096) / 365;
  const std::int64_t of_year = of_era - (365 * years + years / 4 - years / 100), m = (5 * of_year + 2) / 153;
  const std::int64_t month = m + (m < 10 ? 3 : -9);
  return {years + era * 400 + (month <= 2), month, of_year - (153 * m + 2) / 5 + 1};
}

// Seconds since 1970 in the zone; nullopt: no such moment.
std::optional<std::int64_t> local_seconds(const std::string& text, int& read) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, end = 0;
  if (std::sscanf(text.c_str(), "%4d-%2d-%2d%*1[T ]%2d:%2d%n", &year, &month, &day, &hour, &minute, &end) != 5)
    return std::nullopt;
  read = end;
  if (text[static_cast<std::size_t>(read)] == ':') {
    if (std::sscanf(text.c_str() + read, ":%2d%n", &second, &end) != 1)
      return std::nullopt;
    read += end;
  }
  const std::int64_t days = days_of(year, month, day);
  const Date back = date_of(days);
  if (year < 1900 || back.year != year || back.month != month || back.day != day || hour < 0 || hour > 23 ||
      minute < 0 || minute > 59 || second < 0 || second > 59)
    return std::nullopt;
  return days * kDayS + hour * 3600 + minute * 60 + second;
}

// "Z", "+01:00", "-0530", "+01".
std::optional<std::int32_t> zone_of(std::string_view text) {
  if (text == "Z" || text == "z")
    return 0;
  if (text.size() < 3 || text.size() > 6 || (text[0] != '+' && text[0] != '-'))
    return std::nullopt;
  const std::size_t behind = text.size() == 6 && text[3] == ':' ? 4 : 3;
  const auto hour = parse_uint(text.substr(1, 2));
  const auto minute = text.size() == 3 ? std::optional<std::uint64_t>(0) : parse_uint(text.substr(behind));
  if (!hour || !minute || *hour > 23 || *minute > 59)
    return std::nullopt;
  const auto seconds = static_cast<std::int32_t>(*hour * 3600 + *minute * 60);
  return text[0] == '-' ? -seconds : seconds;
}

}  // namespace

const FormRow MomentForm::row{
    "moment",
    R"({"type":"string","pattern":"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2})?(Z|[+-][0-9]{2}:?([0-9]{2})?)$"})",
    "`2026-12-24T08:00:00+01:00`, always with its zone (`Z` is UTC)"};

Result<void> MomentForm::read(const YamlNode& node, WallTime& out, std::int32_t& zone_s) {
  const std::string text(trim(TRY(scalar_of(node, "a moment such as 2026-12-24T08:00:00+01:00"))));
  int end = 0;
  const auto local = local_seconds(text, end);
  if (!local)
    return wrong_at(node, format("\"{}\" is no moment: write 2026-12-24T08:00:00+01:00", text));
  const auto zone = zone_of(std::string_view(text).substr(static_cast<std::size_t>(end)));
  if (!zone)
    return wrong_at(
        node, format("\"{}\" does not say its zone: {}+01:00, or {}Z for UTC", text,
                     text.substr(0, static_cast<std::size_t>(end)), text.substr(0, static_cast<std::size_t>(end))));
  if (*local < *zone)
    return wrong_at(node, format("\"{}\" is before 1970", text));
  zone_s = *zone;
  out = {(*local - *zone) * 1'000'000};
  return {};
}

FileValue MomentForm::write(WallTime value, std::int32_t zone_s) {
  const std::int64_t local = value.seconds() + zone_s;
  const Date date = date_of(local >= 0 ? local / kDayS : (local - kDayS + 1) / kDayS);
  const std::int64_t of_day = ((local % kDayS) + kDayS) % kDayS;
  std::string out = format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", date.year, date.month, date.day, of_day / 3600,
                           of_day / 60 % 60, of_day % 60);
  const std::int32_t zone = std::abs(zone_s);
  out += zone_s == 0 ? "Z" : format("{}{:02}:{:02}", zone_s < 0 ? '-' : '+', zone / 3600, zone / 60 % 60);
  return FileValue::text(out);
}

Result<void> MomentForm::read(const YamlNode& node, WallTime& out) {
  std::int32_t zone_s = 0;
  return read(node, out, zone_s);
}
FileValue MomentForm::write(WallTime value) { return value ? write(value, 0) : FileValue::text(""); }

}  // namespace lockstep::wire
