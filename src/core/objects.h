// Objects: what front ends store beside the jobs they made, the records that they show, and what commands rest on.
#pragma once

#include "core/txn.h"

namespace lockstep {

// kConflict: if_seq names another version, or the object is being deleted and gets one more finalizer. kExhausted:
// kShowsMax objects show a record already that this one would show.
Result<Answer> put_object(Txn& txn, const PutObject& ask);
Result<void> remove_object(Txn& txn, const RemoveObject& ask);
Result<void> disown_job(Txn& txn, const DisownJob& ask);

// It is deleted, and neither a finalizer nor work that was made for it keeps it: it goes in the same entry.
bool may_go(const Tables& tables, const Object& object);

// A record that the object shows has changed: the object's seq goes on, ends are copied, and a deleted object goes when
// nothing keeps it.
void renew_object(Txn& txn, const ObjectKey& key);

// kConflict where something is otherwise by now than the reading says (model/command.h).
Result<void> check_reading(const ClusterState::Inner& inner, const Reading& read);

// The owner that made it; 0 = none.
Uid controller_of(const Meta& meta);

}  // namespace lockstep
