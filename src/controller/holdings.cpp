#include "controller/holdings.h"

#include <algorithm>
#include <functional>
#include <string_view>

namespace lockstep {

namespace {

std::uint64_t key_of(UserId user, const BlobId& blob) {
  return std::hash<std::string_view>{}(blob) ^ user.value * 0x9E37'79B9'7F4A'7C15u;
}

}  // namespace

Holdings::Of Holdings::of(UserId user) const {
  const auto at = of_.find(user);
  return at == of_.end() ? Of{} : at->second;
}

bool Holdings::has(UserId user, const BlobId& blob) const { return stored_.contains(key_of(user, blob)); }

void Holdings::use(const BlobId& blob, UserId user, int sign) {
  if (blob.empty())
    return;
  Stored& stored = stored_[key_of(user, blob)];
  if (sign > 0) {
    if (stored.jobs++ == 0 && loading_)
      unknown_.emplace_back(user, blob);
    return;
  }
  if (--stored.jobs > 0)
    return;
  of_[user].stored_bytes -= stored.bytes;
  stored_.erase(key_of(user, blob));
}

void Holdings::add(const Job& job, int sign) {
  const UserId user = job.spec->user;
  if (job.state == JobState::kPending)
    of_[user].pending_jobs += sign > 0 ? 1 : std::uint64_t(-1);
  use(job.spec->script, user, sign);
  use(job.spec->environment, user, sign);
  if (job.first_step)
    use(job.first_step->environment, user, sign);
}

void Holdings::changed(const Job* before, const Job* after) {
  // First what comes, then what goes: blobs of a record that only moved on are not forgotten in between.
  if (after)
    add(*after, +1);
  if (before)
    add(*before, -1);
}

void Holdings::changed(const Step* before, const Step* after) {
  if (after)
    use(after->spec->environment, after->user, +1);
  if (before)
    use(before->spec->environment, before->user, -1);
}

void Holdings::known(UserId user, const BlobId& blob, std::uint64_t bytes) {
  const auto at = stored_.find(key_of(user, blob));
  if (at == stored_.end() || at->second.bytes != 0)
    return;
  at->second.bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, UINT32_MAX));
  of_[user].stored_bytes += at->second.bytes;
}

Holdings::Unknown Holdings::take_unknown(std::size_t most) {
  Unknown out;
  while (!unknown_.empty() && out.size() < most) {
    out.push_back(std::move(unknown_.back()));
    unknown_.pop_back();
  }
  if (unknown_.empty())
    unknown_.shrink_to_fit();
  return out;
}

}  // namespace lockstep
