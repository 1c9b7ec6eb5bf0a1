// Feature expressions: names joined by & (or ,) and |, in ( ) or [ ], with an ignored *COUNT. & binds tighter.
#include "base/text.h"
#include "rules/fit.h"

namespace lockstep {

namespace {

constexpr int kDepthMax = 64;

class Expression {
 public:
  Expression(std::string_view text, const std::vector<std::string>* features) : text_(text), features_(features) {}

  Result<bool> evaluate() {
    const bool value = TRY(any_of());
    if (at_ != text_.size())
      return complain("unexpected text");
    return value;
  }

 private:
  Error complain(std::string_view what) const {
    return invalid(format("constraint \"{}\": {} at column {}", text_, what, at_ + 1), "constraint");
  }
  bool next_is(char c) const { return at_ < text_.size() && text_[at_] == c; }

  Result<bool> any_of() {
    bool value = TRY(all_of());
    while (next_is('|')) {
      ++at_;
      const bool other = TRY(all_of());
      value = value || other;
    }
    return value;
  }

  Result<bool> all_of() {
    bool value = TRY(one());
    while (next_is('&') || next_is(',')) {
      ++at_;
      const bool other = TRY(one());
      value = value && other;
    }
    return value;
  }

  Result<bool> one() {
    if (next_is('(') || next_is('[')) {
      const char close = text_[at_] == '(' ? ')' : ']';
      if (++depth_ > kDepthMax)
        return complain("too many brackets");
      ++at_;
      const bool value = TRY(any_of());
      if (!next_is(close))
        return complain(format("missing {}", close));
      ++at_;
      --depth_;
      TRY(count());
      return value;
    }
    const std::size_t start = at_;
    while (at_ < text_.size() && std::string_view("&|,()[]*").find(text_[at_]) == std::string_view::npos) ++at_;
    const auto name = trim(text_.substr(start, at_ - start));
    if (name.empty())
      return complain("a feature name is missing");
    TRY(count());
    if (!features_)
      return true;
    for (const std::string& feature : *features_)
      if (feature == name)
        return true;
    return false;
  }

  Result<void> count() {
    if (!next_is('*'))
      return {};
    const std::size_t start = ++at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    if (at_ == start)
      return complain("a count is missing after *");
    return {};
  }

  std::string_view text_;
  const std::vector<std::string>* features_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Result<void> check_constraint(const std::string& expression) {
  if (expression.empty())
    return {};
  TRY(Expression(expression, nullptr).evaluate());
  return {};
}

bool constraint_holds(const std::string& expression, const std::vector<std::string>& features) {
  if (expression.empty())
    return true;
  const auto value = Expression(expression, &features).evaluate();
  return value.ok() && *value;
}

}  // namespace lockstep
