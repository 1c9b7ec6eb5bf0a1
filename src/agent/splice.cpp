#include "agent/splice.h"

#include "base/check.h"

namespace lockstep {

void Splices::join(std::shared_ptr<Stream> a, std::shared_ptr<Stream> b) {
  CHECK(a && b && a != b);
  const std::uint64_t id = next_++;
  Pair& pair = pairs_[id];
  pair.a = std::move(a);
  pair.b = std::move(b);
  Stream &first = *pair.a, &second = *pair.b;
  connect(id, first, second);
  connect(id, second, first);
}

void Splices::connect(std::uint64_t id, Stream& from, Stream& to) {
  to.on_drained([&from] { from.pause(false); });
  from.on_close([this, id, &from, &to] { end(id, to, from.was_cut()); });
  from.on_data([&from, &to](std::string_view bytes) {
    to.write(std::string(bytes));
    if (to.unsent() > kStreamHighWater)
      from.pause(true);
  });
}

// Streams are destroyed from the loop: one of them is calling us right now. What was written before close() still
// leaves, whether the stream is there or not.
void Splices::end(std::uint64_t id, Stream& other, bool was_cut) {
  const auto it = pairs_.find(id);
  if (it == pairs_.end())
    return;
  was_cut ? other.cut() : other.close();
  if (!std::exchange(it->second.ending, true))
    loop_.post([this, id, alive = std::weak_ptr<int>(alive_)] {
      if (!alive.expired())
        pairs_.erase(id);
    });
}

}  // namespace lockstep
