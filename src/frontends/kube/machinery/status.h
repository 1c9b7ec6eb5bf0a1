// The Status object: how Kubernetes' API says that a request failed, and why.
//
// Codes, reasons and messages are those that clients know: kubectl prints the message, client libraries decide by the
// reason, `details` names what it is about and lists the causes field by field.
// Source: "API Conventions", response status kind; k8s.io/apimachinery pkg/api/errors.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"

namespace lockstep::kube {

namespace json = boost::json;

// "pods", "deployments.apps": a resource as messages name it. For a kind: "Pod", "Deployment.apps".
struct Qualified {
  std::string group;  // "" = the core group
  std::string name;   // the plural resource, or the kind

  std::string text() const { return group.empty() ? name : name + "." + group; }
};

struct Cause {
  std::string reason;   // "FieldValueInvalid", "FieldManagerConflict", …; "" = not said
  std::string message;  // without the field
  std::string field;    // "spec.replicas"

  bool operator==(const Cause&) const = default;
};

struct Status {
  int code = 500;      // of HTTP
  std::string reason;  // "NotFound", …; "" = not said
  std::string message;

  // details; all empty: the object has none
  std::string group;
  std::string kind;  // the resource's plural name, or the kind in Invalid: what the real server writes there
  std::string name;
  std::string uid;
  std::vector<Cause> causes;
  std::int64_t retry_after_seconds = 0;

  json::object body() const;  // {"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",…}

  static Status bad_request(std::string why);
  static Status unauthorized(std::string why = "Unauthorized");
  // "pods "x" is forbidden: WHY"; without a name "pods is forbidden: WHY", without a resource "forbidden: WHY".
  static Status forbidden(const Qualified& resource, std::string_view name, std::string_view why);
  static Status not_found(const Qualified& resource, std::string_view name);
  static Status no_such_path();  // 404 for a path that nothing serves
  static Status method_not_allowed(const Qualified& resource, std::string_view verb);
  static Status no_such_method();  // the same, of built-in kinds
  static Status not_acceptable(const std::vector<std::string>& served_types);
  static Status already_exists(const Qualified& resource, std::string_view name);
  // "Operation cannot be fulfilled on pods "x": WHY".
  static Status conflict(const Qualified& resource, std::string_view name, std::string_view why);
  static Status object_modified(const Qualified& resource, std::string_view name);  // a stale resourceVersion
  static Status apply_conflict(std::vector<Cause> causes, std::string message);     // of a server-side apply
  static Status expired(std::string why);                                           // 410: begin with a new list
  static Status gone(std::string why);
  static Status too_large(std::int64_t limit_bytes);
  static Status unsupported_media_type(const std::vector<std::string>& read_types);
  // "Deployment.apps "x" is invalid: FIELD: MESSAGE", or a list in brackets of the causes that differ.
  static Status invalid(const Qualified& kind, std::string_view name, std::vector<Cause> causes);
  static Status unprocessable(std::string why);  // 422 without a field: a JSON patch that does not apply
  static Status too_many_requests(std::string_view why, std::int64_t retry_after_seconds);
  static Status internal(std::string_view why);
  static Status unavailable(std::string why);
  static Status timeout(std::string_view why, std::int64_t retry_after_seconds = 0);
};

// A value, or the Status that the caller is answered with. TRY (base/result.h) passes it up.
template <class T>
class [[nodiscard]] Answered {
 public:
  template <class U = T>
  requires(std::is_constructible_v<T, U&&> && !std::is_same_v<std::remove_cvref_t<U>, Status> &&
           !std::is_same_v<std::remove_cvref_t<U>, Answered>) Answered(U&& value)
      : state_(std::in_place_index<0>, std::forward<U>(value)) {}
  Answered(Status status) : state_(std::in_place_index<1>, std::move(status)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  const T& value() const& { return check_value(), std::get<0>(state_); }
  T& value() & { return check_value(), std::get<0>(state_); }
  T&& value() && { return check_value(), std::get<0>(std::move(state_)); }
  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }

  const Status& error() const& { return check_status(), std::get<1>(state_); }
  Status&& error() && { return check_status(), std::get<1>(std::move(state_)); }

 private:
  void check_value() const {
    if (!ok())
      check_failed(__FILE__, __LINE__, "Answered holds a value", std::get<1>(state_).message);
  }
  void check_status() const { CHECK(!ok()); }

  std::variant<T, Status> state_;
};

}  // namespace lockstep::kube
