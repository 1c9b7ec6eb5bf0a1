// Arithmetic, comparison, conversions, times.
#include <charconv>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "frontends/kube/cel/functions.h"
#include "frontends/kube/machinery/quoted.h"
#include "frontends/kube/machinery/timestamps.h"

namespace lockstep::kube::cel {
namespace {

constexpr std::int64_t kMomentMin = -62135596800, kMomentMax = 253402300799;  // years 1 to 9999

Value unreadable(std::string_view type) {
  return Value::fault(format("type conversion error from 'string' to '{}'", type));
}
Value overflow(std::string_view type) { return Value::fault(format("{} overflow", type)); }

// Sums of spans and moments, in whole seconds and billionths.
Value make_span(__int128 nanos) {
  if (nanos > INT64_MAX || nanos < INT64_MIN)
    return overflow("integer");
  const auto total = static_cast<std::int64_t>(nanos);
  return Value(Span{total / 1'000'000'000, static_cast<std::int32_t>(total % 1'000'000'000)});
}
__int128 nanos_of(const Span& span) { return static_cast<__int128>(span.seconds) * 1'000'000'000 + span.nanos; }
__int128 nanos_of(const Moment& time) { return static_cast<__int128>(time.seconds) * 1'000'000'000 + time.nanos; }
Value make_moment(__int128 nanos) {
  __int128 seconds = nanos / 1'000'000'000, rest = nanos % 1'000'000'000;
  if (rest < 0) {
    rest += 1'000'000'000;
    --seconds;
  }
  if (seconds < kMomentMin || seconds > kMomentMax)
    return Value::fault("timestamp overflow");
  return Value(Moment{static_cast<std::int64_t>(seconds), static_cast<std::int32_t>(rest)});
}

template <class T>
Value whole_number(char verb, T a, T b, std::string_view type) {
  T out = 0;
  bool wraps = false;
  switch (verb) {
    case '+': wraps = __builtin_add_overflow(a, b, &out); break;
    case '-': wraps = __builtin_sub_overflow(a, b, &out); break;
    case '*': wraps = __builtin_mul_overflow(a, b, &out); break;
    default:
      if (b == 0)
        return Value::fault(verb == '/' ? "division by zero" : "modulus by zero");
      if (std::is_signed_v<T> && a == std::numeric_limits<T>::min() && b == static_cast<T>(-1))
        return overflow(type);
      out = verb == '/' ? a / b : a % b;
  }
  return wraps ? overflow(type) : Value(out);
}

Value arithmetic(char verb, const Value& a, const Value& b) {
  if (a.as<std::int64_t>() && b.as<std::int64_t>())
    return whole_number(verb, *a.as<std::int64_t>(), *b.as<std::int64_t>(), "integer");
  if (a.as<std::uint64_t>() && b.as<std::uint64_t>())
    return whole_number(verb, *a.as<std::uint64_t>(), *b.as<std::uint64_t>(), "unsigned integer");
  if (a.as<double>() && b.as<double>() && verb != '%') {
    const double left = *a.as<double>(), right = *b.as<double>();
    return Value(verb == '+' ? left + right : verb == '-' ? left - right : verb == '*' ? left * right : left / right);
  }
  return no_overload();
}

// Elements of a map with the same keys are replaced, of a set they are there once.
Value add_lists(Budget& budget, const List& a, const List& b) {
  if (!budget.spend(a.items.size() + b.items.size()))
    return Value();
  std::vector<Value> items = a.items;
  const Schema* schema = a.schema;
  if (schema == nullptr || schema->list == ListKind::kAtomic) {
    items.insert(items.end(), b.items.begin(), b.items.end());
    return Value::list(std::move(items));
  }
  if (!budget.spend(a.items.size() * b.items.size()))
    return Value();
  const auto same = [&](const Value& left, const Value& right) {
    if (schema->list == ListKind::kSet)
      return equal(left, right);
    for (const std::string& key : schema->keys) {
      const auto mine = find_key(left, Value::text(escaped_name(key))),
                 theirs = find_key(right, Value::text(escaped_name(key)));
      if (mine.has_value() != theirs.has_value() || (mine && !equal(*mine, *theirs)))
        return false;
    }
    return true;
  };
  for (const Value& each : b.items) {
    bool found = false;
    for (Value& mine : items)
      if (!found && same(mine, each)) {
        mine = each;
        found = true;
      }
    if (!found)
      items.push_back(each);
  }
  return Value::list(std::move(items), schema);
}

Value add(Budget& budget, const Arguments& a) {
  if (a[0].string() && a[1].string()) {
    if (!budget.spend(text_cost(a[0].string()->size() + a[1].string()->size())))
      return Value();
    return Value::text(*a[0].string() + *a[1].string());
  }
  if (const auto* left = a[0].part<Bytes>(), *right = a[1].part<Bytes>(); left && right) {
    if (!budget.spend(text_cost(left->bytes.size() + right->bytes.size())))
      return Value();
    return Value(std::make_shared<const Bytes>(Bytes{left->bytes + right->bytes}));
  }
  if (const auto* left = a[0].part<List>(), *right = a[1].part<List>(); left && right)
    return add_lists(budget, *left, *right);
  if (a[0].as<Span>() && a[1].as<Span>())
    return make_span(nanos_of(*a[0].as<Span>()) + nanos_of(*a[1].as<Span>()));
  if (a[0].as<Moment>() && a[1].as<Span>())
    return make_moment(nanos_of(*a[0].as<Moment>()) + nanos_of(*a[1].as<Span>()));
  if (a[0].as<Span>() && a[1].as<Moment>())
    return make_moment(nanos_of(*a[1].as<Moment>()) + nanos_of(*a[0].as<Span>()));
  return arithmetic('+', a[0], a[1]);
}

Value subtract(Budget&, const Arguments& a) {
  if (a[0].as<Span>() && a[1].as<Span>())
    return make_span(nanos_of(*a[0].as<Span>()) - nanos_of(*a[1].as<Span>()));
  if (a[0].as<Moment>() && a[1].as<Moment>())
    return make_span(nanos_of(*a[0].as<Moment>()) - nanos_of(*a[1].as<Moment>()));
  if (a[0].as<Moment>() && a[1].as<Span>())
    return make_moment(nanos_of(*a[0].as<Moment>()) - nanos_of(*a[1].as<Span>()));
  return arithmetic('-', a[0], a[1]);
}

Value multiply(Budget&, const Arguments& a) { return arithmetic('*', a[0], a[1]); }
Value divide(Budget&, const Arguments& a) { return arithmetic('/', a[0], a[1]); }
Value modulo(Budget&, const Arguments& a) { return arithmetic('%', a[0], a[1]); }

Value negate(Budget&, const Arguments& a) {
  if (const auto* number = a[0].as<std::int64_t>())
    return *number == INT64_MIN ? overflow("integer") : Value(-*number);
  return a[0].as<double>() ? Value(-*a[0].as<double>()) : no_overload();
}
Value negation(Budget&, const Arguments& a) { return a[0].as<bool>() ? Value(!*a[0].as<bool>()) : no_overload(); }

std::size_t weight(const Value& value) {
  if (const auto* list = value.part<List>()) {
    std::size_t sum = 1;
    for (const Value& each : list->items) sum += weight(each);
    return sum;
  }
  if (value.is_map()) {
    std::size_t sum = 1;
    for (const auto& [key, each] : entries_of(value)) sum += 1 + weight(each);
    return sum;
  }
  return value.string() ? text_cost(value.string()->size()) : 1;
}

Value equals(Budget& budget, const Arguments& a) {
  const std::size_t left = weight(a[0]), right = weight(a[1]);
  const auto unordered = [](const Value& value) {
    const auto* list = value.part<List>();
    return list != nullptr && list->schema != nullptr && list->schema->list != ListKind::kAtomic;
  };
  const std::size_t cost = unordered(a[0]) ? left * right : left + right;
  return budget.spend(cost) ? Value(equal(a[0], a[1])) : Value();
}
Value differs(Budget& budget, const Arguments& a) {
  const Value same = equals(budget, a);
  return same.as<bool>() ? Value(!same.is_true()) : same;
}

template <class Holds>
Value compare(Budget& budget, const Arguments& a, Holds holds) {
  if (a[0].as<Quantity>() || a[0].as<Address>() || a[0].is_null() || a[0].part<Semver>())
    return no_overload();
  if (a[0].string() && a[1].string() &&
      !budget.spend(text_cost(std::min(a[0].string()->size(), a[1].string()->size()))))
    return Value();
  const bool numbers = a[0].is_number() && a[1].is_number();
  const auto compared = order(a[0], a[1]);
  if (!compared)
    return numbers ? Value(false) : no_overload();
  return Value(holds(*compared));
}
Value less(Budget& b, const Arguments& a) {
  return compare(b, a, [](int order) { return order < 0; });
}
Value at_most(Budget& b, const Arguments& a) {
  return compare(b, a, [](int order) { return order <= 0; });
}
Value more(Budget& b, const Arguments& a) {
  return compare(b, a, [](int order) { return order > 0; });
}
Value at_least(Budget& b, const Arguments& a) {
  return compare(b, a, [](int order) { return order >= 0; });
}

Value is_in(Budget& budget, const Arguments& a) {
  if (const auto* list = a[1].part<List>()) {
    for (const Value& each : list->items) {
      if (!budget.spend(weight(each)))
        return Value();
      if (equal(each, a[0]))
        return Value(true);
    }
    return Value(false);
  }
  return a[1].is_map() ? Value(find_key(a[1], a[0]).has_value()) : no_overload();
}

Value size(Budget& budget, const Arguments& a) {
  if (a[0].string() && !budget.spend(text_cost(a[0].string()->size())))
    return Value();
  if (!a[0].string() && !a[0].part<Bytes>() && !a[0].part<List>() && !a[0].is_map())
    return no_overload();
  return Value(static_cast<std::int64_t>(size_of(a[0])));
}

Value type_of(Budget&, const Arguments& a) { return Value::type(type_word(a[0])); }
Value as_dyn(Budget&, const Arguments& a) { return a[0]; }

Value to_int(Budget&, const Arguments& a) {
  if (a[0].as<std::int64_t>())
    return a[0];
  if (const auto* number = a[0].as<std::uint64_t>())
    return *number > INT64_MAX ? overflow("integer") : Value(static_cast<std::int64_t>(*number));
  if (const auto* number = a[0].as<double>())
    return *number > -9.2233720368547758e18 && *number < 9.2233720368547758e18
               ? Value(static_cast<std::int64_t>(*number))
               : overflow("integer");
  if (const auto* text = a[0].string()) {
    const std::string_view digits =
        std::string_view(*text).starts_with('+') ? std::string_view(*text).substr(1) : *text;
    const auto number = parse_int(digits);
    return number ? Value(*number) : unreadable("int");
  }
  if (const auto* time = a[0].as<Moment>())
    return Value(time->seconds);
  return a[0].as<Span>() ? Value(static_cast<std::int64_t>(nanos_of(*a[0].as<Span>()))) : no_overload();
}

Value to_uint(Budget&, const Arguments& a) {
  if (a[0].as<std::uint64_t>())
    return a[0];
  if (const auto* number = a[0].as<std::int64_t>())
    return *number < 0 ? overflow("unsigned integer") : Value(static_cast<std::uint64_t>(*number));
  if (const auto* number = a[0].as<double>())
    return *number >= 0 && *number < 1.8446744073709550e19 ? Value(static_cast<std::uint64_t>(*number))
                                                           : overflow("unsigned integer");
  if (const auto* text = a[0].string()) {
    const auto number = parse_uint(*text);
    return number ? Value(*number) : unreadable("uint");
  }
  return no_overload();
}

Value to_double(Budget&, const Arguments& a) {
  if (a[0].as<double>())
    return a[0];
  if (const auto* number = a[0].as<std::int64_t>())
    return Value(static_cast<double>(*number));
  if (const auto* number = a[0].as<std::uint64_t>())
    return Value(static_cast<double>(*number));
  if (const auto* text = a[0].string()) {
    double number = 0;
    const char* begin = text->data() + (text->starts_with('+') ? 1 : 0);
    const auto [end, error] = std::from_chars(begin, text->data() + text->size(), number);
    if (error != std::errc() || end != text->data() + text->size() || text->empty())
      return unreadable("double");
    return Value(number);
  }
  return no_overload();
}

Value to_text(Budget& budget, const Arguments& a) {
  if (a[0].string())
    return a[0];
  if (const auto* truth = a[0].as<bool>())
    return Value::text(*truth ? "true" : "false");
  if (const auto* number = a[0].as<std::int64_t>())
    return Value::text(std::to_string(*number));
  if (const auto* number = a[0].as<std::uint64_t>())
    return Value::text(std::to_string(*number));
  if (const auto* number = a[0].as<double>())
    return Value::text(double_text(*number));
  if (const auto* bytes = a[0].part<Bytes>())
    return budget.spend(text_cost(bytes->bytes.size())) ? Value::text(bytes->bytes) : Value();
  if (const auto* time = a[0].as<Moment>())
    return Value::text(moment_text(*time));
  if (const auto* span = a[0].as<Span>())
    return Value::text(span_text(*span));
  return Value();  // the others have their own, tried by the caller
}

Value to_bytes(Budget& budget, const Arguments& a) {
  if (a[0].part<Bytes>())
    return a[0];
  if (!a[0].string())
    return no_overload();
  if (!budget.spend(text_cost(a[0].string()->size())))
    return Value();
  return Value(std::make_shared<const Bytes>(Bytes{*a[0].string()}));
}

Value to_bool(Budget&, const Arguments& a) {
  if (a[0].as<bool>())
    return a[0];
  if (const auto* text = a[0].string()) {
    for (const char* yes : {"1", "t", "T", "TRUE", "true", "True"})
      if (*text == yes)
        return Value(true);
    for (const char* no : {"0", "f", "F", "FALSE", "false", "False"})
      if (*text == no)
        return Value(false);
    return unreadable("bool");
  }
  return no_overload();
}

Value to_moment(Budget&, const Arguments& a) {
  if (a[0].as<Moment>())
    return a[0];
  if (const auto* seconds = a[0].as<std::int64_t>())
    return make_moment(static_cast<__int128>(*seconds) * 1'000'000'000);
  if (!a[0].string())
    return no_overload();
  const auto time = parse_moment(*a[0].string());
  return time ? Value(*time) : Value::fault(format("invalid timestamp {}", quoted(*a[0].string())));
}

Value to_span(Budget&, const Arguments& a) {
  if (a[0].as<Span>())
    return a[0];
  if (const auto* nanos = a[0].as<std::int64_t>())
    return make_span(*nanos);
  if (!a[0].string())
    return no_overload();
  const auto span = parse_span_text(*a[0].string());
  return span ? Value(*span) : Value::fault(format("time: invalid duration {}", quoted(*a[0].string())));
}

// Parts of a moment; zones are given by their distance from UTC ("+02:00", "-08:30") or "UTC".
struct Calendar {
  std::int64_t year, month, day, hour, minute, second, week_day, year_day;
};
std::optional<Calendar> calendar_of(Moment time, const Value* zone) {
  if (zone != nullptr) {
    if (!zone->string())
      return std::nullopt;
    std::string_view text = *zone->string();
    if (text != "UTC" && text != "Z" && !text.empty()) {
      const bool behind = text.starts_with('-');
      if (behind || text.starts_with('+'))
        text.remove_prefix(1);
      const std::size_t colon = text.find(':');
      const auto hours = parse_int(text.substr(0, colon));
      const auto minutes = colon == text.npos ? std::nullopt : parse_int(text.substr(colon + 1));
      if (!hours || !minutes || *hours < 0 || *hours > 23 || *minutes < 0 || *minutes > 59)
        return std::nullopt;
      time.seconds += (behind ? -1 : 1) * (*hours * 3600 + *minutes * 60);
    }
  }
  const std::string text = timestamp_text({time.seconds * 1'000'000});
  const auto part = [&](std::size_t at, std::size_t count) { return *parse_int(text.substr(at, count)); };
  const std::int64_t days = (time.seconds - ((time.seconds % 86400) + 86400) % 86400) / 86400;
  const auto new_year = parse_moment(text.substr(0, 4) + "-01-01T00:00:00Z");
  if (!new_year)
    return std::nullopt;
  return Calendar{part(0, 4),
                  part(5, 2),
                  part(8, 2),
                  part(11, 2),
                  part(14, 2),
                  part(17, 2),
                  ((days + 4) % 7 + 7) % 7,
                  days - new_year->seconds / 86400};
}

template <class Pick>
Value of_calendar(const Arguments& a, Pick pick) {
  const auto calendar = calendar_of(*a[0].as<Moment>(), a.size() > 1 ? &a[1] : nullptr);
  return calendar ? Value(static_cast<std::int64_t>(pick(*calendar))) : Value::fault("unknown time zone");
}
#define OF_MOMENT(name, expression)                                       \
  Value name(Budget&, const Arguments& a) {                               \
    if (!a[0].as<Moment>())                                               \
      return no_overload();                                               \
    return of_calendar(a, [](const Calendar& at) { return expression; }); \
  }
OF_MOMENT(full_year, at.year)
OF_MOMENT(month, at.month - 1)
OF_MOMENT(date, at.day)
OF_MOMENT(day_of_month, at.day - 1)
OF_MOMENT(day_of_week, at.week_day)
OF_MOMENT(day_of_year, at.year_day)
#undef OF_MOMENT

template <class Pick>
Value clock_part(const Arguments& a, std::int64_t nanos_each, Pick pick) {
  if (const auto* span = a[0].as<Span>())
    return a.size() > 1 ? no_overload() : Value(static_cast<std::int64_t>(nanos_of(*span) / nanos_each));
  return a[0].as<Moment>() ? of_calendar(a, pick) : no_overload();
}
Value hours_of(Budget&, const Arguments& a) {
  return clock_part(a, 3'600'000'000'000, [](const Calendar& at) { return at.hour; });
}
Value minutes_of(Budget&, const Arguments& a) {
  return clock_part(a, 60'000'000'000, [](const Calendar& at) { return at.minute; });
}
Value seconds_of(Budget&, const Arguments& a) {
  return clock_part(a, 1'000'000'000, [](const Calendar& at) { return at.second; });
}
Value milliseconds_of(Budget&, const Arguments& a) {
  if (const auto* span = a[0].as<Span>())
    return Value(static_cast<std::int64_t>(nanos_of(*span) / 1'000'000));
  return a[0].as<Moment>() ? Value(static_cast<std::int64_t>(a[0].as<Moment>()->nanos / 1'000'000)) : no_overload();
}

}  // namespace

Value convert_kube_text(const Value& value);  // of quantities, addresses …: kube_functions.cpp

namespace {
Value to_any_text(Budget& budget, const Arguments& a) {
  const Value text = to_text(budget, a);
  return text.is_null() && !budget.exhausted() ? convert_kube_text(a[0]) : text;
}
}  // namespace

std::vector<FunctionRow> operator_functions() {
  const std::vector<const char*> comparable = {
      "@(bool, bool) bool",           "@(int, int) bool",          "@(int, uint) bool",
      "@(int, double) bool",          "@(uint, int) bool",         "@(uint, uint) bool",
      "@(uint, double) bool",         "@(double, int) bool",       "@(double, uint) bool",
      "@(double, double) bool",       "@(string, string) bool",    "@(bytes, bytes) bool",
      "@(timestamp, timestamp) bool", "@(duration, duration) bool"};
  const auto part = [](std::initializer_list<const char*> signatures) { return std::vector<const char*>(signatures); };
  return {
      {"_+_",
       add,
       {"@(int, int) int", "@(uint, uint) uint", "@(double, double) double", "@(string, string) string",
        "@(bytes, bytes) bytes", "@(list(A), list(A)) list(A)", "@(timestamp, duration) timestamp",
        "@(duration, timestamp) timestamp", "@(duration, duration) duration"}},
      {"_-_",
       subtract,
       {"@(int, int) int", "@(uint, uint) uint", "@(double, double) double", "@(timestamp, timestamp) duration",
        "@(timestamp, duration) timestamp", "@(duration, duration) duration"}},
      {"_*_", multiply, {"@(int, int) int", "@(uint, uint) uint", "@(double, double) double"}},
      {"_/_", divide, {"@(int, int) int", "@(uint, uint) uint", "@(double, double) double"}},
      {"_%_", modulo, {"@(int, int) int", "@(uint, uint) uint"}},
      {"-_", negate, {"@(int) int", "@(double) double"}},
      {"!_", negation, {"@(bool) bool"}},
      {"_==_", equals, {"@(A, A) bool"}},
      {"_!=_", differs, {"@(A, A) bool"}},
      {"_<_", less, comparable},
      {"_<=_", at_most, comparable},
      {"_>_", more, comparable},
      {"_>=_", at_least, comparable},
      {"@in", is_in, {"@(A, list(A)) bool", "@(A, map(A, B)) bool"}},
      {"size", size,
       part({"@(string) int", "@(bytes) int", "@(list(A)) int", "@(map(A, B)) int", "string.size() int",
             "bytes.size() int", "list(A).size() int", "map(A, B).size() int"})},
      {"type", type_of, {"@(A) type"}},
      {"dyn", as_dyn, {"@(A) dyn"}},
      {"int",
       to_int,
       {"@(int) int", "@(uint) int", "@(double) int", "@(string) int", "@(timestamp) int", "@(duration) int"}},
      {"uint", to_uint, {"@(uint) uint", "@(int) uint", "@(double) uint", "@(string) uint"}},
      {"double", to_double, {"@(double) double", "@(int) double", "@(uint) double", "@(string) double"}},
      {"string",
       to_any_text,
       {"@(string) string", "@(bool) string", "@(int) string", "@(uint) string", "@(double) string", "@(bytes) string",
        "@(timestamp) string", "@(duration) string", "@(ip) string", "@(cidr) string"}},
      {"bytes", to_bytes, {"@(bytes) bytes", "@(string) bytes"}},
      {"bool", to_bool, {"@(bool) bool", "@(string) bool"}},
      {"timestamp", to_moment, {"@(timestamp) timestamp", "@(string) timestamp", "@(int) timestamp"}},
      {"duration", to_span, {"@(duration) duration", "@(string) duration", "@(int) duration"}},
      {"getFullYear", full_year, {"timestamp.getFullYear() int", "timestamp.getFullYear(string) int"}},
      {"getMonth", month, {"timestamp.getMonth() int", "timestamp.getMonth(string) int"}},
      {"getDate", date, {"timestamp.getDate() int", "timestamp.getDate(string) int"}},
      {"getDayOfMonth", day_of_month, {"timestamp.getDayOfMonth() int", "timestamp.getDayOfMonth(string) int"}},
      {"getDayOfWeek", day_of_week, {"timestamp.getDayOfWeek() int", "timestamp.getDayOfWeek(string) int"}},
      {"getDayOfYear", day_of_year, {"timestamp.getDayOfYear() int", "timestamp.getDayOfYear(string) int"}},
      {"getHours", hours_of, {"timestamp.getHours() int", "timestamp.getHours(string) int", "duration.getHours() int"}},
      {"getMinutes",
       minutes_of,
       {"timestamp.getMinutes() int", "timestamp.getMinutes(string) int", "duration.getMinutes() int"}},
      {"getSeconds",
       seconds_of,
       {"timestamp.getSeconds() int", "timestamp.getSeconds(string) int", "duration.getSeconds() int"}},
      {"getMilliseconds",
       milliseconds_of,
       {"timestamp.getMilliseconds() int", "timestamp.getMilliseconds(string) int", "duration.getMilliseconds() int"}},
  };
}

}  // namespace lockstep::kube::cel
