// Where Tables keep the records of each kind, and by which key: from the rows of model/kinds.def.
#pragma once

#include "model/accounting.h"
#include "model/health.h"
#include "model/job.h"
#include "model/kinds.h"
#include "model/node.h"
#include "model/records.h"
#include "model/reservation.h"
#include "model/step.h"
#include "model/tables.h"

namespace lockstep {

// The member of Tables, or of its Directory: a map by key_of(), or the one record.
template <class T>
inline constexpr auto kTableOf = nullptr;
#define KIND(type, name, word, table, count, seen) \
  template <>                                      \
  inline constexpr auto kTableOf<type> = &Tables::table;
#include "model/kinds.def"

template <class Table, class Owner>
Owner owner_of_member(Table Owner::*);
template <class T>
inline constexpr bool kInDirectory = std::is_same_v<decltype(owner_of_member(kTableOf<T>)), Directory>;

// Kinds that are not named here go by meta.name.
template <class T>
const std::string& key_of(const T& record) {
  return record.meta.name;
}
inline UserId key_of(const User& record) { return record.id; }
inline NodeId key_of(const Node& record) { return record.id; }
inline JobId key_of(const Job& record) { return record.id; }
inline StepKey key_of(const Step& record) { return {record.job, record.number}; }
inline TaskKey key_of(const Task& record) { return {record.job, record.group, record.index}; }
inline ObjectKey key_of(const Object& record) { return {record.type, record.meta.ns, record.meta.name}; }

// The record with the key of `like`, as it is now; null when absent.
template <class T>
Ref<T> record_like(const Tables& tables, const T& like) {
  const auto& table = tables.*kTableOf<T>;
  if constexpr (std::is_same_v<decltype(table), const Ref<T>&>) {
    return table;
  } else if constexpr (requires { table.last_key(); }) {  // IdMap
    const Ref<T>* found = table.get(key_of(like));
    return found ? *found : nullptr;
  } else {
    const auto it = table.find(key_of(like));
    return it == table.end() ? nullptr : it->second;
  }
}

// Sets the record, or removes it, in whichever holds its table: Tables or a Directory.
template <class Owner, class T>
void set_record(Owner& owner, const Ref<T>& ref, bool removed) {
  auto& table = owner.*kTableOf<T>;
  if constexpr (std::is_same_v<decltype(table), Ref<T>&>)
    table = removed ? nullptr : ref;
  else if (removed)
    table.erase(key_of(*ref));
  else
    table[key_of(*ref)] = ref;
}

}  // namespace lockstep
