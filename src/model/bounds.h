// Bounds of what the cluster takes in, stated once: the doors refuse what is beyond them, and the core refuses it
// again. The lists of fields (model/*_fields.h) say which holds for which field.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace lockstep {

inline constexpr std::size_t kRecordBytesMax = 4 << 20;   // one record as it is stored; may span log entries
inline constexpr std::size_t kSpecBytesMax = 1280 << 10;  // of it, what was asked for: written and named in one turn

// Texts, in bytes.
inline constexpr std::size_t kNameBytesMax = 256;       // names, words, identifiers
inline constexpr std::size_t kPhraseBytesMax = 4096;    // constraints, licences, lists of names as one text
inline constexpr std::size_t kPathBytesMax = 4096;      // Linux' PATH_MAX
inline constexpr std::size_t kTextBytesMax = 64 << 10;  // comments, reasons, descriptions
inline constexpr std::size_t kHostListBytesMax = 1 << 20;
inline constexpr std::size_t kScriptBytesMax = 16 << 20;
inline constexpr std::size_t kEnvironmentBytesMax = 6 << 20;                   // Linux starts no program with more
inline constexpr std::uint64_t kLaunchBytesMax = std::uint64_t{2} << 30;       // environments to all nodes of a job
inline constexpr std::size_t kObjectBytesMax = kRecordBytesMax - (256 << 10);  // body of a front end's object

// Lists: entries, and bytes of all together.
inline constexpr std::size_t kArgvWordsMax = 65'536, kArgvBytesMax = 1 << 20;
inline constexpr std::size_t kNamesMax = 1024, kNamesBytesMax = 256 << 10;          // features, partitions, QOS
inline constexpr std::size_t kManyNamesMax = 16'384, kManyNamesBytesMax = 1 << 20;  // accounts, users, groups
inline constexpr std::size_t kNodeNamesMax = 32'768, kNodeNamesBytesMax = 1 << 20;  // of a job: -w, -x
inline constexpr std::size_t kAllNodesMax = 200'000, kAllNodesBytesMax = 3 << 20;   // of a partition, reservation, leaf
inline constexpr std::size_t kVariablesMax = 16'384, kVariablesBytesMax = 1 << 20;  // of a group of tasks; also options
inline constexpr std::size_t kLabelsMax = 1024, kLabelsBytesMax = 256 << 10;        // also annotations
inline constexpr std::size_t kTargetsMax = 200'000, kTargetsBytesMax = 8 << 20;     // jobs named by one request
inline constexpr std::size_t kLevelsMax = 16;                                       // of a topology
inline constexpr std::size_t kLeavesMax = 100'000;
inline constexpr std::size_t kAsksMax = 64;  // kinds of devices asked for at once; also Counted, ports, probes
inline constexpr std::size_t kNeighbourTermsMax = 32, kRulesMax = 64, kRuleValuesMax = 256;  // of a group
inline constexpr std::size_t kTresMax = 256;     // amounts of one limit or weight
inline constexpr std::size_t kGroupsMax = 1024;  // components of a job
inline constexpr std::size_t kDependenciesMax = 1024;
inline constexpr std::size_t kShowsMax = 16;     // records that an object shows, and objects that show a record
inline constexpr std::size_t kReadingsMax = 64;  // records that a command says it has read
inline constexpr std::size_t kOwnersMax = 64;
// Separate ranges of an array's indices, or of elements named: a change of one element writes the array's record anew.
inline constexpr std::size_t kPiecesMax = 1024;
inline constexpr std::size_t kWaitingPiecesMax =
    2 * kPiecesMax;                                      // of what is left of an array when some were picked out
inline constexpr std::size_t kStagedPathsMax = 64;       // directories or files that are staged, one way
inline constexpr std::size_t kContainersMax = 32;        // of a sandbox
inline constexpr std::size_t kAddedContainersMax = 32;   // beside them, in its life
inline constexpr std::size_t kVolumesMax = 64;           // likewise
inline constexpr std::size_t kGroupIdsMax = 65'536;      // of a user: Linux' NGROUPS_MAX
inline constexpr std::size_t kHoldingsMax = 65'536;      // attempts an agent says it holds
inline constexpr std::size_t kPartsPerNodeMax = 65'536;  // parts of devices that one attempt has on a node
inline constexpr std::size_t kHeldWorkMax = 200'000;     // steps or tasks of one of them

// Counts.
inline constexpr std::uint32_t kAmountMax = 1'000'000;                // cores or devices for one task, node or job
inline constexpr std::uint32_t kJobTasksMax = 4'000'000;              // tasks of a job whose steps say what runs
inline constexpr std::uint32_t kTaskRecordsMax = 100'000;             // tasks of a job that have a record each (kTasks)
inline constexpr std::uint32_t kStepTasksMax = 1'000'000;             // tasks of one step
inline constexpr std::uint32_t kTasksPerNodeMax = 4096;               // of one group or step, overcommit included
inline constexpr std::uint32_t kStepsPerJobMax = 40'000;              // started in its life (Slurm's MaxStepCount)
inline constexpr std::uint32_t kLiveStepsPerJobMax = 4096;            // waiting or running at once
inline constexpr std::int64_t kMegabytesMax = std::int64_t{1} << 32;  // sums and products of a few stay in 64 bits
inline constexpr std::int64_t kSumMax = std::int64_t{1} << 40;        // of amounts: sums of many stay in 64 bits

inline constexpr Duration kKillWaitMax = hours(1);  // a job is killed that long after it was told to stop

}  // namespace lockstep
