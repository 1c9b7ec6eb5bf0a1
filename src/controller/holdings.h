// Holdings: what each user has in the cluster that costs others something while it lies there: pending jobs, and bytes
// of stored scripts and environments. Kept by the live view; the API refuses what goes beyond a user's share.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/records.h"

namespace lockstep {

class Holdings {
 public:
  struct Of {
    std::uint64_t pending_jobs = 0;  // records; an array's waiting elements are one
    std::uint64_t stored_bytes = 0;  // what several of the user's jobs share counts once
  };
  Of of(UserId user) const;
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
    std::uint32_t jobs = 0;   // of the user that name it
    std::uint32_t bytes = 0;  // 0 = not known
  };
  void add(const Job& job, int sign);
  void use(const BlobId& blob, UserId user, int sign);

  std::unordered_map<UserId, Of> of_;
  // By a hash of user and blob: a whole id for each of 100,000 jobs would be felt.
  std::unordered_map<std::uint64_t, Stored> stored_;
  Unknown unknown_;
  bool loading_ = true;
};

}  // namespace lockstep
