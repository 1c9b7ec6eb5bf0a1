// Result<T>: a value or an Error. Expected failures travel as values; TRY passes them up.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace lockstep {

enum class Errc : unsigned char {
  kInvalid,      // the request is malformed or contradictory: mend it
  kImpossible,   // well formed, but nothing in this cluster could ever satisfy it
  kNotFound,     // names something that is not there
  kConflict,     // compare-and-set lost, duplicate name, illegal transition
  kDenied,       // the caller may not do this
  kUnavailable,  // not now: read-only, shutting down, not connected. Try again
  kExhausted,    // a named bound was reached: queue, size, descriptors, disk
  kTimeout,
  kIo,           // the operating system said no
  kCorrupt,      // stored bytes are not what we wrote
  kUnsupported,  // known, but not built: never silently ignored
  kInternal,
};

struct Error {
  Errc code = Errc::kInternal;
  std::string message;  // what happened, to which object, what to do next
  std::string field;    // path of the offending field ("groups[0].nodes"), empty if none
};

template <class T>
class [[nodiscard]] Result {
 public:
  using Value = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

  Result() requires std::is_void_v<T> : state_(Value{}) {}
  template <class U = Value>
  requires(!std::is_void_v<T> && std::is_constructible_v<Value, U&&> &&
           !std::is_same_v<std::remove_cvref_t<U>, Error> && !std::is_same_v<std::remove_cvref_t<U>, Result>)
      Result(U&& value)
      : state_(std::in_place_index<0>, std::forward<U>(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  const Value& value() const& { return check_value(), std::get<0>(state_); }
  Value& value() & { return check_value(), std::get<0>(state_); }
  Value&& value() && { return check_value(), std::get<0>(std::move(state_)); }
  const Value& operator*() const& { return value(); }
  Value& operator*() & { return value(); }
  Value&& operator*() && { return std::move(*this).value(); }
  const Value* operator->() const { return &value(); }
  Value* operator->() { return &value(); }

  const Error& error() const& { return check_error(), std::get<1>(state_); }
  Error&& error() && { return check_error(), std::get<1>(std::move(state_)); }

 private:
  void check_value() const {
    if (!ok())
      check_failed(__FILE__, __LINE__, "Result holds a value", std::get<1>(state_).message);
  }
  void check_error() const { CHECK(!ok()); }

  std::variant<Value, Error> state_;
};

inline Error invalid(std::string message, std::string field = {}) {
  return {Errc::kInvalid, std::move(message), std::move(field)};
}
inline Error not_found(std::string message) { return {Errc::kNotFound, std::move(message), {}}; }
inline Error conflict(std::string message) { return {Errc::kConflict, std::move(message), {}}; }
inline Error denied(std::string message) { return {Errc::kDenied, std::move(message), {}}; }

}  // namespace lockstep

// The value of a Result expression, or return its error from the enclosing function.
#define TRY(expression)                      \
  ({                                         \
    auto try_result_ = (expression);         \
    if (!try_result_.ok()) [[unlikely]]      \
      return std::move(try_result_).error(); \
    std::move(try_result_).value();          \
  })
