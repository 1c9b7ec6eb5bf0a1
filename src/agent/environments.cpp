#include "agent/environments.h"

#include "base/text.h"

namespace lockstep {

Result<void> Environments::announced(const LongEnvironment& head) {
  for (const std::string& id : split(head.forget, ' '))
    if (const auto known = known_.find(id); known != known_.end()) {
      bytes_ -= known->second.wanted;
      known_.erase(known);
    }
  if (known_.contains(head.id) || bytes_ + head.bytes > kBytesMax)
    return invalid(format("environment {} came twice, or when {} bytes of others are kept", head.id, bytes_));
  bytes_ += head.bytes;
  known_[head.id].wanted = head.bytes;
  return {};
}

void Environments::add(const BlobId& id, std::string_view piece) {
  if (const auto known = known_.find(id);
      known != known_.end() && known->second.lines.size() + piece.size() <= known->second.wanted)
    known->second.lines += piece;
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
