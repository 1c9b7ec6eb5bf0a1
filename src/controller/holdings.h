// Holdings: what each user has in the cluster that costs others something while it lies there: pending jobs, and bytes
// of stored scripts and environments, and of long words (arguments, options). Kept by the live view; the API refuses
// what goes beyond a user's share.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/records.h"
#include "model/spec.h"

namespace lockstep {

struct Job;
struct JobSpec;

// Bytes of the words of a specification. Few are nothing to count: 100,000 jobs of that are 200 MiB.
inline constexpr std::uint64_t kWordsCounted = 2 << 10;
std::uint64_t counted_bytes(const JobSpec& spec);
std::uint64_t counted_bytes(const StepSpec& spec);

class Holdings {
 public:
  struct Of {
    std::uint64_t pending_jobs = 0;  // records; an array's waiting elements are one
    std::uint64_t stored_bytes = 0;  // what several of the user's jobs share counts once
  };
  Of of(UserId user) const;
  std::uint64_t all_stored() const { return all_stored_; }  // bytes of all users
  // Users who store most, the greediest first.
  std::vector<std::pair<UserId, std::uint64_t>> greediest(std::size_t most) const;
  bool has(UserId user, const BlobId& blob) const;

  // A job's record has changed; null: there was none, or there is none any more.
  void changed(const Job* before, const Job* after);
  void changed(const Step* before, const Step* after);
  // How long a script or environment is that a job of the user names; 0 = it could not be read.
  void known(UserId user, const BlobId& blob, std::uint64_t bytes);
  // Some of those that were there at the start, whose length nobody has told. Empty: there are none left.
  using Unknown = std::vector<std::pair<UserId, BlobId>>;
  Unknown take_unknown(std::size_t most);
  // From here on lengths are told as jobs are submitted.
  void loaded() { loading_ = false; }

 private:
  struct Stored {
    std::uint32_t jobs = 0;   // of the user that name or hold it
    std::uint32_t bytes = 0;  // 0 = not known
  };
  void count(UserId user, std::int64_t bytes);
  void add(const Job& job, int sign);
  void use(const BlobId& blob, UserId user, int sign);
  // Records share long parts, which lie at the same place in memory then.
  void use_part(const void* part, std::uint64_t bytes, UserId user, int sign);
  void use_parts(const Job& job, int sign);

  std::unordered_map<UserId, Of> of_;
  std::uint64_t all_stored_ = 0;
  // By a hash of user and blob: a whole id for each of 100,000 jobs would be felt.
  std::unordered_map<std::uint64_t, Stored> stored_;
  Unknown unknown_;
  bool loading_ = true;
};

}  // namespace lockstep
