// Who may see a field. The lists of fields (model/*_fields.h) say it beside the bound of each field of a record:
//
//   v("name", &JobSpec::name, to_all(bounded::kName));
//   v("script", &JobSpec::script, to_owner(bounded::kName));
//
// Whatever may be seen by whoever sees the field that holds it says so once, beside its list: told_whole(const Grant*).
// model/kinds.cpp walks the lists of all records: a field that says nothing does not compile.
#pragma once

#include "model/bounded.h"
#include "model/visible.h"

namespace lockstep {

template <class How, Visibility kTo>
struct Told : How {
  using Bound = How;
  static constexpr Visibility kToldTo = kTo;
};
// A text of which others are told the first word: "StageInFailed" without the path.
template <class How>
struct ToldByWord : Told<How, Visibility::kOwner> {};

template <class How = bounded::Plain>
constexpr Told<How, Visibility::kEveryone> to_all(How how = {}) {
  return {how};
}
template <class How = bounded::Plain>
constexpr Told<How, Visibility::kOwner> to_owner(How how = {}) {
  return {how};
}
template <class How = bounded::Plain>
constexpr ToldByWord<How> to_owner_and_the_word_to_all(How how = {}) {
  return {{how}};
}
template <class How = bounded::Plain>
constexpr Told<How, Visibility::kAdministrator> to_admins(How how = {}) {
  return {how};
}
template <class How = bounded::Plain>
constexpr Told<How, Visibility::kNobody> to_nobody(How how = {}) {
  return {how};
}

// The bound alone.
template <class How>
constexpr const How& bound_of(const How& how) {
  return how;
}
template <class How, Visibility kTo>
constexpr const How& bound_of(const Told<How, kTo>& how) {
  return how;
}
template <class How>
constexpr const How& bound_of(const ToldByWord<How>& how) {
  return how;
}

// As whom a field may be seen: told_to(&JobSpec::script), where its list is included. For pages that write single
// fields of a record.
template <class Of, class M>
class ToldField {
 public:
  explicit constexpr ToldField(M Of::*wanted) : wanted_(wanted) {}
  template <class Other, class N, class How>
  constexpr void operator()(std::string_view, N Other::*member, const How&) {
    if constexpr (std::is_same_v<N Other::*, M Of::*>)
      if (member == wanted_)
        to_ = How::kToldTo;
  }
  template <class Other, class N, class How>
  constexpr void always(std::string_view key, N Other::*member, const How& how) {
    (*this)(key, member, how);
  }
  constexpr Visibility to() const { return to_; }

 private:
  M Of::*wanted_;
  Visibility to_ = Visibility::kNobody;
};
template <class Of, class M>
constexpr Visibility told_to(M Of::*member) {
  ToldField<Of, M> field(member);
  describe(field, static_cast<const Of*>(nullptr));
  return field.to();
}

}  // namespace lockstep
