// What is known of every kind of record, one row each (model/kinds.def): its word, how many there may be, and who may
// see it; and which fields of a record fewer may see.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "model/visible.h"

namespace lockstep {

struct KindRow {
  Kind kind = Kind::kCluster;
  std::string_view word;
  std::size_t count_max = 0;
  Visibility seen_by = Visibility::kAdministrator;  // records of the kind, but for their private fields
};

inline constexpr KindRow kKinds[] = {
#define KIND(type, name, word, table, count, seen) {Kind::name, word, count, Visibility::seen},
#include "model/kinds.def"
};

constexpr const KindRow& row_of(Kind kind) { return kKinds[static_cast<std::size_t>(kind)]; }
constexpr Visibility visibility_of(Kind kind) { return row_of(kind).seen_by; }

template <class T>
inline constexpr Kind kKindOf = Kind::kCluster;  // of a record's type
#define KIND(type, name, word, table, count, seen) \
  template <>                                      \
  inline constexpr Kind kKindOf<type> = Kind::name;
#include "model/kinds.def"

// A field that fewer may see than the rest of its record; "spec.groups[].argv".
struct PrivateField {
  std::string path;
  Visibility seen_by = Visibility::kOwner;
};
std::vector<PrivateField> private_fields(Kind kind);

// Whom a record belongs to; 0 = nobody: then its owner's fields are for administrators.
UserId owner_of(const Record& record);

// The record as somebody of that standing sees it: private fields are at their defaults. The same record where there is
// nothing to take away. Whether it may be seen at all is visibility_of(). What a caller is sent is made by this alone
// (model/visible.h).
VisibleRecord as_seen_by(const Record& record, Visibility viewer);

}  // namespace lockstep
