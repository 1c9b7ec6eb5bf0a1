// Compare and set: a record is put back only where it is still the version that was read.
#pragma once

#include <string>

#include "base/text.h"
#include "model/command.h"
#include "model/table_of.h"

namespace lockstep {

// if_seq: of the version that was read; 0: any, also none; kIfNew: none. kConflict. what: "partition debug".
template <class T>
Result<void> expect_version(const Tables& tables, const T& like, Seq if_seq, std::string_view what) {
  if (if_seq == 0)
    return {};
  const Ref<T> there = record_like(tables, like);
  if (if_seq == kIfNew)
    return there ? conflict(format("{} is there already, and was to be new: read it again", what)) : Result<void>();
  if (there && there->meta.seq == if_seq)
    return {};
  return conflict(format("{} {} since version {}: read it again", what, there ? "has changed" : "is gone", if_seq));
}

}  // namespace lockstep
