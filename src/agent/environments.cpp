#include "agent/environments.h"

#include "base/check.h"
#include "base/text.h"

namespace lockstep {

Result<void> Environments::announced(const LongEnvironment& head) {
  for (const std::string& id : split(head.forget, ' ')) forget(id);
  if (known_.contains(head.id))
    return invalid(format("environment {} came twice", head.id));
  if (head.bytes > kLongEnvironmentsMax - bytes_)
    return invalid(format("environment {} has {} bytes, and {} bytes of others are here", head.id, head.bytes, bytes_));
  bytes_ += head.bytes;
  CHECK(bytes_ <= kLongEnvironmentsMax);
  known_[head.id].wanted = head.bytes;
  return {};
}

void Environments::add(const BlobId& id, std::string_view piece) {
  if (const auto known = known_.find(id);
      known != known_.end() && known->second.lines.size() + piece.size() <= known->second.wanted)
    known->second.lines += piece;
}

void Environments::ended(const BlobId& id) {
  if (const auto known = known_.find(id); known != known_.end() && known->second.lines.size() < known->second.wanted)
    forget(id);
}

void Environments::forget(const BlobId& id) {
  const auto known = known_.find(id);
  if (known == known_.end())
    return;
  CHECK(bytes_ >= known->second.wanted, format("{} bytes of all, {} of {}", bytes_, known->second.wanted, id));
  bytes_ -= known->second.wanted;
  known_.erase(known);
  CHECK(!known_.empty() || bytes_ == 0, format("{} bytes of nothing", bytes_));
}

Result<void> Environments::complete(ToAgent& message) const {
  ProcessSpec* process = process_of(message);
  if (!process || process->env_base.empty())
    return {};
  const auto known = known_.find(process->env_base);
  if (known == known_.end() || known->second.lines.size() != known->second.wanted)
    return invalid(format("a launch names environment {}, which has not come", process->env_base));
  complete_environment(*process, known->second.lines);
  return {};
}

}  // namespace lockstep
