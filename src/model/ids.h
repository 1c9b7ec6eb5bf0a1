// The identifiers of the model. Values are never reused: a number names one thing for the life of the cluster.
#pragma once

#include <cstdint>
#include <string>

#include "base/id.h"

namespace lockstep {

using JobId = Id<struct JobTag, std::uint64_t>;    // plain decimal for users; also of array elements
using NodeId = Id<struct NodeTag, std::uint32_t>;  // dense, in order of registration
using UserId = Id<struct UserTag, std::uint32_t>;
using Uid = Id<struct UidTag, std::uint64_t>;  // of any record: the seq of the change that created it
using BlobId = std::string;                    // lower-case hex SHA-256 of the content; "" = none

// Position in the cluster's history: every change has its own, strictly increasing. Also the resourceVersion.
using Seq = std::uint64_t;

using AttemptNo = std::uint32_t;          // 1, 2, … within a job; 0 = never ran
using StepNo = std::int32_t;              // 0, 1, 2 … for launches inside an allocation
inline constexpr StepNo kBatchStep = -1;  // in accounting: the batch script itself

}  // namespace lockstep
