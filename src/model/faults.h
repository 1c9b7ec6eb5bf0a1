// The first field of a value that holds too much, for any type whose fields are listed. Whoever includes this includes
// the lists (model/*_fields.h) first. Used inside model, and by tests.
#pragma once

#include "model/bounded.h"
#include "model/meta.h"

namespace lockstep {

struct AnyField {
  template <class... Any>
  constexpr void operator()(const Any&...) {}
  template <class... Any>
  constexpr void always(const Any&...) {}
};
template <class T>
concept Described = requires(AnyField& fields) {
  describe(fields, static_cast<const T*>(nullptr));
};

inline void prefix(Fault& fault, std::string_view name) {
  std::string where(name);
  if (!fault.where.empty() && fault.where.front() != '[')
    where += '.';
  fault.where.insert(0, where);
}

template <class T>
std::optional<Fault> fault_in(const T& value);
template <class T>
std::optional<Fault> fault_in(const std::vector<T>& list);
template <class T>
std::optional<Fault> fault_in(const SharedList<T>& list) {
  return fault_in(list.get());
}
template <class T>
std::optional<Fault> fault_in(const Ref<T>& ref) {
  return ref ? fault_in(*ref) : std::nullopt;
}
template <class T>
std::optional<Fault> fault_in(const std::optional<T>& value) {
  return value ? fault_in(*value) : std::nullopt;
}

template <class T>
class FieldFaults {
 public:
  explicit FieldFaults(const T& value) : value_(value) {}

  template <class Of, class M, class How = bounded::Plain>
  void operator()(std::string_view key, M Of::*member, const How& how = {}) {
    if (fault_)
      return;
    if (auto fault = how.refuses(value_.*member))
      note(std::move(*fault), key);
    else if (auto inner = fault_in(value_.*member))
      note(std::move(*inner), key);
  }
  template <class Of, class M, class How = bounded::Plain>
  void always(std::string_view key, M Of::*member, const How& how = {}) {
    (*this)(key, member, how);
  }
  std::optional<Fault> take() { return std::move(fault_); }

 private:
  void note(Fault fault, std::string_view key) {
    prefix(fault, key);
    fault_ = std::move(fault);
  }

  const T& value_;
  std::optional<Fault> fault_;
};

template <class T>
std::optional<Fault> fault_in(const T& value) {
  if constexpr (Described<T>) {
    FieldFaults<T> fields(value);
    describe(fields, static_cast<const T*>(nullptr));
    if (auto fault = fields.take())
      return fault;
    if constexpr (requires { unacceptable(value); })
      return unacceptable(value);
  }
  return {};
}

template <class T>
std::optional<Fault> fault_in(const std::vector<T>& list) {
  if constexpr (Described<T>)
    for (std::size_t i = 0; i < list.size(); ++i)
      if (auto fault = fault_in(list[i])) {
        prefix(*fault, format("[{}]", i));
        return fault;
      }
  return {};
}

}  // namespace lockstep
