// Distinct integer identifiers: a JobId does not convert to a NodeId.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace lockstep {

template <class Tag, class Rep>
struct Id {
  Rep value = 0;

  constexpr Id() = default;
  constexpr explicit Id(Rep v) : value(v) {}
  constexpr explicit operator bool() const { return value != 0; }  // 0 names nothing
  friend constexpr auto operator<=>(const Id&, const Id&) = default;
};

}  // namespace lockstep

template <class Tag, class Rep>
struct std::hash<lockstep::Id<Tag, Rep>> {
  std::size_t operator()(const lockstep::Id<Tag, Rep>& id) const noexcept { return std::hash<Rep>{}(id.value); }
};
