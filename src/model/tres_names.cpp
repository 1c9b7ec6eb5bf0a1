#include "model/tres_names.h"

#include <algorithm>
#include <optional>

#include "base/text.h"

namespace lockstep {

namespace {

const TresField* field_named(std::string_view name) {
  for (const TresField& field : kTresFields)
    if (field.name == name)
      return &field;
  return nullptr;
}

bool may_be_a_name(std::string_view name) {
  return (name.starts_with("gres/") && name.size() > 5) || (name.starts_with("license/") && name.size() > 8);
}

bool name_less(const NamedCount& a, std::string_view b) { return a.name < b; }  // in a template clang 14 fails at it

auto place_of(auto& list, std::string_view name) { return std::lower_bound(list.begin(), list.end(), name, name_less); }

std::optional<std::int64_t> amount_of(std::string_view name, std::string_view text) {
  std::int64_t kb = 1024;  // of the unit
  if (name == "mem" && !text.empty()) {
    if (text.ends_with('B') || text.ends_with('b'))
      text.remove_suffix(1);
    const char unit = text.empty() ? ' ' : text.back();
    constexpr std::string_view kUnits = "kmgtKMGT";
    if (const auto at = kUnits.find(unit); at != std::string_view::npos) {
      text.remove_suffix(1);
      for (kb = 1; kb < std::int64_t{1} << (10 * (at % 4)); kb *= 1024) {}
    }
  }
  const auto number = parse_int(text);
  if (!number || *number < kNoLimit || *number > std::int64_t{1} << 40)
    return std::nullopt;
  if (*number <= 0)
    return *number;
  const __int128 scaled = static_cast<__int128>(*number) * kb / 1024;
  return scaled > std::int64_t{1} << 40 ? std::nullopt
                                        : std::optional(std::max<std::int64_t>(1, static_cast<std::int64_t>(scaled)));
}

void add_word(std::string& out, std::string_view name, std::int64_t count) {
  std::string unit;
  if (name == "mem") {
    unit = "M";
    for (const char* next : {"G", "T"}) {
      if (count == 0 || count % 1024 != 0)
        break;
      count /= 1024;
      unit = next;
    }
  }
  out += format("{}{}={}{}", out.empty() ? "" : ",", name, count, unit);
}

}  // namespace

void add_named(std::vector<NamedCount>& list, std::string_view name, std::int64_t count) {
  const auto at = place_of(list, name);
  if (at == list.end() || at->name != name) {
    if (count != 0)
      list.insert(at, NamedCount{std::string(name), count});
    return;
  }
  if (__builtin_add_overflow(at->count, count, &at->count))
    at->count = count > 0 ? INT64_MAX : INT64_MIN;
  if (at->count == 0)
    list.erase(at);
}

std::int64_t count_of(const Tres& tres, std::string_view name) {
  if (const TresField* field = field_named(name))
    return tres.*field->count;
  const auto at = place_of(tres.others, name);
  return at != tres.others.end() && at->name == name ? at->count : 0;
}

std::int64_t bound_of(const TresLimit& limit, std::string_view name) {
  if (const TresField* field = field_named(name))
    return limit.*field->limit;
  const auto at = place_of(limit.others, name);
  return at != limit.others.end() && at->name == name ? at->count : kNoLimit;
}

bool set_count(Tres& tres, std::string_view name, std::int64_t count) {
  if (const TresField* field = field_named(name))
    return tres.*field->count = count, true;
  if (!may_be_a_name(name))
    return false;
  add_named(tres.others, name, count - count_of(tres, name));
  return true;
}

bool set_bound(TresLimit& limit, std::string_view name, std::int64_t bound) {
  if (const TresField* field = field_named(name))
    return limit.*field->limit = bound, true;
  if (!may_be_a_name(name))
    return false;
  const auto at = place_of(limit.others, name);
  const bool there = at != limit.others.end() && at->name == name;
  if (bound == kNoLimit) {
    if (there)
      limit.others.erase(at);
  } else if (there) {
    at->count = bound;
  } else {
    limit.others.insert(at, {std::string(name), bound});
  }
  return true;
}

bool bounds_nothing(const TresLimit& limit) { return limit == TresLimit{}; }

Result<void> read_tres(std::string_view text, TresLimit& into) {
  TresLimit out = into;
  for (const std::string& part : split(text, ',')) {
    const auto equals = part.find('=');
    const std::string name = equals == std::string::npos ? "" : lower(trim(part.substr(0, equals)));
    const auto amount = name.empty() ? std::nullopt : amount_of(name, trim(std::string_view(part).substr(equals + 1)));
    if (!amount)
      return invalid(format("Invalid TRES format: {}: name=count, several with commas", part));
    if (!set_bound(out, name, *amount))
      return invalid(format("Unknown TRES: {}: cpu, mem, node, billing, gres/NAME, license/NAME", name));
  }
  into = std::move(out);
  return {};
}

std::string tres_text(const TresLimit& limit) {
  std::string out;
  for (const TresField& field : kTresFields)
    if (limit.*field.limit != kNoLimit)
      add_word(out, field.name, limit.*field.limit);
  for (const NamedCount& other : limit.others) add_word(out, other.name, other.count);
  return out;
}

std::string tres_text(const Tres& tres) {
  std::string out;
  for (const TresField& field : kTresFields)
    if (tres.*field.count != 0)
      add_word(out, field.name, tres.*field.count);
  for (const NamedCount& other : tres.others) add_word(out, other.name, other.count);
  return out;
}

Result<std::vector<NamedCount>> parse_licenses(std::string_view text) {
  std::vector<NamedCount> out;
  if (text.empty())
    return out;
  std::string commas(text);
  std::replace(commas.begin(), commas.end(), ';', ',');
  const auto bad = [&] { return invalid(format("Invalid license specification: {}", text), "licenses"); };
  for (const std::string& part : split(commas, ',')) {
    const std::size_t sign = part.find_first_of(":=");
    const std::string name(trim(part.substr(0, sign)));
    std::int64_t count = 1;
    if (sign != std::string::npos) {
      const auto number = parse_int(part.substr(sign + 1));
      if (!number || *number < 0 || *number > INT32_MAX)
        return bad();
      count = *number;
    }
    if (name.empty() || name.find_first_of(" |/") != std::string::npos)
      return bad();
    add_named(out, name, count);
  }
  return out;
}

}  // namespace lockstep
