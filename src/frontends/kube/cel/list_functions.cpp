// Lists, sets, optional values.
#include <algorithm>

#include "base/text.h"
#include "frontends/kube/cel/functions.h"

namespace lockstep::kube::cel {

namespace {

Value is_sorted(Budget& budget, const Arguments& a) {
  const auto* list = a[0].part<List>();
  if (list == nullptr)
    return no_overload();
  for (std::size_t at = 1; at < list->items.size(); ++at) {
    if (!budget.spend(1))
      return Value();
    const auto compared = order(list->items[at - 1], list->items[at]);
    if (!compared)
      return no_overload();
    if (*compared > 0)
      return Value(false);
  }
  return Value(true);
}

Value sum_of(Budget& budget, const Arguments& a) {
  const auto* list = a[0].part<List>();
  if (list == nullptr)
    return no_overload();
  const Function* plus = find_function("_+_");
  if (list->items.empty())
    return Value(std::int64_t{0});
  Value sum = list->items.front();
  if (!sum.is_number() && !sum.as<Span>())
    return no_overload();
  for (std::size_t at = 1; at < list->items.size() && budget.spend(1); ++at)
    if (sum = plus->handler(budget, {sum, list->items[at]}); sum.is_fault())
      return sum;
  return sum;
}

Value extreme(Budget& budget, const Arguments& a, int sign, std::string_view word) {
  const auto* list = a[0].part<List>();
  if (list == nullptr)
    return no_overload();
  if (list->items.empty())
    return Value::fault(format("{} called on empty list", word));
  Value best = list->items.front();
  for (const Value& each : list->items) {
    const auto compared = order(each, best);
    if (!budget.spend(1))
      return Value();
    if (!compared)
      return no_overload();
    if (*compared * sign > 0)
      best = each;
  }
  return best;
}
Value least(Budget& budget, const Arguments& a) { return extreme(budget, a, -1, "min"); }
Value most(Budget& budget, const Arguments& a) { return extreme(budget, a, 1, "max"); }

bool has_item(const List& list, const Value& wanted) {
  return std::ranges::any_of(list.items, [&](const Value& each) { return equal(each, wanted); });
}
bool has_all(const List& list, const List& wanted) {
  return std::ranges::all_of(wanted.items, [&](const Value& each) { return has_item(list, each); });
}

template <class Holds>
Value of_sets(Budget& budget, const Arguments& a, Holds holds) {
  const auto *left = a[0].part<List>(), *right = a[1].part<List>();
  if (left == nullptr || right == nullptr)
    return no_overload();
  return budget.spend(left->items.size() * right->items.size() + 1) ? Value(holds(*left, *right)) : Value();
}
Value sets_contains(Budget& budget, const Arguments& a) { return of_sets(budget, a, has_all); }
Value sets_equivalent(Budget& budget, const Arguments& a) {
  return of_sets(budget, a, [](const List& x, const List& y) { return has_all(x, y) && has_all(y, x); });
}
Value sets_intersects(Budget& budget, const Arguments& a) {
  return of_sets(budget, a, [](const List& x, const List& y) {
    return std::ranges::any_of(x.items, [&](const Value& each) { return has_item(y, each); });
  });
}

bool is_zero(const Value& value) {
  if (value.is_null())
    return true;
  if (const auto* truth = value.as<bool>())
    return !*truth;
  if (value.is_number())
    return equal(value, Value(std::int64_t{0}));
  if (value.string() || value.part<Bytes>() || value.part<List>() || value.is_map())
    return size_of(value) == 0;
  if (const auto* span = value.as<Span>())
    return span->seconds == 0 && span->nanos == 0;
  return false;
}

Value optional_of(Budget&, const Arguments& a) { return Value::some(a[0]); }
Value optional_none(Budget&, const Arguments&) { return Value::none(); }
Value optional_of_nonzero(Budget&, const Arguments& a) { return is_zero(a[0]) ? Value::none() : Value::some(a[0]); }
Value has_value(Budget&, const Arguments& a) {
  const auto* optional = a[0].part<Optional>();
  return optional == nullptr ? no_overload() : Value(!optional->value.empty());
}
Value value_of(Budget&, const Arguments& a) {
  const auto* optional = a[0].part<Optional>();
  if (optional == nullptr)
    return no_overload();
  return optional->value.empty() ? Value::fault("optional.none() dereference") : optional->value.front();
}

}  // namespace

std::vector<FunctionRow> list_functions() {
  return {
      {"isSorted",
       is_sorted,
       {"list(int).isSorted() bool", "list(uint).isSorted() bool", "list(double).isSorted() bool",
        "list(bool).isSorted() bool", "list(string).isSorted() bool", "list(bytes).isSorted() bool",
        "list(timestamp).isSorted() bool", "list(duration).isSorted() bool"}},
      {"sum",
       sum_of,
       {"list(int).sum() int", "list(uint).sum() uint", "list(double).sum() double", "list(duration).sum() duration"}},
      {"min",
       least,
       {"list(int).min() int", "list(uint).min() uint", "list(double).min() double", "list(bool).min() bool",
        "list(string).min() string", "list(bytes).min() bytes", "list(timestamp).min() timestamp",
        "list(duration).min() duration"}},
      {"max",
       most,
       {"list(int).max() int", "list(uint).max() uint", "list(double).max() double", "list(bool).max() bool",
        "list(string).max() string", "list(bytes).max() bytes", "list(timestamp).max() timestamp",
        "list(duration).max() duration"}},
      {"sets.contains", sets_contains, {"@(list(A), list(A)) bool"}},
      {"sets.equivalent", sets_equivalent, {"@(list(A), list(A)) bool"}},
      {"sets.intersects", sets_intersects, {"@(list(A), list(A)) bool"}},
      {"optional.of", optional_of, {"@(A) optional(A)"}},
      {"optional.none", optional_none, {"@() optional(A)"}},
      {"optional.ofNonZeroValue", optional_of_nonzero, {"@(A) optional(A)"}},
      {"hasValue", has_value, {"optional(A).hasValue() bool"}},
      // "value", "or" and "orValue" of optional values; the latter two are the evaluator's, which settles the first
      // part.
      {"value", value_of, {"optional(A).value() A"}},
      {"or", nullptr, {"optional(A).or(optional(A)) optional(A)"}},
      {"orValue", nullptr, {"optional(A).orValue(A) A"}},
  };
}

}  // namespace lockstep::kube::cel
