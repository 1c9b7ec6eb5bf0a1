// Names that are not of jobs, nodes or accounting: users, partitions, front-end objects.
#pragma once

#include <functional>
#include <vector>

#include "core/txn.h"

namespace lockstep {

Result<Answer> start_epoch(Txn& txn, const StartEpoch& ask);
Result<Answer> put_user(Txn& txn, const PutUser& ask);
Result<Answer> put_partition(Txn& txn, const PutPartition& ask);
Result<void> remove_partition(Txn& txn, const RemovePartition& ask);

Result<void> need_admin(const Txn& txn, const char* what);
// Every node of the partition, in order of id, whatever its condition.
std::vector<const Node*> nodes_of(const Tables& tables, const Partition& partition);
// The first `most` of them for which `suits` holds, without a look at the others.
std::vector<const Node*> first_nodes_of(const Tables& tables, const Partition& partition, std::size_t most,
                                        const std::function<bool(const Node&)>& suits);

}  // namespace lockstep
